"""From a received call to its handler, and every answer that needs none."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from rpcrdma import errors
from rpcrdma.aio.answering.server_call import ServerCall
from rpcrdma.errors import DecodeError, LocalProtocolError
from rpcrdma.nfs.v4 import compounds, nfs4
from rpcrdma.nfs.v4.compounds import COMPOUND, Shape
from rpcrdma.rpc import calling as calls_module
from rpcrdma.rpc.auth import AuthNone, AuthSys, Credential, OpaqueAuth
from rpcrdma.rpc.calling import CallEncoder, ReplyDecoder, decode_result
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.rpc.gss.flavors import SecurityFlavor
from rpcrdma.rpc.message import call_tail, encode_call
from rpcrdma.rpc.program import Program, null_procedure
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.rpc.service import ActAs, Execution, Service, in_worker, inline_or_worker
from rpcrdma.wire.buffers import Buffer
from rpcrdma.xdr.codec import Decoder, Encoder, Payload, PlacedByPosition, PlacedInOrder, ReducedIneligibleItem
from support.cases import each_case
from support.programs import procedure

NUMBER = 0x20000001
XID = 0xCAFE


def encode_pair(enc: Encoder, value: tuple[bytes, bytes]) -> None:
    enc.opaque(value[0], 64, "name")
    enc.bulk(value[1], 1 << 20, "data")


def decode_pair(dec: Decoder) -> tuple[bytes, bytes]:
    return dec.opaque(64, "name"), bytes(dec.bulk(1 << 20, "data"))


DOUBLE = procedure(NUMBER, 1, "double", version=2)
WAIT = procedure(NUMBER, 2, "wait", version=2)
BLOCK = procedure(NUMBER, 3, "block", version=2)
MAYBE = procedure(NUMBER, 4, "maybe", version=2)
MISSING = procedure(NUMBER, 5, "missing", version=2)
STORE = procedure(NUMBER, 6, "store", (encode_pair, decode_pair), (encode_pair, decode_pair), version=2)
PROGRAM_2 = Program(NUMBER, 2, "TEST_V2", {p.number: p for p in (DOUBLE, WAIT, BLOCK, MAYBE, MISSING, STORE)})
PROGRAM_4 = Program(NUMBER, 4, "TEST_V4", {1: procedure(NUMBER, 1, "triple", version=4)})
OTHER = Program(NUMBER + 1, 1, "OTHER_V1", {})


class Version2(Service):
    PROGRAM = PROGRAM_2

    def double(self, args: int, context: Any) -> int:
        return args * 2

    async def wait(self, args: int, context: Any) -> int:
        return args

    @in_worker
    def block(self, args: int, context: Any) -> int:
        return args

    @inline_or_worker
    def maybe(self, args: int, context: Any) -> Generator[None, None, int]:
        yield
        return args

    def store(self, args: tuple[bytes, bytes], context: Any) -> tuple[bytes, bytes]:
        return args


class Version4(Service):
    PROGRAM = PROGRAM_4

    def triple(self, args: int, context: Any) -> int:
        return args * 3


class Other(Service):
    PROGRAM = OTHER


@pytest.fixture
def dispatcher() -> Dispatcher:
    return Dispatcher([Version2(), Version4(), Other()])


def call(target: Any, args: Any, credential: Credential | None = None) -> bytes:
    return b"".join(CallEncoder(credential).encode(XID, target, args).gather())


def test_a_handler_that_no_call_could_reach_is_refused_when_it_is_registered() -> None:
    class Forgotten(Version4):
        def triple(self, context: Any) -> int:  # type: ignore[override]
            return 3

    with pytest.raises(LocalProtocolError) as caught:
        Dispatcher([Forgotten()])
    cause, _, remedy = str(caught.value).partition("; ")
    assert cause == "Forgotten.triple cannot answer TRIPLE: too many positional arguments"
    assert remedy == "write def triple(self, args, context), with None for args where the procedure takes void"


@each_case("handler", [3, lambda _args: 3, lambda _args, _context, _more: 3, lambda *, args: args])
def test_handlers_take_arguments_and_context(handler: Any) -> None:
    service = Version4()
    service.triple = handler
    with pytest.raises(LocalProtocolError, match=r"Version4\.triple cannot answer TRIPLE"):
        Dispatcher([service])


def test_handlers_are_taken_as_decorators_make_them() -> None:
    def with_more(handler: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(handler)
        def inner(self: Any, args: int, context: Any) -> int:
            return handler(self, args, context, "more")

        return inner

    class Decorated(Version4):
        @with_more
        def triple(self, args: int, context: Any, more: str) -> int:
            assert more == "more"
            return args * 3

    service = Decorated()
    assert Dispatcher([service]).services == (service,)
    service.triple = max
    Dispatcher([service])


def test_handlers_are_renewed_all_or_none_and_procedures_stay_as_they_are() -> None:
    two, four = Version2(), Version4()
    dispatcher = Dispatcher([two, four])
    vars(two).update(double=lambda args, _context: args + 1, missing=lambda args, _context: args)
    vars(four).update(triple=lambda args: args)
    with pytest.raises(LocalProtocolError, match=r"Version4\.triple cannot answer TRIPLE"):
        dispatcher.renew_handlers()
    assert opened(dispatcher, call(DOUBLE, 7)).route.handler(7, None) == 14
    del four.triple
    dispatcher.renew_handlers()
    assert opened(dispatcher, call(DOUBLE, 7)).route.handler(7, None) == 8
    assert opened(dispatcher, call(PROGRAM_4.procedures[1], 7)).route.handler(7, None) == 21
    refused = ServerCall(7, Decoder(call(MISSING, 7)))
    assert dispatcher.open_call(refused) is not None
    assert refused.status == "PROC_UNAVAIL"


def header(*, program: int = NUMBER, version: int = 2, number: int = 1, **auth: OpaqueAuth) -> bytes:
    enc = Encoder()
    encode_call(enc, XID, program, version, number, **auth)
    return bytes(enc.reduced)


def opened(dispatcher: Dispatcher, data: bytes, placed: PlacedByPosition | None = None) -> ServerCall:
    call = ServerCall(XID, Decoder(data, placed=placed))
    assert dispatcher.open_call(call) is None
    return call


def reducing(stream: Buffer, chunks: dict[int, Buffer]) -> ServerCall:
    """A call with items in Read chunks, by Position."""
    placed = PlacedByPosition({position: memoryview(data) for position, data in chunks.items()})
    return ServerCall(XID, Decoder(stream, placed=placed))


@pytest.mark.req("OR-3")
def test_the_identity_reaches_the_call_(dispatcher: Dispatcher) -> None:
    identity = AuthSys(machine="m", uid=7, gid=8, gids=(9,))
    first = opened(dispatcher, call(DOUBLE, 1, identity)).credential
    assert first == identity
    assert opened(dispatcher, call(DOUBLE, 1, identity)).credential is first


@each_case(
    ("target", "execution"),
    [
        (DOUBLE, Execution.INLINE),
        (WAIT, Execution.TASK),
        (BLOCK, Execution.WORKER),
        (MAYBE, Execution.INLINE_OR_WORKER),
    ],
)
def test_handlers_say_where_they_run(dispatcher: Dispatcher, target: Any, execution: Execution) -> None:
    assert opened(dispatcher, call(target, 1)).route.execution is execution


def test_a_step_of_a_handler_names_as_whom_it_goes_on() -> None:
    user = nullcontext()
    assert ActAs(user).identity is user


@each_case(
    ("credential", "answered"),
    [(AuthSys(uid=7, gid=8), [True, True, True]), (AuthNone(), [False, True, True])],
)
def test_flavors_are_asked_of_all_but_procedure_0_and_services_for_any(
    credential: Credential, answered: list[bool]
) -> None:
    class ForAny(Version4):
        ANY_SECURITY = True

    dispatcher = Dispatcher([Version2(), ForAny()], security=[SecurityFlavor.SYS])
    for target, taken in zip((DOUBLE, null_procedure(NUMBER, 2), PROGRAM_4.procedures[1]), answered, strict=True):
        made = ServerCall(XID, Decoder(call(target, 1, credential)))
        reply = dispatcher.open_call(made)
        assert (reply is None) is taken
        if reply is not None:
            with pytest.raises(errors.AuthError, match="AUTH_TOOWEAK"):
                decode_result(Decoder(reply.reduced), XID, target)
            assert (made.status, made.procedure) == ("AUTH_ERROR", None)


@each_case(
    ("bound", "has_items"),
    [(None, False), (ReplyBound(8), False), (ReplyBound(8, (5,)), True), (lambda _args: ReplyBound(8), True)],
)
def test_a_route_is_what_its_service_declares(bound: Any, has_items: bool) -> None:
    def waits_for(args: int) -> int:
        return args

    class Declared(Version2):
        PROGRAM = Program(NUMBER, 2, "TEST_V2", {n: replace(DOUBLE, number=n, bound=bound) for n in (0, 1, 2, 3)})
        IDEMPOTENT = frozenset({2, 3})
        RESERVES = frozenset({3})
        WAITS_FOR = staticmethod(waits_for)

    dispatcher = Dispatcher([Declared()])
    routes = [opened(dispatcher, header(number=number) + bytes(4)).route for number in range(4)]
    assert [route.at_most_once for route in routes] == [False, True, False, False]
    assert [route.begins_once for route in routes] == [False, True, False, True]
    assert [route.reserves for route in routes] == [False, has_items, False, has_items]
    assert {route.waits_for for route in routes} == {waits_for}
    assert opened(Dispatcher([Version2()]), call(DOUBLE, 1)).route.waits_for is None


@pytest.mark.req("OR-2")
def test_a_body_under_auth_none_is_ignored(dispatcher: Dispatcher) -> None:
    none = OpaqueAuth(0, b"ignored")
    opened_call = opened(dispatcher, header(number=0, credential=none, verifier=none))
    assert opened_call.credential == AuthNone()


def test_what_is_no_whole_call_header_is_dropped(dispatcher: Dispatcher) -> None:
    data = header()
    for end in range(len(data)):
        with pytest.raises(DecodeError):
            dispatcher.open_call(ServerCall(XID, Decoder(data, 0, end)))
    reply = XID.to_bytes(4, "big") + b"\0\0\0\1" + bytes(32)
    with pytest.raises(DecodeError):
        dispatcher.open_call(ServerCall(XID, Decoder(reply)))


@pytest.mark.req("OR-5")
def test_no_service_has_version_zero() -> None:
    class Zero(Service):
        PROGRAM = Program(NUMBER, 0, "ZERO", {})

    with pytest.raises(LocalProtocolError, match="version 0"):
        Dispatcher([Zero()])


@pytest.mark.req("OR-5")
def test_no_call_is_made_to_version_zero() -> None:
    with pytest.raises(LocalProtocolError, match="version 0"):
        CallEncoder().encode(1, procedure(NUMBER, 1, "double", version=0), 1)


def test_two_services_for_one_version_are_refused() -> None:
    with pytest.raises(LocalProtocolError, match="two services"):
        Dispatcher([Version2(), Version2()])


def reduced_call(name: bytes, data: bytes) -> tuple[bytes, int]:
    """A STORE call without its data, and the Position of the data."""
    payload = CallEncoder().encode(XID, STORE, (name, data))
    return bytes(payload.reduced), payload.items[0].position


@each_case("padded", [False, True])
def test_a_placed_argument_reaches_the_handler(dispatcher: Dispatcher, padded: bool) -> None:
    stream, position = reduced_call(b"name", b"abcde")
    chunk = memoryview(b"abcde\0\0\0" if padded else b"abcde")
    opened_call = opened(dispatcher, stream, PlacedByPosition({position: chunk}))
    assert opened_call.args == (b"name", b"abcde")


@pytest.mark.req("V1-62", "V2-67")
def test_an_ineligible_argument_in_a_chunk_is_told_apart_from_garbage(dispatcher: Dispatcher) -> None:
    """And from a header that is too short."""
    found: list[tuple[Buffer, dict[int, Buffer]]] = []
    # A chunk that no argument takes.
    for data in (b"", b"abcd"):
        stream = call(STORE, (b"name", data))
        found += [(stream, {position: b"x" * 8}) for position in (0, 40, 44, len(stream) + 4, 1 << 30)]
    # The name's octets are taken out: the rest is misread, and decoding fails one way or the other.
    whole = call(STORE, (b"ab" * 20, b"data"))
    found.append((whole[:44] + whole[84:], {44: whole[44:84]}))
    # Positions count the octets taken out before.
    payload = CallEncoder(None).encode(XID, STORE, (b"name", b"d" * 8000))
    (item,) = payload.items
    found.append((bytes(payload.reduced) + b"left", {item.position: item.data, item.position + 8000: b"more"}))
    found.append((call(DOUBLE, 1)[:40], {40: bytes(4)}))
    found.append((header()[:24], {24: bytes(16)}))
    for stream, chunks in found:
        with pytest.raises(ReducedIneligibleItem):
            dispatcher.open_call(reducing(stream, chunks))


@pytest.mark.req("V1-61")
@each_case(
    ("at", "length", "chunk"),
    [
        # Bad arguments before a chunk that could be right.
        (40, 65, b"abcde"),
        # An argument of another length than its chunk, and one over its limit.
        (-4, 5, b"abcd"),
        (-4, 5, b"abcdef"),
        (-4, 5, b""),
        (-4, (1 << 20) + 1, b"abcde"),
    ],
)
def test_arguments_that_are_garbage_are_so_though_a_chunk_waits(
    dispatcher: Dispatcher, at: int, length: int, chunk: bytes
) -> None:
    stream, position = reduced_call(b"name", b"abcde")
    broken = bytearray(stream)
    broken[at : at + 4 or None] = length.to_bytes(4, "big")
    reply = dispatcher.open_call(reducing(broken, {position: chunk}))
    assert isinstance(reply, Payload)
    with pytest.raises(errors.GarbageArguments):
        decode_result(Decoder(reply.reduced), XID, STORE)


@pytest.mark.req("V1-63", "V2-67")
def test_a_placed_result_is_taken_and_one_too_many_refused(dispatcher: Dispatcher) -> None:
    opened_call = opened(dispatcher, call(STORE, (b"name", b"data")))
    reply = opened_call.success((b"n", b"result"))
    result = memoryview(b"result")
    assert decode_result(Decoder(reply.reduced, placed=PlacedInOrder([result])), XID, STORE) == (b"n", b"result")
    with pytest.raises(ReducedIneligibleItem):
        decode_result(Decoder(reply.reduced, placed=PlacedInOrder([result, result])), XID, STORE)


@each_case("more", range(-4, 5))
def test_up_to_three_octets_of_padding_may_be_missing_or_too_many(dispatcher: Dispatcher, more: int) -> None:
    """Of an item of one octet: the fourth octet that is missing is the item itself."""
    octets = b"".join(opened(dispatcher, call(STORE, (b"name", b"data"))).success((b"name", b"d")).gather())
    found = octets[: len(octets) + more] + bytes(max(0, more))
    if abs(more) < 4:
        assert decode_result(ReplyDecoder(found), XID, STORE) == (b"name", b"d")
    else:
        with pytest.raises(DecodeError):
            decode_result(ReplyDecoder(found), XID, STORE)


def test_a_result_that_goes_on_is_an_error(dispatcher: Dispatcher) -> None:
    reply = opened(dispatcher, call(DOUBLE, 1)).success(1)
    with pytest.raises(DecodeError, match="DOUBLE"):
        decode_result(Decoder(bytes(reply.reduced) + b"more"), XID, DOUBLE)


def test_the_header_of_a_procedure_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def counted(program: int, version: int, number: int, credential: OpaqueAuth) -> bytes:
        made.append(number)
        return call_tail(program, version, number, credential)

    monkeypatch.setattr(calls_module, "call_tail", counted)
    encoder = CallEncoder(AuthSys(uid=1, gid=2))
    assert encoder.credential == AuthSys(uid=1, gid=2)
    calls = [
        encoder.encode(xid, target, 5).reduced for xid, target in enumerate((DOUBLE, WAIT, DOUBLE, WAIT, DOUBLE), 1)
    ]
    assert made == [1, 2]
    assert calls[0][4:] == calls[2][4:] == calls[4][4:] != calls[1][4:] == calls[3][4:]
    assert [octets[:4] for octets in calls] == [xid.to_bytes(4) for xid in range(1, 6)]
    # A program that derives a procedure for each call takes no more memory with each.
    for _ in range(2 * calls_module._TAILS_KEPT):
        assert encoder.encode(1, replace(DOUBLE), 5).reduced == calls[0]
    assert len(encoder._tails) <= calls_module._TAILS_KEPT


def test_calls_of_a_compound_count_by_their_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compounds, "_NAMED", {})

    class Version4(nfs4.NFS_V4_Service):
        PROGRAM = replace(nfs4.NFS_V4, procedures={**nfs4.NFS_V4.procedures, COMPOUND.number: COMPOUND})

        def compound(self, args: Any, context: Any) -> Any:
            return args

    dispatcher = Dispatcher([Version4(), Version2()])
    for route, calls in (((nfs4.NFS_V4.number, 4, 1), 3), ((nfs4.NFS_V4.number, 4, 0), 1), ((NUMBER, 2, 1), 2)):
        dispatcher._routes[route].calls = calls
    for kinds, status in (("READ", "SUCCESS"), ("READ", "NFS4ERR_IO"), ("OPEN GETATTR", "SUCCESS")):
        numbers = [nfs4.nfs_opnum4["OP_" + kind].value for kind in ["PUTFH", *kinds.split()]]
        dispatcher.statistics.of(Shape(numbers, len(numbers)).procedure, status).add(1)
    others = {"NFSPROC4_NULL": 1, "DOUBLE": 2}
    assert dispatcher.calls_of_procedures() == {"NFSPROC4_COMPOUND": 3, **others}
    ended = dispatcher.statistics.snapshot()
    assert dispatcher.calls_of_procedures(ended) == {"READ": 2, "OPEN+GETATTR": 1, **others}
