"""Facts about the machine and its drivers, without any framework."""
