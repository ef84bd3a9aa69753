"""Fast kernels for individual operations, and their reference implementations in PyTorch."""
