"""The exercises of each lesson: Python for inputs, YAML for the words."""
