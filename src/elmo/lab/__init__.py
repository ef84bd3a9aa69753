"""Recurrent language models over characters, bytes and words."""
