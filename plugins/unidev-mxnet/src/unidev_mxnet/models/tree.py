"""The parameters of a Gluon model, and every path that leads to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mxnet.gluon import Block, Constant, Parameter, ParameterDict  # type: ignore[import-untyped]

from unidev.errors import UnsupportedOperation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unidev.contract import Model


def blocks_of(model: Model) -> Iterator[tuple[str, Block]]:
    """``model`` and the blocks in it, each at every place, by path."""
    yield "", model
    for name, child in model._children.items():
        for path, block in blocks_of(child):
            yield f"{name}.{path}" if path else name, block


def parameters_of(model: Model) -> Iterator[tuple[str, Parameter]]:
    """Parameters, buffers included, by Gluon's structural names, those of ``save_parameters``.

    Raises:
        UnsupportedOperation: this is an MXNet model, but not one of Gluon's.
    """
    if isinstance(model, Block):
        for path, block in blocks_of(model):
            for name, parameter in _own_parameters(block):
                yield f"{path}.{name}" if path else name, parameter
    elif isinstance(model, ParameterDict):
        yield from model.items()
    elif isinstance(model, Parameter):
        yield model.name, model
    else:
        raise UnsupportedOperation(
            f"looking into a {type(model).__name__}",
            "it is a graph, as a hybridized block gets in place of arrays: call this outside of "
            "the block. mx.gluon.SymbolBlock makes a model of a Symbol",
        )


def hidden_parameters(model: Model) -> Iterator[tuple[str, Parameter]]:
    """Parameters that ``optimize_for`` created, which belong to no block."""
    if not isinstance(model, Block):
        return
    for path, block in blocks_of(model):
        if getattr(block, "_backend", None):
            known = {id(parameter) for _, parameter in parameters_of(block)}
            for is_argument, parameter in block._cached_op_args:
                if not is_argument and id(parameter) not in known:
                    yield f"{path}.{parameter.name}" if path else parameter.name, parameter


def is_buffer(parameter: Parameter) -> bool:
    """Whether it is what Gluon uses as a buffer: optimizers never change it."""
    return isinstance(parameter, Constant) or not parameter._differentiable


def array_of(name: str, parameter: Parameter) -> Any:
    """The one array of ``parameter``.

    Raises:
        UnsupportedOperation: there is no array yet, or several.
    """
    arrays = parameter._data
    if arrays is not None and len(arrays) == 1:
        return arrays[0]
    if arrays is not None:
        raise spread(name, parameter)
    raise unbuilt(name, parameter)


def spread(name: str, parameter: Parameter) -> UnsupportedOperation:
    """The error about a parameter that Gluon keeps on several devices."""
    contexts = ", ".join(str(context) for context in parameter.list_ctx())
    return UnsupportedOperation(
        f"placing or reading {name!r}, which is on several devices at once ({contexts}),",
        "there is no single copy to take: net.collect_params().reset_ctx(mx.cpu()) leaves "
        "one, the mean of all",
    )


def unbuilt(name: str, parameter: Parameter) -> UnsupportedOperation:
    """The error about a parameter that has no memory yet."""
    if parameter._deferred_init:
        remedy = (
            "its shape is unknown before the first forward: call the model with one batch, or "
            "make its layers with in_units, in_channels"
        )
    else:
        remedy = "the model has not been initialized: net.initialize(ctx=device.native)"
    return UnsupportedOperation(f"reading or placing {name!r}, which has no memory yet,", remedy)


def _own_parameters(block: Block) -> Iterator[tuple[str, Parameter]]:
    """Parameters that are attributes, and others made by ``block.params.get``."""
    yield from block._reg_params.items()
    if len(block._params._params) > len(block._reg_params):
        attributes = {id(parameter) for parameter in block._reg_params.values()}
        for name, parameter in block._params.items():
            if id(parameter) not in attributes:
                yield (
                    name[len(block.prefix) :] if name.startswith(block.prefix) else name,
                    parameter,
                )
