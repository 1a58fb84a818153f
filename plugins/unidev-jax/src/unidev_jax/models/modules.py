"""Flax's modules, which keep their variables; their optimizers, and their checkpoints."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from unidev.contract import Models, Stored, is_number, kind_of
from unidev.errors import UnsupportedOperation
from unidev_jax import arrays
from unidev_jax.arrays import check_whole
from unidev_jax.copying import copied
from unidev_jax.framework import jax, jnp
from unidev_jax.models import optimizers
from unidev_jax.models.flax import nnx
from unidev_jax.models.tree import (
    Attribute,
    arrays_of,
    check_movable,
    is_array,
    modules_in,
    named_arrays,
    once,
    replaced,
    value_of,
    walk,
)
from unidev_jax.variables import assigning, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from unidev.contract import Array, Device
    from unidev_jax.models.tree import Found

_LEFT = (Attribute, nnx.RngState, nnx.Intermediate)
"""Not in a checkpoint: attributes, random generators, and what a call left behind."""


class JaxModels(Models):
    """A part is a variable of Flax's, whose array moves, or an attribute that holds arrays.

    A parameter is an ``nnx.Param``. Flax has no flag for frozen ones, and leaves them out by
    filters; unidev takes those for frozen that are made with ``trainable=False``, which Flax keeps
    as the variable's metadata.

    Containers of arrays, as Equinox's modules are and Linen's parameters, are models, too: trees.
    """

    rebuilds_containers = True

    def parameters(self, model: Any) -> Mapping[str, Any]:
        """Each ``nnx.Param``."""
        return {one.path: one.part for one in once(walk(model)) if isinstance(one.part, nnx.Param)}

    def trainable(self, model: Any) -> Mapping[str, Any]:
        """Those not made with ``trainable=False``, of a dtype that has gradients."""
        found = self.parameters(model)
        return {path: x for path, x in found.items() if is_trainable(x)}

    def tensors(self, model: Any) -> Mapping[str, Any]:
        """Variables, and arrays outside of variables; JAX keeps no gradients."""
        return {path: x for one in once(walk(model)) for path, x in named_arrays(one)}

    def parts(self, model: Any, optimizer: Any) -> Sequence[Any]:
        """The variables of both, each once."""
        found: dict[Any, Found] = {}
        if optimizer is not None:
            optimizers.check_optimizer(optimizer)
        for whole in (model, optimizer):
            for one in walk(whole) if whole is not None else ():
                check_movable(one)
                if arrays_of(one.part):
                    found.setdefault(one.key, one)
        for one in found.values():
            for x in arrays_of(one.part):
                check_whole(arrays.value_of(x))
        return [one.part for one in found.values()]

    def is_on(self, part: Any, device: Device) -> bool:
        """Whether all its arrays are."""
        return all(self.backend.is_bound(x, device) for x in arrays_of(part))

    def is_placed(self, model: Any, device: Device) -> bool:
        """Asks each array.

        Raises:
            UnsupportedOperation: as ``parts``.
        """
        for one in once(walk(model)):
            check_movable(one)
            if not self.is_on(one.part, device):
                return False
        return True

    def twin(self, part: Any, device: Device) -> Any:
        """The part's value in new memory, in a list; ``ModelsByLibrary.wait_for`` waits for it."""

        def begin(x: Any) -> Any:
            self.backend.check_memory(x)
            return copied(x, device.native)

        return [replaced(part, begin)]

    def swap(self, part: Any, twin: Any) -> None:
        """Exchange the values; Flax refuses, before it changes one, inside a traced function."""
        before = value_of(part)
        if isinstance(part, Attribute):
            part.value = twin[0]
        else:
            with assigning():
                part.set_raw_value(twin[0])
        twin[0] = before

    def copy(self, model: Any) -> Any:
        """By ``nnx.split`` and ``nnx.merge``, which keep ties."""
        graph, state = nnx.split(model)
        copied = jax.tree.map(self._copied, state)
        return nnx.merge(copy.deepcopy(graph), copied)

    def _copied(self, x: Any) -> Any:
        if is_array(x):
            return self.backend.copy_to(x, self.backend.device_of(x), False)
        return copy.deepcopy(x)

    def namespaces(self, model: Any) -> Iterable[dict[str, Any]]:
        """The attributes of each module."""
        return [vars(each) for each in modules_in(model)]

    def statistics(self, model: Any) -> Mapping[str, Any]:
        """Each ``nnx.BatchStat``."""
        return {
            path: x
            for path, x in self.tensors(model).items()
            if isinstance(x, nnx.BatchStat) and np.issubdtype(plain(x).dtype, np.floating)
        }

    def random_states(self, model: Any) -> Mapping[str, Any]:
        """Keys and counters of ``nnx.Rngs``."""
        return {path: x for path, x in self.tensors(model).items() if isinstance(x, nnx.RngState)}

    def stored(self, model: Any) -> Mapping[str, Stored]:
        """All variables but random generators and intermediate results.

        Raises:
            UnsupportedOperation: a variable holds a container of arrays.
        """
        found = {}
        for one in walk(model):
            if isinstance(one.part, _LEFT):
                continue
            if not is_array(value_of(one.part)):
                if isinstance(value_of(one.part), np.ndarray):
                    raise UnsupportedOperation(
                        f"saving {one.path}, a {kind_of(one.part)}",
                        "it holds an array of NumPy's: make it of jax.numpy.asarray(...)",
                    )
                if arrays_of(one.part):
                    raise UnsupportedOperation(
                        f"saving {one.path}, a {kind_of(one.part)}",
                        "it holds a container of arrays: a checkpoint has single ones",
                    )
                continue
            found[one.path] = Stored(one.part)
        return found

    def numbers(self, model: Any) -> Mapping[str, Any]:
        """Those that are the value of a variable."""
        found = {one.path: one.part for one in once(walk(model)) if not isinstance(one.part, _LEFT)}
        values = {path: part.get_raw_value() for path, part in found.items()}
        return {path: value for path, value in values.items() if is_number(value)}

    def with_numbers(self, model: Any, numbers: Mapping[str, Any]) -> Any:
        """Other values of variables."""
        for one in once(walk(model)):
            if one.path in numbers:
                with assigning():
                    one.part.set_raw_value(numbers[one.path])
        return model

    def write(self, x: Any, values: Array) -> None:
        """A new array on the variable's device."""
        old = raw(x)
        if old.dtype.name == "bfloat16":
            values = values.view(old.dtype)
        device = self.backend.device_of(old)
        made = self.backend.from_numpy(values, arrays.key_numbers(old).dtype, device)
        if arrays.is_random_key(old):
            made = jax.random.wrap_key_data(made, impl=jax.random.key_impl(old))
        with assigning():
            x.set_raw_value(made)

    def optimizer_state(self, optimizer: Any) -> Mapping[str, Array]:
        """The variables of an ``nnx.Optimizer``."""
        return optimizers.state_of(optimizer)

    def load_optimizer_state(self, model: Any, optimizer: Any, state: Mapping[str, Array]) -> None:  # noqa: ARG002
        """New arrays for its variables, on the devices where they are."""
        optimizers.load_state(self.backend, optimizer, state)


def is_trainable(parameter: Any) -> bool:
    """Whether it was made without ``trainable=False``, and not of integers, bools or keys."""
    value = parameter.get_raw_value()
    is_number = not is_array(value) or jnp.issubdtype(value.dtype, np.inexact)
    return is_number and bool(parameter.get_metadata("trainable", True))


def raw(x: Any) -> Any:
    """The array of a variable as it is kept, which is what a checkpoint has."""
    return x.get_raw_value() if isinstance(x, nnx.Variable) else x
