"""Containers that come back as something else, or not in full."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING, Any

from mutants.mutant import in_place_of, mutant, replace, replace_value

if TYPE_CHECKING:
    from collections.abc import Callable


def _change_trees(change: Callable[[Any], Any]) -> None:
    """Let ``change`` see each container of what was mapped, the inner ones first."""
    from unidev.tensors.containers import replace_tensors

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
def tuples_become_lists(backend: Any) -> None:
    """A tuple comes back as a list: torch's ``DataLoader`` collating pairs."""
    _change_trees(lambda tree: list(tree) if type(tree) is tuple else tree)


@mutant("containers.dict_list_tuple")
def only_the_first_level_moves(backend: Any) -> None:
    """What is nested deeper stays behind: ``{k: v.to(d) for k, v in batch.items()}``."""
    from unidev.tensors.containers import replace_tensors

    @in_place_of(replace_tensors)
    def mapped(function: Any, tree: Any, **how: Any) -> Any:
        moved = replace_tensors(function, tree, **how)
        if type(tree) is not dict:
            return moved
        return {key: tree[key] if type(tree[key]) in (dict, list, tuple) else value
                for key, value in moved.items()}  # fmt: skip


@mutant("containers.named_and_registered_containers")
def namedtuple_becomes_tuple(backend: Any) -> None:
    """Its fields' names are lost: ``type(x)(…)`` written for plain tuples."""
    _change_trees(lambda tree: tuple(tree) if hasattr(tree, "_fields") else tree)


@mutant("containers.named_and_registered_containers")
def defaultdict_becomes_dict(backend: Any) -> None:
    """Its default is lost: ``{k: … for k, v in batch.items()}``."""
    _change_trees(lambda tree: dict(tree) if type(tree) is defaultdict else tree)


@mutant("containers.named_and_registered_containers")
def ordered_dict_becomes_dict(backend: Any) -> None:
    """It is no ``OrderedDict`` any more: the same comprehension."""
    _change_trees(lambda tree: dict(tree) if type(tree) is OrderedDict else tree)


@mutant("containers.named_and_registered_containers")
def dataclass_skipped(backend: Any) -> None:
    """Its tensors stay where they are, and nothing is said: accelerate's ``send_to_device``."""
    from unidev.tensors import taking_apart
    from unidev.tensors.containers import replace_tensors

    way_into = taking_apart.TakenApart._way_into

    def is_dataclass(x: object) -> bool:
        return hasattr(type(x), "__dataclass_fields__")

    @replace(taking_apart)
    def _flatten(tree: Any) -> Any:
        import optree

        return optree.tree_flatten(tree, is_leaf=is_dataclass, namespace=taking_apart.NAMESPACE)

    @replace(taking_apart.TakenApart)
    def _way_into(self: Any, position: int, leaf: object, kind: str) -> Any:
        return None if is_dataclass(leaf) else way_into(self, position, leaf, kind)

    @in_place_of(replace_tensors)
    def mapped(function: Any, tree: Any, **how: Any) -> Any:
        return tree if is_dataclass(tree) else replace_tensors(function, tree, **how)


@mutant("containers.shared_leaf_stays_shared", "sequences.of_tensors")
def shared_leaf_duplicated(backend: Any) -> None:
    """A tensor that stands twice becomes two: tied weights after accelerate's transfer."""
    from unidev.tensors.containers import replace_tensors
    from unidev.tensors.taking_apart import _flatten

    @in_place_of(replace_tensors)
    def mapped(function: Any, tree: Any, **how: Any) -> Any:
        import optree

        leaves, structure = _flatten(tree)
        # Each leaf in a list of its own, so that none is seen twice.
        return optree.tree_unflatten(
            structure, [replace_tensors(function, [x], **how)[0] for x in leaves]
        )


