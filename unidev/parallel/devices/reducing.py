"""``all_reduce``: what several devices computed, combined on each of them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from unidev.contract.dtypes import portable_name
from unidev.errors import InvalidDataError, UnsupportedDtypeError, UnsupportedOperation
from unidev.parallel.devices.arguments import Aligned, checked_weights
from unidev.parallel.devices.packing import combination, reduce_to_each, write
from unidev.system.arguments import choice, flag
from unidev.tensors.checks import check_same_device

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from unidev.contract.backend import Backend
    from unidev.parallel.devices.packing import Kind

    T = TypeVar("T")

OPERATIONS = ("sum", "mean", "min", "max")


def all_reduce(
    trees: Sequence[T],
    op: str = "sum",
    *,
    weights: Sequence[float] | None = None,
    in_place: bool = False,
) -> Sequence[T]:
    """Combine the tensors at the same place in each of ``trees``; each device gets the result.

    The tensors are combined in the order of the list, once, so that all devices get the same bits
    in every run. Few copies are made, however many tensors there are: those of one dtype travel
    packed in buckets of 32 MiB, those of 4 MiB or more by themselves, and 2 (n - 1) copies between
    n devices are made for each. Autograd does not record any of it.

    Args:
        trees: for each device a tensor or a nested container of tensors, with the same structure,
            shapes and dtypes in each. The tensors of one tree are on one device; a device may occur
            twice. Non-tensor leaves stay as they are.
        op: ``sum``, ``mean``, ``min`` or ``max``, computed in the dtype; float16 and bfloat16 in
            float32, rounded once at the end. Sums of integers wrap around. A mean multiplies each
            tensor by its share of the weights before it adds, so it does not overflow. Where one of
            the trees has NaN, the result is NaN, also of ``min`` and ``max``.
        weights: for ``mean``, a positive number for each tree, such as its number of rows.
        in_place: write the results to the tensors of ``trees``, which stay the same objects.

    Returns:
        A list of trees, each on the device of its own, in new memory, shared with no input and no
        other tree. Results in one tree may be parts of one buffer, so ``shares_memory`` of two of
        them may be True, but writing to one never changes another. With ``in_place``, ``trees``.

    Raises:
        InvalidDataError: structures, shapes or dtypes do not match (the message has the paths), or
            ``op``, ``weights`` or ``in_place`` are invalid.
        DeviceMismatchError: a tree is on two devices.
        UnsupportedDtypeError: ``mean`` of integers, ``min`` or ``max`` of complex numbers, bool, or
            an operation that the framework lacks for a less usual dtype.
        UnsupportedOperation: a sparse, ragged or nested tensor, or ``in_place`` with immutable
            tensors. Nothing has been written.
        NotATensorError, ContainerError: ``trees`` is not a list of trees.

    Semantics: ``torch.distributed.all_reduce``; d2l's ``allreduce``, except that d2l's replaces
    entries of its list, which leaves the tensors elsewhere unreduced.

    >>> import unidev
    >>> trees = [{"w": unidev.ones(2)}, {"w": unidev.full(2, 3.0)}]
    >>> [unidev.to_numpy(tree["w"]).tolist() for tree in unidev.all_reduce(trees, "mean")]
    [[2.0, 2.0], [2.0, 2.0]]
    """
    found = Aligned(trees, "trees")
    flag("in_place", in_place)
    backend, lists = found.backend, found.lists
    choice("op", op, OPERATIONS)
    numbers = checked_weights(weights, len(lists), "each tree")
    if numbers is not None and op != "mean":
        raise InvalidDataError(f"weights are those of a mean; op is {op!r}.")
    kinds = found.kinds()
    check_dtypes(backend, kinds, op, partial(found.path, 0))
    devices = [backend.device_of(tensors[0]) for tensors in lists]
    for number, (device, tensors) in enumerate(zip(devices, lists, strict=True)):
        if any(backend.device_of(x) is not device for x in tensors):
            check_same_device(**{f"trees[{number}]": trees[number]})  # raises, with the paths
    if in_place:
        for number, tensors in enumerate(lists):
            check_writable(backend, tensors, partial(found.path, number))
    how = combination(op, len(lists), numbers)
    reduced = reduce_to_each(backend, lists, kinds, devices, how)
    if not in_place:
        return found.with_tensors(reduced)
    for tensors, values in zip(lists, reduced, strict=True):
        write(backend, tensors, values)
    return trees


def check_dtypes(
    backend: Backend, kinds: Sequence[Kind], op: str, path: Callable[[int], str]
) -> None:
    """Raise UnsupportedDtypeError if there is no ``op`` of the dtype of a tensor."""
    dtypes = [kind.dtype for kind in kinds]
    for dtype in dict.fromkeys(dtypes):
        name = portable_name(dtype, backend)
        if name is None or name == "bool":
            reason = "convert it to numbers first"
        elif op == "mean" and "int" in name:
            reason = "convert it to a floating-point dtype first, or use sum"
        elif op in ("min", "max") and name.startswith("complex"):
            reason = "complex numbers have no order"
        else:
            continue
        where = path(dtypes.index(dtype))
        raise UnsupportedDtypeError(
            f"all_reduce has no {op} of {where}, a {dtype} tensor: {reason}."
        )


def check_writable(backend: Backend, tensors: Sequence[Any], path: Callable[[int], str]) -> None:
    """Raise UnsupportedOperation if a tensor cannot have the result in place."""
    for position, x in enumerate(tensors):
        if not backend.collectives.is_writable(x):
            raise UnsupportedOperation(
                "all_reduce(in_place=True)",
                f"{path(position)} cannot be written to; nothing has been changed: use the result "
                "instead",
            )
