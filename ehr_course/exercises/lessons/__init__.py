"""The exercises of each lesson: Python for references and inputs, YAML for the words."""
