"""Every reply that a dispatcher makes, word for word, with its status and the procedure that it is counted for."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from rpcrdma.aio.answering.server_call import ServerCall
from rpcrdma.rpc.auth import AuthNone, AuthSys
from rpcrdma.rpc.dispatch import Dispatcher, refusal
from rpcrdma.rpc.message import AcceptStat
from rpcrdma.rpc.program import Procedure, Program
from rpcrdma.rpc.service import Execution, ProcedureUnavailable, Service
from rpcrdma.xdr.codec import Decoder, Payload, PlacedByPosition, ReducedIneligibleItem
from support.cases import each_case
from support.octets import words
from support.programs import procedure as made

NUMBER = 0x20000001
XID = 0xCAFE
NO_AUTH = (0, 0)


def program(version: int, *procedures: Procedure[int, int]) -> Program:
    return Program(NUMBER, version, f"TEST_V{version}", {each.number: each for each in procedures})


ONE = made(NUMBER, 1, "one", version=3)
TWO = made(NUMBER, 2, "two", version=3, status=lambda result: result)
MISSING = made(NUMBER, 4, "missing", version=3)


class Version3(Service):
    PROGRAM = program(3, ONE, TWO, MISSING)
    IDEMPOTENT = frozenset({2})

    def one(self, args: int, context: Any) -> int:
        return args + 1

    async def two(self, args: int, context: Any) -> int:
        return args + 2


class Version5(Service):
    PROGRAM = program(5, made(NUMBER, 1, "one", version=5))

    def one(self, args: int, context: Any) -> int:
        return args + 5


def arrived(
    *rest: int,
    credential: tuple[int, ...] = NO_AUTH,
    verifier: tuple[int, ...] = NO_AUTH,
    target: tuple[int, int, int] = (NUMBER, 3, 1),
) -> tuple[ServerCall, Payload | None]:
    """A call, and the reply that refuses it."""
    call = ServerCall(XID, Decoder(words(XID, 0, 2, *target, *credential, *verifier, *rest)))
    return call, Dispatcher([Version3(), Version5()]).open_call(call)


def opened(*rest: int, **parts: Any) -> ServerCall:
    call, refused = arrived(*rest, **parts)
    assert refused is None
    return call


@each_case(
    ("changes", "reply", "status"),
    [
        ({"credential": (0, 401)}, (1, 1, 1, 1), "AUTH_ERROR"),
        ({"credential": (1, 0)}, (1, 1, 1, 1), "AUTH_ERROR"),
        ({"credential": (2, 0)}, (1, 1, 1, 2), "AUTH_ERROR"),
        ({"credential": (3, 0)}, (1, 1, 1, 2), "AUTH_ERROR"),
        ({"credential": (6, 0)}, (1, 1, 1, 2), "AUTH_ERROR"),
        ({"verifier": (0, 401)}, (1, 1, 1, 3), "AUTH_ERROR"),
        ({"verifier": (1, 0)}, (1, 1, 1, 3), "AUTH_ERROR"),
        ({"verifier": (6, 0)}, (1, 1, 1, 3), "AUTH_ERROR"),
        # Authentication is looked at before the program.
        ({"credential": (1, 24, *[0] * 6), "target": (NUMBER - 1, 3, 1)}, (1, 1, 1, 1), "AUTH_ERROR"),
        ({"credential": (0x7FFFFFFF, 0), "target": (NUMBER - 1, 3, 1)}, (1, 1, 1, 2), "AUTH_ERROR"),
        ({"verifier": (1, 4, 0), "target": (NUMBER - 1, 3, 1)}, (1, 1, 1, 3), "AUTH_ERROR"),
        ({"target": (NUMBER - 1, 3, 1)}, (1, 0, 0, 0, 1), "PROG_UNAVAIL"),
        ({"target": (NUMBER - 1, 3, 0)}, (1, 0, 0, 0, 1), "PROG_UNAVAIL"),
        ({"target": (NUMBER, 0, 1)}, (1, 0, 0, 0, 2, 3, 5), "PROG_MISMATCH"),
        ({"target": (NUMBER, 2, 1)}, (1, 0, 0, 0, 2, 3, 5), "PROG_MISMATCH"),
        ({"target": (NUMBER, 4, 1)}, (1, 0, 0, 0, 2, 3, 5), "PROG_MISMATCH"),
        ({"target": (NUMBER, 6, 0)}, (1, 0, 0, 0, 2, 3, 5), "PROG_MISMATCH"),
        ({"target": (NUMBER, 0xFFFFFFFF, 0)}, (1, 0, 0, 0, 2, 3, 5), "PROG_MISMATCH"),
        ({"target": (NUMBER, 3, 3)}, (1, 0, 0, 0, 3), "PROC_UNAVAIL"),
        ({"target": (NUMBER, 3, 4)}, (1, 0, 0, 0, 3), "PROC_UNAVAIL"),
        ({"target": (NUMBER, 5, 2)}, (1, 0, 0, 0, 3), "PROC_UNAVAIL"),
        ({"target": (NUMBER, 3, 99)}, (1, 0, 0, 0, 3), "PROC_UNAVAIL"),
        ({}, (1, 0, 0, 0, 4), "GARBAGE_ARGS"),
    ],
)
def test_a_refused_call_is_answered_word_for_word(changes: Any, reply: tuple[int, ...], status: str) -> None:
    found, refused = arrived(**changes)
    assert refused is not None
    assert bytes(refused.reduced) == words(XID, *reply)
    assert found.status == status
    assert found.procedure == (ONE if status == "GARBAGE_ARGS" else None)


def test_arguments_that_end_too_soon_or_go_on_are_garbage() -> None:
    for arguments in (bytes(3), bytes(8)):
        found = ServerCall(XID, Decoder(words(XID, 0, 2, NUMBER, 3, 1, *NO_AUTH, *NO_AUTH) + arguments))
        refused = Dispatcher([Version3()]).open_call(found)
        assert refused is not None
        assert (bytes(refused.reduced), found.status) == (words(XID, 1, 0, 0, 0, 4), "GARBAGE_ARGS")


def test_arguments_without_memory_are_an_error_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    dispatcher = Dispatcher([Version3()])
    monkeypatch.setattr(dispatcher._routes[NUMBER, 3, 1], "decode_args", Mock(side_effect=MemoryError))
    found = ServerCall(XID, Decoder(words(XID, 0, 2, NUMBER, 3, 1, *NO_AUTH, *NO_AUTH, 7)))
    refused = dispatcher.open_call(found)
    assert refused is not None
    assert (bytes(refused.reduced), found.status) == (words(XID, 1, 0, 0, 0, 5), "SYSTEM_ERR")


@pytest.mark.req("OR-1")
@each_case("rpc_version", [0, 1, 3])
def test_another_rpc_version_is_refused_with_the_one_there_is(rpc_version: int) -> None:
    found = ServerCall(XID, Decoder(words(XID, 0, rpc_version, NUMBER - 1, 3, 1, 99, 0)))
    refused = Dispatcher([Version3()]).open_call(found)
    assert refused is not None
    assert bytes(refused.reduced) == words(XID, 1, 1, 0, 2, 2)
    assert (found.status, found.procedure) == ("RPC_MISMATCH", None)


@each_case("stat", [stat for stat in AcceptStat if stat != AcceptStat.PROG_MISMATCH])
def test_a_refusal_has_its_status_and_nothing_else(stat: AcceptStat) -> None:
    assert bytes(refusal(XID, stat).reduced) == words(XID, 1, 0, 0, 0, stat)


@each_case(
    ("target", "result", "once", "execution"),
    [
        ((NUMBER, 3, 1), 8, True, Execution.INLINE),
        ((NUMBER, 3, 2), None, False, Execution.TASK),
        ((NUMBER, 5, 1), 12, True, Execution.INLINE),
    ],
)
def test_an_opened_call_has_all_that_its_handler_needs(
    target: tuple[int, int, int], result: int | None, once: bool, execution: Execution
) -> None:
    found = opened(7, target=target, credential=(1, 20, 9, 0, 4, 5, 0))
    assert (found.xid, found.args, found.route.at_most_once, found.route.execution) == (XID, 7, once, execution)
    assert found.credential == AuthSys(stamp=9, uid=4, gid=5)
    assert (found.route.procedure.version, found.route.procedure.number, found.status) == (*target[1:], "REPEATED")
    assert found.procedure is found.route.procedure
    assert repr(found) == "<ServerCall xid=0x0000cafe>"
    context: Any = None
    if result is not None:
        assert found.route.handler(found.args, context) == result


@pytest.mark.req("OR-6")
@each_case(("number", "status"), [(1, 0), (2, 77)])
def test_a_result_is_sent_and_its_status_noted(number: int, status: int) -> None:
    found = opened(7, target=(NUMBER, 3, number))
    assert found.credential == AuthNone()
    assert bytes(found.success(77).reduced) == words(XID, 1, 0, 0, 0, 0, 77)
    assert found.status == status


@each_case(("error", "stat", "status"), [(ProcedureUnavailable, 3, "PROC_UNAVAIL"), (ValueError, 5, "SYSTEM_ERR")])
def test_a_failure_is_sent_and_its_status_noted(error: type[Exception], stat: int, status: str) -> None:
    found = opened(7)
    assert bytes(found.failure(error("x")).reduced) == words(XID, 1, 0, 0, 0, stat)
    assert found.status == status


def test_calls_of_one_name_are_counted_together_over_versions() -> None:
    dispatcher = Dispatcher([Version3(), Version5()])
    for version, times in ((3, 2), (5, 3)):
        for _ in range(times):
            octets = words(XID, 0, 2, NUMBER, version, 1, *NO_AUTH, *NO_AUTH, 7)
            assert dispatcher.open_call(ServerCall(XID, Decoder(octets))) is None
    for version in (3, 5):
        # Garbage is not counted.
        octets = words(XID, 0, 2, NUMBER, version, 1, *NO_AUTH, *NO_AUTH)
        assert dispatcher.open_call(ServerCall(XID, Decoder(octets))) is not None
    assert dispatcher.calls_of_procedures() == {"ONE": 5}
    assert dispatcher.statistics.snapshot() == ()


@each_case("number", [0, 1])
def test_procedure_zero_has_an_answer_of_its_own_in_each_version(number: int) -> None:
    for version in (3, 5):
        found = opened(*[9] * number, target=(NUMBER, version, number))
        procedure = found.route.procedure
        assert (procedure.program, procedure.version, procedure.number) == (NUMBER, version, number)
        assert found.route.at_most_once is (number == 1)
        if number == 0:
            context: Any = None
            assert found.route.handler(found.args, context) is None
            assert bytes(found.success(None).reduced) == words(XID, 1, 0, 0, 0, 0)


@each_case("position", [36, 40, 44, 48])
def test_a_chunk_up_to_the_fault_is_no_garbage(position: int) -> None:
    # The argument's word is missing: decoding fails at 40.
    octets = words(XID, 0, 2, NUMBER, 3, 1, *NO_AUTH, *NO_AUTH)
    placed = PlacedByPosition({position: memoryview(bytes(4))})
    found = ServerCall(XID, Decoder(octets, placed=placed))
    dispatcher = Dispatcher([Version3()])
    if position <= 40:
        with pytest.raises(ReducedIneligibleItem):
            dispatcher.open_call(found)
    else:
        assert dispatcher.open_call(found) is not None
        assert found.status == "GARBAGE_ARGS"


def test_bodies_that_do_not_decode_are_refused_each_time() -> None:
    dispatcher = Dispatcher([Version3()])
    for _ in range(3):
        octets = words(XID, 0, 2, NUMBER, 3, 1, 1, 4, 0, *NO_AUTH, 7)
        refused = dispatcher.open_call(ServerCall(XID, Decoder(octets)))
        assert refused is not None
        assert bytes(refused.reduced) == words(XID, 1, 1, 1, 1)
