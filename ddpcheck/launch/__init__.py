"""How ranks come to be: read what a launcher set, or start local ranks."""
