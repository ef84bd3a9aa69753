"""Training of tasks."""
