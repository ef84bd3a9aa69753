"""Parts shared by all tasks: examples, the interface of a task, and the task model."""
