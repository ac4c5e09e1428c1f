"""The run: plan, rank loop, sentinel and deadlines, control channel, merge, judge."""
