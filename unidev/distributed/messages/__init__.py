"""Messages between a run and its workers: frames over pipes, shared memory, how far each is."""
