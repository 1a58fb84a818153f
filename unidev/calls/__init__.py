"""How a verb calls a backend, and what becomes of its errors and transfers."""
