"""Fast paths of single operations, each beside a plain twin with the same signature."""
