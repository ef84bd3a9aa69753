"""The network: tensors in, tensors out. Reads no file and never sees a string."""
