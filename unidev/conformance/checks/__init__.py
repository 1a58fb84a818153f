"""The checks, a file a group. Each is a pytest function that gets a ``Workbench``."""
