from __future__ import annotations

import asyncio
import threading

import pytest

import unidev
from unidev.registry.scopes import Scope, innermost_device, leave_scope, stack


def innermost_scope():
    return stack.scopes[-1] if stack.scopes else None


def test_a_generator_that_is_closed_late_ends_its_own_scope(two_gpus: None) -> None:
    def inside(device):
        with device:
            yield str(unidev.device_of(unidev.zeros(1)))

    first, second = inside(unidev.gpu(0)), inside(unidev.gpu(1))
    assert (next(first), next(second)) == ("gpu:0", "gpu:1")
    first.close()
    assert str(unidev.device_of(unidev.zeros(1))) == "gpu:1"
    second.close()
    assert not stack.scopes


def test_leaving_what_was_not_entered_is_an_error_that_names_it() -> None:
    with pytest.raises(unidev.ScopeError, match=r"<Device cpu:0 of numpy>.*not entered"):
        unidev.cpu().__exit__()


def test_a_scope_cannot_be_left_from_another_thread() -> None:
    refused: list[Exception] = []

    def leave() -> None:
        try:
            unidev.cpu().__exit__()
        except unidev.ScopeError as error:
            refused.append(error)

    with unidev.cpu():
        thread = threading.Thread(target=leave)
        thread.start()
        thread.join()
        assert len(refused) == 1
        assert innermost_scope() is not None


def test_a_scope_does_not_reach_other_threads(two_gpus: None) -> None:
    seen: list[str] = []
    with unidev.gpu(1):
        thread = threading.Thread(
            target=lambda: seen.append(str(unidev.device_of(unidev.zeros(1))))
        )
        thread.start()
        thread.join()
    assert seen == ["cpu:0"]


def test_one_device_can_be_entered_twice(two_gpus: None) -> None:
    gpu = unidev.gpu(1)
    with gpu:
        with gpu:
            pass
        assert unidev.device_of(unidev.zeros(1)) is gpu
    assert not stack.scopes


def test_one_use_backend_can_be_entered_twice() -> None:
    scope = unidev.use_backend("numpy")
    with scope:
        with scope:
            pass
        assert innermost_scope() is not None
    assert not stack.scopes


def test_a_devices_scope_holds_on_inside_use_backend_of_its_own_backend(two_gpus: None) -> None:
    with unidev.gpu(1), unidev.use_backend("numpy"):
        assert unidev.device_of(unidev.zeros(1)) is unidev.gpu(1)


def test_a_devices_scope_says_nothing_about_another_backend(two_gpus: None) -> None:
    with unidev.gpu(1):
        assert innermost_device("numpy") is unidev.gpu(1)
        assert innermost_device("torch") is None


class Native:
    """A framework's own scope, which restores the device that was the default before it."""

    current = "none"

    def __init__(self, device: object) -> None:
        self.device = str(device)

    def __enter__(self) -> None:
        self.before, Native.current = Native.current, self.device

    def __exit__(self, *exc_info: object) -> None:
        assert Native.current == self.device, "scopes must be left innermost first"
        Native.current = self.before


def test_the_frameworks_scope_is_entered_first_and_left_last(two_gpus: None) -> None:
    events: list[str] = []

    class Noting(Native):
        def __enter__(self) -> None:
            events.append(f"enter, inside {innermost_scope()}")

        def __exit__(self, *exc_info: object) -> None:
            events.append(f"leave, inside {innermost_scope()}")

    owner = object()
    Scope(owner, "numpy", unidev.gpu(0), Noting).enter()
    assert innermost_scope() is not None
    leave_scope(owner, None, None, None)
    assert events == ["enter, inside None", "leave, inside None"]


def test_a_scope_that_ends_early_leaves_the_frameworks_default_to_the_later_ones(
    two_gpus: None, monkeypatch
) -> None:
    monkeypatch.setattr(type(unidev.active_backend()), "native_scope", staticmethod(Native))
    seen = []

    async def task(device, enters, leaves):
        await enters.wait()
        with device:
            leaves[0].set()
            await leaves[1].wait()
            seen.append((Native.current, str(unidev.device_of(unidev.zeros(1)))))
        leaves[2].set()

    async def main():
        now, entered, both, first_left = (asyncio.Event() for _ in range(4))
        now.set()
        await asyncio.gather(
            task(unidev.gpu(0), now, [entered, both, first_left]),
            task(unidev.gpu(1), entered, [both, first_left, asyncio.Event()]),
        )

    asyncio.run(main())
    assert seen == [("gpu:1", "gpu:1"), ("gpu:1", "gpu:1")]
    assert Native.current == "none"
    assert not stack.scopes
