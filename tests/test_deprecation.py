"""Old public spellings work for one release, and say what the new one is."""

from __future__ import annotations

import pytest

import unidev


def test_movement_is_planned_transfer() -> None:
    with pytest.warns(DeprecationWarning, match=r"use unidev\.PlannedTransfer") as found:
        old = unidev.Movement
    assert old is unidev.PlannedTransfer
    assert found[0].filename == __file__
    assert "Movement" not in unidev.__all__


def test_an_error_of_the_guard_has_its_transfer_under_both_names(two_gpus: None) -> None:
    x = unidev.ones(3, device="gpu:0")
    with pytest.raises(unidev.TransferForbiddenError) as caught, unidev.transfer_guard("forbid"):
        x.tolist()
    transfer = caught.value.transfer
    assert transfer is not None
    assert transfer.nbytes == 12
    with pytest.warns(DeprecationWarning, match=r"use TransferForbiddenError\.transfer"):
        assert caught.value.movement is transfer


def test_is_asked_is_is_explicit(two_gpus: None) -> None:
    with unidev.trace_transfers() as trace:
        unidev.copy_to(unidev.ones(3), "gpu:0")
    (transfer,) = trace.transfers
    assert transfer.is_explicit
    with pytest.warns(DeprecationWarning, match=r"use Transfer\.is_explicit"):
        assert transfer.is_asked