@mutant("containers.non_tensors_untouched")
def numbers_become_tensors(backend: Any) -> None:
    """A label that was a number becomes a tensor: torch's ``default_convert``, ``tf.nest``."""
    import numpy as np

    from unidev.tensors.containers import replace_tensors
    from unidev.tensors.taking_apart import _flatten

    @in_place_of(replace_tensors)
    def mapped(function: Any, tree: Any, **how: Any) -> Any:
        import optree

        leaves, structure = _flatten(replace_tensors(function, tree, **how))
        made = [np.asarray(x) if type(x) in (int, float) else x for x in leaves]
        return optree.tree_unflatten(structure, made)


@mutant("containers.key_order")
def keys_sorted(backend: Any) -> None:
    """A dict comes back in the order of its keys: JAX's and optree's own pytrees."""
    _change_trees(lambda tree: dict(sorted(tree.items())) if type(tree) is dict else tree)


@mutant("containers.cycles_raise")
def cycles_end_in_recursion_error(backend: Any) -> None:
    """A container in itself ends in ``RecursionError``: ``torch.utils._pytree``."""
    from unidev.tensors import taking_apart

    @replace(taking_apart)
    def _flatten(tree: Any) -> Any:
        import optree

        return optree.tree_flatten(tree, namespace=taking_apart.NAMESPACE)


@mutant("containers.cycles_raise")
def cycles_are_left_alone(backend: Any) -> None:
    """A container in itself is passed through, tensors and all, as if it held none."""
    from unidev.errors import CircularContainerError
    from unidev.tensors.containers import replace_tensors

    @in_place_of(replace_tensors)
    def mapped(function: Any, tree: Any, **how: Any) -> Any:
        try:
            return replace_tensors(function, tree, **how)
        except CircularContainerError:
            return tree


@mutant("containers.mismatch_names_paths")
def mismatch_names_nobody(backend: Any) -> None:
    """Which tensor is elsewhere is left to guess: torch's "found at least two devices"."""
    from unidev.errors import DeviceMismatchError
    from unidev.tensors import checks

    check_one = checks._check_one

    @replace(checks)
    def _check_one(found: Any) -> None:
        try:
            check_one(found)
        except DeviceMismatchError as error:
            raise DeviceMismatchError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{' and '.join(sorted(map(str, {device for _, device in found})))}!"
            ) from error


_OBJECTS = "containers.objects_with_tensors_are_refused"


@mutant(_OBJECTS)
def objects_are_left_behind(backend: Any) -> None:
    """What is no container passes, tensors and all: Lightning's ``move_data_to_device``."""
    _look_otherwise(lambda x, counts_numpy: None)


@mutant(_OBJECTS)
def slots_are_not_looked_at(backend: Any) -> None:
    """Only the ``__dict__`` of an object is looked at: ``vars(x)``, as most walkers do."""
    from unidev.tensors.classify import path_to_tensor

    def sees(x: Any, counts_numpy: bool) -> str | None:
        return path_to_tensor(x, counts_numpy=counts_numpy) if hasattr(x, "__dict__") else None

    _look_otherwise(sees)


@mutant(_OBJECTS)
def only_attributes_are_looked_at(backend: Any) -> None:
    """The lists and objects in an object's attributes are not gone into."""
    from unidev.tensors import classify

    replace_value(classify, "_DEEPEST", 1)


@mutant(_OBJECTS)
def objects_are_refused_without_a_path(backend: Any) -> None:
    """Where the tensor is found is left to guess."""
    from unidev.tensors.classify import path_to_tensor

    _look_otherwise(lambda x, counts_numpy: path_to_tensor(x, counts_numpy=counts_numpy) and "?")


@mutant("containers.objects_without_tensors_pass")
def a_method_to_is_taken_as_evidence(backend: Any) -> None:
    """What has a ``to`` is refused, tensors or not: transformers' and Fabric's ``hasattr``."""
    _look_otherwise(lambda x, counts_numpy: ".to" if hasattr(type(x), "to") else None)


