"""What the ranks run on: these run in the stage of the same name."""
