"""Gradients: the framework differentiates functions with respect to their arguments."""

from collections.abc import Callable, Mapping, Sequence

from toy_backend import framework as toy
from unidev import Autograd, unsupported


class ToyAutograd(Autograd):
    no_grad = unsupported("toy records nothing outside of a function that it differentiates")

    def leaf(self, x: toy.Array) -> toy.Array:
        return x  # any array may be an argument

    def of_tensors(
        self, loss_of: Callable[[Sequence[toy.Array]], toy.Array], leaves: Sequence[toy.Array]
    ) -> tuple[toy.Array, Sequence[toy.Array | None]]:
        return toy.value_and_grad(lambda *traced: loss_of(traced))(*leaves)

    def descend(
        self, parameters: Sequence[toy.Array], gradients: Sequence[toy.Array], lr: float
    ) -> list[toy.Array]:
        return [
            x.set(x - gradient * lr) if isinstance(x, toy.Variable) else x - gradient * lr
            for x, gradient in zip(parameters, gradients, strict=True)
        ]

    def of_model(
        self,
        loss_of: Callable[[object], toy.Array],
        model: object,
        trainable: Mapping[str, toy.Variable],
    ) -> tuple[toy.Array, Sequence[toy.Array | None]]:
        return toy.value_and_grad_of_model(loss_of, model, list(trainable.values()))
