"""A library that has GPUs alone, as CuPy: array-api-strict without its CPU."""

from __future__ import annotations

import pytest

PLUGIN = """
import array_api_strict as xp
import unidev
from unidev_array_api.libraries.strict import StrictBackend

class GpusAlone(StrictBackend):
    def places(self):
        return [place for place in super().places() if place.kind == "gpu"]

spec = unidev.active_backend().spec
backend = GpusAlone(spec, 2)
from unidev.backends import loading, selection
loading.loaded_backends[spec.name] = selection._chosen = backend
loading.backends_by_type.clear(); loading.device_getters.clear(); loading.copiers.clear()
"""


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("print(unidev.list_devices())", "gpu:0 of array_api_strict"),
        ("print(unidev.zeros(2, device='gpu:1').device)", "device2"),
        ("print(unidev.try_gpu())", "gpu:0"),
        ("print(unidev.device_of([unidev.zeros(2, device='gpu:1'), object(), 3]))", "gpu:1"),
        ("print(unidev.copy_to([unidev.ones(2, device='gpu'), xp.float32], 'gpu:1'))", "device2"),
        ("unidev.zeros(2)", "cpu:0 is not available"),
        ("unidev.cpu()", "cpu:0 is not available"),
    ],
)  # fmt: skip
def test_what_it_has_works_and_what_it_lacks_is_named(python, program, said) -> None:
    wrapped = f"try:\n    {program}\nexcept unidev.UnidevError as error:\n    print(error)\n"
    done = python(PLUGIN + wrapped, UNIDEV_SIMULATE="2")
    assert said in done.stdout, done.stdout + done.stderr
