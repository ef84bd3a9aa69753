"""Prediction, evaluation and description of fitted tasks."""
