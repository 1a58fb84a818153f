"""Models placed, trained, saved and loaded, and tensors split and reduced, on all devices."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from unidev_conformance.kit.inputs.shapes import BATCHES, FEW_ROWS
from unidev_conformance.kit.machines.machine import (
    DEFINITIONS,
    OR_NOT,
    Held,
    Machine,
    rule,
    size_of,
)

if TYPE_CHECKING:
    from random import Random

    from unidev_conformance.kit.workbench import Workbench

_LAYERS = "unidev.nn.dense(3, {width}), unidev.nn.relu(), unidev.nn.dense({width}, 2)"
_WIDTHS = [1, 4]
"""Widths of models; those of one width load each other's files."""
_RATES = [0.125, 0.1, -0.07, 0.003]
_LAYOUTS = {
    "transposed": "{m}.T.copy()", "broadcast": "{m}.copy()",
    "sliced": "np.repeat(np.vstack([{m}[:1], {m}]), 2, 1)",
}  # fmt: skip
"""Views of a matrix, and the array of which each is the matrix, or several of it."""
_REFUSED = {
    "DeviceNotFoundError": (
        "unidev.place({net}, 'gpu:4000')", "unidev.replicate({net}, ['cpu', 'gpu:4000'])",
        "unidev.gather([unidev.ones(3)], 'gpu:4000')",
    ),
    "CheckpointError": ("unidev.load_parameters({net}, torn({net}))",),
    "OSError": (
        "unidev.load_parameters({net}, folder + '/none')",
        "unidev.save_parameters({net}, folder + '/no/where')",
    ),
    "InvalidDataError": (
        "unidev.split_batch(unidev.ones(1), ['cpu', 'cpu'])",
        "unidev.all_reduce([[unidev.ones(3)], []])",
    ),
    "NotAModelError": ("unidev.place(3, 'cpu')", "unidev.parameters(unidev.ones(3))"),
}  # fmt: skip
_REFUSED_STEPS = {
    "ZeroDivisionError": (
        "unidev.value_and_grad(lambda _: 1 / 0)({net})",
        "unidev.value_and_grad(late)({work}, unidev.array(inputs(3), device={device!r}))",
    ),
    "InvalidDataError": (
        "unidev.value_and_grad(lambda _: 3)({net})", "unidev.sgd({net}, {{}}, lr='a')",
        "unidev.sgd({net}, {{'none': unidev.ones(3)}}, lr=1)",
    ),
}  # fmt: skip


@dataclass(eq=False)
class Net:
    """A model ``net3`` of the program, and its weights ``w3``, arrays of NumPy by name."""

    number: int
    width: int
    device: str
    devices: list[str] = field(default_factory=list)
    """Those of its ``DataParallel``, while it has one."""

    @property
    def net(self) -> str:
        """The model's name."""
        return f"net{self.number}"

    @property
    def handle(self) -> str:
        """The name of its ``DataParallel``."""
        return f"parallel{self.number}"

    @property
    def at_work(self) -> str:
        """The name of what computes."""
        return self.handle if self.devices else self.net

    @property
    def w(self) -> str:
        """The weights' name."""
        return f"w{self.number}"


