"""Reading of examples in any format."""
