"""MXNet's collectives between processes."""
