"""Containers that come back as something else, or not in full."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import optree

from mutants.mutant import around, in_place_of, mutant, replace, replace_value
from unidev.errors import CircularContainerError, DeviceMismatchError
from unidev.tensors import containers, contents, hidden_tensors, taking_apart
from unidev.tensors.containers import _flatten, replace_tensors
from unidev.tensors.hidden_tensors import Movable, path_to_tensor

if TYPE_CHECKING:
    from collections.abc import Callable


def _change_trees(change: Callable[[Any], Any]) -> None:
    """Let ``change`` see each container of what was mapped, the inner ones first."""

    def walk(tree: Any) -> Any:
        if isinstance(tree, dict):
            for key, value in tree.items():
                tree[key] = walk(value)
        elif type(tree) in (list, tuple):
            tree = type(tree)(walk(value) for value in tree)
        return change(tree)

    @in_place_of(replace_tensors)
    def mapped(function: Any, tree: Any, **how: Any) -> Any:
        moved = replace_tensors(function, tree, **how)
        return moved if moved is tree else walk(moved)


@mutant("containers.dict_list_tuple")
def tuples_become_lists(backend):
    """A tuple comes back as a list: torch's ``DataLoader`` collating pairs."""
    _change_trees(lambda tree: list(tree) if type(tree) is tuple else tree)


@mutant("containers.dict_list_tuple", everywhere="unidev.tensors.containers:replace_tensors")
def only_the_first_level_moves(replace_tensors, function, tree, **how):
    """What is nested deeper stays behind: ``{k: v.to(d) for k, v in batch.items()}``."""
    moved = replace_tensors(function, tree, **how)
    if type(tree) is not dict:
        return moved
    return {key: tree[key] if type(tree[key]) in (dict, list, tuple) else value
            for key, value in moved.items()}  # fmt: skip


@mutant("containers.named_and_registered_containers")
def namedtuple_becomes_tuple(backend):
    """Its fields' names are lost: ``type(x)(…)`` written for plain tuples."""
    _change_trees(lambda tree: tuple(tree) if hasattr(tree, "_fields") else tree)


@mutant("containers.named_and_registered_containers")
def defaultdict_becomes_dict(backend):
    """Its default is lost: ``{k: … for k, v in batch.items()}``."""
    _change_trees(lambda tree: dict(tree) if type(tree) is defaultdict else tree)


@mutant("containers.named_and_registered_containers")
def attributes_are_lost(backend):
    """``state_dict()._metadata`` is gone: a container is what its items are, in every pytree."""

    @replace(containers)
    def holds_more(x):
        return False


@mutant("containers.named_and_registered_containers")
def dataclass_skipped(backend):
    """Its tensors stay where they are, and nothing is said: accelerate's ``send_to_device``."""

    def is_dataclass(x):
        return hasattr(type(x), "__dataclass_fields__")

    @replace(containers)
    def _flatten(tree):
        import optree

        return optree.tree_flatten(tree, is_leaf=is_dataclass, namespace=taking_apart.NAMESPACE)

    @around(containers.Opened)
    def _way_into(way_into, self, position, leaf, kind):
        return None if is_dataclass(leaf) else way_into(self, position, leaf, kind)

    @in_place_of(replace_tensors)
    def mapped(function, tree, **how):
        return tree if is_dataclass(tree) else replace_tensors(function, tree, **how)


@mutant(
    "containers.shared_leaf_stays_shared",
    "sequences.of_tensors",
    everywhere="unidev.tensors.containers:replace_tensors",
)
def shared_leaf_duplicated(replace_tensors, function, tree, **how):
    """A tensor that stands twice becomes two: tied weights after accelerate's transfer."""
    import optree

    leaves, structure = _flatten(tree)
    # Each leaf in a list of its own, so that none is seen twice.
    return optree.tree_unflatten(
        structure, [replace_tensors(function, [x], **how)[0] for x in leaves]
    )


@mutant("containers.non_tensors_untouched", everywhere="unidev.tensors.containers:replace_tensors")
def numbers_become_tensors(replace_tensors, function, tree, **how):
    """A label that was a number becomes a tensor: torch's ``default_convert``, ``tf.nest``."""
    import optree

    leaves, structure = _flatten(replace_tensors(function, tree, **how))
    made = [np.asarray(x) if type(x) in (int, float) else x for x in leaves]
    return optree.tree_unflatten(structure, made)


@mutant("containers.key_order")
def keys_sorted(backend):
    """A dict comes back in the order of its keys: JAX's and optree's own pytrees."""
    _change_trees(lambda tree: dict(sorted(tree.items())) if type(tree) is dict else tree)


@mutant("containers.cycles_raise", everywhere="unidev.tensors.containers:replace_tensors")
def cycles_are_left_alone(replace_tensors, function, tree, **how):
    """A container in itself is passed through, tensors and all, as if it held none."""
    try:
        return replace_tensors(function, tree, **how)
    except CircularContainerError:
        return tree


