"""COMPOUND: decoded and answered operation by operation, in places and within the sizes of its session."""

from __future__ import annotations

import itertools
import logging
import struct
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from rpcrdma.aio.answering.answer_log import AnswerLog
from rpcrdma.errors import DecodeError
from rpcrdma.limits import NFS4_CALL_LAYOUT_OCTETS_MAX, NFS4_COMPOUND_OPERATIONS_MAX, RPC_RECORD_OCTETS_MAX
from rpcrdma.nfs.export.grant import Grant, ServingUser
from rpcrdma.nfs.v4 import compounds
from rpcrdma.nfs.v4.call_layouts import CallLayouts
from rpcrdma.nfs.v4.compounds import COMPOUND, CompoundReply, EncodedReply, decode_call, name_of
from rpcrdma.nfs.v4.nfs4 import GETFH4resok, READ4resok, SEQUENCE4args, SEQUENCE4resok, nfs_opnum4, nfsstat4, stateid4
from rpcrdma.nfs.v4.refusal import Refused
from rpcrdma.nfs.v4.server import handles, names
from rpcrdma.nfs.v4.server.compound import Compound, Handler, KeptReply, run
from rpcrdma.rpc.auth import AuthNone
from rpcrdma.rpc.service import WorkerNeeded
from rpcrdma.xdr.codec import Decoder, Encoder, PlacedByPosition, ReducedIneligibleItem
from support import nfs4_client
from support.cases import each_case

OP, S = nfs_opnum4, nfsstat4
SEQUENCE = struct.pack(">I16sIIII", OP.OP_SEQUENCE, bytes(16), 1, 0, 0, 0)
PUTFH = struct.pack(">II4s", OP.OP_PUTFH, 4, b"file")
GETFH = struct.pack(">I", OP.OP_GETFH)
SAVEFH = struct.pack(">I", OP.OP_SAVEFH)
RESTOREFH = struct.pack(">I", OP.OP_RESTOREFH)
READ = struct.pack(">IIQIQI", OP.OP_READ, 0, 0, 0, 0, 100)
REMOVE = struct.pack(">II4s", OP.OP_REMOVE, 4, b"name")
WRITE = struct.pack(">IIQIQII", OP.OP_WRITE, 0, 0, 0, 0, 0, 4)  # the data follows


class Object:
    """The object of a handle."""

    handle = b"file"


class Context:
    """A call in the event loop, or (`may_block`) in a worker thread."""

    credential = AuthNone()

    call_octets = 100

    def __init__(self) -> None:
        self.may_block = False

    def result_octets_max(self, items: Any = ()) -> int:
        return 1 << 20


class Server:
    """The parts of a server, and what its log has been given."""

    exports: Any = None
    lease_s = 90
    state: Any = SimpleNamespace(lock=nullcontext())

    def __init__(self) -> None:
        self.faults: list[tuple[str, Exception]] = []

    def log_fault(self, name: str, error: Exception) -> None:
        self.faults.append((name, error))


def call_of(*operations: bytes, minor: int = 1, tag: bytes = b"", count: int | None = None) -> bytes:
    padded = tag + bytes(-len(tag) & 3)
    head = struct.pack(">I", len(tag)) + padded + struct.pack(">II", minor, len(operations) if count is None else count)
    return head + b"".join(operations)


