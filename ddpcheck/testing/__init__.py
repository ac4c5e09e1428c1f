"""Tests on real ranks: what ddpcheck adds to pytest."""
