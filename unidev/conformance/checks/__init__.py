"""The checks: a folder per profile, a file per group, functions that receive a ``Workbench``."""
