"""Real messages of Linux kernels (tests/vectors/linux): through every decoder, and back if the encoding is unique."""

from __future__ import annotations

import struct
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from rpcrdma.iwarp.segments import ReadHeader, decode_read_header, encode_read_header
from rpcrdma.iwarp.startup import Enhanced, FrameKind, StartupFrame, decode_startup_frame, encode_startup_frame
from rpcrdma.iwarp.terminate import Code, PeerTerminated, decode_terminate
from rpcrdma.nfs import v3
from rpcrdma.rpc.auth import AuthSys, decode_auth_sys
from rpcrdma.rpc.message import decode_call, encode_call
from rpcrdma.transport.dialects.header_v1 import (
    ERR_CHUNK,
    ERR_VERS,
    RdmaError,
    RdmaMsg,
    RdmaNoMsg,
    decode_header,
    encode_header,
)
from rpcrdma.transport.private_data import PrivateData, decode_private_data
from rpcrdma.xdr.codec import Decoder, Encoder
from support.cases import each_case
from support.raw_iwarp import fpdu

FRAMES = {
    vector["name"]: bytes.fromhex(vector["hex"])
    for vector in tomllib.loads((Path(__file__).parents[1] / "vectors/linux/messages.toml").read_text())["message"]
}
CALLS = [name for name in FRAMES if name.endswith(" call")]
REPLIES = [name for name in FRAMES if name.endswith(" reply")]
SENDS = [*CALLS, *REPLIES, "kernel server: ERR_VERS", "kernel server: ERR_CHUNK"]
SEND, SEND_INVALIDATE = 3, 4


class Segment(NamedTuple):
    opcode: int
    invalidated: int
    queue: int
    number: int
    payload: bytes


def segment_of(name: str) -> Segment:
    """An untagged segment in an FPDU."""
    octets = FRAMES[name]
    length = int.from_bytes(octets[:2])
    assert fpdu(octets[2 : 2 + length]) == octets
    _, control, invalidated, queue, number, _ = struct.unpack_from(">BBIIII", octets, 2)
    return Segment(control & 15, invalidated, queue, number, octets[20 : 2 + length])


def message_of(name: str) -> bytes:
    return segment_of(name).payload


def call_of(procedure: str) -> tuple[Any, Decoder, int, AuthSys | None]:
    """The transport header, a decoder of the arguments, the procedure's number, and the credential."""
    message = message_of(f"kernel client: {procedure} call")
    header = decode_header(message)
    assert isinstance(header, RdmaMsg)
    decoder = Decoder(message, header.size)
    call = decode_call(decoder)
    assert (call.xid, call.program, call.version) == (header.xid, 100003, 3)
    credential = decode_auth_sys(call.credential.body) if call.credential.flavor == 1 else None
    return header, decoder, call.procedure, credential


def lengths(chunk: Any) -> list[int]:
    return [segment.length for segment in chunk.segments]


def test_start_up_frames_of_both_kernels() -> None:
    wanted = {
        "kernel client: MPA Request": (FrameKind.REQUEST, False, False, Enhanced(128, 0), (True, 4096, 4096)),
        "kernel server: MPA Reply": (FrameKind.REPLY, True, False, Enhanced(32, 32), (False, 4096, 4096)),
        "kernel server: MPA Reply that rejects": (FrameKind.REPLY, True, True, Enhanced(0, 0), None),
    }
    for name, (kind, crc, reject, enhanced, private) in wanted.items():
        frame = decode_startup_frame(kind, FRAMES[name])
        told = decode_private_data(frame.private_data)
        assert told == (None if private is None else PrivateData(*private))
        assert frame == StartupFrame(
            kind=kind, revision=2, crc=crc, reject=reject, enhanced=enhanced, private_data=frame.private_data
        )
        assert encode_startup_frame(frame) == FRAMES[name]


@each_case("name", SENDS)
def test_headers_decode_and_encode_to_the_same_octets(name: str) -> None:
    message = message_of(name)
    header = decode_header(message)
    assert message.startswith(encode_header(header))
    assert header.credits == (128 if "client" in name else 64)


