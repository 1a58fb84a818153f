"""The environment variables ``UNIDEV_…``: name, meaning, parser and default of each.

Each is read when it is needed, not when unidev is imported. Those of a launcher are in its spec.
"""

from __future__ import annotations

import os

from unidev.errors import InvalidDataError, SimulationError
from unidev.system.arguments import seconds_of
from unidev.system.wording import bytes_in, lacks_unit, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Parser = Callable[[str, str], Any]
    """The value of a variable by its name and text, which is neither empty nor padded."""

MOST_SIMULATED = 64
_TIMEOUT_S = 600.0


class Setting(str):
    """A variable's name, with its meaning, parser and default."""

    meaning: str
    parse: Parser
    default: Any

    def __new__(
        cls, name: str, meaning: str, parse: Parser = lambda _, text: text, default: Any = ""
    ) -> Setting:
        """A string that is equal to the name."""
        made = super().__new__(cls, name)
        made.meaning, made.parse, made.default = meaning, parse, default
        return made

    def value(self, environment: Mapping[str, str] = os.environ) -> Any:
        """The value in ``environment``; the default if it is empty or not there.

        Raises:
            UnidevError: the text is not valid; names the variable and gives an example.
        """
        text = environment.get(self, "").strip()
        return self.parse(self, text) if text else self.default

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Pickled as its name, a plain string."""
        return str, (str(self),)


def out_of_range(given: str, *, least: int = 1) -> str:
    """The message about a number of simulated GPUs that cannot be."""
    return (
        f"the number of simulated GPUs must be an integer from {least} to {MOST_SIMULATED}, not "
        f"{given}. Example: {SIMULATE}=2."
    )


def _memory(name: str, text: str) -> int:
    number = bytes_in(text)
    if lacks_unit(text):
        raise SimulationError(
            f"{name}={text} is {number} bytes, since it has no unit. Example: {name}={text}GiB."
        )
    if not number:
        raise SimulationError(
            f"{name}: the memory of a simulated GPU must be a positive number of KiB, MiB or GiB, "
            f"or an integer of bytes, not {shown(text)}. Example: {name}=24GiB."
        )
    return number


def _count(name: str, text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 4 else -1
    if not 0 <= number <= MOST_SIMULATED:
        raise SimulationError(f"{name}: " + out_of_range(shown(text), least=0))
    return number


def _first(name: str, text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 10:
        return int(text)
    raise SimulationError(
        f"{name}: unidev sets it in workers to a non-negative integer, and it is {shown(text)}: "
        "unset it."
    )


def _word(what: str, example: str) -> Parser:
    # Whether there is such a name or model is for each framework's simulator to say.
    def parse(name: str, text: str) -> str:
        if text.isascii() and text.replace("-", "").replace("_", "").isalnum():
            return text
        raise SimulationError(
            f"{name} must be {what}, in letters and digits, not {shown(text)}. "
            f"Example: {name}={example}."
        )

    return parse


def _late(name: str, text: str) -> str:
    if text in ("1", "report") or text.endswith(".jsonl"):
        return text
    raise SimulationError(
        f"{name}: expected 1, report, or a file that ends in .jsonl, not {shown(text)}."
    )


def _names(_: str, text: str) -> list[str]:
    return list(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))


def _one_of(*words: str) -> Parser:
    def parse(name: str, text: str) -> str:
        if text not in words:
            *others, last = words
            told = f"{', '.join(others)} or {last}"
            raise InvalidDataError(f"{name} must be {told}, not {shown(text)}.")
        return text

    return parse


STARTS = ("fork", "spawn")
BACKEND = Setting("UNIDEV_BACKEND", "the backend, where no tensor or device determines it")
SIMULATE = Setting(
    "UNIDEV_SIMULATE",
    f"the number of simulated GPUs, 1 to {MOST_SIMULATED}; 0 for the machine's own GPUs",
    _count, 0,
)  # fmt: skip
SIMULATE_AS = Setting(
    "UNIDEV_SIMULATE_AS",
    "the framework's own name for the simulated GPUs, such as cuda; to be set before the "
    "framework is imported",
    _word("a framework's name for GPUs", "cuda"), None,
)  # fmt: skip
SIMULATE_MEMORY = Setting(
    "UNIDEV_SIMULATE_MEMORY", "the memory of each simulated GPU, such as 24GiB",
    _memory, None,
)  # fmt: skip
SIMULATE_LIKE = Setting(
    "UNIDEV_SIMULATE_LIKE", "the model that the simulated GPUs are like, such as H100",
    _word("a model of GPU", "H100"), None,
)  # fmt: skip
SIMULATE_COMPILE = Setting(
    "UNIDEV_SIMULATE_COMPILE", "what replaces the compiler for simulated GPUs, such as eager",
    _word("the name of a compiler's backend", "eager"), None,
)  # fmt: skip
SIMULATE_LATE = Setting(
    "UNIDEV_SIMULATE_LATE",
    "simulated GPUs that lose every race: 1, wrong values; report, or a file that ends in .jsonl, "
    "right values and a report",
    _late, None,
)  # fmt: skip
PLUGINS = Setting(
    "UNIDEV_PLUGINS",
    "plugins that are not installed: module or module:attribute, separated by commas",
    _names, [],
)  # fmt: skip
DISABLED_PLUGINS = Setting(
    "UNIDEV_DISABLED_PLUGINS", "plugins to skip, separated by commas", _names, []
)
CACHE = Setting(
    "UNIDEV_CACHE",
    "the folder in which built simulators are kept, and to which only you may write; by default "
    "the platform's cache folder",
)
LAUNCHER = Setting(
    "UNIDEV_LAUNCHER",
    "mpi or slurm: the processes that mpirun or srun has started form one group; none: each stays "
    "alone",
    _one_of("mpi", "slurm", "none"),
)
TORCHRUN_TIMEOUT = Setting(
    "UNIDEV_TORCHRUN_TIMEOUT",
    "how many seconds a collective waits for a worker that torchrun, mpirun or srun has started, "
    f"by default {_TIMEOUT_S:g}",
    lambda name, text: seconds_of(name, text, _TIMEOUT_S), _TIMEOUT_S,
)  # fmt: skip
START = Setting(
    "UNIDEV_START",
    "spawn: each worker of unidev.run is a new process; fork: it is forked from one that has "
    "imported the framework, as by default where that is known to work",
    _one_of(*STARTS), None,
)  # fmt: skip
SIMULATE_FIRST = Setting(
    "UNIDEV_SIMULATE_FIRST", "set in workers: the number of the first simulated GPU of each",
    _first, 0,
)  # fmt: skip
RUN_MARKS = Setting(
    "UNIDEV_RUN_MARKS", "set in workers: marks all processes that they start, to end them, too"
)

SETTINGS = {value: value.meaning for value in [*globals().values()] if type(value) is Setting}
"""Each variable with its meaning, in the order above."""
DETAILS = (SIMULATE_AS, SIMULATE_MEMORY, SIMULATE_LIKE, SIMULATE_COMPILE, SIMULATE_LATE)
"""Those that say more about the simulated GPUs, and nothing without ``UNIDEV_SIMULATE``."""
