"""Collectives of torch.distributed: carried out, compared with what they must give, and timed."""
