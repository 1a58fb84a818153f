"""Sequences of public calls, drawn by Hypothesis, against a plain model in NumPy."""
