"""What the checks are made with."""
