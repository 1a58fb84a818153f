"""Backends that are wrong in what only hardware can show, on cards made of NumPy's arrays."""
