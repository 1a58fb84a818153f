"""Tensors made, viewed, copied, written to and dropped, in scopes and threads, on all devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import unidev
from unidev.contract.backend import Unsupported
from unidev_conformance.kit.inputs.samples import is_numpy_dtype
from unidev_conformance.kit.machines.machine import OR_NOT, Held, Machine, rule, size_of
from unidev_conformance.kit.oracle import overlapping_bytes

if TYPE_CHECKING:
    from random import Random

    from unidev_conformance.kit.workbench import Workbench

_VIEWS = {
    "probe.views({x})['transposed']": "{m}.T",
    "probe.views({x})['sliced']": "{m}[1:, ::2]",
    "probe.views({x})['broadcast']": "np.broadcast_to({m}, (3, *{m}.shape))",
    "probe.same_memory({x})": "{m}[...]",
}
_OF_MATRICES = [view for view in _VIEWS if "views" in view]


class TensorMachine(Machine):
    """Holds the tensors of a backend against arrays of NumPy."""

    reaches = (
        "array", "zeros", "ones", "full", "empty", "arange", "rand", "randn", "seed",
        "zeros_like", "ones_like", "empty_like", "copy_to", "as_in_device", "as_device",
        "device_of", "same_device", "check_same_device", "shares_memory", "is_tensor", "to_numpy",
        "device_put", "device_get", "map_tensors", "prefetch", "synchronize", "convert",
    )  # fmt: skip

    definitions = """\
