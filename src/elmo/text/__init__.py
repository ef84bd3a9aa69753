"""Tokenizers, vocabularies, and conversion of words to token ids."""
