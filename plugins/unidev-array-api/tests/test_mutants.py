"""Every mutant of array-api-strict's backend is caught by the checks that it names."""

from plugin_mutants import *  # noqa: F403

BACKEND = "array_api_strict"
PLUGIN = "array_api"
