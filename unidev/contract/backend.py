"""The contract: what a backend must provide, and what it may provide.

A plugin is a module (or object) with one hook, ``unidev_register_backend`` (see ``hookspecs``),
which returns a ``BackendSpec`` (see ``backend_spec``). The spec imports no framework; it names the
:class:`Backend` subclass, whose module imports it, once. unidev's own use nothing else.

The abstract methods of :class:`Backend` are required. Every optional ability (``abilities``)
defaults to :func:`unsupported`. A backend that has the ability overrides it; one that does not
keeps the default, or gives its own reason: ``memory = unsupported("why", "https://…")``. The table
of capabilities is read from these attributes; there is no second list.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from unidev.contract.abilities import Abilities
from unidev.contract.dtypes import parsed
from unidev.contract.memory import Extent, Memory
from unidev.contract.optional import Unsupported, part, unsupported
from unidev.device import Device
from unidev.errors import UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    import numpy as np

    from unidev.contract.backend_spec import BackendSpec

    Tensor = Any
    """The framework's own tensor: unidev does not wrap it."""
    Dtype = Any
    """The framework's own dtype."""
    Array = np.ndarray[Any, Any]
    ContainerFunctions = tuple[Callable[..., Any], Callable[..., Any]]
    """``flatten`` and ``unflatten`` of a container."""
    Children = tuple[Mapping[str, Any], Callable[[Sequence[Any]], Any]]
    """The children of a container by their steps in a path, and what rebuilds it of others."""

MEMORY_NUMBERS = ("requested", "free", "total", "shape", "dtype")
"""The names that ``Backend.out_of_memory_numbers`` may have in braces."""

__all__ = ["Backend", "CopyStream", "Extent", "Memory", "Unsupported", "part", "unsupported"]


