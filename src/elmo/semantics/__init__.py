"""Questions about words: probabilities in context, substitutes and similarity."""
