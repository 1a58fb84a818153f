"""``Models``: the part of the contract for models; ``Stored``: one entry of a checkpoint."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections import deque
from contextlib import nullcontext
from itertools import islice
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from unidev.contract.dtypes import portable_name
from unidev.contract.optional import BackendPart, optional
from unidev.errors import CheckpointError
from unidev.system.interrupts import held_interrupts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from unidev.device import Device

    Part = Any
    """The unit that moves: a tensor, or an object that stands for it and what belongs to it."""

    from unidev.contract.layers import Array, Model, Tensor


class Stored(NamedTuple):
    """One entry of a checkpoint."""

    tensor: Tensor
    """The model's own tensor."""
    axes: tuple[int, ...] | None = None
    """``transpose(tensor, axes)`` has the layout of the file; None: the tensor has it already."""


class AnyModels(BackendPart):
    """What unidev needs for models of either kind: those with an identity, and trees.

    A backend has one of the two classes below.
    """

    takes_containers = False
    """Whether nested containers of tensors are models, too, which change in place.

    The methods of ``Models`` then take them.
    """
    rebuilds_containers = False
    """Whether nested containers of tensors are models, too, of which unidev makes new ones.

    For frameworks whose users keep parameters in trees, and replace them: dicts, dataclasses, what
    ``Backend.opened`` takes apart. ``place`` and ``load_parameters`` return a new tree, made by
    ``copy_to`` and ``from_numpy``; of this part, only ``read`` sees a tree's tensors.
    """

    # -- checkpoints -------------------------------------------------------------------------------

    def bare_names(self, names: Collection[str]) -> Mapping[str, str]:
        """Each name of a checkpoint by what it would be without the framework's wrappers.

        A file of a wrapped model then fits the bare one, and the other way round: PyTorch's
        ``module.`` and ``_orig_mod.``. Without such wrappers, the names themselves.
        """
        return {name: name for name in names}

    def read(self, x: Tensor) -> Array:
        """The values of ``x`` as a NumPy array on the host; bfloat16 as its bits, in uint16.

        By default by ``to_numpy``: override it where that refuses a dtype that a file can hold. To
        save faster, it may share the memory of ``x`` and have any strides: the caller reads it
        before anything changes ``x``, does not write to it, and copies what it keeps.
        """
        values = self.backend.to_numpy(x)
        is_bfloat16 = portable_name(x.dtype, self.backend) == "bfloat16"
        return values.view("uint16") if is_bfloat16 else values

    def unstorable(self, x: Tensor) -> str | None:  # noqa: ARG002
        """Why a checkpoint cannot hold ``x``, as it is sparse, say, and what to keep instead.

        Called before its shape, dtype or values are asked for. None: it can.
        """
        return None

    def lacks_memory(self, x: Tensor) -> bool:  # noqa: ARG002
        """Whether ``x`` has a shape but no values, as PyTorch's on ``meta``."""
        return False

    def allocated(self, model: Model, device: Device) -> AbstractContextManager[object]:  # noqa: ARG002
        """Inside the block, tensors that lack memory have some on ``device``.

        If the block fails, none again. It writes a checkpoint's values to it. The tensors that no
        checkpoint has get their values here, or an ``UnsupportedOperation`` names them.
        """
        return nullcontext()

    def numbers(self, model: Model) -> Mapping[str, Any]:  # noqa: ARG002
        """The numbers that a checkpoint has beside ``stored``: Python's and NumPy's scalars.

        By names that no tensor has. The default has none; those of trees unidev finds itself.
        """
        return {}

    def with_numbers(self, model: Model, numbers: Mapping[str, Any]) -> Model:  # noqa: ARG002
        """The model to use from now on, ``model`` itself where it can change, with these numbers.

        A new one may be of another type.
        """
        return model

    # -- optimizers --------------------------------------------------------------------------------

    optimizer_state: Callable[[Any], Mapping[str, Array]] = optional(
        "checkpoints with an optimizer's state", "the backend does not read the state of optimizers"
    )
    """``optimizer_state(optimizer)``: what it needs to go on as if it had not been interrupted.

    Its state (step counters, moments), and the settings that the framework's own saved state of an
    optimizer has, such as the learning rate: arrays in new memory on the host, numbers as 0-d
    arrays, bfloat16 as float32. Names begin with the optimizer's class, count its parameters by
    position, and are the same each time such an optimizer is made for such a model.

    Raises:
        UnsupportedOperation: some of its state cannot be saved; names it.
    """

    load_optimizer_state: Callable[[Model, Any, Mapping[str, Array]], None] = optional(
        "loading an optimizer's state", "the backend does not write the state of optimizers"
    )
    """``load_optimizer_state(model, optimizer, state)``: the inverse of ``optimizer_state``.

    The optimizer may be new, or have made steps; its model is loaded already, on any device.

    Raises:
        CheckpointError: ``state`` is that of another optimizer; the optimizer is unchanged.
    """


