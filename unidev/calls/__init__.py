"""How a verb calls a backend, and how errors and transfers are reported."""