@each_case("name", CALLS)
def test_call_headers_decode_and_encode_to_the_same_octets(name: str) -> None:
    message = message_of(name)
    header = decode_header(message)
    assert isinstance(header, RdmaMsg)
    call = decode_call(Decoder(message, header.size))
    encoder = Encoder()
    encode_call(encoder, *call)
    assert message[header.size :].startswith(encoder.reduced)


def test_the_kernel_reads_with_a_write_chunk() -> None:
    header, decoder, number, _ = call_of("READ")
    assert number == 6
    assert not header.chunks.reads
    assert header.chunks.reply is None
    (chunk,) = header.chunks.writes
    # Three pages for the 10,240 octets that the file has.
    assert lengths(chunk) == [12288]
    args = v3.decode_READ3args(decoder)
    assert (args.offset, args.count) == (0, 12288)
    assert decoder.remaining == 0
    # The XID stands in the upper half of its offsets.
    assert chunk.segments[0].offset >> 32 == header.xid


def test_the_kernel_writes_with_a_read_chunk_where_the_data_would_stand() -> None:
    header, decoder, number, _ = call_of("WRITE")
    assert number == 7
    assert not header.chunks.writes
    assert header.chunks.reply is None
    (chunk,) = header.chunks.reads
    assert lengths(chunk) == [5000]
    file = v3.decode_nfs_fh3(decoder)
    assert 0 < len(file.data) <= 64
    assert (decoder.u64("offset"), decoder.u32("count"), decoder.u32("stable"), decoder.u32("length")) == (
        0,
        5000,
        2,
        5000,
    )
    assert decoder.remaining == 0
    assert chunk.position == len(message_of("kernel client: WRITE call")) - header.size


def test_the_kernel_lists_with_a_reply_chunk_of_several_segments() -> None:
    header, decoder, number, _ = call_of("READDIRPLUS")
    assert number == 17
    assert not header.chunks.reads
    assert not header.chunks.writes
    args = v3.decode_READDIRPLUS3args(decoder)
    # The head of the reply, its pages, and a word of padding.
    assert lengths(header.chunks.reply) == [124, args.maxcount, 4]
    assert (args.cookie, args.dircount) == (0, args.maxcount)


def test_replies_of_the_kernel_give_chunks_back_and_end_their_handle() -> None:
    segment = segment_of("kernel server: READ reply")
    header = decode_header(segment.payload)
    assert isinstance(header, RdmaMsg)
    (chunk,) = header.chunks.writes
    assert lengths(chunk) == [120]
    assert (segment.opcode, segment.invalidated) == (SEND_INVALIDATE, chunk.segments[0].handle)

    segment = segment_of("kernel server: READDIRPLUS reply")
    long = decode_header(segment.payload)
    assert isinstance(long, RdmaNoMsg)
    assert long.chunks.reply is not None
    assert (segment.opcode, segment.invalidated) == (SEND_INVALIDATE, long.chunks.reply.segments[0].handle)

    segment = segment_of("kernel server: WRITE reply")
    request = decode_read_header(message_of("kernel server: RDMA Read Request"))
    assert (segment.opcode, segment.invalidated) == (SEND_INVALIDATE, request.source_handle)


def test_the_kernels_read_request_asks_for_the_whole_chunk() -> None:
    segment = segment_of("kernel server: RDMA Read Request")
    assert (segment.opcode, segment.queue, segment.number) == (1, 1, 1)
    request = decode_read_header(segment.payload)
    assert isinstance(request, ReadHeader)
    assert request.length == 5120
    assert encode_read_header(request) == segment.payload


def test_refusals_of_the_kernel() -> None:
    version = decode_header(message_of("kernel server: ERR_VERS"))
    assert version == RdmaError(0x0BADCAFE, 64, ERR_VERS, 1, 1, 2)
    assert decode_header(message_of("kernel server: ERR_CHUNK")) == RdmaError(0x0BADCAFE, 64, ERR_CHUNK)


def test_a_terminate_of_siw_is_understood() -> None:
    segment = segment_of("kernel server: Terminate of a Send of 4097 octets")
    assert (segment.opcode, segment.queue, segment.number) == (7, 2, 1)
    terminate = decode_terminate(segment.payload)
    assert terminate.code == Code.UNTAGGED_NO_BUFFER
    assert terminate.ddp_header[:2] == bytes.fromhex("4143")
    assert "no receive buffer was posted" in str(PeerTerminated(terminate))
