"""Training: the learning rate over the steps, and the loop."""
