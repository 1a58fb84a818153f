"""Paddle, imported by ``import_paddle``: what all other modules take it from."""

from __future__ import annotations

from typing import Any

from unidev_paddle.importing import import_paddle

paddle: Any = import_paddle()
core: Any = paddle.base.core
