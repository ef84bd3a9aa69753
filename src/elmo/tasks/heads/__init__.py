"""The ends of models: vectors of words to a loss, and to answers in numbers."""
