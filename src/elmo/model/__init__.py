"""The neural network: tensors in, tensors out. It reads no files and handles no strings."""
