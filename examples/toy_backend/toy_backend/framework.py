"""The framework: immutable arrays on the "host" or on the "chip", and gradients of functions.

Sums, products and copies are pending until something reads them: they have a shape, and no memory.

A function is differentiated with respect to its arguments, which are traced meanwhile: an array
that it has from elsewhere is a constant. A model holds its arrays in variables, which can be set.
"""

import copy
from collections.abc import Callable, Iterator
from itertools import count
from threading import RLock

import numpy as np

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
_numbers = count(1)
_computing = RLock()


class Array:
    """Numbers in memory of one device, which nothing changes."""

    level = 0
    """The number of the differentiation that traces it: a later one, such as an inner one, has a
    greater number. 0: none."""

    compute: Callable[[], np.ndarray] | None = None
    """What makes the numbers; None: it has them."""

    def __init__(self, values: np.ndarray, device: str) -> None:
        self._values, self.device = values, device  # keeps the memory that it is given
        self.shape, self.dtype = values.shape, values.dtype.name
        values.flags.writeable = False

    @property
    def is_pending(self) -> bool:
        return self.compute is not None

    @property
    def values(self) -> np.ndarray:
        """The numbers, computed now if they are pending."""
        with _computing:
            if self.compute is not None:
                self._values, self.compute = self.compute(), None
                self._values.flags.writeable = False
            return self._values

    def __add__(self, other: "Array | float") -> "Array":
        pulls = (lambda g, x, _: _reduced(g, x.shape), lambda g, _, y: _reduced(g, y.shape))
        return _computed(np.add, (self, _lifted(other, self)), pulls)

    def __mul__(self, other: "Array | float") -> "Array":
        pulls = (lambda g, x, y: _reduced(g * y, x.shape), lambda g, x, y: _reduced(g * x, y.shape))
        return _computed(np.multiply, (self, _lifted(other, self)), pulls)

    def __sub__(self, other: "Array | float") -> "Array":
        pulls = (lambda g, x, _: _reduced(g, x.shape), lambda g, _, y: _reduced(g * -1, y.shape))
        return _computed(np.subtract, (self, _lifted(other, self)), pulls)

    def __matmul__(self, other: "Array") -> "Array":
        return _computed(
            np.matmul, (self, other), (lambda g, _, y: g @ y.T, lambda g, x, _: x.T @ g)
        )

    def __getitem__(self, key: object) -> "Array":
        return _computed(lambda x: x[key], (self,), (lambda g, x: _scattered(g, key, x.shape),))

    @property
    def T(self) -> "Array":
        return _computed(np.transpose, (self,), (lambda g, _: g.T,))

    def sum(self) -> "Array":
        return _reduced(self, ())


class Traced(Array):
    """An argument of a function that is differentiated, or what was computed from one."""

    def __init__(self, value: Array, level: int, parents: tuple = ()) -> None:
        self.device, self.shape, self.dtype = value.device, value.shape, value.dtype
        self.value, self.level, self.parents, self.number = value, level, parents, next(_numbers)

    @property
    def is_pending(self) -> bool:
        return self.value.is_pending

    @property
    def values(self) -> np.ndarray:
        """Those that it traces."""
        return self.value.values


class Variable(Array):
    """An array of a model. ``set`` gives it another one's numbers, and it stays the same object."""

    def __init__(self, value: Array, kind: str = "trained") -> None:
        self.kind = kind  # or "frozen", or "statistic"
        self.set(value)

    def set(self, value: Array) -> "Variable":
        super().__init__(value.values, value.device)
        return self


TREES: dict[type, tuple] = {}
"""How containers are taken apart, to names and children, and built of other children."""


def register_tree(cls: type, children, build) -> None:
    """For a program's own containers: ``children(x)`` is a dict, ``build(values)`` the inverse."""
    TREES[cls] = children, build


class Interval:
    """Two arrays, a lower and an upper bound."""

    def __init__(self, low: Array, high: Array) -> None:
        self.low, self.high = low, high


register_tree(Interval, lambda x: {".low": x.low, ".high": x.high}, lambda new: Interval(*new))


def variables(model: object, above: str = "") -> Iterator[tuple[str, Variable]]:
    """Each in the attributes of any object, with its path; one at two places has two."""
    for name, value in getattr(model, "__dict__", {}).items():
        if isinstance(value, Variable):
            yield above + name, value
        elif not isinstance(value, Array):
            yield from variables(value, f"{above}{name}.")


class Dense:
    def __init__(self, weight: Variable, bias: Variable) -> None:
        self.weight, self.bias = weight, bias

    def __call__(self, x: Array) -> Array:
        return x @ self.weight + self.bias


class Momentum:
    """Gradient descent with momentum, which is a variable for each parameter."""

    def step(self, variables: list[Variable], gradients: list[Array]) -> None:
        for number, (x, gradient) in enumerate(zip(variables, gradients, strict=True)):
            before = vars(self).get(f"momentum{number}", gradient)
            vars(self)[f"momentum{number}"] = moved = Variable(before * 0.5 + gradient)
            x.set(x - moved * 0.05)


