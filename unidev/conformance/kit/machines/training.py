"""Models placed, trained, saved and loaded, and tensors split and reduced, on all devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from unidev.conformance.kit.machines.machine import Machine, size_of
from unidev.contract.backend import Unsupported

if TYPE_CHECKING:
    from hypothesis.strategies import DataObject

_LAYERS = "unidev.nn.dense(3, {width}), unidev.nn.relu(), unidev.nn.dense({width}, 2)"
_WIDTHS = (1, 4)
"""Of models; those of one width load each other's files."""
_RATE = 0.125


@dataclass(eq=False)
class Net:
    """A model ``net3`` of the program, and its weights ``w3``, arrays of NumPy by name."""

    number: int
    width: int
    device: str

    @property
    def net(self) -> str:
        """The model's name."""
        return f"net{self.number}"

    @property
    def w(self) -> str:
        """The weights' name."""
        return f"w{self.number}"


class TrainingMachine(Machine):
    """Holds the models of a backend against weights in NumPy, and shards against slices."""

    definitions = """\
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

def stepped(w, rows):
    x, hidden = inputs(rows), inputs(rows) @ w["0.weight"].T + w["0.bias"]
    slope = 2 * (outputs(w, x) - targets(rows)) / (rows * 2)
    before = (slope @ w["2.weight"]) * (hidden > 0)
    grads = {"0.weight": before.T @ x, "0.bias": before.sum(0),
             "2.weight": slope.T @ np.maximum(hidden, 0), "2.bias": slope.sum(0)}
    return {n: w[n] - 0.125 * grads[n] for n in w}
"""

    def __init__(self) -> None:
        super().__init__()
        backend = self.bench.backend
        self._nets: list[Net] = []
        self._files: dict[str, int] = {}
        self._trains = not isinstance(backend.autograd, Unsupported)
        names = ("int32", "int64", "uint8", "float32", "float64")
        self._dtypes = [n for n in names if n in self.bench.dtypes(*self.bench.devices)]

    # -- models -----------------------------------------------------------------------------------

    @precondition(lambda self: len(self._nets) < 4)
    @rule(data=st.data(), width=st.sampled_from(_WIDTHS))
    def build(self, data: DataObject, width: int) -> None:
        """A model, made on a device."""
        number, device = self.number(), self.device(data)
        made = f"net{number} = unidev.nn.sequential({_LAYERS.format(width=width)})"
        self.program.run(f"with unidev.as_device({device!r}): {made}")
        self._have(Net(number, width, device))

    @precondition(lambda self: self._nets)
    @rule(data=st.data())
    def place(self, data: DataObject) -> None:
        """In place: the same weights on another device."""
        net, device = self._net(data), self.device(data)
        self.program.check(f"unidev.place({net.net}, {device!r}) is {net.net}")
        net.device = device

    @precondition(lambda self: self._nets and self._trains)
    @rule(data=st.data(), rows=st.integers(1, 7))
    def step(self, data: DataObject, rows: int) -> None:
        """One step of gradient descent, on one device or on several, of which the first has it."""
        net = self._net(data)
        devices = self.pick(data, [[], list(dict.fromkeys(self._several(data)))])
        model = f"unidev.DataParallel({net.net}, {devices})" if devices else net.net
        at = f"device={net.device!r}"
        self.program.run(
            f"x, y = unidev.array(inputs({rows}), {at}), unidev.array(targets({rows}), {at})",
            f"loss, grads = unidev.value_and_grad(loss_of)({model}, x, y)",
            f"unidev.sgd({net.net}, grads, lr={_RATE})",
        )
        net.device = devices[0] if devices else net.device
        self.program.check(
            f"np.allclose(((outputs({net.w}, inputs({rows})) - targets({rows})) ** 2).mean(),"
            " unidev.to_numpy(loss), rtol=1e-4, atol=1e-6)",
            f"close(stored({net.net}), stepped({net.w}, {rows}))",
        )
        self.program.run(f"{net.w} = stored({net.net})", "del loss, grads, x, y")

    @precondition(lambda self: self._nets)
    @rule(data=st.data(), rows=st.integers(1, 7))
    def infer(self, data: DataObject, rows: int) -> None:
        """The outputs are those of the weights."""
        net = self._net(data)
        scope = "unidev.no_grad()" if self._trains else "contextlib.nullcontext()"
        x = f"unidev.array(inputs({rows}), device={net.device!r})"
        self.program.run(f"with {scope}, unidev.as_device({net.device!r}): y = {net.net}({x})")
        self.program.check(
            f"np.allclose(unidev.to_numpy(y), outputs({net.w}, inputs({rows})), 1e-4, 1e-5)",
            f"str(unidev.device_of(y)) == {net.device!r}",
        )
        self.program.run("del y")

    @precondition(lambda self: self._nets)
    @rule(data=st.data(), name=st.sampled_from(["a", "b"]))
    def save(self, data: DataObject, name: str) -> None:
        """To a file that may be there already."""
        net = self._net(data)
        path = f"{name}{net.width}"
        self.program.run(
            f"unidev.save_parameters({net.net}, folder + '/{path}')", f"{path} = {net.w}"
        )
        self._files[path] = net.width

    @precondition(lambda self: self._files and self._nets)
    @rule(data=st.data())
    def load(self, data: DataObject) -> None:
        """The weights of the file, in the model's own memory or on another device."""
        net = self._net(data)
        paths = [path for path, width in self._files.items() if width == net.width]
        if not paths:
            return
        path, device = self.pick(data, paths), self.pick(data, [net.device, self.device(data)])
        where = "" if device == net.device else f", device={device!r}"
        self.program.run(
            f"unidev.load_parameters({net.net}, folder + '/{path}'{where})", f"{net.w} = {path}"
        )
        net.device = device

    @precondition(lambda self: 0 < len(self._nets) < 3)
    @rule(data=st.data())
    def replicate(self, data: DataObject) -> None:
        """Two more models, which nothing ties to the first."""
        net, devices = self._net(data), [self.device(data), self.device(data)]
        numbers = [self.number(), self.number()]
        made = ", ".join(f"net{number}" for number in numbers)
        self.program.run(f"{made} = unidev.replicate({net.net}, {devices})")
        for number, device in zip(numbers, devices, strict=True):
            self.program.run(f"w{number} = {net.w}")
            self._have(Net(number, net.width, device), is_new=False)

    # -- tensors on several devices ---------------------------------------------------------------

    @rule(data=st.data(), rows=st.integers(1, 9), columns=st.sampled_from([0, 1, 3, 301]))
    def make(self, data: DataObject, rows: int, columns: int) -> None:
        """A tensor to split."""
        shape = (rows, columns) if columns else (rows,)
        number, dtype, device = self.number(), self.pick(data, self._dtypes), self.device(data)
        self.model(number, f"np.arange({size_of(shape)}) % 50", dtype, shape)
        self.program.run(f"t{number} = unidev.array(m{number}, device={device!r})")
        self.hold(number, dtype, device)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def split(self, data: DataObject) -> None:
        """Rows in order, the larger shards first; and together again."""
        held, devices = self.any(data), self._several(data)
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
        back, target = self.number(), self.device(data)
        self.program.run(
            f"t{back} = unidev.gather(shards, {target!r})['x']", f"m{back} = {held.m}.copy()",
            "del shards",
        )  # fmt: skip
        self.hold(back, held.dtype, target)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), op=st.sampled_from(["sum", "mean", "min", "max"]))
    def reduce(self, data: DataObject, op: str) -> None:
        """One tensor on several devices, and each gets what all come to."""
        held, devices = self.any(data), self._several(data)
        is_mean = op == "mean"
        if is_mean and "int" in held.dtype:
            op, is_mean = "sum", False
        in_place = self.is_mutable and bool(self.pick(data, st.booleans()))
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
                self.program.check(f"np.allclose(unidev.to_numpy({made.x}), m, rtol=1e-6)")
                self.program.run(f"{made.m} = unidev.to_numpy({made.x})")
        self.program.run("del trees, models")

    @precondition(lambda self: self.is_mutable and self.held)
    @rule(data=st.data(), value=st.integers(1, 40))
    def write(self, data: DataObject, value: int) -> None:
        """Into one tensor, and into nothing else."""
        held = self.any(data)
        self.program.run(f"probe.write({held.x}, {value})", f"{held.m}[...] = {value}")

    def check_all(self) -> None:
        """Everything has its values still; and each weight is on its model's device."""
        super().check_all()
        for net in self._nets:
            self.program.check(
                f"str(unidev.device_of({net.net})) == {net.device!r}",
                f"unidev.device_of(unidev.parameters({net.net})) is unidev.device_of({net.net})",
                f"same(stored({net.net}), {net.w})",
            )

    # -- names ------------------------------------------------------------------------------------

    def _net(self, data: DataObject) -> Net:
        found: Net = self.pick(data, self._nets)
        return found

    def _have(self, net: Net, *, is_new: bool = True) -> None:
        if is_new:
            self.program.run(f"{net.w} = stored({net.net})")
        self._nets.append(net)

    def _several(self, data: DataObject) -> list[str]:
        """Two to four devices, of which one may occur twice."""
        return [self.device(data) for _ in range(self.pick(data, st.integers(2, 4)))]
