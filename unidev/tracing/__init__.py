"""What moved between devices, from which line."""
