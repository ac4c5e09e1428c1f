"""The settings file: found and read (file), its options (options), what it says of judging."""
