"""HTML pages in one file, which open without a network."""
