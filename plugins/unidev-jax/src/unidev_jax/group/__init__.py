"""JAX's collectives between processes."""
