"""Checkpoints: what is saved, what loads, and what is refused."""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import xxhash

import unidev
from unidev import nn
from unidev.loading import load_backend
from unidev.models import Stored

DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64",
)  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


def sample(seed: int = 0) -> dict[str, Any]:
    draw = np.random.default_rng(seed)
    return {
        "encoder": [draw.random((3, 2), np.float32), draw.random(3, np.float32)],
        "count": np.array(seed),
    }


def values(model: Any) -> dict[str, bytes]:
    return {
        name: unidev.to_numpy(x).tobytes()
        for name, x in load_backend("numpy").models.tensors(model).items()
    }


def metadata_of(file: Path) -> dict[str, str]:
    with safetensors.safe_open(file, framework="numpy") as opened:
        return dict(opened.metadata())


def problems_of(model: Any, file: Path) -> list[str]:
    before = values(model)
    with pytest.raises(unidev.CheckpointError) as caught:
        unidev.load_parameters(model, file)
    assert values(model) == before
    return list(caught.value.problems)


# -- there and back --------------------------------------------------------------------------------


def test_what_was_saved_is_what_is_loaded_into_the_same_arrays(file: Path) -> None:
    saved, loaded = sample(1), sample(2)
    weight = loaded["encoder"][0]
    unidev.save_parameters(saved, file)
    assert unidev.load_parameters(loaded, file) is loaded
    assert values(loaded) == values(saved)
    assert loaded["encoder"][0] is weight


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 3), (1001, 1051)])
def test_every_dtype_and_shape_comes_back_to_the_bit(file: Path, dtype: str, shape) -> None:
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    content = np.random.default_rng(0).integers(0, 2, size, np.uint8)
    x = content.view(dtype).reshape(shape)
    y = np.zeros(shape, dtype)
    unidev.save_parameters({"x": x, "odd": np.zeros(3, "int8")}, file)
    unidev.load_parameters({"x": y, "odd": np.zeros(3, "int8")}, file)
    assert y.tobytes() == x.tobytes()


def test_bfloat16_is_held_as_its_bits_and_stored_as_what_it_is(file: Path, monkeypatch) -> None:
    names = lambda dtype, _: "bfloat16" if dtype == np.uint16 else str(dtype)  # noqa: E731
    x, y = np.arange(6, dtype="uint16").reshape(2, 3), np.zeros((2, 3), "uint16")
    with monkeypatch.context() as patch:
        patch.setattr("unidev.checkpoint_fit._dtype_name", names)
        unidev.save_parameters({"x": x}, file)
        unidev.load_parameters({"x": y}, file)
    assert y.tolist() == x.tolist()
    with safetensors.safe_open(file, framework="numpy") as opened:
        assert opened.get_slice("x").get_dtype() == "BF16"
    assert problems_of({"x": y}, file) == [
        "x: bfloat16 (2, 3) in the file, uint16 (2, 3) in the model"
    ]


def test_nan_payloads_minus_zero_and_subnormals_are_kept(file: Path) -> None:
    x = np.array([0x7FC00123, 0x80000000, 1, 0xFF800000], "uint32").view("float32")
    y = np.zeros(4, "float32")
    unidev.save_parameters({"x": x}, file)
    unidev.load_parameters({"x": y}, file)
    assert y.tobytes() == x.tobytes()


def test_any_program_that_reads_safetensors_reads_it(file: Path) -> None:
    model = sample()
    unidev.save_parameters(model, file)
    read = safetensors.numpy.load_file(file)
    assert {name: x.tobytes() for name, x in read.items()} == values(model)


def test_a_file_that_another_program_wrote_loads_too(file: Path) -> None:
    safetensors.numpy.save_file({"a": np.arange(3.0), "b": np.ones((2, 2), "int8")}, file)
    model = {"a": np.zeros(3), "b": np.zeros((2, 2), "int8")}
    unidev.load_parameters(model, file)
    assert (model["a"].tolist(), model["b"].tolist()) == ([0, 1, 2], [[1, 1], [1, 1]])


