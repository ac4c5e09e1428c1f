"""Communication between the ranks: right, fast, and blamed precisely."""
