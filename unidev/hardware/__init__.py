"""What the machine and its drivers report, without any framework."""