def array(values: np.ndarray, device: str) -> Array:
    return Array(np.array(values, order="C"), device)


def full(shape: tuple[int, ...], value: float, dtype: str, device: str) -> Array:
    return Array(np.full(shape, value, dtype), device)


def put(x: Array, device: str) -> Array:
    """A copy on the device."""
    return _computed(np.array, (x,), (lambda g, x: put(g, x.device),), device)


def constant(x: Array) -> Array:
    """The same numbers in the same memory, with respect to which nothing is differentiated."""
    return Array(x.values, x.device)


def value_and_grad(function):
    """A function that returns the value, of one element, and its gradient for each argument.

    None for an argument that the value does not depend on.
    """

    def evaluate(*arguments: Array) -> tuple[Array, list[Array | None]]:
        level = next(_numbers)
        traced = [Traced(x, level) for x in arguments]
        value = function(*traced)
        if value.level < level:
            return value, [None] * len(traced)
        if value.level > level:
            raise RuntimeError("an array outlived the function that was differentiated for it")
        found = _gradients(value)
        return value.value, [found.get(id(x)) for x in traced]

    return evaluate


def value_and_grad_of_model(function, model: object, of: list[Variable]):
    """The value of ``function(model)``, and its gradient for each of these variables, or None.

    The function gets a copy of the model, with traced arrays in place of these variables; the
    model has the statistics that it sets.
    """
    copies = []

    def of_arrays(*traced: Array) -> Array:
        arrays = {id(x): array for x, array in zip(of, traced, strict=True)}
        copies.append(copy.deepcopy(model, arrays))
        return function(copies[0])

    found = value_and_grad(of_arrays)(*map(constant, of))
    own = dict(variables(model))
    for path, x in variables(copies[0]):
        if x.kind == "statistic":
            own[path].set(x)
    return found


def _gradients(value: Traced) -> dict[int, Array]:
    nodes, left = {}, [value]
    while left:
        node = left.pop()
        nodes[id(node)] = node
        left.extend(parent for parent, _, _ in node.parents if id(parent) not in nodes)
    found = {id(value): full(value.shape, 1, value.dtype, value.device)}
    for node in sorted(nodes.values(), key=lambda node: node.number, reverse=True):
        for parent, pull, operands in node.parents:
            part, before = pull(found[id(node)], *operands), found.get(id(parent))
            found[id(parent)] = part if before is None else before + part
    return found


def _computed(forward, operands: tuple[Array, ...], pulls: tuple, device: str = "") -> Array:
    level = max(x.level for x in operands)
    if level:
        inner = [x.value if x.level == level else x for x in operands]
        parents = [
            (x, pull, inner) for x, pull in zip(operands, pulls, strict=True) if x.level == level
        ]
        return Traced(_computed(forward, inner, pulls, device), level, parents)
    found = {x.device for x in operands}
    if len(found) > 1:
        raise ValueError(f"arrays on different devices: {', '.join(sorted(found))}")
    device = device or found.pop()
    if forward in _PUT_OFF:
        return _pending(forward, operands, device)
    return array(forward(*(x.values for x in operands)), device)


_PUT_OFF = (np.add, np.multiply, np.subtract, np.array)


def _pending(forward, operands: tuple[Array, ...], device: str) -> Array:
    # A variable may be set before this is computed.
    inputs = [x if x.compute else constant(x) for x in operands]
    made = object.__new__(Array)
    made.device, made.dtype = device, np.result_type(*(x.dtype for x in operands)).name
    made.shape = np.broadcast_shapes(*(x.shape for x in operands))
    made.compute = lambda: np.array(forward(*(x.values for x in inputs)), order="C")
    return made


def _lifted(value: Array | float, like: Array) -> Array:
    return value if isinstance(value, Array) else full((), value, like.dtype, like.device)


def _reduced(x: Array, shape: tuple[int, ...]) -> Array:
    """The sum over the axes along which an array of this shape was repeated."""
    if x.shape == shape:
        return x
    new = len(x.shape) - len(shape)
    axes = (*range(new), *(new + n for n, size in enumerate(shape) if size == 1))
    return _computed(
        lambda x: x.sum(axes, dtype=x.dtype).reshape(shape),
        (x,),
        (lambda g, x: _repeated(g, x.shape),),
    )


def _repeated(x: Array, shape: tuple[int, ...]) -> Array:
    return _computed(
        lambda x: np.broadcast_to(x, shape), (x,), (lambda g, x: _reduced(g, x.shape),)
    )


def _scattered(x: Array, key: object, shape: tuple[int, ...]) -> Array:
    """Zeros but for the elements of that key."""

    def forward(values: np.ndarray) -> np.ndarray:
        whole = np.zeros(shape, values.dtype)
        whole[key] = values
        return whole

    return _computed(forward, (x,), (lambda g, _: g[key],))
