"""An extension of RPC-over-RDMA version 2: several small RPC messages in one message of the transport.

Calls that a client makes in one turn of its event loop travel together, and so do replies. Both ends need it:

    ConnectOptions(extensions=[batches_extension()])
    RdmaServerConfig(extensions=[batches_extension()])

The header type BATCH is followed by `struct { opaque message<>; } messages<>`. All RPC messages are calls, or all are
replies, which the flag RESPONSE says as well. The header has the XID of the first RPC
message. An RPC message in a batch has no chunks and would fit into a transport message by itself. A batch takes one
credit and is never continued. The transport property BATCH_LIMIT, a word, is the number of RPC messages that its sender
takes in one batch; a sender without the property, or with 0 in it, receives no batch.

A batch of calls against these rules is refused as unreadable (BAD_XDR) with its XID, and none of its calls runs.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rpcrdma.errors import DecodeError
from rpcrdma.extension import (
    NO_CHUNKS,
    Cause,
    Extension,
    ExtensionLink,
    ExtensionMessage,
    HeaderRow,
    Inbound,
    PropertyRow,
)
from rpcrdma.xdr import Buffer, Reader

BATCH = 0x210
"""The header type. Codes of users' extensions begin at 0x200."""
BATCH_LIMIT = 0x210
"""The transport property."""
BATCH_MESSAGES_MAX = 64
"""RPC messages in one batch: the cost of a transport message divided by 64 is small against the cost of a call. Receive
buffers bound their octets, and credits bound the calls."""
BATCHES_REMEMBERED = 64
"""Batches of calls whose XIDs are kept, since an error may refuse all of them: a peer sends such errors at once."""

_REPLY = 1
_WORD = struct.Struct(">I")
_RPC_START = struct.Struct(">II")
"""XID and message type of an RPC message."""
_PADDING = (b"", bytes(3), bytes(2), bytes(1))
_REFUSES_ALL = {Cause.HEADER, Cause.HEADER_TYPE, Cause.FLAGS}
"""Causes for which a peer refuses a batch unread, so that none of its calls has run."""


@dataclass(slots=True)
class BatchCounts:
    """The batches of one connection so far, and the RPC messages in them: the state of its link."""

    sent: int = 0
    messages_sent: int = 0
    received: int = 0
    messages_received: int = 0


def batches_extension(messages_max: int = BATCH_MESSAGES_MAX) -> Extension:
    """The extension, for any number of connections, with at most `messages_max` RPC messages in a batch.

    Raises:
        ValueError: `messages_max` is less than 1 or greater than BATCH_MESSAGES_MAX.
    """
    if not 1 <= messages_max <= BATCH_MESSAGES_MAX:
        raise ValueError(f"messages_max must be from 1 to {BATCH_MESSAGES_MAX}")

    def on_ready(link: ExtensionLink) -> None:
        link.state = counts = BatchCounts()
        most = min(link.peer.get(BATCH_LIMIT, 0), messages_max)
        if most > 1:
            link.batch(_Batcher(most, link.send_octets - link.prefix_octets, counts))

    return Extension(
        name="batches",
        headers=(HeaderRow(BATCH, "Batch", _on_batch),),
        properties=(PropertyRow(BATCH_LIMIT, "Batch Limit", encode_limit(messages_max), decode_limit),),
        on_ready=on_ready,
    )


# The body and the property


def body_octets(octets: int, messages: int) -> int:
    """The length of a body; `octets` is the sum of its messages' lengths, each rounded up to a multiple of four."""
    return _WORD.size * (1 + messages) + octets


def encode_body(messages: Sequence[Buffer]) -> bytes:
    """The body with these RPC messages."""
    parts: list[Buffer] = [_WORD.pack(len(messages))]
    for message in messages:
        length = len(message)
        parts += (_WORD.pack(length), message, _PADDING[length & 3])
    return b"".join(parts)


