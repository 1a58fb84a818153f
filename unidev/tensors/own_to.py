"""Objects of no known kind that hold tensors and have a ``to`` of their own, which moves them."""

from __future__ import annotations

import copy

from unidev.calls.boundary import call
from unidev.errors import UnsupportedContainerError
from unidev.support.wording import kind_of
from unidev.tensors.objects import tensors_within
from unidev.tensors.opening import Opener

TYPE_CHECKING = False  # not typing's: importing that takes as long as all of unidev
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal, NoReturn

    from unidev.contract.backend import Backend

    OwnTo = Literal["refused", "looked into", "moved", "copied"]
    """What is done with such an object: only transfers may call its ``to``."""


def has_own_to(cls: type) -> bool:
    """Whether ``cls`` defines a method ``to``."""
    return any(callable(base.__dict__.get("to")) for base in cls.__mro__)


class Movable:
    """Such an object, at a path in a tree."""

    def __init__(self, owner: Any, path: str, *, is_copied: bool, counts_numpy: bool) -> None:
        self.owner = owner
        self._path = path
        self._is_copied = is_copied
        self._counts_numpy = counts_numpy
        self._before = self._tensors(owner)

    @property
    def first(self) -> Any:
        """The first tensor in it."""
        return self._before[0][1]

    @property
    def backend(self) -> Backend:
        """That of the first tensor."""
        return self._before[0][2]

    def mapped(self, transfer: Callable[[Any, Backend], Any]) -> Any:
        """The object itself if ``transfer`` moves none of its tensors, else a copy moved by ``to``.

        Raises:
            UnsupportedContainerError: ``to`` raised, left a tensor behind, shares memory with the
                object where a copy was wanted, or changed the object itself.
        """
        moved = next(
            (new for _, x, backend in self._before if (new := transfer(x, backend)) is not x), None
        )
        if moved is None:
            return self.owner
        device = self.backend.device_of(moved)
        try:
            made = copy.copy(self.owner)
            made = call(self.backend, made.to, device.native, doing="calling the object's own `to`")
        except Exception as error:  # noqa: BLE001  the object's own code can raise anything
            self._refuse(f"raised {kind_of(error)}: {error}", error)
        self._check(made, device)
        return made

    def _check(self, made: Any, device: Any) -> None:
        after = self._tensors(made)
        if not after:
            self._refuse("returned an object without tensors")
        for path, x, backend in after:
            if backend.device_of(x) is not device:
                self._refuse(f"left {path} on {backend.device_of(x)}")
            if self._is_copied:
                from unidev.tensors.checks import shares_memory

                for _, old, owner in self._before:
                    if owner is backend and shares_memory(x, old):
                        self._refuse(f"copied nothing: {path} has the memory of the source")
        now = self._tensors(self.owner)
        if [(path, id(x)) for path, x, _ in now] != [(path, id(x)) for path, x, _ in self._before]:
            self._refuse("changed the object that it was copied from")

    def _tensors(self, x: Any) -> list[tuple[str, Any, Backend]]:
        return list(tensors_within(x, counts_numpy=self._counts_numpy))

    def _refuse(self, what: str, cause: Exception | None = None) -> NoReturn:
        at = f" at {self._path}" if self._path else ""
        raise UnsupportedContainerError(
            f"{kind_of(self.owner)}{at} holds a tensor, at {self._path}{self._before[0][0]}, and "
            f"its own `to` {what}. Register its class: unidev.register_container(cls, flatten, "
            "unflatten); or pass its tensors by themselves."
        ) from cause


def looking_opener(*, counts_numpy: bool) -> Opener:
    """Opens such an object for a look at the tensors in it."""

    def apart(x: Any) -> list[tuple[str, Any]]:
        return [(path, tensor) for path, tensor, _ in tensors_within(x, counts_numpy=counts_numpy)]

    def build(x: Any, _children: Any) -> NoReturn:
        raise UnsupportedContainerError(f"a {kind_of(x)} cannot be built of other tensors.")

    return Opener(apart, build)
