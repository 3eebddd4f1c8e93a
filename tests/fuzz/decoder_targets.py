"""Fuzz targets: every decoder of octets that a peer sends.

A target takes any octets and returns; AssertionError, or any exception that decoders must not raise, is a finding.
A value that decodes must also survive encoding and decoding again.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rpcrdma.aio.answering.server_call import ServerCall
from rpcrdma.aio.urls import parse_url
from rpcrdma.errors import DecodeError, LocalProtocolError, RemoteProtocolError, RpcError
from rpcrdma.iwarp.config import IwarpConfig
from rpcrdma.iwarp.segments import decode_read_header, encode_read_header
from rpcrdma.iwarp.startup import (
    FrameKind,
    answer,
    ask,
    conclude,
    decode_startup_frame,
    encode_startup_frame,
    size_startup_frame,
)
from rpcrdma.iwarp.terminate import decode_terminate, encode_terminate
from rpcrdma.nfs import mount, v3
from rpcrdma.nfs.export.file_handle import HandleSeal, export_identity
from rpcrdma.nfs.port_mapper import PMAPPROC_GETPORT, RPCBPROC_DUMP
from rpcrdma.nfs.v3 import NFS3_FHSIZE
from rpcrdma.rpc.auth import AuthSys, decode_auth_sys, encode_auth_sys
from rpcrdma.rpc.calling import decode_result
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.rpc.message import decode_call, decode_reply, encode_call, peek_is_call, peek_xid
from rpcrdma.rpc.program import Procedure
from rpcrdma.rpc.record import LAST_FRAGMENT, RecordReceiver
from rpcrdma.rpc.service import Service
from rpcrdma.transport import Role
from rpcrdma.transport.dialects.header_v1 import RdmaMsg, RdmaMsgp, decode_header, encode_header
from rpcrdma.transport.private_data import agree, decode_private_data, encode_private_data
from rpcrdma.xdr.codec import (
    Decoder,
    Encoder,
    PlacedByPosition,
    PlacedInOrder,
    ReducedIneligibleItem,
)

__all__ = ["DECODERS", "FuzzTarget"]

VECTORS = Path(__file__).parents[1] / "vectors"
ROOM = 4096
CHUNK_OCTETS = 512


class FuzzTarget(NamedTuple):
    """`run` is given the octets of one case; a search without a kept corpus begins from `seeds`."""

    name: str
    run: Callable[[bytes], None]
    seeds: Sequence[bytes]


def by_role(name: str, play: Callable[..., None], seeds: Sequence[bytes]) -> list[FuzzTarget]:
    """One target for each role of an endpoint, with calls in one direction or in both."""
    return [
        FuzzTarget(
            f"machine_{name}_{role.value}{'_both_ways' if reverse else ''}",
            functools.partial(play, role, reverse=reverse),
            seeds,
        )
        for role in (Role.SERVER, Role.CLIENT)
        for reverse in (False, True)
    ]


@functools.cache
def vectors(path: str) -> dict[str, Any]:
    return tomllib.loads((VECTORS / path).read_text())


def golden(path: str, *tables: str) -> list[bytes]:
    """The octets of golden vectors."""
    return [bytes.fromhex(case["hex"]) for table in tables for case in vectors(path)[table]]


def octets_of(enc: Encoder) -> bytes:
    return b"".join(enc.gather())


# RPC


def call_header(data: bytes) -> None:
    dec = Decoder(data)
    try:
        header = decode_call(dec)
    except DecodeError:
        return
    enc = Encoder()
    encode_call(enc, *header)
    again = Decoder(octets_of(enc))
    assert decode_call(again) == header
    again.done("call header")


def reply_header(data: bytes) -> None:
    dec = Decoder(data)
    try:
        decode_reply(dec, int.from_bytes(data[:4], "big"))
    except (DecodeError, RpcError):
        return
    assert 24 <= dec.pos <= len(data)


def round_trip(decode: Callable[[bytes], Any], encode: Callable[[Encoder, Any], None]) -> Callable[[bytes], None]:
    """What decodes has octets that decode to the same."""

    def run(data: bytes) -> None:
        try:
            found = decode(data)
        except DecodeError:
            return
        enc = Encoder()
        encode(enc, found)
        assert decode(octets_of(enc)) == found

    return run


def record(data: bytes) -> None:
    """A TCP stream of records; its first two octets say how it is cut, on which the outcome must not depend."""
    whole = _records(data[2:], 1 << 20)
    step = 1 + int.from_bytes(data[:2], "big") % 64
    assert _records(data[2:], step) == whole


def _records(stream: bytes, step: int) -> tuple[list[bytes], str]:
    receiver = RecordReceiver(record_octets_max=ROOM, fragments_max=16)
    found: list[bytes] = []
    start, failure = 0, ""
    while start < len(stream) and not failure:
        buffers = receiver.next_buffers()
        taken = 0
        for buffer in buffers:
            part = stream[start + taken : start + min(step, len(stream) - start)][: len(buffer)]
            buffer[: len(part)] = part
            taken += len(part)
        start += taken
        try:
            receiver.bytes_received(taken)
        except RemoteProtocolError as error:
            failure = str(error)
        assert len(receiver._message) <= ROOM
    while (message := receiver.next_record()) is not None:
        found.append(bytes(message))
    assert all(0 < len(message) <= ROOM for message in found)
    return found, failure


class EveryArgument:
    """A handler for any procedure: this target tests only the decoding."""

    def __call__(self, args: Any, context: Any) -> None:
        """Never called: the target stops at the invocation."""


def _service(program: Any) -> Service:
    methods = {procedure.method: EveryArgument() for procedure in program.procedures.values()}
    return type("Everything", (Service,), {"PROGRAM": program, **methods})()


DISPATCHER = Dispatcher([_service(v3.PROGRAM), _service(mount.PROGRAM)])


def dispatch(data: bytes) -> None:
    """A whole call, one item of it perhaps in a Read chunk: the first four octets say where and how long."""
    if len(data) < 4:
        return
    position, length = int.from_bytes(data[:2], "big") & ~3, int.from_bytes(data[2:4], "big") % CHUNK_OCTETS
    placed = PlacedByPosition({position: memoryview(bytes(length))}) if position else None
    try:
        refused = DISPATCHER.open_call(ServerCall(0, Decoder(data[4:], placed=placed)))
    except ReducedIneligibleItem:
        assert placed is not None
        return
    except DecodeError:
        return
    assert refused is None or refused.length >= 20


OWN_CALLS = {1: v3.GETATTR, 2: v3.READ, 3: v3.NULL}
"""Own calls by XID, which replies on a stream with calls of both sides may answer."""


def records_both_ways(data: bytes) -> None:
    """A TCP stream that mixes replies to own calls and the peer's calls."""
    messages, _ = _records(data, 1 << 20)
    for message in messages:
        xid = peek_xid(message)
        if peek_is_call(message):
            call = ServerCall(0, Decoder(message))
            try:
                refused = DISPATCHER.open_call(call)
            except DecodeError:
                continue
            if refused is None:
                assert call.xid == xid
            else:
                assert bytes(refused.gather()[0][:4]) == message[:4]
        elif xid in OWN_CALLS:
            try:
                decode_result(Decoder(message), xid, OWN_CALLS[xid])
            except (DecodeError, RpcError):
                continue