class Run:
    """One COMPOUND, run to its end: its results as (operation, status), and the operations that have run."""

    def __init__(self, octets: bytes, handlers: dict[int, Handler] | None = None, **fields: Any) -> None:
        self.ran: list[str] = []
        self.kept: list[EncodedReply | None] = []
        self.server, self.context = Server(), Context()
        dec = Decoder(octets)
        call = decode_call(dec)
        dec.done("COMPOUND")
        self.compound = Compound(self.server, self.context, call, 0.0)  # type: ignore[arg-type]
        self.fields = fields
        self.handlers = {
            number: self.noted(number, handler) for number, handler in (HANDLERS | (handlers or {})).items()
        }
        self.handlers[OP.OP_SEQUENCE] = self.sequence
        self.steps = run(self.compound, self.handlers)

    def noted(self, number: int, handler: Handler) -> Handler:
        def note(compound: Compound, args: Any) -> Any:
            value = handler(compound, args)
            self.ran.append(OP(number).name.removeprefix("OP_"))
            return value

        return note

    def sequence(self, compound: Compound, args: SEQUENCE4args) -> SEQUENCE4resok:
        compound.on_end = lambda kept, _request: self.kept.append(kept)
        for name, value in self.fields.items():
            setattr(compound, name, value)
        return SEQUENCE4resok(args.sa_sessionid, args.sa_sequenceid, 0, 0, 0, 0)

    def finish(self) -> CompoundReply:
        try:
            while True:
                next(self.steps)
                self.context.may_block = True
        except StopIteration as end:
            self.encoded: EncodedReply = end.value
        return decoded(self.encoded)

    def results(self) -> list[tuple[str, str]]:
        reply = self.finish()
        found = [(operation.name, S(status).name.removeprefix("NFS4ERR_")) for operation, status, _ in reply.results]
        assert reply.status == (reply.results[-1].status if reply.results else 0)
        return found


def decoded(reply: EncodedReply) -> CompoundReply:
    enc = Encoder()
    COMPOUND.encode_result(enc, reply)
    dec = Decoder(b"".join(enc.gather()))
    result: CompoundReply = COMPOUND.decode_result(dec)
    dec.done("COMPOUND")
    return result


def put(compound: Compound, _args: Any) -> None:
    compound.set_current(Object())  # type: ignore[arg-type]
    compound.caller = Grant(ServingUser())


def nothing(_compound: Compound, _args: Any) -> None:
    return None


HANDLERS: dict[int, Handler] = {
    OP.OP_PUTFH: put,
    OP.OP_GETFH: handles.get_handle,
    OP.OP_SAVEFH: handles.save_handle,
    OP.OP_RESTOREFH: handles.restore_handle,
}


@pytest.mark.req("NF4-1", "NF4-2")
def test_operations_run_in_order_up_to_the_first_that_fails() -> None:
    one = Run(call_of(SEQUENCE, GETFH, PUTFH, GETFH))
    assert one.results() == [("SEQUENCE", "NFS4_OK"), ("GETFH", "NOFILEHANDLE")]
    assert one.ran == []
    whole = Run(call_of(SEQUENCE, PUTFH, GETFH))
    assert [status for _, status in whole.results()] == ["NFS4_OK"] * 3
    assert whole.ran == ["PUTFH", "GETFH"]


@pytest.mark.req("NF4-3")
def test_the_reply_has_the_tag_of_the_call() -> None:
    assert Run(call_of(SEQUENCE, tag=b"a tag")).finish().tag == b"a tag"


@pytest.mark.req("NF4-4")
@each_case("minor", (0, 3, 0xFFFFFFFF))
def test_other_minor_versions_are_answered_without_results(minor: int) -> None:
    one = Run(call_of(SEQUENCE, PUTFH, minor=minor, tag=b"t"))
    reply = one.finish()
    assert (S(reply.status), reply.tag, reply.results) == (S.NFS4ERR_MINOR_VERS_MISMATCH, b"t", [])
    assert one.kept == []


BROKEN = struct.pack(">II", OP.OP_PUTFH, 0xFFFFFFFF)


