"""``Patches``: attributes that are replaced for as long as some thread has entered."""

from __future__ import annotations

import threading
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from unidev.contract.tracer import Patches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

PATIENCE_S = 60


class Base:
    def inherited(self) -> str:
        return "inherited"


class Owner(Base):
    def own(self) -> str:
        return "own"


class OwnerPatches(Patches):
    """Of a class and a module-like object, and of others that come later."""

    def __init__(self, module: SimpleNamespace) -> None:
        super().__init__()
        self.module = module
        self.late: list[SimpleNamespace] = []
        self.before_last: Callable[[], None] = lambda: None

    def replacements(self) -> Iterator[tuple[Any, str, Any]]:
        yield Owner, "own", lambda _: "replaced"
        yield Owner, "inherited", lambda _: "replaced"
        self.before_last()
        yield self.module, "function", lambda: "replaced"

    def late_holders(self) -> Iterator[tuple[Any, str, Any]]:
        for each in self.late:
            yield each, "function", original


def original() -> str:
    return "original"


@pytest.fixture
def patches() -> Iterator[OwnerPatches]:
    before = dict(vars(Owner))
    made = OwnerPatches(SimpleNamespace(function=original))
    yield made
    assert dict(vars(Owner)) == before
    assert made.module.function is original
    assert made.attributes() == []


def test_attributes_are_replaced_from_the_first_enter_to_the_last_exit(
    patches: OwnerPatches,
) -> None:
    with patches:
        with patches:
            assert patches.attributes() == [
                (Owner, "own"), (Owner, "inherited"), (patches.module, "function")
            ]  # fmt: skip
        assert (Owner().own(), Owner().inherited()) == ("replaced", "replaced")
        assert patches.module.function() == "replaced"
    assert (Owner().own(), Owner().inherited()) == ("own", "inherited")
    assert "inherited" not in vars(Owner)


def test_an_exception_restores(patches: OwnerPatches) -> None:
    with pytest.raises(KeyError), patches, patches:
        raise KeyError


@pytest.mark.parametrize("error", [AttributeError, KeyboardInterrupt])
def test_all_or_none_are_replaced(patches: OwnerPatches, error: type[BaseException]) -> None:
    class Refusing(SimpleNamespace):
        def __setattr__(self, name: str, value: object) -> None:
            if value is not original:
                raise error
            super().__setattr__(name, value)

    before, patches.module = patches.module, Refusing(**vars(patches.module))
    with pytest.raises(error), patches:
        pass
    assert vars(Owner)["own"](None) == "own"
    patches.module = before
    with patches:
        assert Owner().own() == "replaced"


def test_an_interrupt_while_they_are_restored_leaves_none(
    patches: OwnerPatches, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([KeyboardInterrupt])

    class Interrupted(SimpleNamespace):
        def __setattr__(self, name: str, value: object) -> None:
            if value is original and next(times, None):
                raise KeyboardInterrupt
            super().__setattr__(name, value)

    monkeypatch.setattr(patches, "module", Interrupted(**vars(patches.module)))
    patches.module.__dict__["function"] = original
    patches.__enter__()
    with pytest.raises(KeyboardInterrupt):
        patches.__exit__(None, None, None)


def test_replacements_that_cannot_be_made_leave_everything(patches: OwnerPatches) -> None:
    patches.before_last = lambda: 1 // 0
    with pytest.raises(ZeroDivisionError), patches:
        pass
    patches.before_last = lambda: None
    with patches:
        assert Owner().own() == "replaced"


def test_who_took_a_replacement_meanwhile_gets_the_original(patches: OwnerPatches) -> None:
    late = SimpleNamespace()
    with patches:
        late.function = patches.module.function
        patches.late.append(late)
        assert late.function is not original
    assert late.function is original


def test_a_list_that_is_kept_restores_what_is_there_by_then() -> None:
    module: Any = ModuleType("module")

    class Kept(Patches):
        kept = ((module, "function", len),)

        def replacements(self) -> Iterable[tuple[Any, str, Any]]:
            return self.kept

    patches = Kept()
    for there in (original, original, abs):
        module.function = there
        with patches:
            assert module.function is len
        assert module.function is there


def test_the_last_thread_to_leave_restores(patches: OwnerPatches) -> None:
    has_entered, may_leave = threading.Event(), threading.Event()

    def work() -> None:
        with patches:
            has_entered.set()
            may_leave.wait(PATIENCE_S)

    thread = threading.Thread(target=work)
    with patches:
        thread.start()
        assert has_entered.wait(PATIENCE_S)
    assert Owner().own() == "replaced"
    may_leave.set()
    thread.join(PATIENCE_S)
    assert Owner().own() == "own"