def test_a_model_of_layers_comes_back_with_its_statistics(file: Path) -> None:
    def make(seed: int) -> Any:
        unidev.seed(seed)
        with unidev.use_backend("numpy"):
            return nn.sequential(nn.conv2d(1, 2, 3), nn.relu(), nn.batch_norm(2))

    saved, loaded = make(1), make(2)
    saved(np.ones((2, 1, 5, 5), "float32"))
    assert values(saved) != values(loaded)
    unidev.save_parameters(saved, file)
    unidev.load_parameters(loaded, file)
    assert values(saved) == values(loaded)


def test_a_model_without_any_parameter_is_saved_and_loaded(file: Path) -> None:
    with unidev.use_backend("numpy"):
        model = nn.relu()
    unidev.save_parameters(model, file)
    assert unidev.load_parameters(model, file) is model
    unidev.save_parameters(sample(), file)
    with pytest.raises(unidev.CheckpointError, match="not in the model"):
        unidev.load_parameters(model, file)


@pytest.mark.parametrize("name", ["", "a b", 'quo"te', "ü.名", "a\\b", "a/b", "\0", "x" * 1000])
def test_a_name_may_have_any_characters(file: Path, name: str) -> None:
    unidev.save_parameters({name: np.arange(2), '"unidev.digest":"': np.zeros(1)}, file)
    model = {name: np.zeros(2, int), '"unidev.digest":"': np.ones(1)}
    unidev.load_parameters(model, file)
    assert model[name].tolist() == [0, 1]


