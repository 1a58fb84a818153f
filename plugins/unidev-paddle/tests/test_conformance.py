"""The conformance suite, on the machine's own devices and on simulated ones."""

from plugin_suite import *  # noqa: F403

BACKEND = "paddle"
