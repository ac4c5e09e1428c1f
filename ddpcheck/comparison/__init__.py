"""What changed from one report to another, part by part; pure functions, without torch."""
