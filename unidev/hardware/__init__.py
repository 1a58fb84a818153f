"""What the machine and its drivers say, with no framework."""
