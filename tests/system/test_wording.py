"""Counts, bytes and seconds for people; values that do not let themselves be shown."""

from types import SimpleNamespace

import numpy as np
import pytest

import unidev
from unidev.system.wording import bytes_text, count_text, kind_of, number_text, seconds_text, shown


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"), (1, "1 byte"), (1023, "1,023 bytes"),
        (2**10, "1 KiB"), (1536, "1.5 KiB"), (64 * 2**20, "64 MiB"), (3 * 2**30, "3 GiB"),
        (2**20 - 1, "1 MiB"), (2**30 - 1, "1 GiB"),  # never 1,024 KiB
        (2**50, "1,048,576 GiB"),
    ],
)  # fmt: skip
def test_bytes_are_binary_and_rounded_to_one_decimal(count, text):
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ns"), (1.2e-8, "12 ns"), (4.567e-5, "45.7 µs"), (0.0123, "12.3 ms"),
        (2.5, "2.5 s"), (123.4, "123 s"), (1234.5, "1,234 s"),
        (0.99951, "1 s"), (99.96e-3, "100 ms"), (999.4e-6, "999 µs"),
    ],
)  # fmt: skip
def test_seconds_have_three_digits_and_a_fitting_unit(seconds, text):
    assert seconds_text(seconds) == text


def test_numbers_have_three_digits_or_all_that_stand_before_the_point():
    assert [number_text(x) for x in (0.12345, 3.234, 99.96, 12345.6)] == [
        "0.123", "3.23", "100", "12,346",
    ]  # fmt: skip


def test_a_count_has_its_plural():
    assert [count_text(x, "tensor") for x in (0, 1, 1001)] == [
        "0 tensors", "1 tensor", "1,001 tensors",
    ]  # fmt: skip


def test_only_python_and_unidev_are_trusted_with_showing_a_value():
    class Crashes:
        def __repr__(self):
            raise AssertionError("the code of a stranger was called")

    class Numbers(list):
        __repr__ = Crashes.__repr__

    class Meta(type):
        __repr__ = Crashes.__repr__

    class Made(metaclass=Meta):
        pass

    for value in (Crashes(), Numbers(), Made()):
        cls = type(value).__qualname__
        for text in (shown(value), shown([value]), shown({"key": (value,)}), shown({1: value})):
            assert f"{cls}>" in text
    assert "Made" in shown(Made)
    assert shown([1, "a", None, 2.5, {"b": 3}]) == "[1, 'a', None, 2.5, {'b': 3}]"
    assert shown(unidev.cpu()) == "<Device cpu:0 of numpy>"
    assert shown(int) == "<class 'int'>"


def test_what_is_shown_is_short():
    assert shown(10**5000) == "<int>"
    assert len(shown("x" * 1000)) <= 102
    assert kind_of(1) == "int"
    assert kind_of(pytest.approx(1)).endswith(".ApproxScalar")


def test_a_path_in_a_message_does_not_run_a_keys_code():
    class Key:
        def __repr__(self):
            raise AssertionError("the code of a stranger was called")

    with pytest.raises(unidev.UnsupportedContainerError) as caught:
        unidev.copy_to({Key(): SimpleNamespace(x=np.ones(2)), 1: np.ones(2)}, "cpu")
    assert "Key>]" in str(caught.value)
