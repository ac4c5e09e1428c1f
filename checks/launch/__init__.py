"""How the ranks of a job came to be."""
