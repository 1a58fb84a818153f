"""Other people's test suites on simulated GPUs named ``cuda``."""
