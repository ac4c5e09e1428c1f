"""State that is not trained: BatchNorm statistics and the like."""
