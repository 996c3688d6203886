"""Models: one file, one model, from its parts to the whole."""