class Backend(Abilities, ABC):
    """One framework's devices and tensors, in unidev's terms.

    unidev checks arguments before it calls a backend: a :class:`Device` is this backend's own and
    available, a tensor is an instance of ``tensor_types``, a shape is a tuple of non-negative ints,
    and a dtype is the framework's own. ``framework_errors`` become :class:`FrameworkError`.

    unidev itself reads only ``x.shape`` (an iterable of ints) and ``x.dtype`` (the framework's own,
    as in ``dtypes``) from a tensor; the backend provides everything else.

    A framework may put off computing a tensor. Where such a *pending* tensor will be, and whether
    two share memory, is then known without computing it: ``device_of``, ``is_bound``, ``extents``
    compute nothing. Whatever copies (``copy_to``, ``cast``, ``to_numpy``) computes, so that the
    copy has the values of the call in memory of its own, whatever is written to the source later.
    """

    kinds: tuple[str, ...] = ("cpu", "gpu")
    """The kinds of device that may exist, in the order in which they are listed.

    A backend without accelerators may omit ``gpu``, and one of accelerators alone ``cpu``: such a
    device is then "not available", also where it is the default. The first kind has a device.
    """
    framework_errors: tuple[type[Exception], ...] = (
        RuntimeError, ValueError, TypeError, MemoryError,
    )  # fmt: skip
    """The exceptions that the framework raises when it fails."""
    out_of_memory_words: tuple[str, ...] = ()
    """Words of the framework's out-of-memory messages, besides those of CUDA and the like.

    Parts of a message, in which case, spaces and underscores do not count.
    """
    out_of_memory_numbers: tuple[str, ...] = ()
    """Parts of those messages that have numbers, such as ``"tried to allocate {requested}"``.

    ``{requested}``, ``{free}`` and ``{total}`` are bytes, with or without a unit (``2.50 GiB``);
    ``{shape}`` and ``{dtype}`` are those of the tensor that was requested (``2, 3``, ``float32``).
    Case does not count. Of two parts with the same number, the first that is found counts.
    """
    model_types: tuple[type, ...] = ()
    """Classes of models, optimizers and the like, which the transfer verbs refuse.

    Where models have no class in common, override ``is_model``.
    """
    containers: Mapping[type | str, ContainerFunctions | None] = MappingProxyType({})
    """The containers of the framework and of its libraries: how each is taken apart and built.

    By class, or by name where the program may import the library later: ``"package.module.Class"``,
    after its ``__module__`` and ``__qualname__``. Subclasses are covered. The values are the two
    functions of ``register_container``; or None for an object that holds nothing but its attributes
    and items, which is rebuilt of these without ``__init__``.
    """
    default_integer: str = "int64"
    """The dtype, by name, of Python's ints where the user gives none.

    ``array([1, 2])``, ``full(3, 7)``, ``arange(3)``. A framework with a switch for 64 bits may make
    this a property: int32 where the switch is off. An int that does not fit is an error.
    """
    makers: Sequence[Any] = ()
    """The modules whose ``zeros``, ``asarray`` and so on programs call, such as ``jax.numpy``."""
    optimizer_types: tuple[type, ...] = ()
    """Classes of optimizers that are not among ``model_types``: only ``place`` moves them."""

    def __init__(self, spec: BackendSpec, simulated_count: int) -> None:
        """Created once per process. ``simulated_count`` is 0 on the machine's own devices."""
        self.spec = spec
        self.name = spec.name
        self.simulated_count = simulated_count
        self.cpu = self.device("cpu", 0)

    def device(self, kind: str, index: int) -> Device:
        """The :class:`Device` of that kind and index; does not check that it is available."""
        return Device(self.name, kind, index)

    # -- required ----------------------------------------------------------------------------------

    @property
    @abstractmethod
    def tensor_types(self) -> tuple[type, ...]:
        """Classes whose instances (also of subclasses) are this framework's tensors."""

    @property
    @abstractmethod
    def dtypes(self) -> Mapping[str, Dtype]:
        """The framework's dtypes, by NumPy's names (and ``bfloat16``, if it has that).

        Each of them can be made, copied and (but for complex128, which files lack) saved at any
        time. If the framework has a switch that narrows 64 bits, that holds whatever the switch
        says (JAX: by ``jax.enable_x64`` around such a call), but not for its own operations.
        """

    @abstractmethod
    def device_count(self, kind: str) -> int:
        """The number of devices of ``kind`` available now; 0 for a kind the framework lacks.

        Creates no GPU context and allocates no device memory; nor does it start a runtime with
        which a process cannot fork (``unidev.contract.visible_gpus`` counts without one). Caches
        only what the framework itself has fixed for the life of the process.
        """

    @abstractmethod
    def native_device(self, kind: str, index: int) -> Any:
        """The framework's own object for an available device; cached in ``Device.native``.

        Best without starting the framework's runtime, so that a process that has only looked at
        devices can fork. Where the object exists only once the runtime runs, and that needs threads
        of its own, ``contexts.fork_after_looking`` is a known failure, for ``expectations.toml``.
        """

    @abstractmethod
    def parse_native(self, spec: object) -> tuple[str, int] | None:
        """The kind and index that the framework's own spelling or device object specifies.

        ``spec`` is an object, or a string that is not in unidev's spelling, which is read first and
        is lower case: JAX's ``cpu:1``, a simulated ``gpu:0``, is unidev's CPU 1, not so ``CPU:1``.
        None: it specifies no device of this framework. An index out of range is not clamped.
        """

    @abstractmethod
    def device_of(self, x: Tensor) -> Device:
        """The device that holds ``x``. On the hot path of ``as_in_device``: well under 1 µs.

        Host memory that is pinned for a GPU is the CPU's where the framework computes with it as
        with other host memory; else it belongs to no device.

        Raises:
            UnsupportedOperation: ``x`` is traced and has no device yet, spread over several
                devices, on another process's device, or in memory of none; states where it is.
            DeletedTensorError: its memory has been freed.
        """

    @abstractmethod
    def copy_to(self, x: Tensor, device: Device, non_blocking: bool) -> Tensor:
        """A copy of ``x`` in newly allocated memory on ``device``, sharing no memory with ``x``.

        Copies even if ``x`` is already there; of a view, only the elements that it has. Shape,
        dtype (with its byte order, where the framework has several), kind (a sparse tensor stays
        sparse) and values are identical, bit for bit, and gradients flow back to ``x`` if the
        framework has autograd, and records at the call. A copy has memory of its own for all that
        belongs to ``x``, such as indices and masks. Of a traced tensor, the operation that copies
        it when the compiled function runs.

        The bytes have arrived when it returns, but may still be queued where whatever reads the
        result waits for them: on a GPU, and in a framework that knows which of its tensors are
        pending. Elsewhere, ``non_blocking`` changes nothing. With it, too, ``x`` can safely be
        changed or freed once this returns.

        Raises:
            UnsupportedOperation: ``device`` does not hold this kind of tensor; or ``device_of``
                refuses ``x``, and the framework does not gather it either.
            UnsupportedDtypeError: ``device`` lacks the dtype; or elements refer to memory outside
                of ``x``, which a copy would share.
            DeletedTensorError: part of the memory of ``x`` is gone.
        """

    @abstractmethod
    def from_numpy(self, array: Array, dtype: Dtype, device: Device) -> Tensor:
        """A tensor in new memory on ``device`` with the values of ``array``, as ``dtype``.

        ``array`` is in native byte order and has a dtype that ``dtypes`` names; its strides,
        alignment and writability are arbitrary. Floating-point numbers that ``dtype`` cannot hold,
        as of bfloat16, are rounded to the nearest one that it can, ties to the even one; where the
        framework converts float64 by way of float32, as PyTorch does, they are rounded twice.

        ``array`` has been read when this returns: the caller may overwrite it at once. (JAX keeps
        the memory of an array that is aligned to 64 bytes, and may read any other later.)
        """

    @abstractmethod
    def to_numpy(self, x: Tensor) -> Array:
        """A new, writable array with the values of ``x`` from any device, without gradients.

        Its dtype has the same name. For one that NumPy itself lacks, as bfloat16 or a float8, that
        is the dtype of ``ml_dtypes``, if the framework's arrays have it, and otherwise an error:
        neither the bits as integers nor the values in a wider dtype. Reads also a tensor that
        ``device_of`` refuses, if all of it is in this process.

        Raises:
            UnsupportedDtypeError: NumPy does not have the dtype.
            UnsupportedOperation: NumPy does not have this kind of tensor.
        """

    @abstractmethod
    def empty(self, shape: tuple[int, ...], dtype: Dtype, device: Device) -> Tensor:
        """A tensor with undefined values (zeros, if the framework always initialises)."""

    @abstractmethod
    def full(self, shape: tuple[int, ...], value: Any, dtype: Dtype, device: Device) -> Tensor:
        """A tensor filled with one Python number, made on the device, without a transfer.

        If the framework compiles a kernel for each shape, up to 1 MiB may come from the host.
        """

    @abstractmethod
    def synchronize(self, device: Device) -> None:
        """Block until all work queued on ``device`` is done.

        Starts no runtime and creates no context: where nothing has run, it returns at once.
        """

    # -- has a default that a backend may improve on -----------------------------------------------

    def dtypes_on(self, device: Device) -> Collection[str]:  # noqa: ARG002
        """The names, among those of ``dtypes``, that ``device`` carries: by default, all.

        Where a tensor of another dtype would be made, the framework must fail: unidev then raises
        ``UnsupportedDtypeError``. May start the framework's runtime.
        """
        return self.dtypes.keys()

    def parse_dtype(self, spec: object) -> Dtype | None:
        """The framework's dtype that ``spec`` specifies, or None if it specifies none of them.

        ``spec`` is anything but a name in ``dtypes``. By default, NumPy's dtypes and scalar types
        stand for those of their names, and an object of the class of the framework's own dtypes
        for itself, also if ``dtypes`` lacks it. Override it where the framework's dtypes have
        another spelling, too: JAX's ``jnp.float32`` is neither a class nor a dtype.
        """
        return parsed(spec, self.dtypes)

    def zeros(self, shape: tuple[int, ...], dtype: Dtype, device: Device) -> Tensor:
        """A tensor of zeros, made on the device, as by ``full``."""
        return self.full(shape, 0, dtype, device)

    def traced(self, x: Tensor) -> bool:  # noqa: ARG002
        """Whether ``x`` is symbolic: a compiler traces the program, and it has no memory yet.

        By default False, for a framework without a compiler. A pending tensor is not traced: its
        values can be read.
        """
        return False

    def full_like(self, x: Tensor, value: Any) -> Tensor:
        """A tensor of the shape and dtype of a traced ``x``, filled with one Python number.

        Where ``x`` will be. Override it if a traced tensor's device or whole shape is not known.
        """
        return self.full(tuple(x.shape), value, x.dtype, self.device_of(x))

    def new_like(self, x: Tensor, value: int | None, device: Device) -> Tensor | None:  # noqa: ARG002
        """Zeros, ones or (None) undefined values like ``x``; None if its shape and dtype say all.

        Override it where the framework's own functions keep more, such as a layout or a class.

        Raises:
            UnsupportedOperation: there is none like ``x``, as of a sparse one.
        """
        return None

    def watch_made(
        self, made: Callable[[Tensor, Sequence[Any] | None], None]
    ) -> AbstractContextManager[object]:
        """A scope of this thread: ``made(result, None)`` is called when ``makers`` make tensors.

        Unless an argument gives the device. A framework that shows more calls
        ``made(result, operands)`` after its other functions, with the values that they were given.
        Results that are not tensors are ignored.
        """
        from unidev.contract.tracer import Makers

        return Makers(self.makers, lambda x: made(x, None))

    def copy_if_there(self, x: Tensor, device: Device) -> Tensor | None:
        """``copy_to(x, device)`` if ``x`` is on ``device`` already; otherwise, or in doubt, None.

        On the hot path: override it to check and copy in fewer steps. ``device`` may be a string or
        another backend's device; after any exception, unidev takes the slow path.
        """
        return self.copy_to(x, device, False) if self.device_of(x) is device else None

    def is_bound(self, x: Tensor, device: Device) -> bool:
        """Whether ``x`` is on ``device``, and what is computed with it will be.

        By default, the first implies the second. Where it does not, ``place`` and what makes new
        memory bind tensors by ``copy_to``; ``as_in_device`` leaves them as they are.
        """
        return self.device_of(x) is device

    def check_memory(self, x: Tensor) -> None:
        """Raise ``DeletedTensorError`` if the memory of ``x`` is gone, or part of it.

        Called before the framework computes with a tensor of the user's, or reads or writes a
        model's; ``copy_to``, ``copy_if_there``, ``cast`` and ``to_numpy`` do the same themselves.
        """
        with contextlib.suppress(UnsupportedOperation):  # traced: no memory yet
            self.device_of(x)

    def have_memory(self, xs: Sequence[Tensor]) -> bool:  # noqa: ARG002
        """Whether ``check_memory`` would certainly accept each of ``xs``; in doubt, False.

        On the hot path of a training step: override it to look at all of them in fewer steps.
        """
        return False

    def cast(self, x: Tensor, dtype: Dtype, device: Device) -> Tensor:
        """``x`` converted to ``dtype``, in new memory on ``device``; may drop gradients.

        Rounds as ``from_numpy`` does. By default by way of NumPy: override it where ``to_numpy``
        refuses a dtype, such as bfloat16.
        """
        return self.from_numpy(self.to_numpy(x), dtype, device)

    def opened(self, x: object) -> Children | None:  # noqa: ARG002
        """The children of ``x``, one level down, if the framework's registry knows its class.

        Such as the pytrees of JAX, ``torch.utils._pytree``, ``tf.nest``: what the framework itself
        takes apart when a user hands it a container. Called only for objects whose class neither
        unidev (dicts, dataclasses, what ``register_container`` was given) nor a backend's
        ``containers`` knows, whoever's tensors they hold. None, as by default: no container here.

        Returns:
            The children by the steps that lead to them, as they are written in a path (``.x``,
            ``['x']``, ``[0]``), in order; and a function that takes as many others in that order
            and returns a new container of them. ``x`` is not changed.
        """
        return None

    def is_model(self, x: object) -> bool:
        """Whether ``x`` is a model, an optimizer or the like; by default, by ``model_types``.

        Override it where models are plain classes: it is then called, too, for objects of classes
        that belong to no framework, such as the program's own, but for tensors and Python's
        containers. True, say, of what can be called and in which ``unidev.contract.found_in`` finds
        parameters: it must be fast, change nothing, and stand cycles and any class.
        """
        return issubclass(type(x), self.model_types)

    def native_name(self, kind: str, index: int) -> str:
        """The framework's own spelling of a device, such as ``cuda:1``.

        It means that device to ``as_device``, too. If the framework calls the device by a name that
        is another one's in unidev's spelling, return unidev's: ``gpu:0``, not JAX's ``cpu:1``.
        """
        return str(self.native_device(kind, index))

    def hardware_name(self, kind: str, index: int) -> str:
        """The hardware's name, such as ``NVIDIA H200``; the native name if that is unknown.

        unidev then asks NVIDIA's driver for the name of a real GPU.
        """
        return self.native_name(kind, index)

    def copy_stream(self, device: Device) -> CopyStream | None:  # noqa: ARG002
        """A queue of copies to ``device`` beside the framework's work, for ``prefetch``.

        None, as by default, where the framework's copies need no other: the ordinary ones are made.
        """
        return None

    def batch_iterator(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The iterator by which ``prefetch`` reads a loader of the framework's.

        By default, ``iter(batches)``. Called in the thread that iterates. The batches are read in
        another thread, beside the framework's work, which the loader's end must not disturb.
        """
        return iter(batches)

    def hardware_index(self, kind: str, index: int) -> int | None:  # noqa: ARG002
        """The number by which CUDA, or another vendor's runtime, calls the device; None: unknown.

        Among those that environment variables leave visible, as ``index``. Creates no context.
        """
        return index

    def shares_host_memory(self, device: Device) -> bool:  # noqa: ARG002
        """Whether the framework reports that a real GPU has no memory of its own (``integrated``).

        False, as by default, if it does not report that, or not yet: creates no context, which
        there is once ``memory`` was read. unidev asks NVIDIA's driver, too.
        """
        return False

    def thread_settings(self) -> AbstractContextManager[Any]:
        """A context manager that a thread working for this one enters, once.

        Made in this thread, to carry over the framework's settings per thread, such as whether
        autograd records. By default, it does nothing.
        """
        return contextlib.nullcontext()


class CopyStream(ABC):
    """A queue of copies to one device; ``Backend.copy_stream`` makes one.

    ``copy`` and ``mark`` are called in one thread, ``hand_out`` in the thread that uses the copies.
    """

    @abstractmethod
    def copy(self, x: Tensor) -> Tensor | None:
        """A copy of ``x`` on the device, in new memory; None for a tensor that it cannot copy.

        ``x`` is on any device of the framework. It may be changed and dropped as soon as this
        returns, though the bytes may arrive later: copy those of the host to pinned memory first.
        """

    @abstractmethod
    def mark(self) -> Any:
        """The end of the queue, as it is now."""

    @abstractmethod
    def hand_out(self, mark: Any, tensors: Sequence[Tensor]) -> None:
        """Let work that this thread queues from now on wait for the copies before ``mark``.

        ``tensors`` were made by them. Does not wait itself, and waits for nothing else.
        """
