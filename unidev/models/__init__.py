"""Placing, training and saving models."""
