"""The tasks, their classes and their options."""
