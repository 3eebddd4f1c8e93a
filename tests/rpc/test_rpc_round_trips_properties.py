"""Each encodable value is decoded to the same, and no octets raise anything but the documented errors."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcrdma.aio.answering.server_call import ServerCall
from rpcrdma.errors import DecodeError, ProgramMismatch, RemoteProtocolError, RpcError
from rpcrdma.rpc.auth import AuthSys, OpaqueAuth, decode_auth_sys, opaque_auth
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.rpc.message import AcceptStat, CallHeader, decode_call, decode_reply, encode_accepted, encode_call
from rpcrdma.rpc.program import Procedure, Program
from rpcrdma.rpc.record import RecordReceiver, RecordSender
from rpcrdma.rpc.service import Service
from rpcrdma.xdr.codec import Decoder, Encoder, Payload, PlacedByPosition, ReducedIneligibleItem

words = st.integers(0, 0xFFFFFFFF)
authentication = st.builds(OpaqueAuth, words, st.binary(max_size=400))
headers = st.builds(CallHeader, words, words, words, words, authentication, authentication)
identities = st.builds(
    AuthSys,
    stamp=words,
    machine=st.binary(max_size=255).map(lambda octets: octets.decode("utf-8", "surrogateescape")),
    uid=words,
    gid=words,
    gids=st.lists(words, max_size=16).map(tuple),
)


class Echo(Service):
    PROGRAM = Program(
        7,
        1,
        "ECHO_V1",
        {
            1: Procedure(
                program=7,
                version=1,
                number=1,
                name="ECHO",
                method="echo",
                encode_args=lambda enc, value: enc.bulk(value, 1000, "data"),
                decode_args=lambda dec: dec.bulk(1000, "data"),
                encode_result=lambda enc, value: enc.bulk(value, 1000, "data"),
                decode_result=lambda dec: dec.bulk(1000, "data"),
            )
        },
    )

    def echo(self, args: memoryview, context: object) -> memoryview:
        return args


DISPATCHER = Dispatcher([Echo()])


@pytest.mark.req("OR-1", "OR-6")
@given(headers)
def test_call_headers(header: CallHeader) -> None:
    enc = Encoder()
    encode_call(enc, *header)
    assert decode_call(Decoder(enc.reduced)) == header


@pytest.mark.req("OR-3")
@given(identities)
def test_identities(identity: AuthSys) -> None:
    assert decode_auth_sys(opaque_auth(identity).body) == identity


@pytest.mark.req("OR-6")
@given(words, st.sampled_from(AcceptStat), words, words)
def test_accepted_replies(xid: int, stat: AcceptStat, low: int, high: int) -> None:
    enc = Encoder()
    encode_accepted(enc, xid, stat, low=low, high=high)
    if stat is AcceptStat.SUCCESS:
        decode_reply(Decoder(enc.reduced), xid)
        return
    with pytest.raises(RpcError) as caught:
        decode_reply(Decoder(enc.reduced), xid)
    if stat is AcceptStat.PROG_MISMATCH:
        assert isinstance(caught.value, ProgramMismatch)
        assert (caught.value.low, caught.value.high) == (low, high)


@given(st.binary(max_size=100), st.booleans())
def test_any_octets_as_a_reply(octets: bytes, plausible: bool) -> None:
    data = (bytes(7) + b"\1" + octets) if plausible else octets
    with contextlib.suppress(DecodeError, RpcError):
        decode_reply(Decoder(data), 0)


@given(st.binary(max_size=600), words, st.booleans(), st.dictionaries(st.integers(0, 100), st.binary(max_size=9)))
def test_any_octets_as_a_call(octets: bytes, xid: int, plausible: bool, chunks: dict[int, bytes]) -> None:
    enc = Encoder()
    if plausible:
        encode_call(enc, xid, 7, 1, 1)
    placed = PlacedByPosition({at: memoryview(chunk) for at, chunk in chunks.items()}) if chunks else None
    try:
        refused = DISPATCHER.open_call(ServerCall(xid, Decoder(bytes(enc.reduced) + octets, placed=placed)))
    except ReducedIneligibleItem:
        assert chunks
        return
    except DecodeError:
        return
    assert refused is None or isinstance(refused, Payload)


@given(st.binary(max_size=410))
def test_any_octets_as_an_identity(octets: bytes) -> None:
    try:
        identity = decode_auth_sys(octets)
    except DecodeError:
        return
    assert decode_auth_sys(opaque_auth(identity).body) == identity


def deliver(receiver: RecordReceiver, stream: bytes, cuts: list[int]) -> list[bytes]:
    records = []
    turn = 0
    view = memoryview(stream)
    while view:
        wanted = cuts[turn % len(cuts)] if cuts else len(view)
        turn += 1
        received = 0
        for buffer in receiver.next_buffers():
            count = min(len(buffer), len(view), wanted - received)
            buffer[:count] = view[:count]
            view = view[count:]
            received += count
        receiver.bytes_received(received)
        while (record := receiver.next_record()) is not None:
            records.append(bytes(record))
    return records


@given(
    st.lists(st.one_of(st.binary(min_size=1, max_size=200), st.integers(1, 100_000).map(bytes)), max_size=8),
    st.lists(st.integers(1, 50_000), max_size=6),
    st.lists(st.integers(1, 50_000), min_size=1, max_size=6),
)
def test_records_through_a_stream_that_is_cut_anywhere(messages: list[bytes], cuts: list[int], sent: list[int]) -> None:
    sender = RecordSender()
    for number, message in enumerate(messages):
        sender.push(Payload(message), number)
    stream, tickets = bytearray(), []
    while gather := sender.next_gather():
        octets = b"".join(gather)[: sent[len(stream) % len(sent)]]
        stream += octets
        tickets += sender.bytes_sent(len(octets))
    assert tickets == list(range(len(messages)))
    assert deliver(RecordReceiver(), bytes(stream), cuts) == messages


@given(
    st.lists(st.tuples(st.integers(1, 100_000), st.lists(st.integers(0, 40_000), max_size=4)), max_size=6),
    st.lists(st.integers(1, 50_000), max_size=6),
)
def test_records_in_fragments_of_any_length(messages: list[tuple[int, list[int]]], cuts: list[int]) -> None:
    stream, whole = bytearray(), []
    for size, fragments in messages:
        message = (bytes(range(251)) * 400)[:size]
        whole.append(message)
        for length in fragments:
            part, message = message[:length], message[length:]
            stream += len(part).to_bytes(4, "big") + part
        stream += (1 << 31 | len(message)).to_bytes(4, "big") + message
    # Fragments are counted for each record anew.
    receiver = RecordReceiver(fragments_max=5)
    assert deliver(receiver, bytes(stream), cuts) == whole
    assert not receiver.mid_record


@given(st.binary(max_size=400), st.lists(st.integers(1, 50), max_size=6))
def test_any_octets_as_records(octets: bytes, cuts: list[int]) -> None:
    receiver = RecordReceiver(record_octets_max=64, fragments_max=4)
    try:
        records = deliver(receiver, octets, cuts)
    except RemoteProtocolError:
        return
    assert all(0 < len(record) <= 64 for record in records)
