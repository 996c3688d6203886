"""Data in, picture out: no widget, no model, no global plotting state."""
