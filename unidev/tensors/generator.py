"""unidev's own random numbers: drawn on the host, the same on every backend and device."""

from __future__ import annotations

from unidev.backends.framework_errors import framework_error
from unidev.errors import InvalidDataError
from unidev.system.arguments import non_negative_integer
from unidev.system.forking import fork_safe_lock
from unidev.system.wording import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy as np

_SIGNIFICANT_BITS = {"float16": 11, "bfloat16": 8}

_lock = fork_safe_lock()
_generator: np.random.Generator | None = None


def seed(n: int, /) -> None:
    """Seed ``rand`` and ``randn``: the same seed gives the same numbers on every backend.

    ``n`` is a non-negative integer below 2**63. The frameworks' own generators are not changed.

    Raises:
        InvalidDataError: ``n`` is not such an integer.

    >>> import unidev
    >>> unidev.seed(1)
    >>> first = unidev.to_numpy(unidev.rand(3))
    >>> unidev.seed(1)
    >>> bool((first == unidev.to_numpy(unidev.rand(3))).all())
    True
    """
    global _generator  # noqa: PLW0603  one generator a process
    number = non_negative_integer(n)
    if number is None:
        raise InvalidDataError(f"seed must be a non-negative integer below 2**63, not {shown(n)}.")
    with _lock:
        _generator = _philox(number)


def draw(distribution: str, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """Draw from ``random`` (in [0, 1)) or ``standard_normal``, as float64 or else float32.

    Raises:
        FrameworkError: NumPy cannot make an array of that shape, or the host lacks the memory.
    """
    global _generator  # noqa: PLW0603  one generator a process
    with _lock:
        if _generator is None:
            _generator = _philox(None)
        width = "float64" if dtype == "float64" else "float32"
        try:
            drawn = getattr(_generator, distribution)(shape, dtype=width)
        except (MemoryError, ValueError) as error:
            doing = f"drawing random numbers of shape {shape}"
            raise framework_error(error, "the host", doing) from error
    bits = _SIGNIFICANT_BITS.get(dtype)
    if distribution == "random" and bits is not None:
        # Rounding to so few bits would turn the numbers next to 1 into 1.
        import numpy as np

        drawn = np.floor(drawn * 2**bits) / np.float32(2**bits)
    return drawn  # type: ignore[no-any-return]


def _philox(number: int | None) -> np.random.Generator:
    import numpy as np

    return np.random.Generator(np.random.Philox(number))
