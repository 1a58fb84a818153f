"""Models, layers and gradients in checks, and what is expected of them."""
