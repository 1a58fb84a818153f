"""PyTorch's ``Probe`` for the conformance suite, through torch's own calls."""

from __future__ import annotations

import tempfile
import warnings
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from unidev.contract import Extent, Probe, part, unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from unidev.contract import Array, Backend, Contained, Device, TransferExample


class _Subclass(torch.Tensor):
    """As users' own are."""


class TorchProbe(Probe):
    """Probe of the torch backend."""

    autograd = part("unidev_torch.probe.training:TorchAutogradProbe")
    models = part("unidev_torch.probe.training:TorchModelProbe")
    hardware = part("unidev_torch.probe.hardware:TorchHardwareProbe")
    side_stream = part("unidev_torch.probe:side_stream_of")

    def compile(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``torch.compile``, which runs the graphs that it finds without generating code."""
        return torch.compile(function, backend="eager")

    def make(self, array: Array, device: Device) -> torch.Tensor:
        """The array's bytes, viewed as the dtype of the same name."""
        return make(array, device)

    def read(self, x: torch.Tensor) -> bytes:
        """The elements as bytes on the host, for any dtype; of a sparse tensor, each part's."""
        if x.layout in _PARTS:
            return b"".join(self.read(part) for part in _parts(x))
        if x.is_quantized:
            scale = repr((x.q_scale(), x.q_zero_point())).encode()
            return self.read(x.detach().cpu().int_repr()) + scale
        host = x.detach().cpu().resolve_conj().resolve_neg()
        host = host.clone(memory_format=torch.contiguous_format)  # also if it has one element
        return host.reshape(-1).view(torch.uint8).numpy().tobytes() if host.numel() else b""

    def same_memory(self, x: torch.Tensor) -> torch.Tensor:
        """``view_as``."""
        return x.view_as(x)

    def views(self, x: torch.Tensor) -> Mapping[str, torch.Tensor]:
        """Torch's views."""
        return {"transposed": x.t(), "sliced": x[1:, ::2], "broadcast": x.expand(3, *x.shape)}

    def more_views(self, x: torch.Tensor) -> Mapping[str, torch.Tensor]:
        """Torch's views, whose strides are never negative."""
        return {"rows": x[1:-1], "permuted": x.permute(0, 3, 1, 2)}

    def extents(self, x: torch.Tensor) -> Sequence[Extent]:
        """The storage, as torch reports it."""
        if x.layout in _PARTS:
            return [extent for part in _parts(x) for extent in self.extents(part)]
        storage = x.untyped_storage()
        return [Extent(storage.data_ptr(), storage.nbytes())]

    def allocated_bytes(self, device: Device) -> int:
        """Torch's own count if it keeps one; for the CPU, the C library's."""
        if device.kind == "cpu":
            return super().allocated_bytes(device)
        return int(torch.get_device_module(native_of(device)).memory_allocated(device.index))

    def global_state(self) -> Mapping[str, object]:
        """Defaults, switches, and the state of the generators."""
        accelerator = torch.accelerator.current_accelerator()
        module: Any = None if accelerator is None else torch.get_device_module(accelerator)
        generators = range(module.device_count() if module else 0)
        return {
            "dtype": torch.get_default_dtype(),
            "device": torch.get_default_device(),
            "grad": torch.is_grad_enabled(),
            "inference": torch.is_inference_mode_enabled(),
            "deterministic": torch.are_deterministic_algorithms_enabled(),
            "threads": torch.get_num_threads(),
            "rng": torch.get_rng_state().numpy().tobytes(),
            "accelerator rng": [module.get_rng_state(i).numpy().tobytes() for i in generators],
            "filters": tuple(warnings.filters),
        }

    def current(self) -> Mapping[str, object]:
        """The accelerator's current device, and the current stream of each; empty without one."""
        if torch.accelerator.current_accelerator() is None:
            return {}
        count = torch.accelerator.device_count()
        return {
            "device": torch.accelerator.current_device_index(),
            "streams": [torch.accelerator.current_stream(index) for index in range(count)],
        }

    def specials(self, device: Device) -> Mapping[str, torch.Tensor]:
        """Parameters, lazy ones, eight bits; sparse and quantized ones on the CPU."""
        native = native_of(device)
        complexes = torch.tensor([1 + 2j, 3 - 4j], device=native)
        found = {
            "parameter": torch.nn.Parameter(torch.ones(2, 3, device=native)),
            "buffer": torch.nn.Buffer(torch.ones(3, device=native)),
            "requires grad": torch.ones(3, device=native, requires_grad=True),
            "conjugate": complexes.conj(),
            "negative": complexes.conj().imag,
            "of a subclass": torch.ones(3, 2, device=native).as_subclass(_Subclass),
            "channels last": torch.ones(2, 3, 4, 4, device=native).to(
                memory_format=torch.channels_last
            ),
        }
        for dtype in (torch.float8_e4m3fn, torch.float8_e5m2, torch.complex32):
            nbytes = torch.arange(2, 10, dtype=torch.uint8)
            found[str(dtype)] = nbytes.to(native).view(dtype)
        return {**found, **_on_the_host()} if device.kind == "cpu" else found

    def containers(self, device: Device) -> Mapping[str, Contained]:
        """Packed sequences, sorted and not, and the named results of torch's own functions."""
        x = torch.ones(3, 3, device=native_of(device))
        return {
            "packed sequence": (_packed(x, enforce_sorted=True), _tensors_of),
            "packed sequence that was not sorted": (_packed(x, enforce_sorted=False), _tensors_of),
            "result of max": (x.max(0), list),
        }

    def transfers(self, gpu: Device) -> Iterable[TransferExample]:
        """Examples of torch's own calls, with the name, devices and bytes of each transfer."""
        from unidev_torch.probe.transfers import transfers_of

        return transfers_of(gpu)

    def loader(self, array: Array) -> Iterable[torch.Tensor]:
        """A ``DataLoader``, one row at a time."""
        rows: Any = make(array, self.backend.cpu).unbind()  # a sequence, which torch takes, too
        return torch.utils.data.DataLoader(rows, batch_size=None, shuffle=True)

    def loaders(self, numbers: Array, size: int) -> Mapping[str, Iterable[Any]]:
        """``DataLoader``, by a ``collate_fn``."""
        data = torch.utils.data
        rows: Any = [*map(int, numbers)]  # a sequence, which torch takes, too
        made = partial(data.DataLoader, rows, collate_fn=lambda xs: {"x": torch.tensor(xs)})
        some, again = (data.RandomSampler(rows, is_again, size) for is_again in (False, True))
        return {
            "in order": made(batch_size=size),
            "dropping": made(batch_size=size, drop_last=True),
            "shuffled": made(batch_size=size, shuffle=True),
            "refused: a sampler": made(batch_size=size, sampler=rows[::-1]),
            "refused: a batch sampler": made(batch_sampler=[rows[:2], rows[2:]]),
            "refused: some rows": made(batch_size=size, sampler=some),
            "refused: rows again": made(batch_size=size, sampler=again),
        }

    def read_out(self, x: torch.Tensor) -> object:
        """``tolist``."""
        return x.tolist()

    def write(self, x: torch.Tensor, value: float) -> None:
        """``fill_``, hidden from autograd."""
        with torch.no_grad():
            x.fill_(value)

    def gradient(
        self, function: Callable[[torch.Tensor], torch.Tensor], array: Array, device: Device
    ) -> Array:
        """``backward``."""
        x = self.make(array, device).requires_grad_()
        found = function(x)
        (torch.view_as_real(found) if found.is_complex() else found).sum().backward()  # type: ignore[no-untyped-call]
        if x.grad is None:
            raise AssertionError("no gradient reached the source")
        return x.grad.cpu().numpy()

    def deleted(self, device: Device) -> torch.Tensor:
        """A tensor whose storage was resized to nothing, as FSDP does."""
        x = torch.ones(4, device=native_of(device))
        x.untyped_storage().resize_(0)
        return x

    def cut_short(self, device: Device) -> Mapping[str, torch.Tensor]:
        """Tensors whose storage was resized to all but its last element, or to less."""
        whole, tail, columns, shared = (
            torch.ones((6, 3), device=native_of(device)) for _ in range(4)
        )
        found = {
            "a matrix": whole, "at an offset": tail[4:], "with strides": columns.t(),
            "expanded": shared[5:].expand(4, 3),
        }  # fmt: skip
        for x in (whole, tail, columns, shared):
            x.untyped_storage().resize_(4 * 17)
        base = torch.ones(8, device=native_of(device))
        found["from the end of what is left on"] = base[4:]
        base.untyped_storage().resize_(4 * 4)
        if device.kind == "cpu":
            found["in parts"] = sparse = torch.eye(3).to_sparse()
            sparse._values().untyped_storage().resize_(8)
        return found


def side_stream_of(backend: Backend) -> Any:
    """A ``torch.Stream``, if there is an accelerator that has several."""
    accelerator = torch.accelerator.current_accelerator()
    if not backend.device_count("gpu") or accelerator is None or accelerator.type == "mps":
        return unsupported("torch has no accelerator here, or one that has a single stream")
    return _side_stream


@contextmanager
def _side_stream(device: Device) -> Iterator[None]:
    with torch.Stream(native_of(device)):
        yield


def make(array: Array, device: Device) -> torch.Tensor:
    """See ``TorchProbe.make``."""
    dtype = getattr(torch, array.dtype.name)
    if array.nbytes == 0:
        return torch.empty(array.shape, dtype=dtype, device=native_of(device))
    raw = torch.frombuffer(bytearray(array.tobytes()), dtype=torch.uint8)
    return raw.view(dtype).reshape(array.shape).to(native_of(device), copy=True)


_PARTS: Mapping[torch.layout, tuple[str, ...]] = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
}


