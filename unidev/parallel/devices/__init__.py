"""Several devices of one framework in one process and one thread."""
