"""Trees that stay behind, and immutable ones that are changed."""

from __future__ import annotations

from mutants.mutant import toy_mutant
from unidev.tensors.containers import replace_tensors


@toy_mutant("trees.placed_anew", everywhere="unidev.models.trees:placed")
def a_new_tree_stays_on_the_old_device(sound, tree, optimizer, device, owner):
    """The tree is rebuilt of the tensors that it had: ``jax.tree.map`` of ``jnp.copy``."""

    def same_place(x, _):
        return owner.copy_to(x, owner.device_of(x), False)

    return replace_tensors(same_place, tree), optimizer


@toy_mutant("trees.placed_anew", everywhere="unidev.models.trees:placed")
def only_dicts_and_lists_are_placed(all_placed, tree, optimizer, device, owner):
    """A dataclass and its arrays stay behind: an Equinox module that no registry knows."""
    new, state = all_placed(tree, optimizer, device, owner)
    if type(new) is dict:
        new = {**new, "layer": tree["layer"]}
    return new, state


@toy_mutant(
    "trees.placed_anew",
    "trees.loaded_anew",
    "trees.trained_anew",
    around="unidev.tensors.containers:Opened.mapped",
)
def a_tree_comes_apart(tied, self, function):
    """A tensor in two places becomes two: tied weights in JAX's plain pytrees."""
    from toy_backend import framework as toy

    new = tied(self, function)
    if new is self._tree or type(new) is not dict or "layer" not in new:
        return new
    rest, (point,) = new["rest"]
    apart = type(point)(point.x, toy.put(point.y, point.y.device))
    return {**new, "rest": (rest, [apart])}


@toy_mutant("trees.optimizer_state_placed", everywhere="unidev.models.trees:placed")
def the_state_of_an_optimizer_stays_behind(all_placed, tree, optimizer, device, owner):
    """Only the parameters are placed: a ``device_put`` of them, and not of optax's state."""
    return all_placed(tree, None, device, owner)[0], optimizer


@toy_mutant("trees.loaded_anew", everywhere="unidev.models.trees:rebuilt")
def a_checkpoint_is_loaded_into_the_old_tree(rebuilt, tree, old, new):
    """The arrays that it is given are written to, though nothing may change them."""
    for x, y in zip(old, new, strict=True):
        x.values.flags.writeable = True
        x.values[...] = y.values
    return rebuilt(tree, old, new)
