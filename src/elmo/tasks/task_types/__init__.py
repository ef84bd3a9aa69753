"""The tasks: labels, targets, predictions and scores of each."""
