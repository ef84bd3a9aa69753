"""File formats shared by several tasks, without knowledge of a task."""