@pytest.mark.req("NF4-1", "NF4-5", "NF4-6", "NF4-7")
@each_case(
    "last, answer",
    {
        "a number that nobody has given out": (struct.pack(">I", 2), ("ILLEGAL", "OP_ILLEGAL")),
        "a number beyond all": (struct.pack(">I", 0xFFFFFFFF), ("ILLEGAL", "OP_ILLEGAL")),
        "ILLEGAL itself": (struct.pack(">I", 10044), ("ILLEGAL", "OP_ILLEGAL")),
        "an operation of the next minor version": (struct.pack(">I", OP.OP_WRITE_SAME), ("ILLEGAL", "OP_ILLEGAL")),
        "arguments that do not decode": (BROKEN, ("PUTFH", "BADXDR")),
        "arguments that are cut short": (REMOVE[:-1], ("REMOVE", "BADXDR")),
        "no number": (b"\0\0", ("ILLEGAL", "BADXDR")),
        "an operation of minor version 0": (struct.pack(">I", OP.OP_SETCLIENTID), ("SETCLIENTID", "NOTSUPP")),
        "an operation that is not served": (struct.pack(">I", OP.OP_GETDEVICEINFO), ("GETDEVICEINFO", "NOTSUPP")),
        "an operation without a handler": (REMOVE, ("REMOVE", "NOTSUPP")),
    }.values(),
)
def test_what_cannot_be_run_is_answered_in_its_place(last: bytes, answer: tuple[str, str]) -> None:
    one = Run(call_of(SEQUENCE, PUTFH, GETFH, last))
    assert one.results()[3:] == [answer]
    assert one.ran == ["PUTFH", "GETFH"]


def test_what_follows_an_operation_that_cannot_be_run_is_not_decoded() -> None:
    assert Run(call_of(SEQUENCE, struct.pack(">I", 2), PUTFH)).results()[1:] == [("ILLEGAL", "OP_ILLEGAL")]


def test_an_operation_of_minor_version_2_is_known_there() -> None:
    write_same = struct.pack(">I", OP.OP_WRITE_SAME)
    assert Run(call_of(SEQUENCE, write_same, minor=2)).results()[1:] == [("WRITE_SAME", "NOTSUPP")]


def test_a_call_is_cut_at_the_most_operations_that_a_session_may_allow() -> None:
    call = decode_call(Decoder(call_of(SEQUENCE, *[SAVEFH] * 100)))
    assert (call.shape.count, len(call.args)) == (101, 64)


ACCESS = struct.pack(">II", OP.OP_ACCESS, 63)
GETATTR = struct.pack(">IIII", OP.OP_GETATTR, 2, 0x10011A, 0xB0A23A)
LOOKUP = struct.pack(">II5s3x", OP.OP_LOOKUP, 5, b"names")
ROOT, LINK, ABOVE = (struct.pack(">I", each) for each in (OP.OP_PUTROOTFH, OP.OP_READLINK, OP.OP_LOOKUPP))
REPLACED = 16
"""Calls of another layout that take the place of one of the same length."""


def decoded_call(octets: bytes, before: int = 0) -> tuple[Any, ...]:
    """All that is decoded of a call behind a header of `before` octets."""
    dec = Decoder(bytes(before) + octets)
    dec.pos = before
    call = decode_call(dec)
    return call.tag, call.minor_version, call.shape.kinds, call.shape.fault, call.args, call.items, dec.begun, dec.pos


def test_a_call_is_decoded_in_one_step_like_operation_by_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    layouts = CallLayouts()
    monkeypatch.setattr(compounds, "_LAYOUTS", layouts)
    for operations in ([PUTFH, GETATTR], [PUTFH, READ], [ROOT, LOOKUP, GETFH, GETATTR, ACCESS, SAVEFH],
                       [PUTFH, LINK, ABOVE, RESTOREFH], []):  # fmt: skip
        octets = call_of(SEQUENCE, *operations, minor=2)
        for before in (0, 40):
            layouts.by_length.clear()
            singly = decoded_call(octets, before)
            layout = layouts.find(len(octets))
            assert layout is not None
            assert decoded_call(octets, before) == decoded_call(octets, before) == singly, operations
            assert not layout.misses


