"""What a process can find out about the way to other hosts, without torch."""
