"""Batches: read from a loader and brought to a device ahead of the step that uses them."""
