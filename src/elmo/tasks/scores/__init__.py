"""Evaluation scores, computed as in the official scorers."""