def test_a_call_of_another_layout_is_no_other_call_than_before(monkeypatch: pytest.MonkeyPatch) -> None:
    layouts = CallLayouts()
    monkeypatch.setattr(compounds, "_LAYOUTS", layouts)
    usual = call_of(SEQUENCE, PUTFH, GETATTR)
    rest = len(usual) - 12 - len(SEQUENCE)
    others = {
        "operations": call_of(SEQUENCE, PUTFH, ACCESS, ACCESS),
        "length of a handle": call_of(SEQUENCE, struct.pack(">II8s", OP.OP_PUTFH, 8, b"filefile"), GETATTR[:-4]),
        "number of operations": call_of(SEQUENCE, PUTFH, GETATTR, count=4),
        "minor version": call_of(SEQUENCE, PUTFH, GETATTR, minor=2),
        "no minor version": call_of(SEQUENCE, PUTFH, GETATTR, minor=3),
        "no boolean": call_of(SEQUENCE[:-4] + struct.pack(">I", 2), PUTFH, GETATTR),
        "number of words": call_of(SEQUENCE, PUTFH, struct.pack(">IIII", OP.OP_GETATTR, 9, 0, 0)),
        "tag": call_of(SEQUENCE, tag=b"t" * (rest - 4)) + bytes(4),
    }
    alone = {}
    for name, octets in others.items():
        assert len(octets) == len(usual), name
        layouts.by_length.clear()
        alone[name] = decoded_call(octets)
    layouts.by_length.clear()
    before = decoded_call(usual)
    known = layouts.find(len(usual))
    assert known is not None
    for name, octets in others.items():
        assert decoded_call(octets) == alone[name], name
        assert decoded_call(usual) == before
    known.misses = 0
    for _ in range(REPLACED):
        assert layouts.find(len(usual)) is known
        decoded_call(others["minor version"])
    assert layouts.find(len(usual)) is not known
    assert decoded_call(usual) == before


def test_layouts_of_long_calls_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    layouts = CallLayouts()
    monkeypatch.setattr(compounds, "_LAYOUTS", layouts)
    for saves in range(NFS4_COMPOUND_OPERATIONS_MAX - 4):
        for names_after in range(4):
            decoded_call(call_of(SEQUENCE, *[SAVEFH] * saves, *[LOOKUP] * names_after))
            decoded_call(call_of(SEQUENCE, *[SAVEFH] * saves, *[PUTFH] * (12 * names_after)))
    assert max(layouts.by_length) == NFS4_CALL_LAYOUT_OCTETS_MAX
    assert len(layouts.by_length) <= NFS4_CALL_LAYOUT_OCTETS_MAX // 4


@each_case("before", [[SEQUENCE, PUTFH], [SEQUENCE, PUTFH, REMOVE]])
@each_case("fault", [[], [struct.pack(">I", 2)]])
def test_no_more_memory_is_reserved_for_results_than_a_reply_may_have(before: list[bytes], fault: list[bytes]) -> None:
    def read(count: int) -> bytes:
        return READ[:-4] + struct.pack(">I", count)

    def items(*counts: int) -> list[int]:
        octets = call_of(*before, *map(read, counts), *fault)
        return [list(decode_call(Decoder(octets)).items) for _ in range(2)][-1]

    assert items(1 << 20, 100) == [1 << 20, 100]
    assert items(*[0xFFFFFFFF] * 20) == [RPC_RECORD_OCTETS_MAX] + [0] * 19
    assert items(100, 0xFFFFFFFF, 1) == [100, RPC_RECORD_OCTETS_MAX - 100, 0]


