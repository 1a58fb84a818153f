"""Which backend: finding plugins, loading them, choosing one."""
