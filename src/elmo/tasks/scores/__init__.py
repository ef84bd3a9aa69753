"""How good answers are: the official definition of each task's figures."""
