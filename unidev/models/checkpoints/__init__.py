"""Saving parameters to files, and loading them."""
