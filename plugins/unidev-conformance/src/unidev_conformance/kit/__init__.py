"""Tools that the checks are made with."""