def test_items_of_a_call_are_as_long_as_the_definition_allows() -> None:
    stateid = nfs4_client.ANONYMOUS
    for most, item in (
        (1024, lambda count: nfs4_client.exchange_id(b"o" * count, bytes(8))),
        (1024, lambda count: nfs4_client.open_(b"o" * count, nfs4_client.READ)),
        (1024, lambda count: nfs4_client.lockt(b"o" * count, 1, 0, 1)),
        (1024, lambda count: nfs4_client.lookup("n" * count)),
        (1024, lambda count: nfs4_client.test_stateid(*[stateid] * count)),
        (128, lambda count: nfs4_client.putfh(bytes(count))),
        (8, lambda count: nfs4_client.getattr_(*[0] * count)),
    ):
        for count, fault in ((most, None), (most + 1, S.NFS4ERR_BADXDR)):
            call = decode_call(Decoder(call_of(item(count))))
            assert (call.shape.fault, call.shape.kinds) == (fault, call.shape.kinds[:1]), (count, call)
    assert decode_call(Decoder(call_of(SEQUENCE, tag=b"t" * 1024))).tag == b"t" * 1024
    with pytest.raises(DecodeError):
        decode_call(Decoder(call_of(SEQUENCE, tag=b"t" * 1025)))


@pytest.mark.req("NF4-8", "NF4-9", "NF4-10", "NF4-151")
@each_case(
    "operations, answers",
    {
        "a file operation without SEQUENCE": ([PUTFH, GETFH], [("PUTFH", "OP_NOT_IN_SESSION")]),
        "a broken one as well": ([BROKEN], [("PUTFH", "OP_NOT_IN_SESSION")]),
        "SEQUENCE twice": ([SEQUENCE, SEQUENCE], [("SEQUENCE", "NFS4_OK"), ("SEQUENCE", "SEQUENCE_POS")]),
        "DESTROY_CLIENTID and another": (
            [struct.pack(">IQ", OP.OP_DESTROY_CLIENTID, 1), PUTFH],
            [("DESTROY_CLIENTID", "NOT_ONLY_OP")],
        ),
        "BIND_CONN_TO_SESSION behind SEQUENCE": (
            [SEQUENCE, struct.pack(">I16sII", OP.OP_BIND_CONN_TO_SESSION, bytes(16), 1, 0)],
            [("SEQUENCE", "NFS4_OK"), ("BIND_CONN_TO_SESSION", "NOT_ONLY_OP")],
        ),
    }.values(),
)
def test_each_operation_has_its_place(operations: list[bytes], answers: list[tuple[str, str]]) -> None:
    assert (
        Run(
            call_of(*operations), dict.fromkeys((OP.OP_DESTROY_CLIENTID, OP.OP_BIND_CONN_TO_SESSION), nothing)
        ).results()
        == answers
    )


def test_an_operation_may_stand_alone_or_behind_sequence() -> None:
    destroy = struct.pack(">IQ", OP.OP_DESTROY_CLIENTID, 1)
    for operations in ([destroy], [SEQUENCE, destroy]):
        one = Run(call_of(*operations), {OP.OP_DESTROY_CLIENTID: nothing})
        assert one.results()[-1] == ("DESTROY_CLIENTID", "NFS4_OK")


@pytest.mark.req("NF4-15")
def test_operations_upon_handles_need_them() -> None:
    rename = struct.pack(">II4sI4s", OP.OP_RENAME, 4, b"name", 4, b"name")
    handlers: dict[int, Handler] = {OP.OP_RENAME: names.rename}
    assert Run(call_of(SEQUENCE, rename), handlers).results()[1:] == [("RENAME", "NOFILEHANDLE")]
    assert Run(call_of(SEQUENCE, PUTFH, rename), handlers).results()[2:] == [("RENAME", "NOFILEHANDLE")]
    assert Run(call_of(SEQUENCE, RESTOREFH)).results()[1:] == [("RESTOREFH", "NOFILEHANDLE")]


