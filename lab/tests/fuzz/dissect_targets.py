"""Fuzz targets: everything that `rpcrdma decode` reads. For any input, annotated messages come out."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from decoder_targets import FuzzTarget, golden
from rpcrdma_lab.dissect.capture_dissector import CaptureDissector
from rpcrdma_lab.dissect.capture_file import MAGIC_OCTETS, CaptureDamaged, CapturedPacket, capture_form, read_packets
from rpcrdma_lab.dissect.connection import IwarpConnection, Settings
from rpcrdma_lab.dissect.fields import Field, Message
from rpcrdma_lab.dissect.hex_text import NotHex, hex_messages, read_hex
from rpcrdma_lab.dissect.rpc_body import Interfaces
from support import raw_roce
from support.raw_capture import CLIENT, SERVER, HandMadeCapture
from support.raw_iwarp import fpdu, startup_frame, terminate, untagged

__all__ = ["DISSECTORS"]


@functools.cache
def settings() -> Settings:
    return Settings(Interfaces(["nfs3.x"]))


def check(messages: Iterator[Message]) -> None:
    """Every message can be shown, and each fault is named at its place."""
    for message in messages:
        json.dumps(message.as_json())
        for group in message.groups:
            check_field(group)
        assert message.faults or not any(map(is_marked, message.groups))
        assert all(fault.reason for fault in message.faults)


def is_marked(field: Field) -> bool:
    """Whether a fault is marked; a credential that does not decode is its responder's to judge."""
    if field.name == "body" and isinstance(field.value, bytes):
        return False
    return bool(field.faults) or any(map(is_marked, field.fields))


def check_field(field: Field) -> None:
    assert field.offset >= 0
    assert field.size >= 0
    for one in field.fields:
        check_field(one)


def message(data: bytes) -> None:
    """A message."""
    check(hex_messages(data, settings(), iwarp=False))


def streams(data: bytes) -> None:
    """Both directions of a connection: pieces with two octets before each, the direction and length, or a gap."""
    connection = IwarpConnection(settings())
    at = number = 0
    while at + 2 <= len(data):
        end, octets = data[at] & 1, (data[at] & 0x7E) << 7 | data[at + 1]
        if data[at] & 0x80:
            lost = connection.lose(end, octets)
            at += 2
            check(iter([lost] if lost is not None else []))
            continue
        for found in connection.feed(end, data[at + 2 : at + 2 + octets]):
            number += 1
            found.number = number
            connection.finish(end, found)
            check(iter([found]))
        at += 2 + octets


def capture(data: bytes) -> None:
    """A file."""
    file = io.BytesIO(data)
    start = file.read(MAGIC_OCTETS)
    if not capture_form(start):
        return
    dissector = CaptureDissector(settings())
    with contextlib.suppress(CaptureDamaged):
        check(dissector.messages(read_packets(file, start)))


def roce(data: bytes) -> None:
    """Packets of RoCEv2, whose ICRC is made right: before each, the sender and a length of two octets."""
    packets = []
    at = 0
    while at + 3 <= len(data):
        octets = int.from_bytes(data[at + 1 : at + 3])
        transport = data[at + 3 : at + 3 + octets].ljust(12, b"\0")
        packets.append(CapturedPacket(0, 101, raw_roce.datagram(data[at] & 1, transport), 0))
        at += 3 + octets
    check(CaptureDissector(settings()).messages(packets))


def hex_text(data: bytes) -> None:
    """Text."""
    try:
        read_hex(data.decode("ascii", "replace"))
    except NotHex:
        return


def _piece(end: int, octets: bytes) -> bytes:
    return bytes([end | len(octets) >> 7 & 0x7E, len(octets) & 0xFF]) + octets


_CALL = bytes.fromhex(
    "0a0b0c0d 00000001 00000020 00000000 00000000 00000001 00000001"
    "00000055 00001000 00000000 00000000 00000000 00000000"
    "0a0b0c0d 00000000 00000002 000186a3 00000003 00000006 00000001 00000018 00000000 00000003 61626300 00000000"
    "00000000 00000000 00000000 00000000"
)
_REPLY = bytes.fromhex("0a0b0c0d 00000001 00000020 00000004 00000002")
_GRANTED = bytes.fromhex("00000001 00000002 00200020 00000005 00000002")


def _streams() -> bytes:
    """A connection with a call, RDMA operations and a reply."""
    return b"".join(
        [
            _piece(0, startup_frame("Req", 0x50, 2, bytes.fromhex("00200020 f6ab0e1801010303"))),
            _piece(1, startup_frame("Rep", 0x50, 2, bytes.fromhex("00200020"))),
            _piece(0, fpdu(untagged(3, 0, 1, _CALL))),
            _piece(1, fpdu(untagged(4, 0, 1, _REPLY, invalidate=0x55))),
            _piece(0, fpdu(untagged(3, 0, 2, _GRANTED + bytes.fromhex("00000001 00000001")))),
            b"\x80\x05",
            _piece(1, terminate(0x0206)),
        ]
    )


