"""Heads of task models, which compute losses and predictions from word vectors."""
