"""What a process can read of its machine: limits, devices, interfaces, without torch."""
