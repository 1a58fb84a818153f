"""Tensors that come out other than they were asked for."""

from __future__ import annotations

from typing import Any

from mutants.mutant import in_place_of, mutant, replace, replace_value


@mutant("smoke.create_and_read_back")
def upload_not_awaited(backend: Any) -> None:
    """A new tensor is there before its bytes: an asynchronous upload that nobody waits for."""

    @replace(backend)
    def from_numpy(self: Any, array: Any, dtype: Any, device: Any) -> Any:
        return self.zeros(array.shape, dtype, device)


@mutant("smoke.create_and_read_back")
def read_back_is_shared(backend: Any) -> None:
    """``to_numpy`` gives the tensor's own memory: ``x.numpy()`` of torch, ``np.asarray`` of TF."""
    import numpy as np

    @replace(backend)
    def to_numpy(self: Any, x: Any) -> Any:
        return x.view(np.ndarray)


@mutant("create.on_each_device")
def new_tensors_ignore_the_device(backend: Any) -> None:
    """New tensors are on the CPU whatever was asked: TF with soft placement on."""
    for name in ("from_numpy", "empty", "zeros", "full"):
        _ignore_device(backend, name)


def _ignore_device(backend: Any, name: str) -> None:
    make = getattr(backend, name)

    def on_cpu(self: Any, *arguments: Any) -> Any:
        return make(self, *arguments[:-1], self.cpu)

    replace_value(backend, name, on_cpu)


@mutant("create.on_each_device")
def full_ignores_the_device(backend: Any) -> None:
    """One maker of many forgets the device: TF's ``tf.fill`` when its operands decide."""
    _ignore_device(backend, "full")


@mutant("create.on_each_device")
def full_comes_from_the_host(backend: Any) -> None:
    """A fill is made by NumPy and uploaded, whatever its size: ``jnp.asarray(np.full(...))``."""
    import numpy as np

    @replace(backend)
    def full(self: Any, shape: Any, value: Any, dtype: Any, device: Any) -> Any:
        return self.from_numpy(np.full(shape, value, dtype), dtype, device)


@mutant("values.of_a_seed")
def another_generator_has_the_seed(backend: Any) -> None:
    """The same numbers on each device, and others elsewhere: ``numpy.random.default_rng(seed)``."""
    import numpy as np

    from unidev.tensors import generator

    replace_value(generator, "_philox", np.random.default_rng)


@mutant("values.of_a_seed")
def gpus_draw_from_generators_of_their_own(backend: Any) -> None:
    """A seed gives a GPU other numbers than the CPU: PyTorch's generators, one for each device."""
    from unidev.tensors import generator

    draw, made = generator.draw, backend.from_numpy
    shapes: list[Any] = []

    @in_place_of(draw)
    def drawn(distribution: str, shape: tuple[int, ...], dtype: str) -> Any:
        shapes.append((distribution, shape, dtype))
        return draw(distribution, shape, dtype)

    @replace(backend)
    def from_numpy(self: Any, array: Any, dtype: Any, device: Any) -> Any:
        again = draw(*shapes.pop()) if shapes and device.kind == "gpu" else array
        shapes.clear()
        return made(self, again, dtype, device)


@mutant("create.from_a_list")
def python_floats_stay_float64(backend: Any) -> None:
    """Lists of Python floats become float64: NumPy, and ``mxnet.np`` of some versions."""
    from unidev.tensors import python_data

    replace_value(python_data, "_NARROW", {})


@mutant("create.from_a_list")
def ints_are_wider_than_the_default(backend: Any) -> None:
    """Lists of ints become int64 where the framework's ints are int32: JAX's with a warning."""
    from unidev.tensors import python_data

    made = python_data._from_python
    replace_value(backend, "default_integer", "int32")

    @replace(python_data)
    def _from_python(data: Any, dtype: Any, integer: str) -> Any:
        return made(data, dtype, "int64")


@mutant("create.from_a_list", "errors.dtypes_of_devices", result="pass")
def ints_are_narrow(backend: Any) -> None:
    """Nothing is broken: Python's ints are int32, as of JAX without its switch for 64 bits."""
    replace_value(backend, "default_integer", "int32")


@mutant("dtypes.spellings")
def only_own_dtypes_are_parsed(backend: Any) -> None:
    """NumPy's types are refused as dtypes: ``torch.zeros(3, dtype=numpy.float32)``."""

    @replace(backend)
    def parse_dtype(self: Any, spec: Any) -> Any:
        return next((own for own in self.dtypes.values() if spec is own), None)


@mutant("create.each_dtype_on_each_device")
def float16_made_as_float32(backend: Any) -> None:
    """A dtype that was asked for is replaced by one that the device has: MPS's float64."""
    import numpy as np

    make = backend.from_numpy

    @replace(backend)
    def from_numpy(self: Any, array: Any, dtype: Any, device: Any) -> Any:
        given = np.dtype("float32") if dtype == np.float16 and device.kind == "gpu" else dtype
        return make(self, array, given, device)


@mutant("create.device_of_tensor_view_and_result")
def device_of_is_always_the_default(backend: Any) -> None:
    """Every tensor says that it is on the CPU: ``ndarray.device`` of NumPy 2."""

    @replace(backend)
    def device_of(self: Any, x: Any) -> Any:
        return self.cpu


@mutant("create.device_of_tensor_view_and_result")
def results_say_another_device(backend: Any) -> None:
    """Views and results forget where they are: TF's ``y[0]`` outside a scope says CPU:0."""
    from unidev.numpy_backend.simulated_array import SimulatedArray

    @replace(SimulatedArray)
    def __getitem__(self: Any, key: Any) -> Any:
        import numpy as np

        return self.view(np.ndarray)[key]

    def ufunc(self: Any, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        import numpy as np

        plain = [x.view(np.ndarray) if isinstance(x, np.ndarray) else x for x in inputs]
        return getattr(function, method)(*plain, **options)

    replace_value(SimulatedArray, "__array_ufunc__", ufunc)


@mutant("create.same_device_true_false_mixed", "errors.tensors_on_different_devices")
def same_device_compares_kinds(backend: Any) -> None:
    """Two GPUs count as one device: code that compares torch's ``x.device.type``."""
    from unidev.tensors import checks

    devices = checks._devices

    @replace(checks)
    def _devices(named: Any) -> Any:
        found = devices(named)
        first = {device.kind: device for _, device in reversed(found)}
        return [(name, first[device.kind]) for name, device in found]


@mutant("create.rejects_what_is_no_tensor")
def no_tensor_passes_through(backend: Any) -> None:
    """What is no tensor is returned as it is: accelerate's ``send_to_device``, ``tf.nest``."""
    from unidev.errors import NotATensorError
    from unidev.tensors.transfer import as_in_device, copy_to

    def passing(verb: Any) -> Any:
        def moved(x: Any, device: Any, *, non_blocking: bool = False) -> Any:
            try:
                return verb(x, device, non_blocking=non_blocking)
            except NotATensorError:
                return x

        return moved

    in_place_of(copy_to)(passing(copy_to))
    in_place_of(as_in_device)(passing(as_in_device))
