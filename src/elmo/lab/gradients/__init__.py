"""Gradients of recurrent language models through time."""
