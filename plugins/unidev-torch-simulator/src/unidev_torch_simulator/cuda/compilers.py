"""Compilers of kernels for CUDA, refused in words: there is no GPU to run what they make.

Each is a module that torch does not import by itself; it is patched when a program imports it.
"""

from __future__ import annotations

import inspect
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

from unidev_torch_simulator.cuda.devices import compiler
from unidev_torch_simulator.cuda.refused import refusing

if TYPE_CHECKING:
    from collections.abc import Callable

_EXTENSIONS = "kernels that nvcc compiles run on a GPU only; C++ extensions for the CPU can be had"


def _patch_inductor(module: Any) -> None:
    # Each graph of torch.compile, forward or backward, passes here; earlier than where Inductor
    # says "install triton", and than its benchmarks on the device (2.9 to 2.14).
    compile_graph = module._compile_fx_inner
    refuse = refusing(
        "compiler of TorchInductor",
        "Triton's kernels run on a GPU only; torch.compile(backend='aot_eager') traces and "
        "differentiates as Inductor does, and 'eager' traces only; "
        "`unidev simulate --compile eager` uses that in place of Inductor",
    )

    def _compile_fx_inner(graph: Any, inputs: Any, *given: Any, **named: Any) -> Any:
        values = [node.meta.get("val") for node in graph.graph.nodes]
        if any(_is_on_cuda(value) for value in (*values, *inputs)):
            refuse()
        return compile_graph(graph, inputs, *given, **named)

    module._compile_fx_inner = _compile_fx_inner
    if backend := compiler():
        _replace_inductor(module, backend)


def _replace_inductor(module: Any, backend: str) -> None:
    # What torch.compile calls for `inductor`, its default, with the graph that it has traced.
    compile_by_inductor = module.compile_fx

    def compile_fx(graph: Any, inputs: Any, *given: Any, **named: Any) -> Any:
        is_ahead_of_time = given or "inner_compile" in named  # and would write files of code
        values = [node.meta.get("example_value") for node in graph.graph.nodes]
        if is_ahead_of_time or not any(_is_on_cuda(value) for value in (*values, *inputs)):
            return compile_by_inductor(graph, inputs, *given, **named)
        from torch._dynamo import lookup_backend

        _say_once(backend)
        return lookup_backend(backend)(graph, inputs)

    module.compile_fx = compile_fx


@cache
def _say_once(backend: str) -> None:
    sys.stderr.write(
        f"unidev: torch.compile uses {backend!r} in place of Inductor on simulated GPUs "
        "(UNIDEV_SIMULATE_COMPILE).\n"
    )


def _is_on_cuda(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(_is_on_cuda(each) for each in value)
    return getattr(getattr(value, "device", None), "type", None) == "cuda"


def _patch_extensions(module: Any) -> None:
    # Else "CUDA_HOME environment variable is not set", which installing CUDA does not mend.
    module.CUDAExtension = refusing("CUDAExtension", _EXTENSIONS)
    compile_now = module._jit_compile
    signature = inspect.signature(compile_now)

    def _jit_compile(*given: Any, **named: Any) -> Any:
        arguments = signature.bind(*given, **named).arguments
        with_cuda = arguments.get("with_cuda")
        if with_cuda is None:
            with_cuda = any(map(module._is_cuda_file, arguments["sources"]))
        if with_cuda:
            refusing("extensions with sources for CUDA", _EXTENSIONS)()
        return compile_now(*given, **named)

    module._jit_compile = _jit_compile


def _patch_triton(module: Any) -> None:
    # Triton believes torch.cuda.is_available(), then looks for the driver's library. Where there is
    # one, kernels would get addresses of the host's memory.
    module.CudaDriver.is_active = staticmethod(
        refusing("Triton", "its kernels run on a GPU only; TRITON_INTERPRET=1 runs some on the CPU")
    )


PATCHES: dict[str, Callable[[Any], None]] = {
    "torch._inductor.compile_fx": _patch_inductor,
    "torch.utils.cpp_extension": _patch_extensions,
    "triton.backends.nvidia.driver": _patch_triton,
}
"""By the name of the module that each patches."""