# iWARP


def startup_frame(data: bytes) -> None:
    for kind in FrameKind:
        try:
            # As the queue pair uses it: the size as soon as enough octets are there, then the frame.
            for length in range(min(len(data), 24) + 1):
                size_startup_frame(kind, data[:length])
            frame = decode_startup_frame(kind, data)
        except RemoteProtocolError:
            continue
        again = decode_startup_frame(kind, encode_startup_frame(frame))
        if frame.enhanced is None and frame.revision == 2:
            assert again == frame
        if kind is FrameKind.REQUEST:
            reply, agreement = answer(frame, IwarpConfig(), b"")
            assert agreement.inbound_reads <= 32
            assert agreement.outbound_reads <= 32
            decode_startup_frame(FrameKind.REPLY, encode_startup_frame(reply))
        else:
            for config in (IwarpConfig(), IwarpConfig(peer_to_peer=True), IwarpConfig(enhanced=False)):
                try:
                    agreement = conclude(ask(config, b""), frame, config)
                except RemoteProtocolError:
                    continue
                assert agreement.inbound_reads <= 32
                assert agreement.outbound_reads <= 32


def read_header(data: bytes) -> None:
    try:
        header = decode_read_header(data)
    except DecodeError:
        return
    assert encode_read_header(header) == data[:28]


