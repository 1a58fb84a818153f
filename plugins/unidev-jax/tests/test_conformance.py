"""The conformance suite, on the machine's own devices and on simulated ones."""

from plugin_suite import *  # noqa: F403

BACKEND = "jax"
COUNTS = {"train": 2, "multi": 2}  # JAX compiles each program for each device
