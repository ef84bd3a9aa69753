"""Tokenizers, vocabularies, and the conversion of words to token ids."""
