"""What an outcome is worth."""
