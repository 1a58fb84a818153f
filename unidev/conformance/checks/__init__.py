"""The checks, one file per group. Each is a pytest function that receives a ``Workbench``."""
