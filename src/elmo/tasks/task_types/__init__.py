"""What is asked in each task: its labels, targets, answers, and how they are told."""
