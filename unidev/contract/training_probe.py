"""``AutogradProbe`` and ``ModelProbe``: what the conformance profile ``train`` needs.

Like ``Probe``, they use the framework's *own* calls, never the methods under test.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from unidev.contract.models import found_in
from unidev.contract.optional import BackendPart, declinable, optional

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from unidev.device import Device

    Optimizer = Any

    from unidev.contract.layers import Array, Model, Tensor


class AutogradProbe(BackendPart, ABC):
    """Gradients, through the framework's own calls."""

    @abstractmethod
    def gradients(
        self, function: Callable[..., Tensor], arrays: Sequence[Array], devices: Sequence[Device]
    ) -> Sequence[Tensor | None]:
        """The gradients of the sum of ``function(*xs)`` with respect to each ``x``.

        ``xs`` are tensors made from ``arrays`` on ``devices``. Returns the framework's own tensors,
        on the devices where the framework puts them; None where the sum does not depend on ``x``.
        """

    def detach(self, x: Tensor) -> Tensor:
        """``x``, detached from autograd."""
        return x.detach()

    second_order: Callable[[Callable[[Tensor], Tensor], Array, Device], Tensor] = optional(
        "gradients of gradients", "the framework has no gradients of gradients"
    )
    """``second_order(function, array, device)``: d/dx of the sum of (d/dx of the sum of
    ``function(x)``), a native tensor."""

    recomputed: Callable[[Callable[[Tensor], Tensor], Tensor], Tensor] = optional(
        "functions that backward computes again",
        "the framework has no function that backward computes again",
    )
    """``recomputed(function, x)``: ``function(x)``, of which backward needs nothing kept but ``x``.

    By what the framework's users have for that, even if it passes on no gradients of parameters."""

    passing: Callable[[Sequence[Tensor], Sequence[Tensor]], Tensor] = optional(
        "functions with a backward of the user's own",
        "the backend's probe makes no function with a backward of the user's own",
    )
    """``passing(xs, gradients)``: one element, for which a backward of the user's own returns these
    tensors, as they are, as the gradients of ``xs``."""

    taken: Callable[[Tensor, Sequence[int]], Tensor] = optional(
        "rows of a tensor, by their numbers, which the conformance suite can take",
        "the backend's probe takes no rows by their numbers",
    )
    """``taken(x, rows)``: the framework's own gather of these rows, of which some may be one."""

    is_differentiable: Callable[[Tensor], bool] = optional(
        "tensors have a flag for being differentiable",
        "the framework's tensors have no flag for being differentiable",
    )
    """The value of a tensor's flag (``requires_grad``), read while ``function`` runs."""