class Models(AnyModels, ABC):
    """A framework's models: their tensors, and how to move, read and write them.

    unidev has checked the arguments: a model is what the backend's ``is_model`` says (or a
    container, if ``takes_containers``), and a device is the backend's own and available.
    """

    # -- the tensors of a model --------------------------------------------------------------------

    @abstractmethod
    def parameters(self, model: Model) -> Mapping[str, Tensor]:
        """All parameters, frozen ones included, by the framework's names and in its order.

        A tied parameter is listed once, under its first name.

        Raises:
            UnsupportedOperation: they do not exist until the model is built; states how.
        """

    @abstractmethod
    def trainable(self, model: Model) -> Mapping[str, Tensor]:
        """The parameters that are not frozen, and not of integers: those that have gradients."""

    @abstractmethod
    def tensors(self, model: Model) -> Mapping[str, Tensor]:
        """All tensors of the model by path: parameters, buffers, and gradients, as ``PATH.grad``.

        A path is what follows the model's name in a message: ``encoder.weight``. A parameter is the
        same object before and after a training step, and has the new values after it: of a
        framework whose tensors are immutable, the variable, which is then among ``tensor_types``.
        (Of a container of tensors, which a step replaces, the tensors themselves.)
        """

    registering = "as the framework's documentation says"
    """How a user registers a tensor with a model: words for a warning."""

    def layers(self, model: Model) -> Sequence[tuple[str, Any]]:  # noqa: ARG002
        """``model`` and the layers registered in it, each after ``encoder.``; by default none."""
        return ()

    def beside(self, layer: Any) -> Iterator[tuple[str, Any]]:
        """Tensors and layers in attributes of ``layer``, and in containers and objects there."""
        from unidev.contract.backend import Backend

        backend = self.backend
        wanted = (*backend.tensor_types, *backend.model_types)  # once: some look for libraries
        judge = None if type(backend).is_model is Backend.is_model else backend.is_model

        def is_wanted(x: Any) -> bool:
            return issubclass(type(x), wanted) or (judge is not None and judge(x))

        for name, value in vars(layer).items():
            yield from found_in(value, is_wanted, name, deep=3)

    def unregistered(self, model: Model) -> Mapping[str, Tensor]:
        """Tensors that ``model`` keeps without registering them, by path, by the two above."""
        layers = list(self.layers(model))
        found: dict[str, Tensor] = {}
        if not any(True for _, layer in layers for _ in self.beside(layer)):
            return found
        known = {id(x) for x in (*self.tensors(model).values(), *(each for _, each in layers))}
        for prefix, layer in layers:
            for name, x in self.beside(layer):
                inner = {f"{prefix}{name}": x}
                if id(x) not in known and self.backend.is_model(x):
                    layers += [(f"{prefix}{name}.{at}", each) for at, each in self.layers(x)]
                    inner = {f"{prefix}{name}.{at}": y for at, y in self.tensors(x).items()}
                new = {path: y for path, y in inner.items() if id(y) not in known}
                found |= {path: y for path, y in new.items() if not path.endswith(".grad")}
                known |= {id(x), *map(id, inner.values())}
        return found

    def left_behind(self, model: Model, device: Device) -> Mapping[str, Device]:
        """Where the tensors of ``unregistered`` are that are not on ``device``."""
        devices = {path: self.backend.device_of(x) for path, x in self.unregistered(model).items()}
        return {path: found for path, found in devices.items() if found is not device}

    # -- moving a model ----------------------------------------------------------------------------

    places_optimizers = False
    """Whether ``parts`` and ``finish`` take None for a model, for the optimizer's state alone."""

    @abstractmethod
    def parts(self, model: Model, optimizer: Any) -> Sequence[Part]:
        """All that must move with ``model`` and ``optimizer`` (which may be None), each part once.

        Changes nothing.

        Raises:
            UnsupportedOperation: this model cannot be moved; states why, and what to do.
        """

    @abstractmethod
    def twin(self, part: Part, device: Device) -> Part:
        """A part with the same values in new memory on ``device``, for ``swap``.

        Does not change ``part``. All transfers begin here, before any ``swap``.
        """

    def wait_for(self, twins: Sequence[Part]) -> None:
        """Return once ``twins`` have arrived; by default they have when ``twin`` returns.

        Override it where ``twin`` only begins a copy, as several at once take less time.
        """

    @abstractmethod
    def swap(self, part: Part, twin: Part) -> None:
        """Exchange the memory of the two; each remains the same object.

        What the framework keeps with the memory (device, gradient) is exchanged too; what the user
        has attached (flags, hooks) stays. A second swap restores both. Must either succeed or raise
        before it changes anything. A part may be swapped long after ``parts`` made it: exchange the
        memory that its tensors have now, since ``place`` may have moved them away and back.
        """

    def is_on(self, part: Part, device: Device) -> bool:
        """Whether ``part`` is on ``device`` with everything that belongs to it, and bound to it."""
        return self.backend.is_bound(part, device)

    def is_placed(self, model: Model, device: Device) -> bool:
        """Whether all of ``model`` is on ``device``; must be fast, as every placing calls it.

        False if something of ``unregistered`` is not, which ``place`` then names.
        Where ``parts`` would raise, raises the same or returns False.
        """
        device_of = self.backend.device_of
        return all(device_of(tensor) is device for tensor in self.tensors(model).values())

    def finish(self, model: Model, optimizer: Any, device: Device) -> Any:  # noqa: ARG002
        """Complete the move once all parts are swapped; returns the optimizer to use from now on.

        Not called if nothing moved. If it raises, everything is swapped back.
        """
        return optimizer

    def place(self, model: Model, device: Device, optimizer: Any = None) -> Any:
        """Move ``model`` in place, with ``optimizer``; returns the optimizer to use from now on.

        Everything has arrived before anything is replaced. A failure or an interruption at any
        point, and more of them meanwhile, leave the model complete and where it was.
        """
        parts = [part for part in self.parts(model, optimizer) if not self.is_on(part, device)]
        if not parts:
            if model is not None:
                self.adapt(model, device)
            return optimizer
        compiled = self.compiled(model, None, parts)
        parts += [part for part in compiled if not self.is_on(part, device)]
        twins = [self.twin(part, device) for part in parts]
        self.wait_for(twins)
        swapped = []
        with held_interrupts() as interrupts:
            try:
                for pair in zip(parts, twins, strict=True):
                    swapped.append(pair)
                    self.swap(*pair)
                    interrupts.check()
                return self.finish(model, optimizer, device)
            except BaseException:
                for part, twin in reversed(swapped):
                    if self.is_on(part, device):
                        self.swap(part, twin)
                raise

    def placed(self, model: Model, device: Device, optimizer: Any = None) -> tuple[Model, Any]:
        """The model on ``device``, and the optimizer: those to use from now on.

        By default ``place``, which returns the same model. Override it only for models without
        identity, of which it returns new ones and changes none; what keeps a model at work on
        several devices does not take those.
        """
        return model, self.place(model, device, optimizer)

    # -- several devices ---------------------------------------------------------------------------

    statistics_names = frozenset({"running_mean", "running_var"})
    """Names of running statistics: the last words of their paths."""

    def copy(self, model: Model) -> Model:
        """Another model of the same values, ties, flags and mode, which shares no memory with it.

        On the same device, or where the framework's own copy puts it.

        Raises:
            UnsupportedOperation: the framework cannot copy such a model; states why.
        """
        return copy.deepcopy(model)

    def namespaces(self, model: Model) -> Iterable[dict[str, Any]]:  # noqa: ARG002
        """Dictionaries by which ``model`` and its layers refer to tensors, and what is beside them.

        A model may bind them anew while it computes: ``self.count = self.count + 1``. By these,
        ``DataParallel`` undoes what replicas other than the first have bound. The default has none,
        which suits frameworks whose models keep the same tensors.
        """
        return ()

    def adapt(self, model: Model, device: Device) -> None:
        """Let ``model``, a replica on ``device`` for now, find there what is not in ``parts``.

        Or a model whose parts are all there. A PyTorch Lightning module, for example, remembers its
        device. Must change nothing but what ``namespaces`` hold. The default does nothing.
        """

    def compiled(
        self,
        model: Model,  # noqa: ARG002
        known: Sequence[Part] | None,  # noqa: ARG002
        parts: Sequence[Part] = (),  # noqa: ARG002
    ) -> Sequence[Part]:
        """Parts that appear while a model computes: what is compiled for the memory that it has.

        A twin of one is empty, and compiled when it is first used. Without those of ``known``,
        which were compiled for this model before; None: all. If ``parts`` of the model are given,
        those suffice that are compiled for their memory: finding them takes no second walk. The
        default has none: compiled functions mostly take their memory as arguments.
        """
        return ()

    def statistics(self, model: Model) -> Mapping[str, Tensor]:
        """Running means of batches, as of batch norm: floating-point tensors from ``tensors``.

        ``DataParallel`` averages them over its replicas; other buffers are the first device's.
        """
        return {
            path: x
            for path, x in self.tensors(model).items()
            if path.rpartition(".")[2] in self.statistics_names
        }

    def random_states(self, model: Model) -> Mapping[str, Tensor]:  # noqa: ARG002
        """States of random generators from ``tensors``, which must differ between replicas."""
        return {}

    # -- checkpoints -------------------------------------------------------------------------------

    @abstractmethod
    def stored(self, model: Model) -> Mapping[str, Stored]:
        """The content of a checkpoint: parameters, and the buffers that the framework itself saves.

        Names are the same each time such a model is built; a tied parameter is listed under each of
        its names. Layers made by ``unidev.nn`` use portable names and layouts: ``weight`` (outputs
        first; ``(out, in, height, width)`` for a convolution), ``bias``, ``running_mean`` and
        ``running_var``, prefixed with the position in ``sequential``: ``0.weight``.
        """

    @abstractmethod
    def write(self, x: Tensor, values: Array) -> None:
        """Write ``values``, in the form that ``read`` returns, to ``x`` on its device.

        If the framework writes to a variable by handing it a tensor's memory, that must be new
        memory on the same device. Autograd does not record it. ``values`` has the shape and dtype
        of ``x`` and any strides, and may be freed once this returns.
        """


