"""``seed``, and the numbers of unidev's generator in each dtype."""

from __future__ import annotations

from unidev.backends.framework_errors import framework_error
from unidev.contract.generator import random_numbers, restart
from unidev.errors import InvalidDataError
from unidev.system.arguments import non_negative_integer
from unidev.system.wording import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import numpy as np

_SIGNIFICANT_BITS = {"float16": 11, "bfloat16": 8}


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
    number = non_negative_integer(n)
    if number is None:
        raise InvalidDataError(f"seed must be a non-negative integer below 2**63, not {shown(n)}.")
    restart(number)


def draw(distribution: str, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """Draw from ``random`` (in [0, 1)) or ``standard_normal``, as float64 or else float32.

    Raises:
        FrameworkError: NumPy cannot make an array of that shape, or the host lacks the memory.
    """
    width = "float64" if dtype == "float64" else "float32"
    try:
        drawn = random_numbers(distribution, shape, width)
    except (MemoryError, ValueError) as error:
        doing = f"drawing random numbers of shape {shape}"
        raise framework_error(error, "the host", doing) from error
    bits = _SIGNIFICANT_BITS.get(dtype)
    if distribution == "random" and bits is not None:
        # Rounding to so few bits would turn the numbers next to 1 into 1.
        import numpy as np

        drawn = np.floor(drawn * 2**bits) / np.float32(2**bits)
    return drawn
