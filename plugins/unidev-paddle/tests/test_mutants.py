"""Every mutant of Paddle's backend is caught by the checks that it names."""

from plugin_mutants import *  # noqa: F403

BACKEND = "paddle"
