"""Paddle's collectives between processes."""
