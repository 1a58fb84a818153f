"""Any library of the standard, in unidev's terms."""

from __future__ import annotations

import re
import sys
from abc import abstractmethod
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from unidev.contract import Backend, unsupported
from unidev.errors import PluginError, UnsupportedDtypeError, UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

    from unidev.contract import Array, BackendSpec, Device

    Tensor = Any
    Dtype = Any

OLDEST_STANDARD = "2024.12"
"""Its inspection API names the devices, and the dtypes of each."""
_NUMBERED = re.compile(r"(.*?)(0|[1-9][0-9]{0,9})?", re.DOTALL)
_STANDARD = "https://data-apis.org/array-api/latest/"


class Place(NamedTuple):
    """A device of a library, as unidev calls it."""

    kind: str
    native: Any
    """What the library's ``device=`` takes."""
    name: str
    """The library's own spelling."""
    key: Hashable
    """What ``ArrayApiBackend.key_of`` returns for arrays on it."""
    hardware: str | None = None
    """The hardware's name; None: ``name``."""


class ArrayApiBackend(Backend):
    """What the standard says; a subclass for each library has what it leaves open."""

    native_scope = unsupported("the standard has no default device for a part of a program")
    extents = unsupported(
        "the standard tells where an array's elements are, by DLPack, and not the memory that a "
        "view is a view of",
        f"{_STANDARD}design_topics/data_interchange.html",
    )
    memory = unsupported("the standard does not count memory")
    peaks = unsupported("the standard does not count memory")
    estimator = unsupported("the standard does not count memory")
    pinned = unsupported("the standard has no pinned memory")
    autograd = unsupported("the standard has no gradients", _STANDARD)
    models = unsupported("the standard has no models")
    layers = unsupported("the standard has no layers")
    functions = unsupported("the standard has no neural-network functions")
    loader = unsupported("the standard has no loaders; arrays and sequences are read without one")

    framework_errors = (*Backend.framework_errors, OverflowError)

    xp: Any
    """The library's namespace of the standard."""
    array_type: type
    key_of: Callable[[Any], Hashable] = attrgetter("device")
    """What tells on which device an array is. On the hot path."""

    def __init__(self, spec: BackendSpec, simulated_count: int) -> None:
        super().__init__(spec, simulated_count)
        self._check_standard()
        self.makers = (self.xp,)
        self._info = self.xp.__array_namespace_info__()
        found = self.places()
        self._places: dict[str, list[Place]] = {
            kind: [place for place in found if place.kind == kind] for kind in self.kinds
        }
        if not self._places["cpu"]:
            self.kinds = ("gpu",)
        self._devices: dict[Hashable, Device] = {
            place.key: self.device(kind, index)
            for kind, places in self._places.items()
            for index, place in enumerate(places)
        }
        self._carried: dict[Device, Mapping[str, Dtype]] = {}
        self._lacking: dict[Device, frozenset[Dtype]] = {}

    # -- what the standard leaves open -------------------------------------------------------------

    @abstractmethod
    def places(self) -> Sequence[Place]:
        """The library's devices: of each kind, in unidev's order."""

    @abstractmethod
    def key(self, native: Any) -> Hashable:
        """The key of one of the library's device objects; None for any other object."""

    @abstractmethod
    def host_array(self, x: Tensor) -> Array:
        """A new NumPy array with the values of ``x``."""

    def unnamed(self, x: Tensor) -> str:
        """Why ``x`` is on a device that unidev does not list, and what to do."""
        listed = ", ".join(place.name for each in self._places.values() for place in each)
        return f"{x.device} is none of the devices that {self.name} has for unidev: {listed}"

    # -- devices -----------------------------------------------------------------------------------

    @property
    def tensor_types(self) -> tuple[type, ...]:
        """The library's class of arrays."""
        return (self.array_type,)

    @cached_property
    def dtypes(self) -> Mapping[str, Dtype]:
        """The standard's, as far as a device has them."""
        return {
            name: dtype for device in self._devices.values()
            for name, dtype in self._dtypes(device).items()
        }  # fmt: skip

    def device_count(self, kind: str) -> int:
        """As many as there were when the backend was loaded."""
        return len(self._places[kind])

    def native_device(self, kind: str, index: int) -> Any:
        """What ``device=`` takes."""
        return self._places[kind][index].native

    def native_name(self, kind: str, index: int) -> str:
        """The library's own."""
        return self._places[kind][index].name

    def hardware_name(self, kind: str, index: int) -> str:
        """As the library has it, if it does."""
        place = self._places[kind][index]
        return place.hardware or place.name

    def parse_native(self, spec: object) -> tuple[str, int] | None:
        """A device object; or a name, with another number where it ends in one: not clamped."""
        if not isinstance(spec, str):
            found = self._devices.get(self.key(spec))
            return None if found is None else (found.kind, found.index)
        words, number = _split(spec)
        for device in self._devices.values():
            own_words, own_number = _split(self._place(device).name)
            if words == own_words and (number is None) == (own_number is None):
                return device.kind, device.index + (number or 0) - (own_number or 0)
        return None

    def device_of(self, x: Tensor) -> Device:
        """By ``x.device``."""
        try:
            return self._devices[self.key_of(x)]
        except KeyError:
            raise UnsupportedOperation("naming an array's device", self.unnamed(x)) from None

    def synchronize(self, device: Device) -> None:
        """Do nothing: most of the libraries compute at once."""

    # -- tensors -----------------------------------------------------------------------------------

    def dtypes_on(self, device: Device) -> Collection[str]:
        """As the library lists them."""
        return self._dtypes(device).keys()

    def copy_to(self, x: Tensor, device: Device, non_blocking: bool) -> Tensor:  # noqa: ARG002
        """``asarray(copy=True)``, since ``to_device`` returns an array that is there already."""
        self._check(x.dtype, device)
        return self.xp.asarray(x, copy=True, device=device.native)

    def from_numpy(self, array: Array, dtype: Dtype, device: Device) -> Tensor:
        """``asarray(copy=True)``."""
        self._check(dtype, device)
        return self.xp.asarray(array, dtype=dtype, copy=True, device=device.native)

    def to_numpy(self, x: Tensor) -> Array:
        """The library's own way."""
        return self.host_array(x)

    def empty(self, shape: tuple[int, ...], dtype: Dtype, device: Device) -> Tensor:
        """``empty``."""
        self._check(dtype, device)
        return self.xp.empty(shape, dtype=dtype, device=device.native)

    def zeros(self, shape: tuple[int, ...], dtype: Dtype, device: Device) -> Tensor:
        """``zeros``."""
        self._check(dtype, device)
        return self.xp.zeros(shape, dtype=dtype, device=device.native)

    def full(self, shape: tuple[int, ...], value: Any, dtype: Dtype, device: Device) -> Tensor:
        """``full``."""
        self._check(dtype, device)
        return self.xp.full(shape, value, dtype=dtype, device=device.native)

    def new_like(self, x: Tensor, value: int | None, device: Device) -> Tensor:
        """``zeros_like`` and so on, which may keep the order of ``x`` in memory."""
        self._check(x.dtype, device)
        names = {None: "empty_like", 0: "zeros_like", 1: "ones_like"}
        return getattr(self.xp, names[value])(x, device=device.native)

    # -- its own -----------------------------------------------------------------------------------

    def _check_standard(self) -> None:
        found = getattr(self.xp, "__array_api_version__", None)
        if isinstance(found, str) and found >= OLDEST_STANDARD:
            return
        framework = self.spec.framework
        version = getattr(sys.modules.get(framework), "__version__", "of unknown version")
        follows = f"follows that of {found} here" if found else "does not say which it follows"
        raise PluginError(
            f"backend {self.name!r} needs the array API standard of {OLDEST_STANDARD} or later, "
            f"and {framework} {version} {follows}. Install a newer release; or, if a variable of "
            f"the environment or a call has chosen that version of the standard, choose "
            f"{OLDEST_STANDARD} or later before unidev first uses the library.",
            backend=self.name,
        )

    def _place(self, device: Device) -> Place:
        return self._places[device.kind][device.index]

    def _dtypes(self, device: Device) -> Mapping[str, Dtype]:
        found = self._carried.get(device)
        if found is None:
            found = self._carried[device] = self._info.dtypes(device=self._place(device).native)
        return found

    def _check(self, dtype: Dtype, device: Device) -> None:
        """Raise UnsupportedDtypeError before the library makes anything."""
        lacking = self._lacking.get(device)
        if lacking is None:
            carried = self._dtypes(device).values()
            lacking = frozenset(each for each in self.dtypes.values() if each not in carried)
            self._lacking[device] = lacking
        if lacking and dtype in lacking:
            has = ", ".join(self._dtypes(device))
            raise UnsupportedDtypeError(
                f"{device} of {self.name} ({self._place(device).name}) has no "
                f"{next(name for name, own in self.dtypes.items() if own == dtype)}; it has {has}. "
                "Convert before it goes there: unidev.array(x, dtype='float32')."
            )


def _split(name: str) -> tuple[str, int | None]:
    """A device's name without the number at its end, and the number."""
    words, number = _NUMBERED.fullmatch(name).groups()  # type: ignore[union-attr]  # any string
    return words, None if number is None else int(number)
