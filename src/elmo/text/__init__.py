"""Strings in, rows of ids out. Never sees a weight."""
