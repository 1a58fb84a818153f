"""Which devices there are, and their memory."""
