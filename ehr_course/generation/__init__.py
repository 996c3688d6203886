"""Generation: let a trained model write."""
