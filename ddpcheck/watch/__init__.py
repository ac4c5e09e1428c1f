"""The event stream from a training script, for the observers."""