def iterate_body(data: Buffer) -> Iterator[bytes]:
    """The RPC messages of a body in order. Each is a copy, so that none keeps the receive buffer of all.

    Raises:
        DecodeError: the octets are not such a body, or it has more than BATCH_MESSAGES_MAX messages. The messages
            before the fault have been returned.
    """
    reader = Reader(data)
    count = reader.u32("messages")
    if not 1 <= count <= BATCH_MESSAGES_MAX:
        raise DecodeError("messages", 0, f"from 1 to {BATCH_MESSAGES_MAX}", str(count))
    for _ in range(count):
        length = reader.u32("message")
        message = reader.octets(length, "message")
        # As everywhere in XDR from a peer, the value of padding is not checked.
        reader.view(-length & 3, "padding")
        yield message
    reader.done("messages")


def encode_limit(messages: int) -> bytes:
    """The value of the property."""
    return _WORD.pack(messages)


def decode_limit(data: Buffer) -> int:
    """The number of RPC messages in the property.

    Raises:
        DecodeError: the value is not one word.
    """
    reader = Reader(data)
    messages = reader.u32("batch limit")
    reader.done("batch limit")
    return messages


# Sending


class _Batcher:
    """Makes the batches of one connection; implements `rpcrdma.transport.Batcher`."""

    header_type = BATCH

    def __init__(self, messages_max: int, body_octets_max: int, counts: BatchCounts) -> None:
        self._counts = counts
        self.messages_max = messages_max
        self.body_octets_max = body_octets_max
        # By the XID of a batch's first call, the XIDs of its other calls.
        self._sent: OrderedDict[int, Sequence[int]] = OrderedDict()

    def body_octets(self, octets: int, messages: int) -> int:
        return body_octets(octets, messages)

    def encode(self, messages: Sequence[Buffer]) -> bytes:
        self._counts.sent += 1
        self._counts.messages_sent += len(messages)
        return encode_body(messages)

    def on_calls_sent(self, xids: Sequence[int]) -> None:
        self._sent[xids[0]] = xids[1:]
        if len(self._sent) > BATCHES_REMEMBERED:
            self._sent.popitem(last=False)

    def refused_with(self, refused: Inbound) -> Sequence[int]:
        others = self._sent.pop(refused.xid, ())
        return others if refused.refusal is not None and refused.refusal.cause in _REFUSES_ALL else ()


# Receiving


def _on_batch(link: ExtensionLink, message: ExtensionMessage) -> None:
    """Delivers each call or reply of a batch.

    Raises:
        DecodeError: a batch of calls breaks a rule, so that none of them runs.
    """
    taken: list[tuple[int, bytes]] = []
    try:
        taken.extend(_messages_in(message))
    except DecodeError as error:
        if not message.answers:
            raise
        _fail_all(link, [message.xid, *(xid for xid, _ in taken)], error)
        return
    counts: BatchCounts = link.state
    counts.received += 1
    counts.messages_received += len(taken)
    for xid, octets in taken:
        if not message.answers:
            link.deliver_call(xid, octets, NO_CHUNKS, None)
        elif not link.deliver_reply(xid, octets, None):
            link.statistics.discarded += 1


def _messages_in(message: ExtensionMessage) -> Iterator[tuple[int, bytes]]:
    """XID and octets of each RPC message, all of the type that the flag RESPONSE tells.

    Raises:
        DecodeError: an RPC message is too short, has another type, or the first one has another XID than the header.
    """
    first, direction = True, int(message.answers)
    for octets in iterate_body(message.body):
        if len(octets) < _RPC_START.size:
            raise DecodeError("RPC message", 0, f"{_RPC_START.size} octets", str(len(octets)))
        xid, found = _RPC_START.unpack_from(octets)
        if found != direction:
            raise DecodeError("RPC message type", 4, f"{direction}, as RESPONSE says", str(found))
        if first and xid != message.xid:
            raise DecodeError("RPC message", 0, f"XID {message.xid:#010x}, as in the header", f"{xid:#010x}")
        first = False
        yield xid, octets


def _fail_all(link: ExtensionLink, xids: Sequence[int], error: DecodeError) -> None:
    """Fails the calls whose replies are unusable."""
    failed = 0
    for xid in dict.fromkeys(xids):
        failed += link.fail_call(xid, error)
    if not failed:
        link.statistics.discarded += 1
