"""Under which name a call that no handler answers is counted, and which procedure it is counted for."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from rpcrdma.aio.answering.answering import ServerCall
from rpcrdma.errors import DecodeError
from rpcrdma.nfs import v3
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.rpc.service import Service
from rpcrdma.xdr.codec import Decoder
from support.cases import each_case

PROGRAM, VERSION = v3.READ.program, v3.READ.version


class Files(Service):
    PROGRAM = v3.NFS_V3
    IDEMPOTENT = frozenset({1, v3.READ.number})

    def read(self, args: Any, context: Any) -> None: ...

    def remove(self, args: Any, context: Any) -> None: ...


def call(
    *words: int, rpc_version: int = 2, program: int = PROGRAM, version: int = VERSION, number: int = 0
) -> ServerCall:
    message = struct.pack(f">6I{len(words)}I", 7, 0, rpc_version, program, version, number, *words)
    return ServerCall(7, Decoder(message))


EMPTY = (0, 0, 0, 0)


@each_case(
    ("words", "header", "status"),
    [
        (EMPTY, {"rpc_version": 1}, "RPC_MISMATCH"),
        (EMPTY, {"rpc_version": 3}, "RPC_MISMATCH"),
        ((0, 401, *[0] * 103), {}, "AUTH_ERROR"),
        ((1, 4, 0, 0, 0), {}, "AUTH_ERROR"),
        ((2, 0, 0, 0), {}, "AUTH_ERROR"),
        ((0, 0, 1, 0), {}, "AUTH_ERROR"),
        (EMPTY, {"program": PROGRAM + 1}, "PROG_UNAVAIL"),
        (EMPTY, {"version": VERSION + 1}, "PROG_MISMATCH"),
        (EMPTY, {"number": 99}, "PROC_UNAVAIL"),
        (EMPTY, {"number": v3.READ.number}, "GARBAGE_ARGS"),
    ],
)
def test_a_refused_call_is_counted_under_its_status(
    words: tuple[int, ...], header: dict[str, int], status: str
) -> None:
    refused = call(*words, **header)
    assert Dispatcher([Files()]).open_call(refused) is not None
    assert refused.status == status
    assert (refused.procedure is not None) == (status == "GARBAGE_ARGS")


@each_case("kind", [1, 2, 0xFFFFFFFF])
def test_a_message_that_is_no_call_is_dropped(kind: int) -> None:
    message = struct.pack(">10I", 7, kind, 2, PROGRAM, VERSION, 0, *EMPTY)
    with pytest.raises(DecodeError):
        Dispatcher([Files()]).open_call(ServerCall(7, Decoder(message)))


@each_case("length", [0, 10, 20, 39])
def test_a_header_that_is_cut_short_is_dropped(length: int) -> None:
    whole = struct.pack(">10I", 7, 0, 2, PROGRAM, VERSION, 0, *EMPTY)
    with pytest.raises(DecodeError):
        Dispatcher([Files()]).open_call(ServerCall(7, Decoder(whole[:length])))


@each_case(("number", "once"), [(0, False), (v3.READ.number, False), (v3.REMOVE.number, True)])
def test_what_is_not_idempotent_runs_at_most_once(number: int, once: bool) -> None:
    handle_and_name = (4, 0, 1, 0x61000000)
    arguments = {0: (), v3.READ.number: (4, 0, 0, 0, 0), v3.REMOVE.number: handle_and_name}[number]
    opened = call(*EMPTY, *arguments, number=number)
    assert Dispatcher([Files()]).open_call(opened) is None
    assert opened.route.at_most_once is once
    assert opened.status == "REPEATED"
    assert (opened.xid, opened.route.procedure.number) == (7, number)


def test_calls_are_counted_by_procedure() -> None:
    dispatcher = Dispatcher([Files()])
    for number in (0, 0, v3.READ.number):
        words = (*EMPTY, *((4, 0, 0, 0, 0) if number else ()))
        assert dispatcher.open_call(call(*words, number=number)) is None
    assert dispatcher.calls_of_procedures() == {"NFSPROC3_NULL": 2, "NFSPROC3_READ": 1}
