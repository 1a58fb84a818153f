"""Running the suite in child processes."""