@pytest.mark.req("NF4-16")
def test_the_stateid_is_cleared_with_the_handle_and_saved_and_restored_with_it() -> None:
    seen: list[stateid4 | None] = []
    held = stateid4(1, bytes(12))

    def opened(compound: Compound, _args: Any) -> None:
        compound.stateid = held

    def look(compound: Compound, _args: Any) -> GETFH4resok:
        seen.append(compound.stateid)
        return GETFH4resok(b"")

    lookupp = struct.pack(">I", OP.OP_LOOKUPP)
    operations = [PUTFH, GETFH, lookupp, GETFH, SAVEFH, PUTFH, GETFH, RESTOREFH, GETFH]
    Run(call_of(SEQUENCE, *operations), {OP.OP_LOOKUPP: opened, OP.OP_GETFH: look}).finish()
    assert seen == [None, held, None, held]


def test_the_part_that_would_block_runs_in_a_worker_thread() -> None:
    threads: list[bool] = []

    def read(compound: Compound, _args: Any) -> READ4resok:
        compound.wait()
        threads.append(compound.at_once)
        return READ4resok(True, b"data")

    one = Run(call_of(SEQUENCE, PUTFH, READ, GETFH), {OP.OP_READ: read})
    next(one.steps)
    assert one.ran == ["PUTFH"]
    one.context.may_block = True
    assert [status for _, status in one.results()] == ["NFS4_OK"] * 4
    assert threads == [False]


def test_a_result_in_memory_of_its_own_is_not_copied_into_the_reply() -> None:
    data = memoryview(bytearray(b"data" * 10))
    one = Run(call_of(SEQUENCE, PUTFH, READ, READ), {OP.OP_READ: lambda _compound, _args: READ4resok(True, data)})
    one.finish()
    assert [item.data for item in one.encoded.items] == [data, data]
    assert one.encoded.begun == [0, 0, 0, 1]


def test_a_kept_reply_does_not_share_memory_with_the_one_that_is_sent() -> None:
    data = bytearray(b"data")
    handlers: dict[int, Handler] = {OP.OP_READ: lambda _compound, _args: READ4resok(True, memoryview(data))}
    one = Run(call_of(SEQUENCE, PUTFH, READ), handlers, keeps_reply=True)
    sent = one.finish()
    data[:] = b"lost"
    (kept,) = one.kept
    assert kept is not None
    assert decoded(kept).results == sent.results
    assert bytes(decoded(kept).results[2].value.data) == b"data"


def test_a_repeat_is_answered_with_the_kept_reply() -> None:
    first = Run(call_of(SEQUENCE, PUTFH, GETFH), keeps_reply=True)
    first.finish()

    def repeated(_compound: Compound, _args: Any) -> None:
        raise KeptReply(first.kept[0])  # type: ignore[arg-type]

    second = Run(call_of(SEQUENCE, PUTFH, GETFH))
    second.handlers[OP.OP_SEQUENCE] = repeated
    assert second.finish().results == decoded(first.encoded).results
    assert (second.ran, second.kept) == ([], [])


def test_a_repeat_whose_reply_is_lost_is_refused_at_its_second_operation() -> None:
    one = Run(call_of(SEQUENCE, PUTFH, GETFH), uncached=True)
    assert one.results() == [("SEQUENCE", "NFS4_OK"), ("PUTFH", "RETRY_UNCACHED_REP")]
    assert one.ran == []


@pytest.mark.req("NF4-13", "NF4-14")
@each_case("status", (S.NFS4ERR_REP_TOO_BIG, S.NFS4ERR_REP_TOO_BIG_TO_CACHE))
def test_a_result_that_does_not_fit_is_left_out_and_ends_the_call(status: nfsstat4) -> None:
    handlers: dict[int, Handler] = {OP.OP_READ: lambda _compound, _args: READ4resok(True, b"x" * 500)}
    # The RPC header, the head of the result, the results of SEQUENCE, PUTFH and READ.
    fits = 24 + 12 + 44 + 8 + 8 + 8 + 500
    one = Run(call_of(SEQUENCE, PUTFH, READ, GETFH), handlers, reply_octets_max=fits + 16, too_big=status)
    assert [S(result.status) for result in one.finish().results] == [0, 0, 0, 0]
    over = Run(call_of(SEQUENCE, PUTFH, READ, GETFH), handlers, reply_octets_max=fits - 1, too_big=status)
    reply = over.finish()
    assert [S(result.status) for result in reply.results] == [0, 0, status]
    assert over.encoded.items == []
    assert len(b"".join(over.encoded.gather())) == fits - 508


