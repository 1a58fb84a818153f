"""Find, choose, load and call a backend."""