class TrainingMachine(Machine):
    """Holds the models of a backend against weights in NumPy, and shards against slices."""

    reaches = (
        "sequential", "dense", "relu", "mean_squared_error", "place", "parameters", "device_of",
        "value_and_grad", "sgd", "no_grad", "DataParallel", "save_parameters", "load_parameters",
        "replicate", "broadcast", "split_batch", "gather", "all_reduce",
    )  # fmt: skip

    definitions = (
        f"""\
{DEFINITIONS}
def torn(net):
    unidev.save_parameters(net, folder + "/torn")
    with open(folder + "/torn", "r+b") as file:
        at = file.seek(-1, 2)
        last = file.read()[0]
        file.seek(at)
        file.write(bytes([last ^ 1]))
    return folder + "/torn"

"""
        + """\
def late(net, x):
    with unidev.device_of(x):
        return [net(x), 1 / 0]

def stored(net):
    from safetensors.numpy import load_file
    unidev.save_parameters(net, folder + "/now")
    return load_file(folder + "/now")

def same(found, expected):
    return {n: x.tobytes() for n, x in found.items()} == {
        n: x.tobytes() for n, x in expected.items()}

def close(found, expected):
    return all(np.allclose(found[n], x, rtol=1e-4, atol=1e-5) for n, x in expected.items())

def loss_of(net, x, y):
    with unidev.device_of(x):
        return unidev.nn.functional.mean_squared_error(net(x), y)

def inputs(rows):
    return (np.arange(rows * 3) % 7 / 4 - 0.75).astype("float32").reshape(rows, 3)

def targets(rows):
    return (np.arange(rows * 2) % 5 / 4).astype("float32").reshape(rows, 2)

def outputs(w, x):
    hidden = np.maximum(x @ w["0.weight"].T + w["0.bias"], 0)
    return hidden @ w["2.weight"].T + w["2.bias"]

def stepped(w, rows, lr):
    x, hidden = inputs(rows), inputs(rows) @ w["0.weight"].T + w["0.bias"]
    gradient = 2 * (outputs(w, x) - targets(rows)) / (rows * 2)
    before = (gradient @ w["2.weight"]) * (hidden > 0)
    grads = {"0.weight": before.T @ x, "0.bias": before.sum(0),
             "2.weight": gradient.T @ np.maximum(hidden, 0), "2.bias": gradient.sum(0)}
    return {n: w[n] - lr * grads[n] for n in w}
"""
    )

    def __init__(self, bench: Workbench, numbers: Random) -> None:
        super().__init__(bench, numbers)
        self._nets: list[Net] = []
        self._files: dict[str, int] = {}
        self._trains = bench.has("autograd")
        self._stops_recording = bench.has("autograd.no_grad")
        names = ("int64", "uint8", "float32")
        self._dtypes = [n for n in names if n in self.bench.dtypes(*self.bench.devices)]
        self._rows: list[int] = []

    def begin(self) -> None:
        """As all programs do; a model, and few batch sizes, too."""
        super().begin()
        left_out = self.pick(FEW_ROWS)
        self._rows = [rows for rows in FEW_ROWS if rows != left_out]
        self.build()

    # -- models -----------------------------------------------------------------------------------

    @rule(lambda self: len(self._nets) < 5)
    def build(self) -> None:
        """A model, made on a device."""
        number, width, device = self.number(), self.pick(_WIDTHS), self.device()
        made = f"net{number} = unidev.nn.sequential({_LAYERS.format(width=width)})"
        self.program.run(f"unidev.seed({number})", f"with unidev.as_device({device!r}): {made}")
        self._have(Net(number, width, device))

    @rule(lambda self: self._nets)
    def place(self) -> None:
        """In place: the same weights on another device; one in a ``DataParallel`` comes back.

        It may make a step there, alone.
        """
        net, device = self._net(), self.device()
        home = net.device
        self._place(net, device)
        if net.devices:
            if self._trains and self.pick(OR_NOT):
                self._step(net, self.pick(self._rows), net.net)
            self._place(net, home)

    def _place(self, net: Net, device: str) -> None:
        self.program.check(f"unidev.place({net.net}, {device!r}) is {net.net}")
        net.device = device

    @rule(lambda self: any(not net.devices for net in self._nets))
    def wrap(self) -> None:
        """Put a model to work on several devices, of which the first has it."""
        net = self.pick([net for net in self._nets if not net.devices])
        others = [str(device) for device in self.bench.devices]
        count = self.pick(range(1, 4)[: len(others)])
        devices = [others.pop(others.index(self.pick(others))) for _ in range(count)]
        self.program.run(f"{net.handle} = unidev.DataParallel({net.net}, {devices})")
        net.devices, net.device = devices, devices[0]

    @rule(lambda self: any(net.devices for net in self._nets))
    def unwrap(self) -> None:
        """The model stays where it is."""
        net = self.pick([net for net in self._nets if net.devices])
        self.program.run(f"del {net.handle}")
        net.devices = []

    @rule(lambda self: len(self._nets) > 2)
    def drop(self) -> None:
        """The memory may be given to the next model."""
        net = self._net()
        self.program.run(f"del {net.handle}, {net.net}" if net.devices else f"del {net.net}")
        self._nets.remove(net)

    @rule(lambda self: self._nets and self._trains)
    def step(self) -> None:
        """Steps of gradient descent, on one device or, of more and fewer rows, on several."""
        net = self._net()
        for _ in range(self.pick([2, 3] if net.devices else [1, 2])):
            self._step(net, self.pick(self._rows), net.at_work)

    def _step(self, net: Net, rows: int, at_work: str) -> None:
        at, lr = f"device={net.device!r}", self.pick(_RATES)
        call = f"unidev.value_and_grad(loss_of)({at_work}, x, y)"
        self.program.run(
            f"x, y = unidev.array(inputs({rows}), {at}), unidev.array(targets({rows}), {at})"
        )
        if not net.devices and self.pick(OR_NOT):  # two threads at once, each with half of the step
            self.program.run(
                f"(loss, grads), (_, more) = at_once(lambda: {call}, lambda: {call})",
                f"unidev.sgd({net.net}, more, lr={lr / 2})",
                f"unidev.sgd({net.net}, grads, lr={lr / 2})",
                "del more",
            )
        else:
            self.program.run(f"loss, grads = {call}", f"unidev.sgd({net.net}, grads, lr={lr})")
        self.program.check(
            f"np.allclose(((outputs({net.w}, inputs({rows})) - targets({rows})) ** 2).mean(),"
            " unidev.to_numpy(loss), rtol=1e-4, atol=1e-6)"
        )
        self.program.run(f"now = stored({net.net})")
        self.program.check(f"close(now, stepped({net.w}, {rows}, {lr}))")
        self.program.run(f"{net.w} = now", "del now, loss, grads, x, y")

    @rule(lambda self: self._nets)
    def refuse(self) -> None:
        """A call that raises leaves the model where it was and as it was, and the defaults too."""
        net = self._net()
        calls = self.pick([_REFUSED, _REFUSED_STEPS][: 1 + self._trains])
        self.refuse_one(calls, net=net.net, work=net.at_work, device=net.device)
        self.program.check(
            f"str(unidev.device_of(unidev.zeros(2))) == {self.default!r}",
            f"str(unidev.device_of({net.net})) == {net.device!r}",
            f"same(stored({net.net}), {net.w})",
        )

    @rule(lambda self: self._nets)
    def infer(self) -> None:
        """The outputs are those of the weights, and stay so."""
        net, rows, number = self._net(), self.pick(self._rows), self.number()
        scope = "unidev.no_grad()" if self._stops_recording else "contextlib.nullcontext()"
        x = f"unidev.array(inputs({rows}), device={net.device!r})"
        called = f"t{number} = {net.at_work}({x})"
        self.program.run(
            f"with {scope}, unidev.as_device({net.device!r}): {called}",
            f"m{number} = unidev.to_numpy(t{number})",
        )
        self.program.check(f"np.allclose(m{number}, outputs({net.w}, inputs({rows})), 1e-4, 1e-5)")
        self.hold(number, "float32", net.device)

    @rule(lambda self: self._nets)
    def save(self) -> None:
        """To a file that may be there already."""
        net = self._net()
        path = f"a{net.width}"
        self.program.run(
            f"unidev.save_parameters({net.net}, folder + '/{path}')", f"{path} = {net.w}"
        )
        self._files[path] = net.width

    @rule(lambda self: any(net.width in self._files.values() for net in self._nets))
    def load(self) -> None:
        """The weights of the file, in the model's own memory or on another device."""
        net = self.pick([net for net in self._nets if net.width in self._files.values()])
        paths = [path for path, width in self._files.items() if width == net.width]
        path, device = self.pick(paths), self.pick([net.device, self.device()])
        device = net.device if net.devices else device
        where = "" if device == net.device else f", device={device!r}"
        self.program.run(
            f"unidev.load_parameters({net.net}, folder + '/{path}'{where})", f"{net.w} = {path}"
        )
        net.device = device

    @rule(lambda self: 0 < len(self._nets) < 4)
    def replicate(self) -> None:
        """Two more models, which nothing ties to the first."""
        net, devices = self._net(), [self.device(), self.device()]
        numbers = [self.number(), self.number()]
        made = ", ".join(f"net{number}" for number in numbers)
        self.program.run(f"{made} = unidev.replicate({net.net}, {devices})")
        for number, device in zip(numbers, devices, strict=True):
            self.program.run(f"w{number} = {net.w}")
            self._have(Net(number, net.width, device), is_new=False)

    # -- tensors on several devices ---------------------------------------------------------------

    @rule()
    def make(self) -> None:
        """A tensor to split, of any layout."""
        shape, number = self.pick(BATCHES), self.number()
        dtype, device = self.pick(self._dtypes), self.device()
        self.model(number, f"np.arange({size_of(shape)}) % 50", dtype, shape)
        layout = self.pick(["", "", *_LAYOUTS] if min(shape) > 1 < len(shape) else [""])
        self.program.run(
            f"a = {_LAYOUTS.get(layout, '{m}.copy()').format(m=f'm{number}')}",
            f"t{number} = unidev.array(a, device={device!r})",
            "a[...] = 0", "del a",
        )  # fmt: skip
        if layout:
            self.program.run(f"t{number} = probe.views(t{number})[{layout!r}]")
        if layout == "broadcast":
            self.program.run(f"m{number} = np.broadcast_to(m{number}, (3, *{shape}))")
        self.hold(number, dtype, device, is_writable=layout != "broadcast")

    @rule(lambda self: self.held)
    def split(self) -> None:
        """Rows in order, the larger shards first; and together again. At times twice."""
        held, devices = self.any(), self._several()
        for _ in range(self.pick([1, 2])):
            if held in self.held:
                self._split(held, devices)

    def _split(self, held: Held, devices: list[str]) -> None:
        rows = self.program.value(f"len({held.m})")
        devices = devices[:rows]
        self.program.run(f"shards = unidev.split_batch({{'x': {held.x}}}, {devices})")
        start, numbers = 0, []
        for at, device in enumerate(devices):
            number, size = self.number(), rows // len(devices) + (at < rows % len(devices))
            self.program.run(
                f"t{number} = shards[{at}]['x']",
                f"m{number} = {held.m}[{start}:{start + size}].copy()",
            )
            start += size
            numbers.append(self.hold(number, held.dtype, device))
        back, target = self.number(), self.device()
        self.program.run(
            f"t{back} = unidev.gather(shards, {target!r})['x']", f"m{back} = {held.m}.copy()",
            "del shards",
        )  # fmt: skip
        self.hold(back, held.dtype, target)

    @rule(lambda self: self.held)
    def reduce(self) -> None:
        """One tensor on several devices, each gets what all come to; at times again, changed."""
        op = self.pick(["sum", "mean", "min", "max"])
        held, devices = self.any(), self._several()
        in_place = self.is_mutable and bool(self.pick(OR_NOT))
        self._reduce(op, held, devices, in_place=in_place)
        if self.pick(OR_NOT) and held in self.held:
            if held in self.writable():
                self._write(held, 59)
            self._reduce(op, held, devices, in_place=in_place)

    def _reduce(self, op: str, held: Held, devices: list[str], *, in_place: bool) -> None:
        is_mean = op == "mean"
        if is_mean and "int" in held.dtype:
            op, is_mean = "sum", False
        self.program.run(
            f"trees = [[x] for x in unidev.broadcast({held.x}, {devices})]",
            f"models = [{held.m}.copy() for _ in trees]",
        )
        if self.is_mutable:  # so that they differ
            self.program.run("probe.write(trees[-1][0], 3)", "models[-1][...] = 3")
        options = ", in_place=True" if in_place else ""
        self.program.run(
            f"trees = unidev.all_reduce(trees, {op!r}{options})",
            f"m = np.{op}(np.stack(models), 0, dtype={held.dtype!r})"
            if op in ("sum", "mean")
            else f"m = np.{op}(np.stack(models), 0)",
        )
        for at, device in enumerate(devices):
            number = self.number()
            self.program.run(f"t{number} = trees[{at}][0]", f"m{number} = m.copy()")
            made = self.hold(number, held.dtype, device)
            if is_mean:  # a mean is rounded, in an order of the framework's
                self.program.check(f"np.allclose(unidev.to_numpy({made.x}), m, 1e-6, 1e-6)")
                self.program.run(f"{made.m} = unidev.to_numpy({made.x})")
        self.program.run("del trees, models")

    def change(self, things: list[Any]) -> None:
        """As for tensors; and one of the models among ``things`` makes a step."""
        super().change(things)
        nets = [each for each in things if each in self._nets]
        if nets and self._trains:
            self._do("step", nets[:1])
            self._done.pop()

    def finish(self) -> None:
        """As for tensors; then each model has its weights still, all on its device."""
        super().finish()
        for net in self._nets:
            self.program.check(
                f"str(unidev.device_of({net.net})) == {net.device!r}",
                f"unidev.device_of(unidev.parameters({net.net})) is unidev.device_of({net.net})",
                f"same(stored({net.net}), {net.w})",
            )

    # -- names ------------------------------------------------------------------------------------

    def _net(self) -> Net:
        found: Net = self.pick(self._nets[::-1])
        return found

    def _have(self, net: Net, *, is_new: bool = True) -> None:
        if is_new:
            self.program.run(f"{net.w} = stored({net.net})")
        self._nets.append(net)

    def _several(self) -> list[str]:
        """Two to four devices, of which one may occur twice."""
        return [self.device() for _ in range(self.pick(range(2, 5)))]
