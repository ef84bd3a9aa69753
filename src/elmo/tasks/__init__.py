"""Tasks on top of ELMo: labelled texts in, answers and scores out."""