class TreeModels(AnyModels):
    """For a framework without classes of models: its models are trees, and unidev does the rest.

    ``models = part("unidev.contract:TreeModels")``.
    """

    rebuilds_containers = True


def check_state(
    kind: str, shapes: Mapping[str, tuple[int, ...]], given: Mapping[str, Array]
) -> None:
    """Raise ``CheckpointError`` unless ``given`` has the names and shapes of this optimizer.

    Args:
        kind: the optimizer's class, for the message.
        shapes: what the optimizer has, by name.
        given: what was saved.
    """
    problems = [f"{name}: not in the file" for name in shapes.keys() - given.keys()]
    problems += [f"{name}: not in this {kind}" for name in given.keys() - shapes.keys()]
    problems += [
        f"{name}: {given[name].shape} in the file, {shape} here"
        for name, shape in shapes.items()
        if name in given and given[name].shape != shape
    ]
    if problems:
        raise CheckpointError(
            f"the state is not that of this {kind}: {problems[0]}", problems=sorted(problems)
        )


def is_number(x: Any) -> bool:
    """Whether ``x`` is one of Python's numbers or a NumPy scalar that is one."""
    import numpy as np

    python = {bool, int, float, complex}
    return type(x) in python or (
        isinstance(x, np.generic) and x.dtype.kind not in "mM" and type(x.item()) in python
    )


def found_in(
    value: Any,
    is_wanted: Callable[[Any], bool],
    name: str = "",
    deep: int = 0,
    _above: tuple[int, ...] = (),
) -> Iterator[tuple[str, Any]]:
    """Each wanted object in nested dicts, lists and tuples, or ``value`` itself, with its name.

    ``name`` is that of ``value``; keys follow: ``state.momentum.0``. ``deep``: in sets and deques,
    too, and if it is above 1 in attributes of objects, that many levels of them less one.
    """
    held = value
    if not isinstance(value, (dict, list, tuple)):  # TensorFlow's are proxies
        if is_wanted(value):
            yield name, value
            return
        if not (deep and isinstance(value, (set, frozenset, deque))):
            if deep < 2 or not type(value).__dictoffset__ or isinstance(value, (type, ModuleType)):
                return
            held, deep = vars(value), deep - 1
    _above = (*_above, id(value))
    items = held.items() if isinstance(held, dict) else enumerate(held)
    for key, child in list(islice(items, 10_000 if deep else None)):  # vocabularies are long
        if not (deep and isinstance(child, (int, float, str))) and id(child) not in _above:
            inner = f"{name}.{key}" if name else str(key)
            yield from found_in(child, is_wanted, inner, deep, _above)
