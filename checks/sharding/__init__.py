"""Models whose parameters are spread over the ranks."""