@mutant("containers.mismatch_names_paths", around="unidev.tensors.checks:_check_one")
def mismatch_names_nobody(check_one, found):
    """Which tensor is elsewhere is left to guess: torch's "found at least two devices"."""
    try:
        check_one(found)
    except DeviceMismatchError as error:
        raise DeviceMismatchError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{' and '.join(sorted(map(str, {device for _, device in found})))}!"
        ) from error


_OBJECTS = "containers.objects_with_tensors_are_refused"


@mutant(_OBJECTS)
def slots_are_not_looked_at(backend):
    """Only the ``__dict__`` of an object is looked at: ``vars(x)``, as most walkers do."""

    def sees(x, counts_numpy):
        return path_to_tensor(x, counts_numpy=counts_numpy) if hasattr(x, "__dict__") else None

    _look_otherwise(sees)


@mutant(_OBJECTS)
def slots_of_bases_are_not_looked_at(backend):
    """``type(x).__slots__`` are all: those of a subclass hide those of its base."""
    every = contents.attributes_of

    @in_place_of(every)
    def attributes_of(cls):
        own = cls.__dict__.get("__slots__")
        return every(cls) if own is None else [each for each in every(cls) if each[1] in own]


@mutant(_OBJECTS)
def only_attributes_are_looked_at(backend):
    """The lists and objects in an object's attributes are not gone into."""

    replace_value(hidden_tensors, "_DEEPEST", 1)


@mutant(_OBJECTS)
def objects_are_refused_without_a_path(backend):
    """Where the tensor is found is left to guess."""

    _look_otherwise(lambda x, counts_numpy: path_to_tensor(x, counts_numpy=counts_numpy) and "?")


@mutant("containers.objects_without_tensors_pass")
def a_method_to_is_taken_as_evidence(backend):
    """What has a ``to`` is refused, tensors or not: transformers' and Fabric's ``hasattr``."""
    _look_otherwise(lambda x, counts_numpy: ".to" if hasattr(type(x), "to") else None)


@mutant("containers.objects_without_tensors_pass")
def attributes_are_asked_for(backend):
    """The object's own code runs: ``getattr`` on whatever stands in a batch."""

    def sees(x, counts_numpy):
        _ = getattr(x, "device", None)
        return path_to_tensor(x, counts_numpy=counts_numpy)

    _look_otherwise(sees)


def _look_otherwise(sees: Callable[[Any, bool], str | None]) -> None:

    @in_place_of(hidden_tensors.path_to_tensor)
    def path_to_tensor(x: Any, *, counts_numpy: bool) -> str | None:
        return sees(x, counts_numpy)


@mutant("containers.mappings_that_are_dataclasses", everywhere="unidev.tensors.contents:contents")
def items_of_a_dataclass_stay_behind(contents, x, most=None):
    """Its fields move, its items do not: ``transformers.ModelOutput`` walked as a dataclass."""
    return (pair for pair in contents(x, most) if pair[0][0])


@mutant("containers.mappings_that_are_dataclasses")
def subclasses_are_not_covered(backend):
    """Registration means exactly one class: pytrees of JAX and PyTorch."""

    replace_value(taking_apart, "_is_known", lambda cls: False)


_KINDS = "containers.kinds_that_need_no_registration"


@mutant(_KINDS)
def opened_containers_share_their_state(backend):
    """The copy has the lists and attributes of the source, changed in place: PyG's ``to``."""

    def build(template, children):
        for (is_attribute, key), child in zip(
            [step for step, _ in taking_apart.contents(template)], children, strict=True
        ):
            if is_attribute:
                object.__setattr__(template, key, child)
        return template

    in_place_of(taking_apart.build_of_contents)(build)


def _change_what_is_built(change: Callable[[Any], Any]) -> None:
    """``change`` each container that is built of its contents."""

    build = taking_apart.build_of_contents

    @in_place_of(taking_apart.build_of_contents)
    def build_of_contents(template: Any, children: Any) -> Any:
        return change(build(template, children))


@mutant(_KINDS)
def items_of_a_list_of_its_own_are_lost(backend):
    """A subclass of list comes back empty: ``cls.__new__`` and its attributes, no items."""

    def emptied(made):
        if isinstance(made, list):
            del made[:]
        return made

    _change_what_is_built(emptied)


_OWN_TO = "containers.objects_that_move_themselves"


@mutant(_OWN_TO)
def objects_are_not_looked_at_again(backend):
    """What an object's ``to`` returns is believed: accelerate's and Fabric's transfers."""

    @replace(Movable)
    def _check(self, made, device): ...


@mutant("containers.dict_list_tuple")
def the_rest_is_that_of_the_class(backend):
    """What is no tensor in an object of a registered class is kept for the next one."""
    # Not above: it registers containers as it is imported, for which plugins are looked for.
    from unidev_conformance.kit.inputs.containers import Custom

    notes: list[Any] = []

    def flattened(custom):
        notes.append(custom.note)
        return custom.parts, notes[0], [f"[{number}]" for number in range(len(custom.parts))]

    optree.unregister_pytree_node(Custom, namespace=taking_apart.NAMESPACE)
    built = lambda note, parts: Custom(list(parts), note)  # noqa: E731
    taking_apart.register(Custom, (flattened, built))
