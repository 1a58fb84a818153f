"""``run``: starts the workers, and finds who failed first."""
