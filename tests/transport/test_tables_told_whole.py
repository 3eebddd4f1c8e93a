"""The tables of the transport as they have to be, entry by entry."""

from __future__ import annotations

from typing import Any

from rpcrdma.errors import DecodeError
from rpcrdma.limits import CALL_ATTEMPTS_MAX
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.transport import host_authentication, refusals, routing
from rpcrdma.transport.config import ReverseSupport, Role
from rpcrdma.transport.connection_states import MAY_LEAVE, TRANSITIONS, Input, State
from rpcrdma.transport.dialects import header_v2
from rpcrdma.transport.dialects.v2 import _opens
from rpcrdma.transport.host_authentication import HandshakeInput, HandshakeState
from rpcrdma.transport.host_policy import TAKES_PART, HostPolicy
from rpcrdma.transport.message import Cause, Kind, Refusal
from rpcrdma.transport.plan_call import PlanLimits
from rpcrdma.transport.properties import _Level, with_receive_octets
from rpcrdma.transport.reactions import CallForm, form_after
from rpcrdma.transport.refusals import CallRefused, ChunkRefused, VersionRefused, error_of
from rpcrdma.transport.statistics import TransportStatistics
from rpcrdma.wire.buffers import Reader
from support.cases import each_case
from support.octets import words


class Begun(bytes):
    """A message in memory that goes on: only the octets before `size` are part of it."""

    size = 0

    def __len__(self) -> int:
        return self.size


CODES = {
    Cause.VERSION: words(1, 3, 4),
    Cause.HEADER: words(2),
    Cause.PROPERTY: words(2),
    Cause.HEADER_TYPE: words(3),
    Cause.FLAGS: words(4),
    Cause.READ_CHUNKS: words(5, 5),
    Cause.WRITE_CHUNKS: words(6, 5),
    Cause.SEGMENTS: words(7, 5),
    Cause.WRITE_RESOURCE: words(8, 1, 2),
    Cause.REPLY_RESOURCE: words(9, 2),
    Cause.INELIGIBLE: words(10),
    Cause.TOO_LARGE: words(10),
    Cause.CHUNKS: words(10),
    Cause.SYSTEM: words(10),
}


def test_errors_have_the_codes_of_the_draft() -> None:
    assert set(header_v2.ERRORS._by_cause) == set(CODES)
    assert [layout.size for layout in header_v2.ERRORS._layouts] == [0, 4, 8, 12]
    refusal = Refusal(Cause.HEADER, 1, 2, 3, 4, 5)
    assert {cause: header_v2.ERRORS.encode(refusal._replace(cause=cause)) for cause in CODES} == CODES


@each_case(
    ("needed", "told"),
    [(0xFFFFFFFE, 0xFFFFFFFE), (0xFFFFFFFF, 0xFFFFFFFF), (1 << 32, 0xFFFFFFFF), (1 << 40, 0xFFFFFFFF)],
)
def test_no_error_tells_more_than_a_word_can(needed: int, told: int) -> None:
    assert header_v2.ERRORS.encode(Refusal(Cause.REPLY_RESOURCE, needed=needed)) == words(9, told)


@each_case("start", [0, 5])
@each_case("octets", range(12))
def test_a_message_opens_by_eight_octets_of_it(start: int, octets: int) -> None:
    data = Begun(bytes(start) + words(7, 1) + b"\0\0\0\1")
    data.size = start + octets
    assert _opens(data, start, 7, 1) is (octets >= 8)
    assert not _opens(data, start, 7, 0)
    assert not _opens(data, start, 6, 1)


WAYS = {
    (State.CONNECTING, Input.SETTLE): State.SETTLING,
    (State.CONNECTING, Input.AWAIT): State.AWAITING,
    (State.CONNECTING, Input.INTRODUCE): State.INTRODUCING,
    (State.CONNECTING, Input.AGREE): State.OPEN,
    (State.SETTLING, Input.INTRODUCE): State.INTRODUCING,
    (State.SETTLING, Input.AGREE): State.OPEN,
    (State.AWAITING, Input.INTRODUCE): State.INTRODUCING,
    (State.AWAITING, Input.AUTHENTICATE): State.AUTHENTICATING,
    (State.AWAITING, Input.AGREE): State.OPEN,
    (State.INTRODUCING, Input.AUTHENTICATE): State.AUTHENTICATING,
    (State.INTRODUCING, Input.AGREE): State.OPEN,
    (State.AUTHENTICATING, Input.AGREE): State.OPEN,
}


def test_connections_move_as_their_table_says() -> None:
    standing = [state for state in State if state is not State.CLOSED]
    ends = {(state, Input.BREAK): State.BROKEN for state in standing}
    ends |= {(state, Input.END): State.CLOSED for state in standing}
    assert dict(TRANSITIONS) == {**WAYS, **ends}


