"""Parameters in files."""
