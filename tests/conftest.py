"""What the core's tests share."""

from core_fixtures import *  # noqa: F403
