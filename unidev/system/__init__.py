"""The machine, its drivers and processes, files and words; no framework."""
