"""Torch's modules: the tensors of a model, moving them together, reading and writing them."""

from __future__ import annotations

import copy
import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from unidev.contract import Models, Stored
from unidev.errors import UnsupportedOperation
from unidev_torch.models import allocating, graphs, optimizers, swap, tree
from unidev_torch.tensors import unstorable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from unidev.contract import Array, Device
    from unidev_torch.models.swap import Part


class TorchModels(Models):
    """Tensors stay the same objects and get other memory: parameters, buffers, gradients."""

    # -- the tensors of a model --------------------------------------------------------------------

    def parameters(self, model: torch.nn.Module) -> Mapping[str, torch.Tensor]:
        """In the order and with the names of ``named_parameters``."""
        named = tree.named_parameters(model)
        if not {torch.nn.Parameter}.issuperset(map(type, named.values())) and any(
            isinstance(x, tree.LAZY) for x in named.values()
        ):
            _refuse_lazy(model, "the parameters")
        return named

    def trainable(self, model: torch.nn.Module) -> Mapping[str, torch.Tensor]:
        """Parameters that require a gradient."""
        return {name: x for name, x in self.parameters(model).items() if x.requires_grad}

    def tensors(self, model: torch.nn.Module) -> Mapping[str, torch.Tensor]:
        """Includes the parameters of lazy modules, whose device is known already."""
        return dict(tree.named_tensors(model))

    registering = "with register_buffer, or modules in a torch.nn.ModuleList"

    layers = staticmethod(tree.modules_of)

    def beside(self, layer: torch.nn.Module) -> Iterator[tuple[str, Any]]:
        """Without results of computations, which the next forward pass replaces, and ``meta``."""
        for name, x in tree.beside(layer):
            if isinstance(x, torch.nn.Module) or (x.is_leaf and not x.is_meta):
                yield name, x

    def statistics(self, model: torch.nn.Module) -> Mapping[str, torch.Tensor]:
        """The buffers of batch norms and the like."""
        return tree.named_buffers(model, self.statistics_names)

    # -- moving it ---------------------------------------------------------------------------------

    places_optimizers = True

    def place(self, model: torch.nn.Module | None, device: Device, optimizer: Any = None) -> Any:
        """Not if Accelerate's hooks would go on sending inputs elsewhere."""
        if model is None:
            return super().place(model, device, optimizer)
        modules = tree.modules_of(model)
        tree.check_hooks(modules, device.native)
        with graphs.moved(modules, device.native):
            placed = super().place(model, device, optimizer)
        tree.remember(modules, device.native)
        return placed

    def parts(self, model: torch.nn.Module | None, optimizer: Any) -> Sequence[Part]:
        """One part for each storage, in the order of the modules; the optimizer's come last."""
        found = [] if model is None else tree.modules_of(model)
        tree.check_modules(found)
        named = tree.tensors_in(found)
        tree.check_tensors(named)
        if optimizer is not None:
            named.extend(optimizers.named_tensors(optimizer, model))
        return swap.parts_of(named)

    def twin(self, part: Part, device: Device) -> Part:
        """The same values, with the same strides where they are dense."""
        is_simulated = self.backend.simulated_count > 0
        return swap.twin_of(part, device.native, is_simulated=is_simulated)

    def swap(self, part: Part, twin: Part) -> None:
        """Exchanges ``x.data``, as ``Module.to`` does."""
        swap.swap(part, twin)

    def is_on(self, part: Part, device: Device) -> bool:
        """Whether all tensors that share this memory are on ``device``."""
        native = device.native
        return all([x.device == native for x in part.tensors])  # noqa: C419  a list is faster

    def is_placed(self, model: torch.nn.Module, device: Device) -> bool:
        """False if in doubt: ``parts`` then looks closer."""
        return tree.is_on(model, device.native)

    def finish(self, model: torch.nn.Module | None, optimizer: Any, device: Device) -> Any:
        """Let modules that override ``_apply`` move what is not registered with them."""
        if model is not None:
            tree.move_what_else(model, device.native)
        return optimizer

    # -- several devices ---------------------------------------------------------------------------

    def copy(self, model: torch.nn.Module) -> torch.nn.Module:
        """Without TorchScript's histories (2.13); results, which ``deepcopy`` refuses, keep one."""
        with torch.enable_grad():
            kept = {id(x): x.detach().requires_grad_().clone() for x in tree.results_in(model)}
        made = copy.deepcopy(model, kept)
        for _, x in tree.named_tensors(made):
            if not x.is_leaf:
                x.detach_().requires_grad_()
        return made

    def namespaces(self, model: torch.nn.Module) -> Iterable[dict[str, Any]]:
        """The attributes, parameters and buffers of each module."""
        for _, module in tree.modules_of(model):
            for found in (module.__dict__, module._parameters, module._buffers):
                if isinstance(found, dict):  # not those of a ScriptModule
                    yield found

    def adapt(self, model: torch.nn.Module, device: Device) -> None:
        """As in ``finish``, without RNNs, whose flat weights are among the twins."""
        graphs.check_replica(tree.modules_of(model), device)
        tree.move_what_else(model, device.native, also_rnns=False)

    # -- checkpoints -------------------------------------------------------------------------------

    def stored(self, model: torch.nn.Module) -> Mapping[str, Stored]:
        """``state_dict``: its names and layouts are the portable ones.

        Raises:
            UnsupportedOperation: an item is not a tensor of the model that could be written to.
        """
        if tree.lazy_name(model) is not None:
            _refuse_lazy(model, "a checkpoint")
        own = {id(x) for _, x in tree.named_tensors(model)}
        state = model.state_dict(keep_vars=True)
        for name, x in state.items():
            if id(x) not in own:
                raise UnsupportedOperation(
                    f"a checkpoint of a {type(model).__name__}",
                    f"its state_dict has {name!r}, of type {type(x).__name__}, which is not a "
                    "parameter or buffer of the model (get_extra_state, or a hook): use torch.save",
                )
        return {name: Stored(x) for name, x in state.items()}

    unstorable = staticmethod(unstorable)

    def lacks_memory(self, x: torch.Tensor) -> bool:
        """On ``meta``."""
        return x.is_meta

    def allocated(self, model: torch.nn.Module, device: Device) -> AbstractContextManager[None]:
        """The same objects, with memory; of what no file has, ``reset_parameters`` is asked."""
        return allocating.allocated(model, device.native)

    def bare_names(self, names: Collection[str]) -> Mapping[str, str]:
        """Without ``_orig_mod.`` of ``torch.compile`` anywhere, and ``module.`` before them all.

        That is of torch's ``DataParallel``; one that is not before all names is a module's own.
        """
        compiled = {name: name.replace("_orig_mod.", "") for name in names}
        if not all(bare.startswith("module.") for bare in compiled.values()):
            return compiled
        return {name: bare.removeprefix("module.") for name, bare in compiled.items()}

    def read(self, x: torch.Tensor) -> Array:
        """The tensor's own memory, if that is on the CPU."""
        values = x.detach().cpu().resolve_conj().resolve_neg()
        bits = values.view(torch.uint16) if x.dtype is torch.bfloat16 else values
        array: Array = bits.numpy()
        return array

    def write(self, x: torch.Tensor, values: Array) -> None:
        """``copy_``, which autograd's version counters see."""
        if values.size == 0:
            return
        values = np.ascontiguousarray(values)
        # By address: torch warns of read-only arrays, such as those of a mapped file.
        raw = (ctypes.c_byte * values.nbytes).from_address(values.ctypes.data)
        host = torch.frombuffer(raw, dtype=x.dtype).reshape(x.shape)
        with torch.inference_mode() if x.is_inference() else torch.no_grad():
            x.copy_(host)

    # -- optimizers --------------------------------------------------------------------------------

    optimizer_state = staticmethod(optimizers.state_of)

    def load_optimizer_state(
        self,
        model: torch.nn.Module,  # noqa: ARG002
        optimizer: torch.optim.Optimizer,
        state: Mapping[str, Array],
    ) -> None:
        """By ``load_state_dict``."""
        optimizers.load_state(optimizer, state)


def _refuse_lazy(model: torch.nn.Module, what: str) -> None:
    raise UnsupportedOperation(
        f"{what} of this {type(model).__name__}",
        f"{tree.lazy_name(model)!r} has no shape yet: call the model with a batch once",
    )
