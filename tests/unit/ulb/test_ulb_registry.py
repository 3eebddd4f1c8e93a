"""Bindings of programs."""

from __future__ import annotations

from typing import Any

import pytest

from rpcrdma.rpc.program import Procedure
from rpcrdma.transport import ReplyBound
from rpcrdma.ulb import binding_for, default_binding, register_binding, registry


def procedure(number: int) -> Procedure[Any, Any]:
    def unused(*_: Any) -> None:
        pytest.fail("a binding encodes nothing")

    return Procedure(0x20000001, 1, number, "NAME", "name", unused, unused, unused, unused)


@pytest.mark.req("V1-13")
def test_program_without_a_binding_has_nothing_eligible_and_room_for_large_results() -> None:
    bind = binding_for(0x20000001, 1)
    assert bind(procedure(1), None) == ReplyBound(65536)
    assert bind(procedure(0), None) == ReplyBound(0)


def test_room_for_results_can_be_chosen() -> None:
    assert default_binding(1000)(procedure(1), None) == ReplyBound(1000)


def test_own_program_registers_its_binding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_BINDINGS", dict(registry._BINDINGS))
    register_binding(0x20000001, 1, lambda procedure, args: ReplyBound(procedure.number, (args,)))
    assert binding_for(0x20000001, 1)(procedure(7), 99) == ReplyBound(7, (99,))
    assert binding_for(0x20000001, 2)(procedure(7), 99) == ReplyBound(65536)