class ModelProbe(BackendPart, ABC):
    """Sample models and optimizers, through the framework's own calls."""

    @abstractmethod
    def model(self) -> Model:
        """A new model on the CPU, built, in training mode, with the same values each time.

        It maps float32 ``(n, 4)`` to ``(n, 4)``. It has two dense layers with one tied weight, a
        submodule that is shared (used in two places), a frozen parameter, statistics that training
        updates (batch norm), and, if the framework has them, a buffer that is saved and one not.
        """

    @abstractmethod
    def tensors(self, model: Model) -> Mapping[str, Tensor]:
        """Parameters and buffers under every name they have, gradients as ``NAME.grad``."""

    @abstractmethod
    def objects(self, model: Model) -> Sequence[object]:
        """The parameter objects that optimizers hold, and the submodules: none may be replaced."""

    @abstractmethod
    def tied(self, model: Model) -> Sequence[tuple[Tensor, Tensor]]:
        """Pairs that must be one tensor: the tied weight, as each of its layers has it."""

    @abstractmethod
    def shared(self, model: Model) -> Sequence[tuple[object, object]]:
        """Pairs that must be one submodule: the shared one, as found now at each of its places."""

    @abstractmethod
    def frozen(self, model: Model) -> frozenset[str]:
        """Names of the frozen parameters."""

    @abstractmethod
    def is_training(self, model: Model) -> bool | None:
        """Whether the model is in training mode; None if models have no mode."""

    @abstractmethod
    def set_inference(self, model: Model) -> None:
        """Leave training mode, if models have one."""

    @abstractmethod
    def forward(self, model: Model, x: Tensor) -> Tensor:
        """Inference, whatever the mode, on the model's device, without recording gradients."""

    @abstractmethod
    def optimizer(self, model: Model) -> Optimizer:
        """SGD with momentum, or another optimizer with state, for the model's parameters."""

    @abstractmethod
    def step(self, model: Model, optimizer: Optimizer, x: Tensor) -> None:
        """One training step on the output's sum of squares.

        It may leave gradients behind: of a frozen parameter, too, as if it were frozen since.
        """

    @abstractmethod
    def optimizer_tensors(self, optimizer: Optimizer) -> Mapping[str, Tensor]:
        """Its state after a step, except counters that the framework keeps on the CPU."""

    @declinable("existing optimizers keep working after `place(model, device)`")
    def earlier_optimizer(self, model: Model) -> Optimizer:
        """An optimizer that, before its first step, still works if ``model`` is placed without it.

        Override with ``unsupported(...)`` if optimizers must always be passed to ``place``.
        """
        return self.optimizer(model)

    add_hook: Callable[[Model, Callable[[], None]], None] = optional(
        "models have hooks", "the framework's models have no hooks"
    )
    """``add_hook(model, call)``: each forward calls ``call()``."""

    unbuilt: Callable[[], Model] = optional(
        "models whose parameters are created at the first call",
        "the framework's models have their parameters from the start",
    )
    """A model of the shapes above whose parameters are created by the first ``forward``."""

    spread: Callable[[], Model] = optional(
        "models that have a copy of each parameter on every device",
        "the framework itself does not spread a model over several devices",
    )
    """A model that has a copy of each parameter on several devices; needs two GPUs."""

    joining: Callable[[], Model] = optional(
        "layers that pass on containers",
        "the backend's probe makes no net whose layers pass on more than a tensor",
    )
    """A net that calls two layers, built and on the CPU, the same each time, that maps ``(n, 4)``.

    The first returns two tensors in a container, which the second takes."""

    unsaved: Callable[[Model], Collection[str]] = optional(
        "buffers that are not saved", "the backend's probe makes no buffer that is not saved"
    )
    """``unsaved(model)``: the buffers that checkpoints leave out, as ``tensors`` names them."""

    compiled: Callable[[], Model] = optional("compiled models", "the framework compiles no models")
    """A model of the shapes above, built and on the CPU, of which the framework compiles all."""

    remembering: Callable[[bool], tuple[Model, Callable[[], object]]] = optional(
        "models that keep their device in an attribute",
        "the framework's models keep no device beside their tensors",
    )
    """``remembering(refuses)``: a model on the CPU that keeps its native device in an attribute,
    and what reads that; with ``refuses``, one whose last part refuses to be moved."""

    keeping: Callable[[Tensor], Model] = optional(
        "models that keep tensors without registering them",
        "the backend's probe makes no model that keeps a tensor without registering it",
    )
    """``keeping(x)``: a model on the CPU with parameters, whose attribute ``kept`` is ``[x]``."""

    embedding: Callable[[Device], tuple[Tensor, Tensor]] = optional(
        "gradients in the parameters, also sparse ones",
        "the framework stores no gradients in the parameters",
    )
    """The weight of an embedding on the device, looked up twice, and its gradient, stored so."""

    wrapping_optimizer: Callable[[Model], tuple[Optimizer, Callable[[], Any]]] = optional(
        "optimizers that wrap others", "the backend's probe makes no optimizer that wraps another"
    )
    """An optimizer that keeps another one in an attribute, as SAM does, and what returns the
    state of that one, which the first step makes, by name."""

    counting_optimizer: Callable[[Model, bool], Optimizer] = optional(
        "optimizers that count their steps",
        "the backend's probe makes no optimizer that counts its steps",
    )
    """``counting_optimizer(model, is_other)``: one that counts its steps, such as Adam.

    If the framework has groups of parameters, those of the model are in two, with learning rates of
    their own. With ``is_other``, the settings that ``optimizer_state`` keeps are others."""

    holding: Callable[[Mapping[str, Tensor], Mapping[str, Tensor]], Model] = optional(
        "models of given tensors", "the backend's probe makes no models of given tensors"
    )
    """``holding(parameters, buffers)``: a model on the CPU with these values.

    ``tensors`` lists them by the same names. A tensor under two names is one parameter at two
    places. The model is never called.

    Raises:
        UnsupportedDtypeError: the framework's models hold no tensors of that dtype.
        UnsupportedOperation: they hold no tensors without elements, and one is among them."""


