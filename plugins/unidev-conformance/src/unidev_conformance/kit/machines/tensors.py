"""Tensors made, viewed, copied, written to and dropped, in scopes and threads, on all devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import unidev
from unidev_conformance.kit.inputs.samples import is_numpy_dtype
from unidev_conformance.kit.machines.machine import (
    DEFINITIONS,
    OR_NOT,
    Held,
    Machine,
    rule,
    size_of,
)
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
_OF_FOUR_AXES = {
    "probe.more_views({x})['rows']": "{m}[1:-1]",
    "probe.more_views({x})['reversed']": "{m}[::-1]",
    "probe.more_views({x})['mirrored']": "{m}[..., ::-1]",
    "probe.more_views({x})['permuted']": "{m}.transpose(0, 3, 1, 2)",
}

_HOST_ARRAYS = (
    "{m}.copy()", "{m}.copy(order='F')", "{m}.astype({m}.dtype.newbyteorder('>'))",
    "{m}[::-1].copy()[::-1]", "np.repeat({m}, 2, -1)[..., ::2]", "packed({m})", "mapped({m})",
)  # fmt: skip
"""Arrays of one tensor's values on the host: in other orders, with gaps, unaligned, of a file."""

_RANGES = [(1, 1), (0.5, 0.1), (-2, 0.3), (1 / 3, -0.7), (2**24, 3)]
"""Beginnings of ranges, and their steps."""

_REFUSED = {
    "DeviceNotFoundError": (
        "unidev.copy_to({x}, 'gpu:4000')", "unidev.as_in_device([{x}], 'cpu:4000')",
        "unidev.rand(3, device='gpu:4000')", "unidev.synchronize('gpu:4000')",
        "unidev.Device({backend!r}, 'gpu', 4000).__enter__()",
        "list(unidev.prefetch([{x}], 'gpu:4000'))",
        "unidev.zeros_like({x}, device='gpu:4000')", "unidev.device_put([{x}], 'gpu:4000')",
    ),
    "DeviceSpecError": (
        "unidev.zeros(3, device='abacus')", "unidev.copy_to({x}, 'gpu:-1')", "unidev.gpu(-1)",
    ),
    "BackendNotFoundError": (
        "unidev.set_backend('elsewhere')", "unidev.use_backend('elsewhere').__enter__()",
        "unidev.convert({x}, 'elsewhere')",
    ),
    "UnsupportedDtypeError": (
        "unidev.randn(3, dtype='int64')", "unidev.full(3, 1, dtype='strange')",
        "unidev.array({x}, dtype='strange')", "unidev.array(np.array(['text']))",
    ),
    "InvalidDataError": (
        "unidev.seed(-1)", "unidev.array([[1.0], [2.0, 3.0]])", "unidev.full(3, 300, dtype='int8')",
        "unidev.arange(1, 3, 0)", "unidev.rand((2, -1))",
    ),
    "NotATensorError": ("unidev.to_numpy(3)", "unidev.device_of([])", "unidev.copy_to(3, 'cpu')"),
    "UnsupportedContainerError": (
        "unidev.copy_to([{x}, hidden({x})], {device!r})",
        "unidev.as_in_device({{'a': {x}, 'b': [hidden({x})]}}, {device!r})",
        "unidev.device_put([np.ones(3), hidden({x})], {device!r})",
    ),
    "ZeroDivisionError": (
        "unidev.map_tensors(lambda _: 1 / 0, [{x}])", "within({device!r}, lambda: 1 / 0)",
        "list(unidev.prefetch(({x} if n else 1 / 0 for n in (1, 0)), {device!r}))",
        "traced(lambda: [unidev.copy_to({x}, {device!r}), 1 / 0])",
    ),
}  # fmt: skip
"""Calls that raise, by the error's name, whatever ``x`` and the device are."""


