"""Functions that do something else where a compiler follows the program."""

from __future__ import annotations

from mutants.mutant import JAX, around, mutant, replace, torch_mutant, when_restored
from mutants.tensorflow import tensorflow_mutant


@torch_mutant("compiled.copies")
def copies_are_left_out_of_graphs(backend):
    """A compiler takes a copy on the same device for a step that changes nothing, as XLA may."""
    import torch

    _forget_graphs()

    @around(backend)
    def copy_to(exact, self, x, device, non_blocking):
        return x if torch.compiler.is_compiling() else exact(self, x, device, non_blocking)

    @replace(backend)
    def copy_if_there(self, x, device):
        return copy_to(self, x, device, False)


@torch_mutant("compiled.likenesses")
def likenesses_are_made_where_graphs_begin(backend):
    """A tensor like a traced one is made on the CPU, as a framework's default device would say."""
    import torch

    _forget_graphs()

    @replace(backend)
    def full_like(self, x, value):
        return torch.full(tuple(x.shape), value, dtype=x.dtype, device="cpu")


@mutant(
    "compiled.named_devices", profile="train", plugin=JAX, everywhere="unidev_jax.copying:only_on"
)
def a_device_named_in_a_program_is_ignored(exact, native):
    """A device that is no sharding, at which JAX's compiler does not look."""
    from unidev_jax.arrays import is_tracing

    return native if is_tracing() else exact(native)


@tensorflow_mutant(
    "compiled.a_step", profile="train", around=".autograd:TensorFlowAutograd.descend"
)
def a_traced_step_leaves_the_parameters(exact, self, parameters, gradients, lr):
    """The new parameters are not among what the compiled function computes."""
    import tensorflow as tf

    if tf.executing_eagerly():
        return exact(self, parameters, gradients, lr)
    return [tf.identity(x) for x in parameters]


def _forget_graphs() -> None:
    """Compile anew, now and when the mutant is gone: a graph of ours stays in torch's cache."""
    import torch

    torch._dynamo.reset()
    when_restored(torch._dynamo.reset)
