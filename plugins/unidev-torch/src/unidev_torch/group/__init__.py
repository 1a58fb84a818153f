"""PyTorch's collectives between processes."""
