"""Several devices, processes and machines."""
