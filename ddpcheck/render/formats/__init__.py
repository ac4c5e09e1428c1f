"""The formats of a report, a module each: its name is the format's, ``render`` makes the text."""