@pytest.mark.req("NF4-13")
def test_an_operation_that_must_not_run_twice_does_not_run_if_its_result_may_not_fit() -> None:
    one = Run(call_of(SEQUENCE, PUTFH, REMOVE), {OP.OP_REMOVE: nothing}, reply_octets_max=110)
    assert one.results()[2:] == [("REMOVE", "REP_TOO_BIG")]
    assert one.ran == ["PUTFH"]


def test_a_fault_of_an_operation_is_logged_and_frees_the_slot() -> None:
    def fails(_compound: Compound, _args: Any) -> None:
        raise RuntimeError("a fault")

    one = Run(call_of(SEQUENCE, PUTFH, REMOVE), {OP.OP_REMOVE: fails})
    assert one.results()[2:] == [("REMOVE", "SERVERFAULT")]
    assert [(name, str(error)) for name, error in one.server.faults] == [("REMOVE", "a fault")]
    assert one.kept == [None]


def test_a_result_that_cannot_be_encoded_leaves_nothing_behind() -> None:
    handlers: dict[int, Handler] = {OP.OP_GETFH: lambda _compound, _args: GETFH4resok(b"x" * 200)}
    one = Run(call_of(SEQUENCE, PUTFH, GETFH), handlers)
    assert one.results()[1:] == [("PUTFH", "NFS4_OK"), ("GETFH", "SERVERFAULT")]


def test_an_operation_that_takes_a_worker_thread_runs_again_in_one() -> None:
    ran = []

    def remove(_compound: Compound, _args: Any) -> None:
        ran.append(OP.OP_REMOVE)
        if len(ran) == 1:
            raise WorkerNeeded
        raise FileNotFoundError(2, "gone")

    assert Run(call_of(SEQUENCE, PUTFH, REMOVE), {OP.OP_REMOVE: remove}).results()[2:] == [("REMOVE", "NOENT")]
    assert len(ran) == 2


def test_a_call_that_is_let_go_keeps_a_reply_that_asks_to_try_again() -> None:
    def read(_compound: Compound, _args: Any) -> None:
        raise WorkerNeeded

    session = SimpleNamespace(reply_limits=((1 << 20, S.NFS4ERR_REP_TOO_BIG), (256, S.NFS4ERR_REP_TOO_BIG_TO_CACHE)))
    one = Run(call_of(SEQUENCE, PUTFH, READ, GETFH), {OP.OP_READ: read}, session=session)
    next(one.steps)
    one.steps.close()
    (kept,) = one.kept
    assert kept is not None
    assert [S(result.status) for result in decoded(kept).results] == [0, 0, S.NFS4ERR_DELAY]


@each_case(
    "error, status",
    ((FileNotFoundError(2, "gone"), "NOENT"), (Refused(S.NFS4ERR_SYMLINK), "SYMLINK"), (OSError("?"), "IO")),
)
def test_errors_of_a_tree_have_their_status(error: Exception, status: str) -> None:
    def fails(_compound: Compound, _args: Any) -> None:
        raise error

    assert Run(call_of(SEQUENCE, PUTFH, REMOVE), {OP.OP_REMOVE: fails}).results()[2:] == [("REMOVE", status)]