def _parts(x: torch.Tensor) -> list[torch.Tensor]:
    x = x.detach()
    return [getattr(x, name)() for name in _PARTS[x.layout]]


def _on_the_host() -> dict[str, torch.Tensor]:
    """Those that torch's simulated devices do not hold."""
    eye = torch.eye(4)
    with tempfile.NamedTemporaryFile() as file, warnings.catch_warnings():  # of beta state, once
        warnings.simplefilter("ignore")
        return {
            "sparse": eye.to_sparse(), "csr": eye.to_sparse_csr(), "csc": eye.to_sparse_csc(),
            "bsr": eye.to_sparse_bsr((2, 2)), "bsc": eye.to_sparse_bsc((2, 2)),
            "mapped file": torch.from_file(file.name, shared=True, size=6),
            "quantized": torch.quantize_per_tensor(eye, 0.5, 2, torch.qint8),
        }  # fmt: skip


def _tensors_of(packed: Any) -> list[torch.Tensor]:
    """All but the sizes of batches, which torch keeps on the CPU."""
    return [x for x in (packed[0], *packed[2:]) if x is not None]


def _packed(x: torch.Tensor, *, enforce_sorted: bool) -> Any:
    rows = [x[0], x[1], x[2, :1]] if enforce_sorted else [x[0, :1], x[1], x[2, :2]]
    return torch.nn.utils.rnn.pack_sequence(rows, enforce_sorted=enforce_sorted)


def native_of(device: Device) -> torch.device:
    """Not ``device.native``, which is under test."""
    if device.kind == "cpu":
        return torch.device("cpu")
    if (accelerator := torch.accelerator.current_accelerator()) is None:
        raise LookupError(f"torch has no accelerator, so there is no {device}")
    return torch.device(accelerator.type, device.index)
