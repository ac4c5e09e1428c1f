"""What became of the ranks: judged at the end, from what is known of each."""
