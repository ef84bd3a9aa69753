"""Fast implementations of single operations, each with a reference of the same signature."""
