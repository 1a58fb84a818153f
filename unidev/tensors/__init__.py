"""Making, moving and comparing tensors and nested containers of them."""
