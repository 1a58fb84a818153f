"""What the core's tests share: the suite's judge NumPy's backend, and ones made of it."""

from core_fixtures import *  # noqa: F403
