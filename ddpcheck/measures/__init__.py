"""What probes measure and judges read, where several checks share it; imports no torch."""
