"""Classes with the names and the behavior of earlier ELMo programs."""
