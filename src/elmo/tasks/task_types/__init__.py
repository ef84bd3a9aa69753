"""Task definitions: the labels, targets, predictions and scores of each task."""
