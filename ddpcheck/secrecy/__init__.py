"""What nobody may read in a report: tokens, passwords, keys, and addresses with a login in them."""
