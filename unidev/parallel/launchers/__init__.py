"""Launchers: each starts the workers of a run in its own way."""