def test_the_path_may_be_of_any_kind_that_open_takes(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("plain", Path("path"), tmp_path / "absolute", b"bytes"):
        unidev.save_parameters(sample(1), path)  # type: ignore[arg-type]
        model = sample(2)
        unidev.load_parameters(model, path)  # type: ignore[arg-type]
        assert values(model) == values(sample(1))
    assert sorted(os.listdir()) == ["absolute", "bytes", "path", "plain"]
    with pytest.raises(TypeError):
        unidev.save_parameters(sample(), 3)  # type: ignore[arg-type]


# -- devices ---------------------------------------------------------------------------------------


def test_it_loads_whatever_device_it_was_saved_from(two_gpus: None, file: Path) -> None:
    for source in ("cpu", "gpu:1"):
        unidev.save_parameters(unidev.place(sample(1), source), file)
        assert "gpu" not in file.read_bytes().decode("latin-1")
        for target in ("cpu", "gpu:0"):
            model = unidev.place(sample(2), target)
            weight = model["encoder"][0]
            unidev.load_parameters(model, file)
            assert str(unidev.device_of(model)) == str(unidev.as_device(target))
            assert model["encoder"][0] is weight
            assert values(model) == values(sample(1))


def test_with_a_device_the_model_is_placed_there_once_the_file_is_known_to_fit(
    two_gpus: None, file: Path
) -> None:
    unidev.save_parameters(sample(1), file)
    model = sample(2)
    with pytest.raises(unidev.DeviceNotFoundError):
        unidev.load_parameters(model, file, device="gpu:7")
    with pytest.raises(unidev.CheckpointError):
        unidev.load_parameters({"other": model}, file, device="gpu:1")
    assert str(unidev.device_of(model)) == "cpu:0"
    assert values(model) == values(sample(2))
    unidev.load_parameters(model, file, device="gpu:1")
    assert str(unidev.device_of(model)) == "gpu:1"
    assert values(model) == values(sample(1))


# -- ties and views --------------------------------------------------------------------------------


def tied(x: np.ndarray) -> dict[str, Any]:
    return {"first": x, "other": [x, np.zeros(2)], "third": x}


def test_a_tied_weight_is_stored_once_and_tied_after(file: Path) -> None:
    unidev.save_parameters(tied(np.arange(3.0)), file)
    assert set(safetensors.numpy.load_file(file)) == {"first", "other.1"}
    assert json.loads(metadata_of(file)["unidev.ties"]) == {"first": ["other.0", "third"]}
    model = tied(np.zeros(3))
    unidev.load_parameters(model, file)
    assert model["first"] is model["other"][0] is model["third"]
    assert model["first"].tolist() == [0, 1, 2]


def test_a_tie_in_the_file_alone_gives_each_the_values(file: Path) -> None:
    unidev.save_parameters({"a": (x := np.arange(3.0)), "b": x}, file)
    model = {"a": np.zeros(3), "b": np.zeros(3)}
    unidev.load_parameters(model, file)
    assert (model["a"].tolist(), model["b"].tolist()) == ([0, 1, 2], [0, 1, 2])
    model["a"][0] = 9
    assert model["b"][0] == 0


def test_a_problem_with_a_tie_of_the_file_goes_by_the_models_names(file: Path) -> None:
    unidev.save_parameters({"a": (x := np.arange(3.0)), "b": x}, file)
    assert problems_of({"a": np.zeros(3), "b": np.zeros(4), "c": np.zeros(1)}, file) == [
        "b: float64 (3,) in the file, float64 (4,) in the model",
        "c: float64 (1,) in the model, not in the file",
    ]
    assert problems_of({"a": (y := np.zeros(4)), "b": y}, file) == [
        "a: float64 (3,) in the file, float64 (4,) in the model"
    ]


def test_a_tie_in_the_model_alone_takes_entries_that_are_equal(file: Path) -> None:
    model = {"a": (x := np.zeros(3)), "b": x}
    safetensors.numpy.save_file({"a": np.arange(3.0), "b": np.arange(3.0)}, file)
    unidev.load_parameters(model, file)
    assert x.tolist() == [0, 1, 2]
    safetensors.numpy.save_file({"a": np.arange(3.0), "b": np.ones(3)}, file)
    assert problems_of(model, file) == [
        "a = b: one tensor in the model, with different values in the file"
    ]
    safetensors.numpy.save_file({"b": np.ones(3)}, file)  # as programs store what is tied
    unidev.load_parameters(model, file)
    assert x.tolist() == [1, 1, 1]


def test_two_arrays_that_are_the_same_memory_are_stored_once(file: Path) -> None:
    x = np.arange(6.0)
    unidev.save_parameters({"a": x, "b": x[:], "c": x.reshape(2, 3)}, file)
    assert set(safetensors.numpy.load_file(file)) == {"a", "c"}


def test_two_views_of_one_storage_are_two(file: Path) -> None:
    both, again = np.arange(6.0).reshape(2, 3), np.zeros((2, 3))
    unidev.save_parameters({"a": both[0], "b": both[1]}, file)
    assert set(safetensors.numpy.load_file(file)) == {"a", "b"}
    unidev.load_parameters({"a": again[0], "b": again[1]}, file)
    assert again.tolist() == both.tolist()


def test_arrays_that_share_memory_refuse_values_that_differ(file: Path) -> None:
    x = np.zeros(3)
    safetensors.numpy.save_file({"a": np.arange(3.0), "b": np.ones(3)}, file)
    assert problems_of({"a": x, "b": x[:]}, file) == [
        "a: shares memory with another tensor, with other values in the file"
    ]


def test_a_view_is_saved_without_the_rest_of_its_storage(file: Path) -> None:
    storage = np.arange(1_000_000.0)
    unidev.save_parameters({"row": storage[10:13], "strided": storage[::250_000]}, file)
    assert file.stat().st_size < 1000
    model = {"row": np.zeros(3), "strided": np.zeros(4)}
    unidev.load_parameters(model, file)
    assert model["row"].tolist() == [10, 11, 12]
    assert model["strided"].tolist() == [0, 250_000, 500_000, 750_000]


def test_arrays_of_any_strides_and_byte_order_are_saved_and_written_to(file: Path) -> None:
    x = np.arange(12, dtype=">f4").reshape(3, 4).T[::-1]
    y = np.zeros((3, 8), ">f4").T[::2]
    unidev.save_parameters({"x": x}, file)
    unidev.load_parameters({"x": y}, file)
    assert y.tolist() == x.tolist()


@pytest.mark.parametrize("axes", [(1, 0, 2), (2, 1, 0), (0, 2, 1)])
def test_a_large_array_in_another_order_is_saved_piece_by_piece(file: Path, axes) -> None:
    x = np.random.default_rng(0).random((3, 700, 1001)).transpose(axes)[:, ::-1]
    unidev.save_parameters({"x": x, "flat": x[0, 0]}, file)
    assert (safetensors.numpy.load_file(file)["x"] == x).all()


class Transposed:
    """A backend's ``stored`` that has weights the other way round, as Keras has them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        models = load_backend("numpy").models
        whole = models.stored

        def stored(model: Any) -> dict[str, Stored]:
            return {
                name: Stored(one.tensor, (2, 0, 1)) if one.tensor.ndim == 3 else one
                for name, one in whole(model).items()
            }

        monkeypatch.setattr(models, "stored", stored)


def test_a_layout_of_the_models_own_is_turned_into_the_files(file: Path, monkeypatch) -> None:
    x = np.random.default_rng(0).random((2, 3, 4))
    y = np.zeros((2, 3, 4))
    with monkeypatch.context() as patch:
        Transposed(patch)
        unidev.save_parameters({"x": x, "bias": np.zeros(2)}, file)
        unidev.load_parameters({"x": y, "bias": np.zeros(2)}, file)
        assert problems_of({"x": np.zeros((4, 2, 3)), "bias": np.zeros(2)}, file) == [
            "x: float64 (4, 2, 3) in the file, float64 (3, 4, 2) in the model"
        ]
    assert y.tolist() == x.tolist()
    portable = {"x": np.zeros((4, 2, 3)), "bias": np.zeros(2)}
    unidev.load_parameters(portable, file)
    assert portable["x"].tolist() == x.transpose(2, 0, 1).tolist()


# -- what does not fit -----------------------------------------------------------------------------


def test_all_that_is_wrong_is_in_one_error_and_nothing_is_loaded(file: Path) -> None:
    saved = {
        "weight": np.ones((3, 2)), "bais": np.ones(3), "scale": np.ones(2, "int8"),
        "x": np.ones(1),
    }  # fmt: skip
    unidev.save_parameters(saved, file)
    model = {
        "weight": np.zeros((2, 3)), "bias": np.zeros(3), "scale": np.zeros(2, "int64"),
        "x": np.zeros(1),
    }  # fmt: skip
    assert problems_of(model, file) == [
        "weight: float64 (3, 2) in the file, float64 (2, 3) in the model",
        "bias: float64 (3,) in the model, not in the file (which has 'bais')",
        "scale: int8 (2,) in the file, int64 (2,) in the model",
        "bais: float64 (3,) in the file, not in the model",
    ]


def test_the_message_names_the_first_problems_and_the_error_has_all(file: Path) -> None:
    unidev.save_parameters({f"there.{number}": np.zeros(1) for number in range(30)}, file)
    with pytest.raises(unidev.CheckpointError, match=r"(?s)nothing was.*and 40 more") as caught:
        unidev.load_parameters({f"here.{number}": np.zeros(1) for number in range(30)}, file)
    assert len(caught.value.problems) == 60
    assert isinstance(caught.value, ValueError)


def test_a_file_of_another_framework_that_does_not_fit_says_so(file: Path, monkeypatch) -> None:
    monkeypatch.setattr(load_backend("numpy"), "name", "elsewhere")
    unidev.save_parameters({"kernel": np.zeros(1)}, file)
    monkeypatch.undo()
    unidev.load_parameters({"kernel": np.zeros(1)}, file)
    with pytest.raises(unidev.CheckpointError, match=r"saved from elsewhere, and .* of numpy"):
        unidev.load_parameters({"weight": np.zeros(1)}, file)


def test_dtypes_that_the_file_cannot_hold_are_all_named_and_nothing_is_written(file: Path) -> None:
    file.write_text("old")
    model = {"fine": np.zeros(1), "wide": np.zeros(2, "complex128"), "text": np.array(["x"])}
    with pytest.raises(unidev.UnsupportedDtypeError, match="'wide' is complex128, 'text' is str"):
        unidev.save_parameters(model, file)
    assert file.read_text() == "old"
    assert os.listdir(file.parent) == [file.name]


def test_a_dtype_that_only_the_file_has_is_a_problem_with_its_name(file: Path) -> None:
    header = b'{"x":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}}'
    file.write_bytes(len(header).to_bytes(8, "little") + header + b"ab")
    assert problems_of({"x": np.zeros(2, "complex128")}, file) == [
        "x: F8_E4M3 (2,) in the file, complex128 (2,) in the model"
    ]


@pytest.mark.parametrize("name", ["__metadata__", "\udc80"])
def test_a_name_that_the_format_has_no_room_for_is_refused(file: Path, name: str) -> None:
    with pytest.raises(unidev.InvalidDataError, match="name it otherwise"):
        unidev.save_parameters({name: np.zeros(1)}, file)
    assert not file.exists()


def test_what_is_no_model_is_refused(file: Path) -> None:
    for thing in (np.zeros(3), 3, {}):
        with pytest.raises(unidev.NotAModelError):
            unidev.save_parameters(thing, file)
        with pytest.raises(unidev.NotAModelError):
            unidev.load_parameters(thing, file)
    assert not file.exists()


# -- damage ----------------------------------------------------------------------------------------


def test_a_file_cut_short_anywhere_is_an_error(file: Path) -> None:
    unidev.save_parameters(sample(1), file)
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        assert problems_of(sample(2), file)
    file.write_bytes(whole + b"x")
    assert problems_of(sample(2), file)


def test_a_byte_changed_anywhere_is_an_error(file: Path) -> None:
    unidev.save_parameters({"a": np.arange(3.0), "b": np.zeros(2, "int8")}, file)
    whole = file.read_bytes()
    for position in range(len(whole)):
        for flip in (0x01, 0x20, 0x80):
            damaged = bytearray(whole)
            damaged[position] ^= flip
            file.write_bytes(damaged)
            assert problems_of({"a": np.zeros(3), "b": np.ones(2, "int8")}, file)


def test_a_file_whose_tensors_were_replaced_is_an_error(file: Path) -> None:
    unidev.save_parameters({"a": np.arange(3.0)}, file)
    safetensors.numpy.save_file({"a": np.ones(3)}, file, metadata_of(file))
    (problem,) = problems_of({"a": np.zeros(3)}, file)
    assert "digest" in problem


def test_the_digest_is_of_the_file_with_zeros_in_its_own_place(file: Path) -> None:
    unidev.save_parameters(sample(), file)
    digest = metadata_of(file)["unidev.digest"]
    blank = file.read_bytes().replace(digest.encode(), b"0" * 32, 1)
    assert xxhash.xxh3_128(blank).hexdigest() == digest


def test_the_metadata_says_format_version_and_framework(file: Path) -> None:
    unidev.save_parameters(sample(), file)
    found = metadata_of(file)
    assert found.pop("unidev.digest")
    assert found == {
        "unidev.format": "1", "unidev.version": unidev.__version__,
        "unidev.framework": "numpy", "unidev.ties": "{}",
    }  # fmt: skip


def test_a_newer_format_is_refused_with_words(file: Path) -> None:
    newer = {"unidev.format": "2", "unidev.version": "9.0"}
    safetensors.numpy.save_file({"a": np.arange(3.0)}, file, newer)
    (problem,) = problems_of({"a": np.zeros(3)}, file)
    assert problem == (
        "its format is 2, of unidev 9.0, and this unidev reads 1: a newer unidev reads it"
    )


def test_what_is_no_safetensors_file_is_an_error_and_a_missing_one_an_oserror(file: Path) -> None:
    file.write_text("not a checkpoint at all, though quite long enough for one")
    assert "no safetensors file" in problems_of(sample(), file)[0]
    with pytest.raises(FileNotFoundError):
        unidev.load_parameters(sample(), file.with_name("missing"))
    with pytest.raises(IsADirectoryError):
        unidev.load_parameters(sample(), file.parent)


def test_a_file_that_ends_while_it_is_read_leaves_the_model_as_it_was(
    file: Path, monkeypatch
) -> None:
    models = load_backend("numpy").models
    write = models.write

    def cut(x: Any, given: Any) -> None:
        os.truncate(file, file.stat().st_size - 1)
        write(x, given)

    monkeypatch.setattr(models, "write", cut)
    model = {"big": np.zeros(1 << 20), **sample(2)}
    unidev.save_parameters({"big": np.ones(1 << 20), **sample(1)}, file)
    assert "it ended while" in problems_of(model, file)[0]


def test_whoever_loads_while_another_saves_gets_one_of_the_files_whole(file: Path) -> None:
    def model(number: int) -> dict[str, np.ndarray]:
        return {f"layer.{layer}": np.full(10_000, number) for layer in range(3)}

    def save() -> None:
        for number in range(1, 40):
            unidev.save_parameters(model(number), file)

    unidev.save_parameters(model(0), file)
    found: list[set[int]] = []
    with ThreadPoolExecutor(1) as pool:
        saving = pool.submit(save)
        while not saving.done():
            loaded = unidev.load_parameters(model(-1), file)
            found.append({number for x in loaded.values() for number in x.tolist()})
        saving.result()
    assert all(len(numbers) == 1 for numbers in found)
    assert len(set.union(*found)) > 5


# -- failures and interruptions --------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError, OSError])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_save_that_fails_or_is_interrupted_leaves_the_old_file_and_nothing_else(
    file: Path, monkeypatch, error, position: int
) -> None:
    unidev.save_parameters(sample(1), file)
    models = load_backend("numpy").models
    reads = iter(range(3))

    def fails(x: Any) -> Any:
        if next(reads) == position:
            raise error
        return np.asarray(x)

    monkeypatch.setattr(models, "read", fails)
    with pytest.raises(unidev.FrameworkError if error is RuntimeError else error):
        unidev.save_parameters(sample(2), file)
    assert os.listdir(file.parent) == [file.name]
    monkeypatch.undo()
    model = sample(3)
    unidev.load_parameters(model, file)
    assert values(model) == values(sample(1))


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_load_that_fails_or_is_interrupted_leaves_the_model_as_it_was(
    file: Path, monkeypatch, error, position: int
) -> None:
    unidev.save_parameters(sample(1), file)
    models = load_backend("numpy").models
    write, writes = models.write, iter(range(100))

    def fails(x: Any, given: Any) -> None:
        write(x, given)
        # Interrupted once more while the old values are put back.
        if (number := next(writes)) in (position, position + 1) and (
            number == position or error is KeyboardInterrupt
        ):
            raise error

    monkeypatch.setattr(models, "write", fails)
    model = sample(2)
    with pytest.raises(unidev.FrameworkError if error is RuntimeError else error):
        unidev.load_parameters(model, file)
    assert values(model) == values(sample(2))


# -- progress and memory ---------------------------------------------------------------------------


def test_what_is_quick_says_nothing_and_what_takes_long_says_what_it_does(
    file: Path, monkeypatch, capsys
) -> None:
    unidev.save_parameters(sample(1), file)
    unidev.load_parameters(sample(2), file)
    assert capsys.readouterr().err == ""
    models = load_backend("numpy").models

    def slow(x: Any) -> Any:
        import time

        time.sleep(0.05)
        return np.asarray(x)

    monkeypatch.setattr("unidev.progress.BEAT_S", 0.01)
    monkeypatch.setattr(models, "read", slow)
    unidev.save_parameters(sample(1), file)
    unidev.load_parameters(sample(2), file)
    said = capsys.readouterr().err
    assert f"unidev: saving 0 MB to {file}: done in 0." in said
    assert f"unidev: loading 0 MB from {file}: done in 0." in said


PEAK = """
    import resource
    import sys
    import numpy as np
    import unidev

    def peak_mb():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    small = {"x": np.zeros(10, "float32")}
    unidev.save_parameters(small, "small")
    unidev.load_parameters(small, "small")
    model = {f"layer.{i}": np.full(5_000_000, i, "float32") for i in range(10)}
    before = peak_mb()
    unidev.save_parameters(model, "file")
    saving = peak_mb() - before
    for x in model.values():
        x[...] = -1
    unidev.load_parameters(model, "file")
    assert [x[-1] for x in model.values()] == list(range(10))
    print(saving, peak_mb() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB on Linux alone")
def test_saving_holds_no_copy_of_the_model_and_loading_no_copy_of_the_file(run_python) -> None:
    saving_mb, loading_mb = map(float, run_python(PEAK).split())
    assert saving_mb < 10  # of 200: views of NumPy's own memory
    assert loading_mb < 200 + 20 + 10  # the old values, one tensor of the file