def terminate(data: bytes) -> None:
    try:
        message = decode_terminate(data)
    except DecodeError:
        return
    assert message.words
    assert len(message.ddp_header) in {0, 14, 18}
    assert len(message.read_header) in {0, 28}
    assert len(encode_terminate(message)) <= len(data)


# RPC-over-RDMA


def header_v1(data: bytes) -> None:
    try:
        header = decode_header(data)
    except DecodeError:
        return
    encoded = encode_header(header)
    assert len(encoded) <= len(data)
    again = decode_header(encoded)
    assert encode_header(again) == encoded
    if not isinstance(header, RdmaMsg | RdmaMsgp):
        assert again == header


def private_data(data: bytes) -> None:
    told = decode_private_data(data)
    if told is not None:
        assert decode_private_data(encode_private_data(told)) == told
    send, receive, _ = agree(decode_private_data(b"\xf6\xab\x0e\x18\x01\x01\x03\x03"), told)  # type: ignore[arg-type]
    assert 1024 <= send <= 4096
    assert 1024 <= receive <= 4096


# Generated code: every procedure's arguments and results, inline and with items placed elsewhere


def procedure_target(procedure: Procedure[Any, Any]) -> Callable[[bytes], None]:
    def run(data: bytes) -> None:
        inline, placed = data, memoryview(bytes(int.from_bytes(data[-2:], "big") % CHUNK_OCTETS))
        _round_trip(procedure.encode_args, procedure.decode_args, Decoder(inline))
        _round_trip(procedure.encode_result, procedure.decode_result, Decoder(inline))
        position = int.from_bytes(data[-4:-2], "big") % 256 & ~3
        _round_trip(
            procedure.encode_args, procedure.decode_args, Decoder(data, placed=PlacedByPosition({position: placed}))
        )
        _round_trip(procedure.encode_result, procedure.decode_result, Decoder(data, placed=PlacedInOrder([placed])))

    return run


def _round_trip(encode: Callable[[Encoder, Any], None], decode: Callable[[Decoder], Any], dec: Decoder) -> None:
    try:
        value = decode(dec)
        if dec.placed is not None:
            dec.placed.done()
    except DecodeError:
        return
    assert dec.pos <= dec.end
    enc = Encoder()
    encode(enc, value)
    again = Decoder(octets_of(enc))
    assert decode(again) == value
    again.done("what was encoded")


def xdr_items(data: bytes) -> None:
    """The primitives themselves: each octet of the first sixteen chooses one with its limit."""
    dec = Decoder(data[16:], placed=PlacedInOrder([None, memoryview(b"four"), None]))
    try:
        for choice in data[:16]:
            limit = choice >> 3
            match choice & 7:
                case 0:
                    assert len(dec.opaque(limit, "opaque")) <= limit
                case 1:
                    assert len(dec.string(limit, "string").encode("utf-8", "surrogateescape")) <= limit
                case 2:
                    assert len(dec.bulk(limit, "bulk")) <= limit
                case 3:
                    assert dec.boolean("bool") in {True, False}
                case 4:
                    assert len(dec.linked_list(Decoder.position.__get__, limit, "list")) <= limit
                case 5:
                    assert len(dec.numbers("iIqQfd"[limit % 6], limit, "numbers")) == limit
                case 6:
                    assert dec.count(limit, "count") <= limit
                case _:
                    assert len(dec.fixed(limit, "fixed")) == limit
            assert dec.pos <= dec.end
        dec.done("items")
    except DecodeError:
        return


# Values that clients send inside other items, and values that users type


SEAL = HandleSeal(bytes(range(32)))
HANDLE = SEAL.close(export_identity("/"), 12, b"\x00\x01" + bytes(8))


def file_handle(data: bytes) -> None:
    """Handles that this key did not make do not open, also handles that differ from one of its own in any octet."""
    opened = SEAL.open(data[:NFS3_FHSIZE])
    assert opened is None or data[:NFS3_FHSIZE] == HANDLE
    mixed = bytes(a ^ b for a, b in zip(HANDLE, data.ljust(len(HANDLE), b"\0"), strict=False))
    assert mixed == HANDLE or SEAL.open(mixed) is None


