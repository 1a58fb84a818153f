"""The conformance suite: checks whether a backend keeps unidev's promises, above all for copies.

Run it with ``unidev conform NAME`` or, as a plain pytest run in the current environment, with
``pytest --pyargs unidev_conformance --unidev-backend NAME``.
"""

SUITE_VERSION = "1"
"""Part of every report: results of two versions of the suite are not comparable."""

HARDWARE = "hardware"
"""The profile of what only real GPUs show: it is judged on the host's own devices alone."""
