"""Data in, picture out: no widget, no model of its own, no global plotting state."""
