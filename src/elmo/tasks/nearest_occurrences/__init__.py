"""Search for similar occurrences of a word."""
