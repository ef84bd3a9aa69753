"""Values of the hidden units of recurrent networks over a text, and what is computed from them."""
