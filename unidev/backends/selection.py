"""Selects the backend where no tensor and no device determines it, and simulated devices."""

from __future__ import annotations

import os
import sys

from unidev.backends.loading import (
    check_possible_for,
    is_installed,
    load_backend,
    loaded_backends,
    loading_lock,
)
from unidev.backends.scopes import NO_SCOPES, Scope, context, leave_scope, stack
from unidev.errors import AmbiguousBackendError, BackendNotFoundError, SimulationError
from unidev.system.forking import come_first
from unidev.system.wording import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from unidev.contract.backend import Backend

EMBEDDED = "numpy"


class Choice:
    """A backend's name, and why it was selected."""

    __slots__ = ("name", "reason")

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason

    def not_found(self, error: BackendNotFoundError) -> BackendNotFoundError:
        """``error`` with the reason: the reader may not know where the name came from."""
        return BackendNotFoundError(f"{self.reason}: {error}", backend=self.name)


_chosen: Backend | None = None
_reason = ""


def active_backend() -> Backend:
    """The backend that is used where no tensor and no device determines it.

    In this order: the innermost ``with device:`` or ``with use_backend(name):`` of this thread;
    ``set_backend``; ``UNIDEV_BACKEND``; the one framework that is imported and has a plugin; the
    one that is installed with its plugin; NumPy. A choice from the environment or an automatic one
    remains for the process.

    Raises:
        AmbiguousBackendError: several frameworks are candidates; lists them and how to choose.
        BackendError: the named backend does not exist or does not load.

    >>> import unidev
    >>> with unidev.use_backend("numpy"):
    ...     unidev.active_backend().name
    'numpy'
    """
    if context.get() is not NO_SCOPES:  # a third of the time of `stack.scopes`
        scopes = stack.scopes
        if scopes:
            return loaded_backends[scopes[-1].backend]
    if _chosen is not None:
        return _chosen
    return _choose()


def list_backends() -> list[str]:
    """Names of the backends with working plugins; their frameworks need not be installed.

    Imports the plugins, but no framework.

    >>> import unidev
    >>> "numpy" in unidev.list_backends()
    True
    """
    from unidev.backends.discovery import backend_specs

    return sorted(backend_specs())


def set_backend(name: str) -> None:
    """Select ``name`` for the whole process, and import its framework.

    Raises:
        BackendError: it does not exist or does not load; the selection does not change.
    """
    global _chosen, _reason
    come_first()
    with loading_lock:  # as below
        _chosen, _reason = _selectable(name), "set_backend"


class use_backend:  # noqa: N801  reads as the verb that it is
    """``with use_backend(name):`` selects a backend for this thread, until the block ends.

    Raises:
        BackendError: it does not exist or does not load; raised by the call, before ``with``.
    """

    def __init__(self, name: str) -> None:
        self._backend = _selectable(name)

    def __enter__(self) -> Backend:
        Scope(self, self._backend.name).enter(depth=2)
        return self._backend

    def __exit__(self, *exc_info: object) -> None:
        leave_scope(self, *exc_info)


def backend_choice() -> Choice:
    """The backend that ``active_backend`` would select, and why; imports no framework.

    Raises:
        AmbiguousBackendError: several frameworks are candidates.
    """
    if stack.scopes:
        return Choice(stack.scopes[-1].backend, "the innermost `with`")
    if _chosen is not None:
        return Choice(_chosen.name, _reason)
    return _default_choice()


def is_numpy_selected() -> bool:
    """Whether arrays are the tensors of this program, so far as has been decided."""
    try:
        return backend_choice().name == EMBEDDED
    except AmbiguousBackendError:
        return False


def backend_named(name: object) -> Backend:
    """The backend of that name; loads it. Raises as ``set_backend``."""
    if not isinstance(name, str):
        raise BackendNotFoundError(
            f"the name of a backend must be a string such as 'numpy', not {shown(name)}; there "
            f"are: {', '.join(list_backends())}."
        )
    return load_backend(name)


def _selectable(name: object) -> Backend:
    """``backend_named``, unless it is NumPy and cannot have the GPUs that are to be simulated.

    Its arrays go with every framework's tensors, so loading it beside another is not an error.

    Raises:
        SimulationError: it is; as for another framework that is loaded.
    """
    if isinstance(name, str) and name == EMBEDDED:
        from unidev.backends.discovery import backend_spec
        from unidev.backends.simulation import simulated_gpus

        gpus = simulated_gpus()
        if gpus is not None:
            check_possible_for(backend_spec(EMBEDDED), gpus)
    return backend_named(name)


def _choose() -> Backend:
    global _chosen, _reason
    come_first()
    with loading_lock:  # a fork waits for it, and so for what is imported here for the first time
        choice = _default_choice()
        try:
            backend = _selectable(choice.name)
        except BackendNotFoundError as error:
            raise choice.not_found(error) from None
        if _chosen is None:
            _chosen, _reason = backend, choice.reason
        return _chosen


def _default_choice() -> Choice:
    from unidev.system.settings import BACKEND

    named = BACKEND.value()
    if named:
        return Choice(named, f"{BACKEND}={named}")
    # Imported only now: the plugins' metadata is read only when there is something to decide.
    from unidev.backends.discovery import backend_specs

    frameworks = {
        spec.framework: name
        for name, spec in backend_specs().items()
        if name != EMBEDDED and spec.is_automatic
    }
    imported = [name for module, name in frameworks.items() if sys.modules.get(module)]
    if imported:
        return Choice(_only(imported, "imported"), "the one framework imported")
    installed = [name for module, name in frameworks.items() if is_installed(module)]
    if installed:
        return Choice(_only(installed, "installed"), "the one framework installed with its plugin")
    return Choice(EMBEDDED, "no other framework is installed with its plugin")


def _only(names: Iterable[str], state: str) -> str:
    first, *others = sorted(names)
    if others:
        listed = ", ".join([first, *others])
        raise AmbiguousBackendError(
            f"several frameworks are {state}: {listed}. Choose one: UNIDEV_BACKEND={first}, "
            f"unidev.set_backend({first!r}), or `with unidev.use_backend({first!r}):`."
        )
    return first


def simulate(count: int) -> None:
    """Replace real GPUs with ``count`` simulated ones in every backend loaded from now on.

    ``count`` is 1 to 64. Sets ``UNIDEV_SIMULATE`` in the environment, which child processes
    inherit. To the framework these are devices like any other, each with its own memory on the
    host.

    Raises:
        SimulationError: ``count`` is out of range, or a backend is already loaded with another
            number.
    """
    from unidev.backends import simulation
    from unidev.system.settings import MOST_SIMULATED, SIMULATE, SIMULATE_AS, out_of_range

    if type(count) is not int or not 1 <= count <= MOST_SIMULATED:
        raise SimulationError(out_of_range(shown(count)))
    with loading_lock:  # so that no backend is being loaded with the previous number
        for name, backend in loaded_backends.items():
            if backend.simulated_count != count:
                has = backend.simulated_count or "no"
                raise SimulationError(
                    f"backend {name!r} is already in use with {has} simulated GPUs: call "
                    f"unidev.simulate({count}) before any other function of unidev, or start "
                    f"Python with {SIMULATE}={count}."
                )
        prepared = simulation.prepared
        if prepared is not None and prepared.count != count:
            raise SimulationError(
                f"this process was started with {SIMULATE}={prepared.count}, which it keeps, "
                f"because of {SIMULATE_AS}={prepared.name}: start Python with "
                f"{SIMULATE}={count}."
            )
        os.environ[SIMULATE] = str(count)
