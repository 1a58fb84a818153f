"""The conformance suite: whether a backend does what unidev promises, and above all copies.

Run it with ``unidev conform NAME``, or, as a plain pytest run in the environment as it is, with
``pytest --pyargs unidev.conformance --unidev-backend NAME``. It needs the extra ``conformance``.
"""

SUITE_VERSION = "1"
"""Part of every report: results of two versions of the suite are not the same statement."""
