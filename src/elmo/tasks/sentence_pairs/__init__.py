"""Classification of sentence pairs."""