_KINDS = {"request": 0x101, "response": 0x102, "continue": 0x103, "report": 0x104}


def _transmissions() -> list[bytes]:
    """Messages of the round-trip extension."""
    return [
        b"".join(word.to_bytes(4, "big") for word in (7, 2, 0x00200020, number, 0)) + octets
        for kind, number in _KINDS.items()
        for octets in golden("rtr/messages.toml", kind)
    ]


def _group() -> bytes:
    """A connection on which the server tells of its buffers, and a request comes in two parts with data in segments."""
    structure = bytes.fromhex(
        "00000090 00000002 00000001 00000080 00000000 00000000 00000002 00000008 00000000 00000001"
    )
    told = bytes.fromhex("00000001 00000002 00200020 00000005 00000000 00000001 00000102 00000028") + structure
    item = bytes.fromhex("00000001 00000028 00000014 00000002 00000000 00000003 00000000 00000001 00000002 00000000")
    first = bytes.fromhex("0a0b0c0d 00000002 00200020 00000101 00000000") + item
    first += bytes.fromhex("00000002 00000000 00000014") + _CALL[52:72]
    second = bytes.fromhex("0a0b0c0d 00000002 00200020 00000103 00000000 00000001 00000101 00000014") + _CALL[72:92]
    return b"".join(
        [
            _piece(0, startup_frame("Req", 0x50, 2, bytes.fromhex("00200020 f6ab0e1801010303"))),
            _piece(1, startup_frame("Rep", 0x50, 2, bytes.fromhex("00200020"))),
            _piece(1, fpdu(untagged(3, 0, 1, told))),
            _piece(0, fpdu(untagged(3, 0, 1, first.ljust(128, b"\0") + b"sixteen octets d"))),
            _piece(0, fpdu(untagged(3, 0, 2, second.ljust(128, b"\0") + b"ata."))),
        ]
    )


def _roce(*, managed: bool) -> bytes:
    """A connection over RoCEv2 with a call, RDMA operations of two packets, and a reply; `managed` with its set-up."""
    made = raw_roce.HandMadeRoce()
    if managed:
        made.set_up()
    made.send(raw_roce.CLIENT, _CALL)
    made.rdma_write(raw_roce.SERVER, 0x55, 0, bytes(300))
    made.rdma_read(raw_roce.SERVER, 0x55, 0, bytes(300))
    made.send(raw_roce.SERVER, _REPLY, invalidated=0x55)
    return b"".join(
        bytes([octets[15] == 2]) + (len(octets) - 32).to_bytes(2) + octets[28:-4] for octets in made.packets
    )


def _captures() -> tuple[bytes, bytes]:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "seed.pcap"
        with HandMadeCapture(file) as made:
            made.send(CLIENT, _CALL)
            made.write(SERVER, 0x55, 0, b"data")
            made.read(SERVER, (0x55, 0), (0x66, 0), b"data")
            made.send(SERVER, _REPLY)
        octets = file.read_bytes()
    at, length = 24, int.from_bytes(octets[32:36], "little")
    # The same beginning as pcapng: a section, an interface of raw IP, and its first packet.
    blocks = bytes.fromhex("0a0d0d0a 1c000000 4d3c2b1a 01000000 ffffffffffffffff 1c000000")
    blocks += bytes.fromhex("01000000 14000000 65000000 00000000 14000000")
    packet = octets[at + 16 : at + 16 + length]
    size = (32 + len(packet) + 3 & ~3).to_bytes(4, "little")
    head = bytes(4) + bytes(8) + len(packet).to_bytes(4, "little") * 2
    return octets, blocks + b"\6\0\0\0" + size + head + packet + bytes(-len(packet) % 4) + size


DISSECTORS = [
    FuzzTarget(
        "dissect_message",
        message,
        [_CALL, *golden("transport/headers_v2.toml", "header", "malformed"), *_transmissions()],
    ),
    FuzzTarget("dissect_streams", streams, [_streams(), _group()]),
    FuzzTarget("dissect_capture", capture, list(_captures())),
    FuzzTarget("dissect_roce", roce, [_roce(managed=True), _roce(managed=False)]),
    FuzzTarget(
        "dissect_hex_text",
        hex_text,
        [
            b"0a0b0c0d 00000001 # comment\n0x00, 0x01",
            b"00000000: 6465 6164 6265 6566  deadbeef\n",
            b"00000000  64 65 61 64  |dead|\n00000004\n",
            b"0000000 64 65\n0000002\n",
        ],
    ),
]
"""The targets of the package `dissect`."""
