"""Heads of task models: word vectors to losses and predictions."""
