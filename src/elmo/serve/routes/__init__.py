"""Handlers of the HTTP server, one module per group of paths."""