class TensorMachine(Machine):
    """Holds the tensors of a backend against arrays of NumPy."""

    reaches = (
        "array", "zeros", "ones", "full", "empty", "arange", "rand", "randn", "seed",
        "zeros_like", "ones_like", "empty_like", "copy_to", "as_in_device", "as_device",
        "device_of", "same_device", "check_same_device", "shares_memory", "is_tensor", "to_numpy",
        "device_put", "device_get", "map_tensors", "prefetch", "synchronize", "convert",
        "trace_transfers",
    )  # fmt: skip

    definitions = f"""\
{DEFINITIONS}
def within(device, call):
    with unidev.as_device(device):
        return call()

def traced(call):
    with unidev.trace_transfers() as trace:
        made = call()
    return made, sum(each.nbytes for each in trace.transfers)

def after_seed(number):
    unidev.seed(number)
    return unidev.to_numpy(unidev.rand(3)).tobytes()

def packed(m):
    records = np.zeros(m.shape, [("tag", "u1"), ("x", m.dtype)])
    records["x"] = m
    return records["x"]

def mapped(m):
    made = np.memmap(tempfile.mktemp(dir=folder), m.dtype, "w+", shape=m.shape)
    made[...] = m
    return made
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
            not (is_of_numpy or not bench.has("interop")) and "numpy" in unidev.list_backends()
        )
        self._traces = bench.has("tracer")
        self._has_extents = bench.has("extents")

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
        on_host = self.pick(_HOST_ARRAYS if shape else _HOST_ARRAYS[:1]).format(m=f"m{number}")
        self.program.run(
            f"a = {on_host}", f"t{number} = unidev.array(a{given}{where})", "a[...] = 0", "del a"
        )
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
        is_whole = "int" in dtype or "16" in dtype
        start, step = self.pick([(1, 1), (120, -7), (3, 2)] if is_whole else _RANGES)
        number, most = self.number(), self.pick(self._stops)
        count = most if step == 1 else most % 13 + 1
        stop = start + step * count if isinstance(step, int) else round(start + step * count, 3)
        self.model(number, f"np.arange({start}, {stop}, {step})", dtype, (-1,))
        self.program.run(
            f"t{number} = unidev.arange({start}, {stop}, {step}, dtype={dtype!r}{where})"
        )
        self.hold(number, dtype, device)

    @rule()
    def make_at_random(self) -> None:
        """One seed gives the same numbers on every device."""
        name, dtype = self.pick(["rand", "randn"]), self.pick([*self._floats, "float32"])
        number, shape, device = self.number(), self.pick(self._shapes), self.device()
        self.program.run(
            f"unidev.seed({number})",
            f"m{number} = unidev.to_numpy(unidev.{name}({shape}, dtype={dtype!r}, device='cpu'))",
            f"unidev.seed({number})",
            f"t{number} = unidev.{name}({shape}, dtype={dtype!r}, device={device!r})",
        )
        self.hold(number, dtype, device)

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
        held, number, (where, device) = self.any(), self.number(), self._where()
        dtype = self.pick([held.dtype, *(self._wider(held) if self.pick(OR_NOT) else [])])
        given = f", dtype={dtype!r}" if dtype != held.dtype else ""
        self.model(number, f"{held.m}.copy()", dtype, self.program.value(f"{held.m}.shape"))
        self.program.run(f"t{number} = unidev.array({held.x}{where}{given})")
        self.hold(number, dtype, device)

    @property
    def _floats(self) -> list[str]:
        return [each for each in self._dtypes if each.startswith("float")]

    def _wider(self, held: Held) -> list[str]:
        """The drawn dtypes that hold all numbers of a tensor of integers, which are small."""
        is_whole = "int" in held.dtype
        return [each for each in self._dtypes if is_whole and each != "bool"]

    # -- views ------------------------------------------------------------------------------------

    @rule(lambda self: self.held)
    def view(self) -> None:
        """On the same memory, if the framework has views; it may outlive the tensor."""
        held, number = self.any(), self.number()
        shape = self.program.value(f"{held.m}.shape")
        is_long, is_matrix = shape[:1] > (1,), len(shape) == 2
        has_rows = is_long and hasattr(self.program.names[held.x], "__getitem__")
        views = [f"{held.x}[1:{self.others}]"] if has_rows else []
        views.append("probe.same_memory({x})")
        if len(shape) == 4 and shape[0] > 2:
            views += [view for view in _OF_FOUR_AXES if view.split("'")[1] in self.bench.layouts]
        how = self.pick(views + _OF_MATRICES * (is_long and is_matrix))
        model = (_VIEWS | _OF_FOUR_AXES).get(how, "{m}[1:]").format(m=held.m)
        made = how.format(x=held.x)
        if "probe" not in how:  # an operation of the framework, which TensorFlow does elsewhere
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
        how = self.pick(["", ", non_blocking=True", *["a trace"] * self._traces])
        held, number, device = self.any(), self.number(), self.device()
        options = "" if how == "a trace" else how
        call = f"unidev.copy_to({held.x}, {self._spelt(device)}{options})"
        nbytes = f"{held.m}.nbytes" if is_numpy_dtype(held.dtype) else f"2 * {held.m}.size"
        if how == "a trace":  # of these bytes, whatever the traces before it have been through
            self.program.run(f"t{number}, moved = traced(lambda: {call})")
            self.program.check(f"moved == {nbytes if device != held.device else 0}")
        else:
            self.program.run(f"t{number} = {call}")
        self.program.run(f"m{number} = {held.m}.copy()")
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
        """``prefetch``: in order, in new memory, each time; perhaps after a loop left early."""
        device, several = self.device(), [self.any() for _ in range(2)]
        numbers = [self.number() for _ in several]
        loader, depth = ", ".join(held.x for held in several), self.pick([1, 2, 5])
        self.program.run(f"ahead = unidev.prefetch([{loader}], {device!r}, depth={depth})")
        for _ in range(self.pick([0, 1, 3])):
            first = self.number()
            self.program.run(
                f"t{first} = {self.pick(['next(iter(ahead))', 'list(ahead)[0]'])}",
                f"m{first} = {several[0].m}.copy()",
            )
            self.hold(first, several[0].dtype, device)
            for held in several:
                if held in self.writable():
                    self._write(held, self.pick([0, 1]))
        names = ", ".join(f"t{number}" for number in numbers)
        self.program.run(f"{names} = ahead", "del ahead")
        for held, number in zip(several, numbers, strict=True):
            self.program.run(f"m{number} = {held.m}.copy()")
            self.hold(number, held.dtype, device)

    @rule(lambda self: self.held)
    def share(self) -> None:
        """Threads use one tensor at once: each has a copy of its own, none a scope of this one."""
        held, verb = self.any(), self.pick(["copy_to({}, {!r})", "array({}, device={!r})"])
        devices = [self.device(), self.device()]
        numbers = [self.number() for _ in (*devices, "zeros")]
        calls = [f"lambda: unidev.{verb.format(held.x, device)}" for device in devices]
        made = ", ".join(f"t{number}" for number in numbers)
        self.program.run(f"{made} = at_once({', '.join(calls)}, lambda: unidev.zeros(3))")
        for number, device in zip(numbers, devices, strict=False):
            self.program.run(f"m{number} = {held.m}.copy()")
            self.hold(number, held.dtype, device)
        self.program.run(f"m{numbers[-1]} = np.zeros(3, 'float32')")
        self.hold(numbers[-1], "float32", self.default)

    # -- refusals ---------------------------------------------------------------------------------

    @rule(lambda self: self.held)
    def refuse(self) -> None:
        """A call that raises changes nothing: no default, no scope, and no random number."""
        held, device, number = self.any(), self.device(), self.number()
        backend = self.bench.backend.name
        self.program.run(f"unidev.seed({number})")
        self.refuse_one(_REFUSED, x=held.x, device=device, backend=backend)
        self.program.check(
            f"unidev.to_numpy(unidev.rand(3)).tobytes() == after_seed({number})",
            f"str(unidev.device_of(unidev.zeros(2))) == {self._here!r}",
            f"unidev.active_backend().name == {backend!r}",
        )

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
            *[f"unidev.shares_memory({names}) is {shares}"] * self._has_extents,
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
        """Of up to three axes, of four or five, or of more than 512 elements."""
        kind = self.pick(["few axes", "large", "large", "many axes"])
        if kind == "large":
            return 3, self.pick(range(300, 1_100))
        axes = self.pick([1, 2, 3, 0] if kind == "few axes" else [4, 5])
        return tuple(self.pick(range(3 if axes == 4 else 1, 6)) for _ in range(axes))

    @property
    def _here(self) -> str:
        """Where new tensors land."""
        return self._scopes[-1] if self._scopes else self.default

    def _where(self) -> tuple[str, str]:
        """The option ``device=`` or none, and where the tensor goes."""
        if self.pick(OR_NOT):
            return "", self._here
        device = self.device()
        return f", device={device!r}", device

    def _spelt(self, device: str) -> str:
        made = f"unidev.as_device({device!r})"
        return str(self.pick([repr(device), made, f"{made}.native", f"{made}.native_name"]))
