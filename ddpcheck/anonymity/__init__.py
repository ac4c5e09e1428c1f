"""A report without names: hosts, users, addresses and paths replaced, the same by the same."""
