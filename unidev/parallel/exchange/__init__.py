"""A worker's view of the others: ``group()``, its collectives, and what is built on them."""
