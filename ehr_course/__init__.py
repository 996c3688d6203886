"""Generative models of electronic health records, as a course teaches them."""
