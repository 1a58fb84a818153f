"""Inputs of checks: values, layouts and containers of tensors."""