def url(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    try:
        parsed = parse_url(text)
    except LocalProtocolError:
        return
    assert 0 <= parsed.port <= 65535
    assert parsed.host


def _call(procedure: Procedure[Any, Any], rest: bytes) -> bytes:
    enc = Encoder()
    encode_call(enc, 1, procedure.program, procedure.version, procedure.number)
    return octets_of(enc) + rest


def _auth_seeds() -> list[bytes]:
    enc = Encoder()
    encode_auth_sys(enc, AuthSys(machine="host", uid=1, gid=2, gids=(3, 4)))
    return [octets_of(enc), *(bytes.fromhex(case["body"]) for case in vectors("rpc/headers.toml")["call"])]


_ZEROS = [bytes(length) for length in (4, 64, 256, 1024)]
_HANDLE_FIRST = [(32).to_bytes(4, "big") + bytes(32 + length) for length in (0, 8, 64, 512)]
_PROCEDURES = [
    (f"{prefix}_{procedure.name.rpartition('_')[2].lower()}", procedure)
    for prefix, program in (("nfs3", v3.PROGRAM), ("mount3", mount.PROGRAM))
    for procedure in program.procedures.values()
    if procedure.number
]


def _record(message: bytes) -> bytes:
    return (LAST_FRAGMENT | len(message)).to_bytes(4, "big") + message


DECODERS = [
    FuzzTarget("rpc_call", call_header, golden("rpc/headers.toml", "call")),
    FuzzTarget("rpc_reply", reply_header, golden("rpc/headers.toml", "reply")),
    FuzzTarget("rpc_auth_sys", round_trip(decode_auth_sys, encode_auth_sys), _auth_seeds()),
    FuzzTarget("rpc_record", record,
               [b"\0\3\0\0\0\4abcd\x80\0\0\2ef\x80\0\0\1g", b"\0\0\x80\0\0\x80" + bytes(128), b"\0\1" + bytes(80)]),
    FuzzTarget("rpc_records_both_ways", records_both_ways,
               [_record(_call(v3.GETATTR, _HANDLE_FIRST[0])) + _record(bytes.fromhex("00000003 00000001") + bytes(16)),
                _record(bytes.fromhex("00000001 00000001") + bytes(16) + b"\0\0\0\5"),
                _record(bytes(8)) + b"\0\0\0\4abcd\x80\0\0\2ef"]),
    FuzzTarget("rpc_dispatch", dispatch,
               [bytes(4) + _call(v3.GETATTR, _HANDLE_FIRST[0]),
                (40 + 36 + 8 + 12).to_bytes(2, "big") + b"\0\x20" + _call(v3.WRITE, _HANDLE_FIRST[1] + bytes(12)),
                bytes(4) + _call(mount.MNT, b"\0\0\0\1/\0\0\0")]),
    FuzzTarget("rpc_port_mapper", procedure_target(PMAPPROC_GETPORT), _ZEROS[:2]),
    FuzzTarget("rpc_bindings", procedure_target(RPCBPROC_DUMP), _ZEROS[:2]),
    FuzzTarget("iwarp_startup_frame", startup_frame, golden("iwarp/frames.toml", "startup")),
    FuzzTarget("iwarp_read_header", read_header, [bytes(28), bytes(range(30))]),
    FuzzTarget("iwarp_terminate", terminate,
               [frame[20:-4] for frame in golden("iwarp/frames.toml", "fpdu") if len(frame) > 28]
               + [b"\x11\x00\xc0\x00\x00\x12" + b"\xc1" + bytes(40), b"\x01\x00\xe0\x00" + bytes(60)]),
    FuzzTarget("transport_header_v1", header_v1, golden("transport/headers.toml", "header", "malformed")),
    FuzzTarget("transport_private_data", private_data, [b"\xf6\xab\x0e\x18\x01\x01\x03\x03", b"\xf6\xab" * 9]),
    FuzzTarget("xdr_items", xdr_items,
               [bytes(64), bytes(range(8, 24)) + bytes(64),
                bytes(16) + bytes.fromhex(vectors("xdr/file.toml")["file"]["hex"])]),
    *(FuzzTarget(name, procedure_target(procedure), _ZEROS + _HANDLE_FIRST) for name, procedure in _PROCEDURES),
    FuzzTarget("nfs3_file_handle", file_handle, [HANDLE, bytes(64)]),
    FuzzTarget("service_url", url, [b"rdma://host:1/a%20b", b"tcp://[::1]/", b"rdma://192.0.2.1"]),
]  # fmt: skip
"""The targets, named after the message or item that they decode."""
