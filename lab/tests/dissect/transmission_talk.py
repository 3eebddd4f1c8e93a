"""Messages of the round-trip extension, octet by octet, and the talk in which `rpcrdma decode` sees them."""

from __future__ import annotations

from rpcrdma.rtr.messages import (
    DirectionSet,
    Item,
    ResultDirection,
    TransmitContinue,
    TransmitRequest,
    TransmitResponse,
    encode_transmit_continue,
    encode_transmit_request,
    encode_transmit_response,
)
from rpcrdma.rtr.properties import BufferStructure, SegmentKind, encode_buffer_structure
from rpcrdma_lab.dissect.connection import Settings
from rpcrdma_lab.dissect.fields import Message
from rpcrdma_lab.dissect.rpc_body import Interfaces
from support.octets import words

CLIENT, SERVER = 0, 1
READ, WRITE = 6, 7
XMTREQ, XMTRESP, XMTCONT, REPTERR = 0x101, 0x102, 0x103, 0x104
PAGES = BufferStructure(1024 + 4 * 64, ((1, SegmentKind(1024, 0, placeable=False)), (4, SegmentKind(64, 0, True))))
CALL = bytes.fromhex("00000007 00000000 00000002 000186a3 00000003 00000006 00000000 00000000 00000000 00000000")
REPLY = bytes.fromhex("00000007 00000001 00000000 00000000 00000000 00000000")


def prefix(kind: int, flags: int = 0, xid: int = 7) -> bytes:
    return words(xid, 2, 0x00200020, kind, flags)


def request(
    items: tuple[Item, ...] = (),
    directions: tuple[ResultDirection, ...] = (),
    count: int = 1,
    extra: int = 0,
    payload: bytes = CALL,
) -> bytes:
    sets = (DirectionSet(0, 40, directions),) if directions else ()
    return prefix(XMTREQ) + encode_transmit_request(TransmitRequest(items, sets, count, extra, len(payload))) + payload


def response(items: tuple[Item, ...] = (), count: int = 1, payload: bytes = REPLY) -> bytes:
    return prefix(XMTRESP, 1) + encode_transmit_response(TransmitResponse(items, count, len(payload))) + payload


def more(number: int, payload: bytes, begun_by: int = XMTREQ, **changed: int) -> bytes:
    flags = int(begun_by == XMTRESP)
    return (
        prefix(XMTCONT, **({"flags": flags} | changed))
        + encode_transmit_continue(TransmitContinue(number, begun_by, len(payload)))
        + payload
    )


def properties(structure: BufferStructure | None = PAGES, support: int = 7, limits: tuple[int, int] = (4, 4)) -> bytes:
    values = [(0x101, words(support)), (0x103, words(limits[0])), (0x104, words(limits[1]))]
    if structure is not None:
        values.append((0x102, encode_buffer_structure(structure)))
    return prefix(5, xid=1) + words(len(values)) + b"".join(words(n, len(value)) + value for n, value in values)


def placed(message: bytes, *data: bytes) -> bytes:
    """With data in the placeable segments of PAGES, from the first on."""
    return message.ljust(1024, b"\0") + b"".join(data)


class Talk:
    """A conversation whose beginning was seen."""

    def __init__(self, *, told: bool = True) -> None:
        self.conversation = Settings(Interfaces(["nfs3.x"])).conversation()
        self.number = 0
        if told:
            for end in (CLIENT, SERVER):
                assert self.say(end, properties()).faults == []

    def say(self, end: int, octets: bytes) -> Message:
        self.number += 1
        message = Message("rdmap", "", number=self.number)
        self.conversation.send(end, octets, message)
        return message
