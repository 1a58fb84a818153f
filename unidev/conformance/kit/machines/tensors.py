"""Tensors made, viewed, copied, written to and dropped, in scopes and threads, on all devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

import unidev
from unidev.conformance.kit.inputs.samples import is_numpy_dtype
from unidev.conformance.kit.machines.machine import SHAPES, Machine, size_of
from unidev.conformance.kit.oracle import overlapping_bytes
from unidev.contract.backend import Unsupported

if TYPE_CHECKING:
    from hypothesis.strategies import DataObject

_VIEWS = {
    "probe.views({x})['transposed']": "{m}.T",
    "probe.views({x})['sliced']": "{m}[1:, ::2]",
    "probe.views({x})['broadcast']": "np.broadcast_to({m}, (3, *{m}.shape))",
    "probe.same_memory({x})": "{m}[...]",
}
_OF_MATRICES = [view for view in _VIEWS if "views" in view]


class TensorMachine(Machine):
    """Holds the tensors of a backend against arrays of NumPy."""

    definitions = """\
def in_thread(call):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()
"""

    def __init__(self) -> None:
        super().__init__()
        self._scopes: list[str] = []
        backend = self.bench.backend
        self._dtypes: list[str] = []
        self._shapes: list[tuple[int, ...]] = []
        is_of_numpy = backend.spec.framework == "numpy"
        self._converts = (
            not (is_of_numpy or isinstance(backend.interop, Unsupported))
            and "numpy" in unidev.list_backends()
        )

    @initialize(data=st.data())
    def begin(self, data: DataObject) -> None:
        """Few dtypes and shapes in one program: what is kept for the next of a kind is met."""
        dtypes = self.bench.dtypes(*self.bench.devices)
        self._dtypes = self.pick(data, st.lists(st.sampled_from(dtypes), min_size=1, max_size=3))
        self._shapes = self.pick(data, st.lists(SHAPES, min_size=1, max_size=2))

    # -- making -----------------------------------------------------------------------------------

    @rule(data=st.data())
    def make_an_array(self, data: DataObject) -> None:
        """From an array of the host, which may change afterwards."""
        dtype, (where, device) = self.pick(data, self._dtypes), self._where(data)
        number, shape = self.number(), self.pick(data, self._shapes)
        self.model(number, f"np.arange({size_of(shape)}) % 113 + 1", dtype, shape)
        given = f", dtype={dtype!r}" if not is_numpy_dtype(dtype) else ""
        self.program.run(f"t{number} = unidev.array(m{number}{given}{where})")
        self.hold(number, dtype, device)

    @rule(data=st.data(), name=st.sampled_from(["zeros", "ones", "full", "empty"]))
    def make_alike(self, data: DataObject, name: str) -> None:
        """Of one number everywhere."""
        dtype, (where, device) = self.pick(data, self._dtypes), self._where(data)
        number, shape = self.number(), self.pick(data, self._shapes)
        values = {"zeros": 0, "ones": 1}
        value = values.get(name, 1 if dtype == "bool" else 100)
        self.model(number, f"np.full({size_of(shape)}, {value})", dtype, shape)
        given = f"{shape}, {value}" if name == "full" else f"{shape}"
        self.program.run(f"t{number} = unidev.{name}({given}, dtype={dtype!r}{where})")
        if name == "empty":
            if not self.is_mutable:
                return  # whatever is in it
            self.program.run(f"probe.write(t{number}, {value})")
        self.hold(number, dtype, device)

    @rule(data=st.data())
    def make_a_range(self, data: DataObject) -> None:
        """``arange``."""
        dtype, (where, device) = self.pick(data, self._dtypes), self._where(data)
        if dtype == "bool" or "complex" in dtype:
            return
        number, stop = self.number(), self.pick(data, st.integers(1, 120))
        self.model(number, f"np.arange(1, {stop} + 1)", dtype, (stop,))
        self.program.run(f"t{number} = unidev.arange(1, {stop} + 1, dtype={dtype!r}{where})")
        self.hold(number, dtype, device)

    @rule(data=st.data(), name=st.sampled_from(["rand", "randn"]))
    def make_at_random(self, data: DataObject, name: str) -> None:
        """One seed gives the same numbers on every device."""
        number, shape, device = self.number(), self.pick(data, self._shapes), self.device(data)
        self.program.run(
            f"unidev.seed({number})",
            f"m{number} = unidev.to_numpy(unidev.{name}({shape}, device='cpu'))",
            f"unidev.seed({number})",
            f"t{number} = unidev.{name}({shape}, device={device!r})",
        )
        self.hold(number, "float32", device)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), name=st.sampled_from(["zeros", "ones", "empty"]))
    def make_like(self, data: DataObject, name: str) -> None:
        """``zeros_like`` and the others, there or on another device."""
        held, number = self.any(data), self.number()
        device = self.pick(data, [held.device, self.device(data)])
        where = "" if device == held.device else f", device={device!r}"
        value = {"zeros": 0, "ones": 1, "empty": 1}[name]
        self.program.run(
            f"m{number} = np.full({held.m}.shape, {value}, {held.m}.dtype)",
            f"t{number} = unidev.{name}_like({held.x}{where})",
        )
        if name == "empty":
            if not self.is_mutable:
                return
            self.program.run(f"probe.write(t{number}, {value})")
        self.hold(number, held.dtype, device)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def make_of_a_tensor(self, data: DataObject) -> None:
        """``array`` of a tensor: always new memory."""
        held, number, device = self.any(data), self.number(), self.device(data)
        self.program.run(
            f"m{number} = {held.m}.copy()",
            f"t{number} = unidev.array({held.x}, device={device!r})",
        )
        self.hold(number, held.dtype, device)

    # -- views ------------------------------------------------------------------------------------

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def view(self, data: DataObject) -> None:
        """On the same memory, if the framework has views."""
        held, number = self.any(data), self.number()
        is_matrix = self.program.value(f"{held.m}.ndim == 2 and {held.m}.shape[0] > 1")
        can_be_indexed = hasattr(self.program.names[held.x], "__getitem__")
        rows = [f"{held.x}[1:]"] * can_be_indexed
        views = [*_VIEWS, *rows] if is_matrix else ["probe.same_memory({x})"]
        how = self.pick(data, views)
        model = _VIEWS.get(how, "{m}[1:]").format(m=held.m)
        made = how.format(x=held.x)
        if how not in _VIEWS:  # an operation of the framework, which TensorFlow does elsewhere
            self.program.run(f"with unidev.device_of({held.x}): t{number} = {made}")
        else:
            self.program.run(f"t{number} = {made}")
        x, y = (self.program.names[f"t{n}"] for n in (held.number, number))
        extents = self.bench.probe.extents
        is_shared = overlapping_bytes(list(extents(x)), list(extents(y))) > 0
        self.program.run(f"m{number} = {model}{'' if is_shared else '.copy()'}")
        made_of = held.storage if is_shared else object()
        is_writable = held.is_writable and not ("broadcast" in how and is_shared)
        self.hold(number, held.dtype, held.device, storage=made_of, is_writable=is_writable)

    # -- transfers --------------------------------------------------------------------------------

    @precondition(lambda self: self.held)
    @rule(data=st.data(), is_queued=st.booleans())
    def copy(self, data: DataObject, is_queued: bool) -> None:
        """``copy_to``: new memory, wherever it goes."""
        held, number, device = self.any(data), self.number(), self.device(data)
        options = ", non_blocking=True" if is_queued else ""
        self.program.run(
            f"t{number} = unidev.copy_to({held.x}, {self._spelt(data, device)}{options})",
            f"m{number} = {held.m}.copy()",
        )
        self.hold(number, held.dtype, device)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), is_queued=st.booleans())
    def move(self, data: DataObject, is_queued: bool) -> None:
        """``as_in_device``: the tensor itself, or a copy."""
        held, number, device = self.any(data), self.number(), self.device(data)
        options = ", non_blocking=True" if is_queued else ""
        made = f"t{number} = unidev.as_in_device({held.x}, {self._spelt(data, device)}{options})"
        self.program.run(made)
        if device == held.device:
            self.program.check(f"t{number} is {held.x}")
            self.program.run(f"del t{number}")
            return
        self.program.run(f"m{number} = {held.m}.copy()")
        self.hold(number, held.dtype, device)

    @precondition(lambda self: len(self.held) > 1)
    @rule(data=st.data(), verb=st.sampled_from(["copy_to", "map_tensors", "device_put"]))
    def copy_a_container(self, data: DataObject, verb: str) -> None:
        """Each tensor once, also one that occurs twice."""
        one, other, device = self.any(data), self.any(data), self.device(data)
        tree = f"{{'a': {one.x}, 'b': [{other.x}, 'text', {one.x}]}}"
        given = {
            "copy_to": f"unidev.copy_to({tree}, {device!r})",
            "map_tensors": f"unidev.map_tensors(lambda x: unidev.copy_to(x, {device!r}), {tree})",
            "device_put": f"unidev.device_put(unidev.device_get({tree}), {device!r})",
        }[verb]
        if verb == "device_put" and not all(is_numpy_dtype(each.dtype) for each in (one, other)):
            return
        self.program.run(f"tree = {given}")
        self.program.check("tree['a'] is tree['b'][2]", "tree['b'][1] == 'text'")
        made = [(one, "tree['a']")] + [(other, "tree['b'][0]")] * (one is not other)
        for held, place in made:
            number = self.number()
            self.program.run(f"t{number} = {place}", f"m{number} = {held.m}.copy()")
            self.hold(number, held.dtype, device)
        self.program.run("del tree")

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def read_ahead(self, data: DataObject) -> None:
        """``prefetch``: in order, in new memory."""
        device, several = self.device(data), [self.any(data) for _ in range(2)]
        batches = ", ".join(held.x for held in several)
        numbers = [self.number() for _ in several]
        names = ", ".join(f"t{number}" for number in numbers)
        self.program.run(f"{names} = unidev.prefetch([{batches}], {device!r})")
        for held, number in zip(several, numbers, strict=True):
            self.program.run(f"m{number} = {held.m}.copy()")
            self.hold(number, held.dtype, device)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def copy_in_a_thread(self, data: DataObject) -> None:
        """No scope of this thread reaches another one."""
        held, device = self.any(data), self.device(data)
        copied, made = self.number(), self.number()
        self.program.run(
            f"t{copied} = in_thread(lambda: unidev.copy_to({held.x}, {device!r}))",
            f"m{copied} = {held.m}.copy()",
            f"t{made} = in_thread(lambda: unidev.zeros(3))",
            f"m{made} = np.zeros(3, 'float32')",
        )
        self.hold(copied, held.dtype, device)
        self.hold(made, "float32", self.devices[0])

    # -- writing, dropping ------------------------------------------------------------------------

    @precondition(lambda self: self.is_mutable and any(held.is_writable for held in self.held))
    @rule(data=st.data())
    def write(self, data: DataObject) -> None:
        """Whatever shares the memory changes with it, and nothing else."""
        held = self.pick(data, [held for held in self.held if held.is_writable])
        value = 1 if held.dtype == "bool" else self.pick(data, st.integers(2, 99))
        self.program.run(f"probe.write({held.x}, {value})", f"{held.m}[...] = {value}")

    @precondition(lambda self: len(self.held) > 2)
    @rule(data=st.data())
    def drop(self, data: DataObject) -> None:
        """The memory may be given to the next tensor."""
        held = self.any(data)
        self.held.remove(held)
        self.program.run(f"del {held.x}")

    # -- scopes -----------------------------------------------------------------------------------

    @precondition(lambda self: len(self._scopes) < 3)
    @rule(data=st.data())
    def enter(self, data: DataObject) -> None:
        """New tensors land there."""
        device = self.device(data)
        self.program.run(f"scopes.enter_context(unidev.as_device({device!r}))")
        self._scopes.append(device)

    @precondition(lambda self: self._scopes)
    @rule()
    def leave(self) -> None:
        """All scopes: they are left in the reverse order."""
        self.program.run("scopes.close()")
        self._scopes.clear()

    # -- looking ----------------------------------------------------------------------------------

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def look(self, data: DataObject) -> None:
        """Its values, its device, and a copy of it on the host that may be written to."""
        held = self.any(data)
        self.check(held)
        if is_numpy_dtype(held.dtype):
            self.program.run(f"a = unidev.to_numpy({held.x})")
            self.program.check(f"a.tobytes() == {held.m}.tobytes()", f"a.dtype == {held.m}.dtype")
            self.program.run("a[...] = 0", "del a")

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def compare(self, data: DataObject) -> None:
        """Whether two are on one device, and whether they share memory."""
        one, other = self.any(data), self.any(data)
        is_same, names = one.device == other.device, f"{one.x}, {other.x}"
        shares = one.storage is other.storage
        self.program.check(
            f"unidev.same_device({names}) is {is_same}",
            f"unidev.shares_memory({names}) is {shares}",
            f"unidev.is_tensor({one.x})",
        )
        if is_same:
            self.program.run(f"unidev.check_same_device({names})")

    @precondition(lambda self: self.held and self._converts)
    @rule(data=st.data())
    def convert(self, data: DataObject) -> None:
        """Into NumPy's array, copied."""
        held = self.any(data)
        if is_numpy_dtype(held.dtype):
            given = f"{held.x}, 'numpy', device='cpu', copy=True"
            self.program.check(f"unidev.convert({given}).tobytes() == {held.m}.tobytes()")

    @rule(data=st.data())
    def wait(self, data: DataObject) -> None:
        """``synchronize``."""
        self.program.run(f"unidev.synchronize({self.device(data)!r})")

    # -- names ------------------------------------------------------------------------------------

    def _where(self, data: DataObject) -> tuple[str, str]:
        """The option ``device=`` or none, and where the tensor goes."""
        if self.pick(data, st.booleans()):
            return "", (self._scopes or self.devices)[-1 if self._scopes else 0]
        device = self.device(data)
        return f", device={device!r}", device

    def _spelt(self, data: DataObject, device: str) -> str:
        return str(self.pick(data, [repr(device), f"unidev.as_device({device!r})"]))
