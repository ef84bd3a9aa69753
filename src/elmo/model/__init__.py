"""The neural network. It works on tensors only: it reads no files and handles no strings."""
