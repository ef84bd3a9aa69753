"""The old names with the old behaviour."""
