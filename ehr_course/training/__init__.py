"""Training: one trainer for every model, its checkpoints, and training in one call."""