def test_a_chunk_for_an_operation_that_is_not_run_is_no_fault_of_the_transport() -> None:
    octets = call_of(SEQUENCE, struct.pack(">I", 2), WRITE)
    dec = Decoder(octets, placed=PlacedByPosition({len(octets): memoryview(b"data")}))
    call = decode_call(dec)
    assert (call.shape.fault, dec.pos, dec.placed) == (S.NFS4ERR_OP_ILLEGAL, dec.end, None)


def test_a_chunk_for_an_item_that_must_stay_in_the_stream_is_a_fault_of_the_transport() -> None:
    octets = call_of(SEQUENCE, REMOVE[:8], GETFH)
    with pytest.raises(ReducedIneligibleItem):
        decode_call(Decoder(octets, placed=PlacedByPosition({len(octets) - 4: memoryview(b"name")})))


def test_the_data_of_a_write_may_be_placed() -> None:
    octets = call_of(SEQUENCE, WRITE, GETFH)
    data = memoryview(b"data")
    dec = Decoder(octets, placed=PlacedByPosition({len(octets) - 4: data}))
    call = decode_call(dec)
    dec.done("COMPOUND")
    assert call.args[1].data == data


def test_any_octets_are_decoded_or_refused() -> None:
    octets = call_of(SEQUENCE, PUTFH, READ, REMOVE, tag=b"tag")
    for end in range(len(octets)):
        try:
            call = decode_call(Decoder(octets[:end]))
        except DecodeError:
            assert end < 16  # before the first operation
        else:
            assert call.shape.fault is S.NFS4ERR_BADXDR


def test_a_call_is_named_by_its_operations() -> None:
    def name(*operations: bytes) -> str:
        return name_of(decode_call(Decoder(call_of(*operations))).shape.operations)

    assert name(SEQUENCE, PUTFH, READ, GETFH) == "READ+GETFH"
    assert name(SEQUENCE) == "SEQUENCE"
    assert name() == "empty"
    assert name(*[READ] * 8) == "+".join(["READ"] * 8)
    assert name(*[GETFH] * 6, READ) == "GETFH+GETFH+GETFH+GETFH+GETFH+GETFH+READ"
    assert name(*[GETFH] * 7) == "GETFH+GETFH+GETFH+GETFH+GETFH+GETFH+..."
    assert name(*[GETFH] * 64) == name(*[GETFH] * 7)


def test_the_log_names_a_call_by_its_operations(caplog: pytest.LogCaptureFixture) -> None:
    procedure = decode_call(Decoder(call_of(SEQUENCE, PUTFH, GETFH, READ))).shape.procedure
    call: Any = SimpleNamespace(route=SimpleNamespace(name="COMPOUND"), procedure=procedure)
    AnswerLog(logging.getLogger("rpcrdma.server")).unfit_reply(call, "it is too long")
    assert caplog.messages == ["the reply to GETFH+READ could not be sent: it is too long"]


def test_calls_are_counted_by_their_operations_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compounds, "_NAMED", {})
    named = COMPOUND.named
    assert named is not None

    def counted(*operations: bytes) -> str:
        return named(decode_call(Decoder(call_of(*operations)))).name

    assert counted(SEQUENCE, PUTFH, READ, GETFH) == "READ+GETFH"
    assert named(decode_call(Decoder(call_of(SEQUENCE)))) is named(decode_call(Decoder(call_of(SEQUENCE))))
    # A client makes up names: the bound holds, names that are known stay, and others have that of the first operation.
    names = {counted(SEQUENCE, *operations) for operations in itertools.product([READ, GETFH], repeat=6)}
    names |= {counted(SEQUENCE, *operations) for operations in itertools.product([READ, REMOVE], repeat=5)}
    assert len(names) == 62 + len({"READ+...", "GETFH+...", "REMOVE+..."})
    assert counted(REMOVE, GETFH, REMOVE) == "REMOVE+..."
    assert counted(SEQUENCE, REMOVE) == "REMOVE"
    assert counted(SEQUENCE, PUTFH, READ, GETFH) == "READ+GETFH"
