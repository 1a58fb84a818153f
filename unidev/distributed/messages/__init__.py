"""Messages between a run and its workers: frames over pipes, and how far each has come."""
