"""unidev's own random numbers: drawn on the host, the same on every backend and device."""

from __future__ import annotations

from unidev.system.forking import fork_safe_lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy as np

_lock = fork_safe_lock()
_generator: np.random.Generator | None = None


def restart(number: int | None) -> None:
    """Begin the sequence of a seed; None: one that differs in each process."""
    global _generator  # noqa: PLW0603  one generator a process
    with _lock:
        _generator = _philox(number)


def random_numbers(distribution: str, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """Draw from ``random`` (in [0, 1)) or ``standard_normal``, as float32 or float64."""
    global _generator  # noqa: PLW0603  one generator a process
    with _lock:
        if _generator is None:
            _generator = _philox(None)
        drawn: np.ndarray[Any, Any] = getattr(_generator, distribution)(shape, dtype=dtype)
        return drawn


def _philox(number: int | None) -> np.random.Generator:
    import numpy as np

    return np.random.Generator(np.random.Philox(number))