def in_thread(call):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()
"""

    def __init__(self, bench: Workbench, numbers: Random) -> None:
        super().__init__(bench, numbers)
        self._scopes: list[str] = []
        backend = self.bench.backend
        self._dtypes: list[str] = []
        self._shapes: list[tuple[int, ...]] = []
        self._stops: list[int] = []
        self._arrays: list[int] = []
        """Numbers of NumPy's arrays ``a3`` that tensors were converted to."""
        is_of_numpy = backend.spec.framework == "numpy"
        self._converts = (
            not (is_of_numpy or isinstance(backend.interop, Unsupported))
            and "numpy" in unidev.list_backends()
        )

    def begin(self) -> None:
        """As all programs do; few dtypes and shapes, too."""
        super().begin()
        dtypes = self.bench.dtypes(*self.bench.devices)
        self._dtypes = [self.pick(dtypes) for _ in range(self.pick([1, 2, 3]))]
        self._shapes = [tuple(self.pick(range(2, 6)) for _ in range(2)), self._shape()]
        self._stops = [self.pick(range(1, 121)) for _ in range(2)]

    # -- making -----------------------------------------------------------------------------------

    @rule()
    def make_an_array(self) -> None:
        """From an array of the host, which may change afterwards."""
        dtype, (where, device) = self.pick(self._dtypes), self._where()
        number, shape = self.number(), self.pick(self._shapes)
        self.model(number, f"np.arange({size_of(shape)}) % 113 + 1", dtype, shape)
        given = f", dtype={dtype!r}" if not is_numpy_dtype(dtype) else ""
        self.program.run(
            f"a = m{number}.copy()", f"t{number} = unidev.array(a{given}{where})", "a[...] = 0",
            "del a",
        )  # fmt: skip
        self.hold(number, dtype, device)

    @rule()
    def make_alike(self) -> None:
        """Make a tensor of one number everywhere."""
        name = self.pick(["zeros", "ones", "full", "empty"])
        dtype, (where, device) = self.pick(self._dtypes), self._where()
        number, shape = self.number(), self.pick(self._shapes)
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

    @rule()
    def make_a_range(self) -> None:
        """``arange``."""
        dtype, (where, device) = self.pick(self._dtypes), self._where()
        if dtype == "bool" or "complex" in dtype:
            return
        number, stop = self.number(), self.pick(self._stops)
        self.model(number, f"np.arange(1, {stop} + 1)", dtype, (stop,))
        self.program.run(f"t{number} = unidev.arange(1, {stop} + 1, dtype={dtype!r}{where})")
        self.hold(number, dtype, device)

    @rule()
    def make_at_random(self) -> None:
        """One seed gives the same numbers on every device."""
        name = self.pick(["rand", "randn"])
        number, shape, device = self.number(), self.pick(self._shapes), self.device()
        self.program.run(
            f"unidev.seed({number})",
            f"m{number} = unidev.to_numpy(unidev.{name}({shape}, device='cpu'))",
            f"unidev.seed({number})",
            f"t{number} = unidev.{name}({shape}, device={device!r})",
        )
        self.hold(number, "float32", device)

    @rule(lambda self: self.held)
    def make_like(self) -> None:
        """``zeros_like`` and the others, there or on another device."""
        name = self.pick(["zeros", "ones", "empty"])
        held, number = self.any(), self.number()
        device = self.pick([held.device, self.device()])
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

    @rule(lambda self: self.held)
    def make_of_a_tensor(self) -> None:
        """``array`` of a tensor: always new memory."""
        held, number, device = self.any(), self.number(), self.device()
        self.program.run(
            f"m{number} = {held.m}.copy()", f"t{number} = unidev.array({held.x}, device={device!r})"
        )
        self.hold(number, held.dtype, device)

    # -- views ------------------------------------------------------------------------------------

    @rule(lambda self: self.held)
    def view(self) -> None:
        """On the same memory, if the framework has views; it may outlive the tensor."""
        held, number = self.any(), self.number()
        shape = self.program.value(f"{held.m}.shape")
        is_long, is_matrix = shape[:1] > (1,), len(shape) == 2
        has_rows = is_long and hasattr(self.program.names[held.x], "__getitem__")
        views = [f"{held.x}[1:]"] * has_rows + ["probe.same_memory({x})"]
        how = self.pick(views + _OF_MATRICES * (is_long and is_matrix))
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
        if held in self.held and self.pick(OR_NOT):
            self.drop_tensor(held)

    # -- transfers --------------------------------------------------------------------------------

    @rule(lambda self: self.held)
    def copy(self) -> None:
        """``copy_to``: new memory, wherever it goes."""
        is_queued = self.pick(OR_NOT)
        held, number, device = self.any(), self.number(), self.device()
        options = ", non_blocking=True" if is_queued else ""
        self.program.run(
            f"t{number} = unidev.copy_to({held.x}, {self._spelt(device)}{options})",
            f"m{number} = {held.m}.copy()",
        )
        self.hold(number, held.dtype, device)

    @rule(lambda self: self.held)
    def move(self) -> None:
        """``as_in_device``: the tensor itself, or a copy; often there and back."""
        held, device = self.any(), self.device()
        self._move(held, device)
        if device != held.device and self.pick(OR_NOT):
            self._move(self.held[-1], held.device)

    def _move(self, held: Held, device: str) -> None:
        is_queued, number = self.pick(OR_NOT), self.number()
        options = ", non_blocking=True" if is_queued else ""
        made = f"t{number} = unidev.as_in_device({held.x}, {self._spelt(device)}{options})"
        self.program.run(made)
        if device == held.device:
            self.program.check(f"t{number} is {held.x}")
            self.program.run(f"del t{number}")
            return
        self.program.run(f"m{number} = {held.m}.copy()")
        self.hold(number, held.dtype, device)

    @rule(lambda self: len(self.held) > 1)
    def copy_a_container(self) -> None:
        """Each tensor once, also one that occurs twice."""
        verb = self.pick(["copy_to", "map_tensors", "device_put"])
        one, other, device = self.any(), self.any(), self.device()
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

    @rule(lambda self: self.held)
    def read_ahead(self) -> None:
        """``prefetch``: in order, in new memory."""
        device, several = self.device(), [self.any() for _ in range(2)]
        batches = ", ".join(held.x for held in several)
        numbers = [self.number() for _ in several]
        names = ", ".join(f"t{number}" for number in numbers)
        self.program.run(f"{names} = unidev.prefetch([{batches}], {device!r})")
        for held, number in zip(several, numbers, strict=True):
            self.program.run(f"m{number} = {held.m}.copy()")
            self.hold(number, held.dtype, device)

    @rule(lambda self: self.held)
    def copy_in_a_thread(self) -> None:
        """No scope of this thread reaches another one."""
        held, device = self.any(), self.device()
        copied, made = self.number(), self.number()
        self.program.run(
            f"t{copied} = in_thread(lambda: unidev.copy_to({held.x}, {device!r}))",
            f"m{copied} = {held.m}.copy()",
            f"t{made} = in_thread(lambda: unidev.zeros(3))",
            f"m{made} = np.zeros(3, 'float32')",
        )
        self.hold(copied, held.dtype, device)
        self.hold(made, "float32", self.default)

    # -- dropping ---------------------------------------------------------------------------------

    @rule(lambda self: len(self.held) > 2)
    def drop(self) -> None:
        """The memory may be given to the next tensor."""
        self.drop_tensor(self.any())

    # -- scopes -----------------------------------------------------------------------------------

    @rule(lambda self: len(self._scopes) < 3)
    def enter(self) -> None:
        """New tensors land there."""
        device = self.device()
        self.program.run(
            "scopes.append(contextlib.ExitStack())",
            f"scopes[-1].enter_context(unidev.as_device({device!r}))",
        )
        self._scopes.append(device)

    @rule(lambda self: self._scopes)
    def leave(self) -> None:
        """The innermost scope: new tensors land in the one around it."""
        self.program.run("scopes.pop().close()")
        self._scopes.pop()

    # -- looking ----------------------------------------------------------------------------------

    @rule(lambda self: self.held)
    def look(self) -> None:
        """Its values, its device, and a copy of it on the host that may be written to."""
        held = self.any()
        self.check(held)
        if is_numpy_dtype(held.dtype):
            self.program.run(f"a = unidev.to_numpy({held.x})")
            self.program.check(f"a.tobytes() == {held.m}.tobytes()", f"a.dtype == {held.m}.dtype")
            self.program.run("a[...] = 0", "del a")

    @rule(lambda self: self.held)
    def compare(self) -> None:
        """Whether two are on one device, and whether they share memory."""
        one, other = self.any(), self.any()
        is_same, names = one.device == other.device, f"{one.x}, {other.x}"
        shares = one.storage is other.storage
        self.program.check(
            f"unidev.same_device({names}) is {is_same}",
            f"unidev.shares_memory({names}) is {shares}",
            f"unidev.is_tensor({one.x})",
        )
        if is_same:
            self.program.run(f"unidev.check_same_device({names})")

    @rule(lambda self: self.held and self._converts)
    def convert(self) -> None:
        """Into NumPy's array and back, copied: three things that share nothing."""
        held, device = self.any(), self.device()
        if not is_numpy_dtype(held.dtype):
            return
        there, back = self.number(), self.number()
        framework = self.bench.backend.name
        self.program.run(
            f"a{there} = unidev.convert({held.x}, 'numpy', device='cpu', copy=True)",
            f"m{there} = {held.m}.copy()",
            f"t{back} = unidev.convert(a{there}, {framework!r}, device={device!r}, copy=True)",
            f"m{back} = {held.m}.copy()",
        )
        self._arrays = [*self._arrays[-3:], there]
        self.hold(back, held.dtype, device)

    @rule()
    def wait(self) -> None:
        """``synchronize``."""
        self.program.run(f"unidev.synchronize({self.device()!r})")

    def check_tensors(self) -> None:
        """Everything has its values still, arrays that were converted too."""
        super().check_tensors()
        for number in self._arrays:
            self.program.check(f"a{number}.tobytes() == m{number}.tobytes()")

    # -- names ------------------------------------------------------------------------------------

    def _shape(self) -> tuple[int, ...]:
        """Small, of up to three axes, or of more than 512 elements."""
        if self.pick(OR_NOT):
            return 3, self.pick(range(300, 1_100))
        return tuple(self.pick(range(1, 6)) for _ in range(self.pick([1, 2, 3, 0])))

    def _where(self) -> tuple[str, str]:
        """The option ``device=`` or none, and where the tensor goes."""
        if self.pick(OR_NOT):
            return "", self._scopes[-1] if self._scopes else self.default
        device = self.device()
        return f", device={device!r}", device

    def _spelt(self, device: str) -> str:
        return str(self.pick([repr(device), f"unidev.as_device({device!r})"]))
