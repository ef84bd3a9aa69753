"""Inference engine: kernels and weights for computing vectors, and when they become invalid."""
