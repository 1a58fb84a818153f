from __future__ import annotations

import asyncio
import gc
import re

import pytest
from turns import in_a_thread, in_turns

import unidev
from unidev.backends.scopes import Scope, innermost_device, leave_scope, stack


def innermost_scope():
    return stack.scopes[-1] if stack.scopes else None


def test_leaving_what_was_not_entered_is_an_error_that_names_it() -> None:
    with pytest.raises(unidev.ScopeError, match=r"<Device cpu:0 of numpy>.*not yield in it"):
        unidev.cpu().__exit__()


def test_a_scope_cannot_be_left_from_another_thread() -> None:
    refused: list[Exception] = []

    def leave() -> None:
        try:
            unidev.cpu().__exit__()
        except unidev.ScopeError as error:
            refused.append(error)

    with unidev.cpu():
        in_a_thread(leave)
        assert len(refused) == 1
        assert innermost_scope() is not None


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


def here() -> str:
    return str(unidev.device_of(unidev.zeros(1)))


def test_a_task_begins_inside_the_blocks_of_the_one_that_made_it_and_a_thread_does_not(
    two_gpus: None,
) -> None:
    seen = []

    async def child(is_over):
        seen.append(here())
        with unidev.gpu(0):
            seen.append(here())
        await is_over.wait()
        seen.append(here())

    async def main():
        is_over = asyncio.Event()
        with unidev.gpu(1):
            made = asyncio.create_task(child(is_over))
            await asyncio.sleep(0)
            seen.append(await asyncio.to_thread(here))
        is_over.set()
        await made

    asyncio.run(main())
    assert seen == ["gpu:1", "gpu:0", "cpu:0", "cpu:0"]


def test_a_default_of_the_thread_is_refused_inside_another_tasks_block(
    two_gpus: None, monkeypatch
) -> None:
    monkeypatch.setattr(type(unidev.active_backend()), "native_scope", staticmethod(Native))

    def inside(device):
        with device:
            yield Native.current, here()
            yield Native.current, here()

    with pytest.raises(unidev.ScopeError) as caught:
        in_turns(*(lambda gpu=gpu: inside(gpu) for gpu in unidev.try_all_gpus()))
    first, second = (
        rf"`with <Device gpu:{index} of numpy>:`, at .*test_scopes\.py:\d+" for index in (0, 1)
    )
    assert re.search(
        f"^{second}, would be entered inside another task's {first}", str(caught.value)
    )
    gc.collect()  # the task that was cancelled, inside its block
    assert Native.current == "none"
    assert not stack.scopes


def test_a_default_of_the_thread_is_refused_also_inside_a_block_without_one(
    two_gpus: None, monkeypatch
) -> None:
    monkeypatch.setattr(type(unidev.active_backend()), "native_scope", staticmethod(Native))

    def first():
        with unidev.gpu(0):
            yield
            yield

    def second():
        yield
        with (
            unidev.use_backend("numpy"),
            pytest.raises(unidev.ScopeError, match="inside another task's"),
        ):
            unidev.gpu(1).__enter__()

    in_turns(first, second)
    assert Native.current == "none"


def test_a_block_that_ends_inside_a_tasks_that_it_made_ends_and_says_so(
    two_gpus: None, monkeypatch
) -> None:
    monkeypatch.setattr(type(unidev.active_backend()), "native_scope", staticmethod(Native))

    async def child(is_over):
        with unidev.gpu(1):
            await is_over.wait()
            return Native.current, here()

    async def parent(made, is_over):
        with unidev.gpu(0):
            made.append(asyncio.create_task(child(is_over)))
            await asyncio.sleep(0)

    async def main():
        made, is_over = [], asyncio.Event()
        with pytest.raises(unidev.ScopeError, match=r"gpu:0.* ends inside another task's .*gpu:1"):
            await parent(made, is_over)
        is_over.set()
        return await made[0]

    assert asyncio.run(main()) == ("gpu:1", "gpu:1")
    assert Native.current == "none"
    assert not stack.scopes


def test_leaving_what_another_task_entered_names_its_line(two_gpus: None) -> None:
    def entering():
        with unidev.gpu(1):
            yield
            yield

    def leaving():
        yield
        with pytest.raises(unidev.ScopeError, match=r"which another task entered, at .*\.py:\d+"):
            unidev.gpu(1).__exit__(None, None, None)

    in_turns(entering, leaving)
