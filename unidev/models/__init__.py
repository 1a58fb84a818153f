"""Models: placed, trained, saved."""