class SampleProbe(ModelProbe):
    """The fast way to ``ModelProbe``, where models are objects that hold tensors in attributes.

    ``model`` makes one with two layers ``first`` and ``second`` of one ``weight``; a layer as
    ``block`` and ``again``; the parameters of ``frozen_names``; a batch norm or the like; a flag
    ``is_training``, by which it computes; called as ``model(x)``. ``optimizer``, ``step``,
    ``optimizer_tensors`` and ``kept`` are the framework's.
    """

    frozen_names: frozenset[str] = frozenset({"scale"})

    @abstractmethod
    def kept(self, x: Tensor, is_parameter: bool) -> Tensor:
        """``x`` as a model keeps it on the CPU: a parameter, or a buffer."""

    def holding(self, parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor]) -> Model:
        """An object of the class of ``model`` with these attributes, by ``kept``."""
        held = object.__new__(type(self.model()))
        one_each: dict[int, Tensor] = {}
        for is_parameter, tensors in ((True, parameters), (False, buffers)):
            for name, x in tensors.items():
                if id(x) not in one_each:
                    one_each[id(x)] = self.kept(x, is_parameter)
                vars(held)[name] = one_each[id(x)]
        return held

    def gradient(self, x: Tensor) -> Tensor | None:  # noqa: ARG002
        """The gradient that the framework keeps with ``x``, such as ``x.grad``."""
        return None

    def tensors(self, model: Model) -> Mapping[str, Tensor]:
        """As the attributes lead to them."""
        is_tensor = lambda x: isinstance(x, self.backend.tensor_types)  # noqa: E731
        found = dict(found_in(vars(model), is_tensor, deep=4))
        gradients = {f"{name}.grad": self.gradient(x) for name, x in found.items()}
        return found | {name: x for name, x in gradients.items() if x is not None}

    def objects(self, model: Model) -> Sequence[object]:
        """Tensors, but gradients, and layers."""
        kept = [x for name, x in self.tensors(model).items() if not name.endswith(".grad")]
        return [*kept, model.first, model.second, model.block]

    def tied(self, model: Model) -> Sequence[tuple[Tensor, Tensor]]:
        """The weight."""
        return [(model.first.weight, model.second.weight)]

    def shared(self, model: Model) -> Sequence[tuple[object, object]]:
        """The block."""
        return [(model.block, model.again)]

    def frozen(self, model: Model) -> frozenset[str]:  # noqa: ARG002
        """By ``frozen_names``."""
        return self.frozen_names

    def is_training(self, model: Model) -> bool | None:
        """The flag."""
        return bool(model.is_training)

    def set_inference(self, model: Model) -> None:
        """The flag."""
        model.is_training = False

    def forward(self, model: Model, x: Tensor) -> Tensor:
        """With the flag cleared."""
        before, model.is_training = model.is_training, False
        try:
            return model(x)
        finally:
            model.is_training = before