@mutant("containers.objects_without_tensors_pass")
def attributes_are_asked_for(backend: Any) -> None:
    """The object's own code runs: ``getattr`` on whatever stands in a batch."""
    from unidev.tensors.classify import path_to_tensor

    def sees(x: Any, counts_numpy: bool) -> str | None:
        _ = getattr(x, "device", None)
        return path_to_tensor(x, counts_numpy=counts_numpy)

    _look_otherwise(sees)


def _look_otherwise(sees: Callable[[Any, bool], str | None]) -> None:
    from unidev.tensors import classify

    @in_place_of(classify.path_to_tensor)
    def path_to_tensor(x: Any, *, counts_numpy: bool) -> str | None:
        return sees(x, counts_numpy)


@mutant("containers.mappings_that_are_dataclasses")
def items_of_a_dataclass_stay_behind(backend: Any) -> None:
    """Its fields move, its items do not: ``transformers.ModelOutput`` walked as a dataclass."""
    from unidev.tensors import classify

    contents = classify.contents

    @in_place_of(contents)
    def attributes(x: Any, most: int | None = None) -> Any:
        return (pair for pair in contents(x, most) if pair[0][0])


@mutant("containers.mappings_that_are_dataclasses")
def subclasses_are_not_covered(backend: Any) -> None:
    """Registration means exactly one class: pytrees of JAX and PyTorch."""
    from unidev.tensors import opening

    replace_value(opening, "_is_known", lambda cls: False)


_KINDS = "containers.kinds_that_need_no_registration"


@mutant(_KINDS)
def opened_containers_share_their_state(backend: Any) -> None:
    """The copy has the lists and attributes of the source, changed in place: PyG's ``to``."""
    from unidev.tensors import opening

    def build(template: Any, children: Any) -> Any:
        for (is_attribute, key), child in zip(
            [step for step, _ in opening.contents(template)], children, strict=True
        ):
            if is_attribute:
                object.__setattr__(template, key, child)
        return template

    in_place_of(opening.build_of_contents)(build)


def _change_what_is_built(change: Callable[[Any], Any]) -> None:
    """``change`` each container that is built of its contents."""
    from unidev.tensors import opening

    build = opening.build_of_contents

    @in_place_of(opening.build_of_contents)
    def build_of_contents(template: Any, children: Any) -> Any:
        return change(build(template, children))


@mutant(_KINDS)
def items_of_a_list_of_its_own_are_lost(backend: Any) -> None:
    """A subclass of list comes back empty: ``cls.__new__`` and its attributes, no items."""

    def emptied(made: Any) -> Any:
        if isinstance(made, list):
            del made[:]
        return made

    _change_what_is_built(emptied)


@mutant(_KINDS)
def mappings_of_their_own_become_dicts(backend: Any) -> None:
    """A mapping's own class is lost: ``{k: v.to(d) for k, v in batch.items()}``."""
    _change_what_is_built(lambda made: dict(made) if isinstance(made, dict) else made)


_OWN_TO = "containers.objects_that_move_themselves"


@mutant(_OWN_TO)
def objects_are_not_looked_at_again(backend: Any) -> None:
    """What an object's ``to`` returns is believed: accelerate's and Fabric's transfers."""
    from unidev.tensors.opening import Movable

    @replace(Movable)
    def _check(self: Any, made: Any, device: Any) -> None: ...


@mutant(_OWN_TO)
def objects_are_moved_in_place(backend: Any) -> None:
    """The object itself is moved, with no copy of it first: ``BatchEncoding.to``."""
    from unidev.tensors import opening

    class Copying:
        copy = staticmethod(lambda x: x)

    replace_value(opening, "copy", Copying)
    replace_value(opening.Movable, "_check", lambda self, made, device: None)


@mutant(_OWN_TO)
def objects_that_share_memory_pass(backend: Any) -> None:
    """A copy on the same device is the same memory: ``x.to(device)``."""
    from unidev.tensors.opening import Movable

    check = Movable._check

    @replace(Movable)
    def _check(self: Any, made: Any, device: Any) -> None:
        self._is_copied = False
        check(self, made, device)
