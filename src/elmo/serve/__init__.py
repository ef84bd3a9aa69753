"""HTTP server for vectors of words, scores, substitutes and task models."""
