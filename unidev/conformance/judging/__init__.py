"""What the suite concludes from an outcome."""
