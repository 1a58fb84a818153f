"""Tensors and containers of them: made, moved, compared."""
