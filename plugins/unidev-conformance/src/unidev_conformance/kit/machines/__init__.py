"""Sequences of public calls, drawn from seeds, against a plain model in NumPy."""
