"""A score for the conformance suite: faults made by a machine, and how many of them it catches."""
