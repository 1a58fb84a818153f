"""Tensors that come out other than they were asked for."""

from __future__ import annotations

from typing import Any

import numpy as np

from mutants.mutant import in_place_of, mutant, replace, replace_value
from unidev.backends.numpy_backend.simulated_array import SimulatedArray
from unidev.errors import NotATensorError
from unidev.tensors import generator, python_data
from unidev.tensors.transfer import as_in_device, copy_to


@mutant("smoke.create_and_read_back", around="from_numpy")
def upload_not_awaited(sound, self, array, dtype, device):
    """A new tensor is there before its bytes: an asynchronous upload that nobody waits for."""
    return self.zeros(array.shape, dtype, device)


@mutant("smoke.create_and_read_back", around="to_numpy")
def read_back_is_shared(sound, self, x):
    """``to_numpy`` gives the tensor's own memory: ``x.numpy()`` of torch, ``np.asarray`` of TF."""
    return x.view(np.ndarray)


def _ignore_device(backend: Any, name: str) -> None:
    make = getattr(backend, name)

    def on_cpu(self: Any, *arguments: Any) -> Any:
        return make(self, *arguments[:-1], self.cpu)

    replace_value(backend, name, on_cpu)


@mutant("create.on_each_device")
def full_ignores_the_device(backend):
    """One maker of many forgets the device: TF's ``tf.fill`` when its operands decide."""
    _ignore_device(backend, "full")


@mutant("create.on_each_device", around="new_like")
def likenesses_of_four_axes_are_in_c_order(sound, self, x, value, device):
    """Channels are last no more: a layout that is known by its two axes."""
    return sound(self, x, value, device) if x.ndim < 4 else None


@mutant("create.on_each_device", around="new_like")
def likenesses_have_no_class(sound, self, x, value, device):
    """A masked array's likeness is a plain one: ``torch.zeros(x.shape)``."""
    return None if isinstance(x, np.ma.MaskedArray) else sound(self, x, value, device)


@mutant("values.of_a_seed")
def gpus_draw_from_generators_of_their_own(backend):
    """A seed gives a GPU other numbers than the CPU: PyTorch's generators, one for each device."""

    draw, made = generator.draw, backend.from_numpy
    shapes: list[Any] = []

    @in_place_of(draw)
    def drawn(distribution, shape, dtype):
        shapes.append((distribution, shape, dtype))
        return draw(distribution, shape, dtype)

    @replace(backend)
    def from_numpy(self, array, dtype, device):
        again = draw(*shapes.pop()) if shapes and device.kind == "gpu" else array
        shapes.clear()
        return made(self, again, dtype, device)


@mutant("create.from_a_list")
def python_floats_stay_float64(backend):
    """Lists of Python floats become float64: NumPy, and ``mxnet.np`` of some versions."""

    replace_value(python_data, "_NARROW", {})


@mutant("create.from_a_list", "errors.dtypes_of_devices", result="pass")
def ints_are_narrow(backend):
    """Nothing is broken: Python's ints are int32, as of JAX without its switch for 64 bits."""
    replace_value(backend, "default_integer", "int32")


@mutant("dtypes.spellings", around="parse_dtype")
def only_own_dtypes_are_parsed(sound, self, spec):
    """NumPy's types are refused as dtypes: ``torch.zeros(3, dtype=numpy.float32)``."""
    return next((own for own in self.dtypes.values() if spec is own), None)


@mutant("create.each_dtype_on_each_device", around="from_numpy")
def float16_made_as_float32(make, self, array, dtype, device):
    """A dtype that was asked for is replaced by one that the device has: MPS's float64."""
    given = np.dtype("float32") if dtype == np.float16 and device.kind == "gpu" else dtype
    return make(self, array, given, device)


@mutant("create.device_of_tensor_view_and_result", around="device_of")
def device_of_is_always_the_default(sound, self, x):
    """Every tensor says that it is on the CPU: ``ndarray.device`` of NumPy 2."""
    return self.cpu


@mutant("create.device_of_tensor_view_and_result")
def results_say_another_device(backend):
    """Views and results forget where they are: TF's ``y[0]`` outside a scope says CPU:0."""

    @replace(SimulatedArray)
    def __getitem__(self, key):
        import numpy as np

        return self.view(np.ndarray)[key]

    def ufunc(self, function, method, *inputs, **options):
        import numpy as np

        plain = [x.view(np.ndarray) if isinstance(x, np.ndarray) else x for x in inputs]
        return getattr(function, method)(*plain, **options)

    replace_value(SimulatedArray, "__array_ufunc__", ufunc)


@mutant(
    "create.same_device_true_false_mixed",
    "errors.tensors_on_different_devices",
    around="unidev.tensors.checks:_devices",
)
def same_device_compares_kinds(devices, named, **options):
    """Two GPUs count as one device: code that compares torch's ``x.device.type``."""
    found = devices(named, **options)
    first = {device.kind: device for _, device in reversed(found)}
    return [(name, first[device.kind]) for name, device in found]


@mutant("create.rejects_what_is_no_tensor")
def no_tensor_passes_through(backend):
    """What is no tensor is returned as it is: accelerate's ``send_to_device``, ``tf.nest``."""

    def passing(verb):
        def moved(x, device, *, non_blocking=False):
            try:
                return verb(x, device, non_blocking=non_blocking)
            except NotATensorError:
                return x

        return moved

    in_place_of(copy_to)(passing(copy_to))
    in_place_of(as_in_device)(passing(as_in_device))


@mutant("values.tensors_convert_as_lists_do", around="from_numpy")
def halves_are_cut_off(sound, self, array, dtype, device):
    """Integers become float16 without rounding: the upper bits of float32."""
    if array.dtype.kind in "iu" and dtype == np.float16:
        array = (array.astype(np.float32).view("u4") & np.uint32(0xFFFFE000)).view("f4")
    return sound(self, array, dtype, device)


@mutant("create.from_another_tensor", around="from_numpy")
def numpys_errors_stay_off(sound, self, array, dtype, device):
    """A conversion that may overflow, without ``with np.errstate``."""
    np.seterr(over="ignore")
    return sound(self, array, dtype, device)
