"""Scores of predictions, as the official scorers compute them."""
