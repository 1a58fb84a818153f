from __future__ import annotations

import numpy as np
import pytest

import unidev


def on(device: str) -> np.ndarray:
    return unidev.zeros(2, device=device)


def test_a_container_on_two_devices_has_none_and_each_tensor_is_named(two_gpus: None) -> None:
    with pytest.raises(unidev.DeviceMismatchError) as caught:
        unidev.device_of({"a": on("gpu:0"), "b": [on("gpu:1")]})
    assert str(caught.value) == (
        "tensors on different devices: ['a']: gpu:0, ['b'][0]: gpu:1. Move them to one device with "
        "as_in_device(x, device)."
    )
    assert caught.value.devices == {"['a']": unidev.gpu(0), "['b'][0]": unidev.gpu(1)}


def test_arguments_are_named_in_the_message(two_gpus: None) -> None:
    with pytest.raises(unidev.DeviceMismatchError) as caught:
        unidev.check_same_device(on("cpu"), x=on("gpu:0"), batch={"mask": on("gpu:1")})
    assert "args[0]: cpu:0, x: gpu:0, batch['mask']: gpu:1." in str(caught.value)
    unidev.check_same_device(on("gpu:1"), x=[on("gpu:1")], n=[5])
    unidev.check_same_device()


def test_a_message_names_twenty_tensors_and_the_error_has_all(two_gpus: None) -> None:
    with pytest.raises(
        unidev.DeviceMismatchError, match=r"and 10 more \(the error's `devices` lists all\)"
    ) as caught:
        unidev.check_same_device([on("cpu")] * 29, on("gpu:0"))
    assert len(caught.value.devices) == 30


def test_the_one_that_is_elsewhere_is_named_wherever_it_stands(two_gpus: None) -> None:
    for position in (0, 25, 49):
        tensors = [on("gpu:1")] * 50
        tensors[position] = on("gpu:0")
        with pytest.raises(unidev.DeviceMismatchError) as caught:
            unidev.check_same_device(batch=tensors)
        assert f"batch[{position}]: gpu:0" in str(caught.value)
        assert str(caught.value).count("gpu:1") == 19


def test_a_model_among_them_is_placed_and_the_message_says_so(two_gpus: None) -> None:
    net = unidev.nn.dense(2, 1)
    with pytest.raises(unidev.DeviceMismatchError, match=r"a model with place\(model, device\)"):
        unidev.check_same_device(net=net, x=on("gpu:0"))


def test_names_that_look_alike_hide_no_mismatch(two_gpus: None) -> None:
    class Key:
        def __repr__(self) -> str:
            return "Key"

    twins = {Key(): on("gpu:1"), Key(): on("gpu:0")}
    assert not unidev.same_device(twins)
    for arguments, named in (((twins,), {}), ((on("gpu:1"),), {"args[0]": on("gpu:0")})):
        with pytest.raises(unidev.DeviceMismatchError) as caught:
            unidev.check_same_device(*arguments, **named)
        assert set(caught.value.devices.values()) == {unidev.gpu(0), unidev.gpu(1)}


def test_a_key_of_another_type_is_named_by_its_type(two_gpus: None) -> None:
    class Key:
        def __repr__(self) -> str:
            raise ZeroDivisionError

    with pytest.raises(unidev.DeviceMismatchError, match=r"args\[0\]\[<.*Key>\]: gpu:0"):
        unidev.check_same_device({Key(): on("gpu:0"), "b": on("gpu:1")})


def test_an_extent_of_no_bytes_is_shared_with_nothing_also_inside_another(monkeypatch) -> None:
    extents = {1: [unidev.Extent(100, 50)], 2: [unidev.Extent(120, 0)], 3: [unidev.Extent(149, 9)]}
    backend = unidev.active_backend()
    monkeypatch.setattr(type(backend), "extents", lambda self, x: extents[x.size])
    whole, empty, beside = (np.zeros(size) for size in (1, 2, 3))
    assert not unidev.shares_memory(whole, empty)
    assert not unidev.shares_memory(empty, whole)
    assert unidev.shares_memory(whole, beside)
    assert not unidev.shares_memory(empty, empty)


@pytest.mark.parametrize("other", [[np.zeros(1)], None, 5, np.float32(1)])
def test_shares_memory_is_about_two_tensors(other: object) -> None:
    for pair in ((np.zeros(1), other), (other, np.zeros(1))):
        with pytest.raises(unidev.NotATensorError, match=type(other).__name__):
            unidev.shares_memory(*pair)
