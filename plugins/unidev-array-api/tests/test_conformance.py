"""The conformance suite on array-api-strict, without simulated GPUs and on both."""

from plugin_suite import *  # noqa: F403

BACKEND = "array_api_strict"
COUNTS = {"tensor": 2, "train": 2, "multi": 2}
