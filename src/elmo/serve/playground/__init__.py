"""The page of the server, where visitors type sentences and see what a model makes of them."""
