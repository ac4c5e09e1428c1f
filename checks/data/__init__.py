"""What the ranks are fed: their data, and how it comes to them."""
