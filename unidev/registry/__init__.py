"""Backends: finding plugins, loading them, and selecting one."""