def test_host_authentication_moves_as_its_table_says() -> None:
    assert dict(host_authentication.TRANSITIONS) == {
        (HandshakeState.WAITING, HandshakeInput.DECLINE): HandshakeState.UNAUTHENTICATED,
        (HandshakeState.WAITING, HandshakeInput.TAKE_PART): HandshakeState.HANDSHAKE,
        (HandshakeState.HANDSHAKE, HandshakeInput.FLIGHT): HandshakeState.HANDSHAKE,
        (HandshakeState.HANDSHAKE, HandshakeInput.PROOF): HandshakeState.CONFIRMING,
        (HandshakeState.HANDSHAKE, HandshakeInput.ACCEPT): HandshakeState.AUTHENTICATED,
        (HandshakeState.CONFIRMING, HandshakeInput.ACCEPT): HandshakeState.AUTHENTICATED,
    } | {(state, HandshakeInput.FAIL): HandshakeState.FAILED for state in HandshakeState}


def test_what_may_leave_in_each_state() -> None:
    early = {Kind.PROPERTIES, Kind.GRANT, Kind.ERROR}
    assert dict(MAY_LEAVE) == {
        State.CONNECTING: set(),
        State.SETTLING: set(),
        State.AWAITING: {Kind.ERROR},
        State.INTRODUCING: early,
        State.AUTHENTICATING: early,
        State.OPEN: set(Kind),
        State.BROKEN: set(),
        State.CLOSED: set(),
    }


def test_messages_are_for_whom_the_table_says() -> None:
    takers = {
        (kind, role, State.OPEN): route
        for role in Role
        for kind, route in (
            (Kind.CALL, routing._called),
            (Kind.REPLY, routing._answered),
            (Kind.ERROR, routing._refused),
            (Kind.EXTENSION, routing._extended),
        )
    }
    introduced = (State.INTRODUCING, State.AUTHENTICATING, State.OPEN)
    for role in Role:
        for state in introduced:
            takers[Kind.PROPERTIES, role, state] = routing._told
            takers[Kind.GRANT, role, state] = routing._granted
            takers[Kind.PIECE, role, state] = routing._continued
    for state in (State.INTRODUCING, State.AUTHENTICATING):
        takers[Kind.ERROR, Role.CLIENT, state] = routing._not_taken
    for state in (State.AWAITING, *introduced):
        takers[Kind.UNREADABLE, Role.SERVER, state] = routing._unreadable
    takers[Kind.UNREADABLE, Role.CLIENT, State.OPEN] = routing._unreadable_call
    assert dict(routing.ROUTES) == takers


def test_kinds_of_messages_are_places_in_a_list_of_all() -> None:
    """Each message finds its handler by them; the first two are the directions of RPC."""
    assert [int(kind) for kind in Kind] == list(range(len(Kind)))
    assert (Kind.CALL, Kind.REPLY) == (0, 1)


def test_each_policy_decides_whether_hosts_authenticate() -> None:
    assert dict(TAKES_PART) == {
        (HostPolicy.OFF, False): False,
        (HostPolicy.OFF, True): False,
        (HostPolicy.OPTIONAL, False): False,
        (HostPolicy.OPTIONAL, True): True,
        (HostPolicy.REQUIRED, False): None,
        (HostPolicy.REQUIRED, True): True,
    }


def test_each_cause_has_its_words_and_its_error() -> None:
    assert set(refusals._WORDS) == set(Cause) - {Cause.VERSION}
    of_chunks = {Cause.CHUNKS, Cause.READ_CHUNKS, Cause.WRITE_CHUNKS}
    of_chunks |= {Cause.SEGMENTS, Cause.WRITE_RESOURCE, Cause.REPLY_RESOURCE}
    for cause in set(Cause) - {Cause.VERSION}:
        refusal = Refusal(cause, 11, 22, 33, 44, 55, 66)
        error = error_of(refusal)
        assert type(error) is (ChunkRefused if cause in of_chunks else CallRefused)
        assert isinstance(error, ChunkRefused | CallRefused)
        assert error.refusal is refusal
        told = {Cause.READ_CHUNKS: "55 Read chunks", Cause.WRITE_CHUNKS: "55 Write chunks"}
        told |= {Cause.SEGMENTS: "55 segments", Cause.REPLY_RESOURCE: "22 octets", Cause.EXTENSION: "error 0x42 "}
        assert told.get(cause, "") in str(error)
    result = str(error_of(Refusal(Cause.WRITE_RESOURCE, 3, 5000)))
    assert "a result has 5000 octets, too many for Write chunk 3" in result
    assert str(error_of(Refusal(Cause.WRITE_RESOURCE, 0, 5000))).endswith("for Write chunk of the call")
    assert str(ChunkRefused(": ask for less")).endswith("(ERR_CHUNK): ask for less")
    assert ChunkRefused().refusal == Refusal(Cause.CHUNKS)
    said = str(CallRefused(Refusal(Cause.HEADER), ": mend it"))
    assert said.endswith("or the reply needs too long a header: mend it"), "the call may have run"


@each_case(("low", "high", "told"), [(1, 1, "version 1 only"), (1, 2, "versions 1 to 2 only")])
def test_a_refused_version_says_which_ones_are_spoken(low: int, high: int, told: str) -> None:
    error = error_of(Refusal(Cause.VERSION, low=low, high=high))
    assert isinstance(error, VersionRefused)
    assert (error.low, error.high) == (low, high)
    assert str(error) == f"the server speaks RPC-over-RDMA {told}"


