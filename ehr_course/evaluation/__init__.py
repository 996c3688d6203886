"""Evaluation: what a model's patients are worth."""
