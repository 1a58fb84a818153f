"""Every mutant of PyTorch's backend is caught by the checks that it names."""

from plugin_mutants import *  # noqa: F403

BACKEND = "torch"
UNSUPPORTED = frozenset({"placing.spread_is_refused", "moving.while_it_trains"})
"""PyTorch's probe has no such model; ``has_a_sharded_model`` gives it one. No GPU here is real."""