def test_every_counter_begins_at_zero() -> None:
    counters = TransportStatistics()
    assert {name: getattr(counters, name) for name in TransportStatistics.__slots__} == dict.fromkeys(
        TransportStatistics.__slots__, 0
    )


FORM = CallForm(ReplyBound(100, (10, 20, 30)))


@each_case(
    ("cause", "chunk", "needed", "following"),
    [
        (Cause.READ_CHUNKS, 0, 0, {"one_chunk": True}),
        (Cause.WRITE_CHUNKS, 0, 0, {"without_writes": True}),
        (Cause.SEGMENTS, 0, 0, {"segment_octets": 777}),
        (Cause.REPLY_RESOURCE, 0, 100, None),
        (Cause.REPLY_RESOURCE, 0, 101, {"bound": ReplyBound(101, (10, 20, 30))}),
        (Cause.REPLY_RESOURCE, 0, 1000, {"bound": ReplyBound(1000, (10, 20, 30))}),
        (Cause.REPLY_RESOURCE, 0, 1001, None),
        (Cause.WRITE_RESOURCE, 0, 50, None),
        (Cause.WRITE_RESOURCE, 1, 10, None),
        (Cause.WRITE_RESOURCE, 1, 11, {"bound": ReplyBound(100, (11, 20, 30))}),
        (Cause.WRITE_RESOURCE, 2, 50, None),
        (Cause.WRITE_RESOURCE, 3, 30, None),
        (Cause.WRITE_RESOURCE, 3, 1000, {"bound": ReplyBound(100, (10, 20, 1000))}),
        (Cause.WRITE_RESOURCE, 3, 1001, None),
        (Cause.WRITE_RESOURCE, 4, 50, None),
        (Cause.HEADER, 0, 0, None),
        (Cause.SYSTEM, 0, 0, None),
    ],
)
def test_the_form_after_each_refusal(cause: Cause, chunk: int, needed: int, following: dict[str, Any] | None) -> None:
    """The second result goes into memory of the caller's."""
    into = (None, memoryview(bytearray(20)))
    refusal = Refusal(cause, chunk, needed)
    expected = None if following is None else FORM._replace(attempts=2, **following)
    assert form_after(refusal, FORM, into, 1000, 777) == expected
    tired = FORM._replace(attempts=CALL_ATTEMPTS_MAX)
    assert form_after(refusal, tired, into, 1000, 777) is None
    if following is not None:
        last = FORM._replace(attempts=CALL_ATTEMPTS_MAX - 1)
        assert form_after(refusal, last, into, 1000, 777) == last._replace(attempts=CALL_ATTEMPTS_MAX, **following)
        if "bound" not in following:
            assert expected is not None
            assert form_after(refusal, expected, into, 1000, 777) is None


@each_case("chunk", [0, 1])
def test_the_only_write_chunk_need_not_be_named(chunk: int) -> None:
    form = CallForm(ReplyBound(100, (10,)))
    expected = CallForm(ReplyBound(100, (50,)), attempts=2)
    assert form_after(Refusal(Cause.WRITE_RESOURCE, chunk, 50), form, (), 1000, 777) == expected
    assert form_after(Refusal(Cause.WRITE_RESOURCE, chunk, 50), form, (None,), 1000, 777) == expected
    assert form_after(Refusal(Cause.WRITE_RESOURCE, chunk, 50), form, (memoryview(b""),), 1000, 777) is None
    without = CallForm(ReplyBound(100, ()))
    assert form_after(Refusal(Cause.WRITE_RESOURCE, chunk, 50), without, (), 1000, 777) is None


def test_each_form_narrows_its_own_limit() -> None:
    geometry: Any = None
    limits = PlanLimits(1, 2, 3, 4, 5, geometry, 6, 7, 8)
    assert FORM.narrow(limits) == limits
    assert FORM._replace(one_chunk=True).narrow(limits) == limits._replace(read_chunks_max=0)
    assert FORM._replace(without_writes=True).narrow(limits) == limits._replace(write_chunks_max=0)
    assert FORM._replace(segment_octets=777).narrow(limits) == limits._replace(segment_octets_max=777)
    assert FORM._replace(plain=True).narrow(limits) == limits
    assert limits.write_chunks_max == 16


@each_case("number", [0, 1, 2, 3, 4, 0xFFFFFFFF])
def test_levels_that_there_are_not_do_not_decode(number: int) -> None:
    levels = tuple(ReverseSupport)
    found: object = None
    try:
        found = _Level().decode(Reader(words(number)), "reverse")
    except DecodeError as error:
        found = type(error)
    assert found is (levels[number] if number < 3 else DecodeError)


def test_a_receive_size_is_added_where_none_is_told() -> None:
    other = (5, words(1))
    assert with_receive_octets((), 8192) == ((2, words(8192)),)
    assert with_receive_octets((other,), 8192) == (other, (2, words(8192)))
    assert with_receive_octets(((2, b""), other), 8192) == (other, (2, words(8192)))
    told = ((2, words(1024)), other)
    assert with_receive_octets(told, 8192) == told
