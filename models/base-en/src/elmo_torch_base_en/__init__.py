"""Files of the ELMo model base-en."""
