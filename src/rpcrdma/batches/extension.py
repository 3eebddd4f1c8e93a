"""The extension as `rpcrdma.transport` takes it: rows, and what is done with the messages of one connection."""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Iterator, Sequence

from rpcrdma.batches.code_points import BATCH, BATCH_LIMIT
from rpcrdma.batches.messages import (
    batch_octets,
    decode_batch_limit,
    encode_batch,
    encode_batch_limit,
    iterate_batch,
)
from rpcrdma.errors import DecodeError
from rpcrdma.limits import BATCH_MESSAGES_MAX, EXTENSION_MESSAGES_REMEMBERED
from rpcrdma.transport import (
    NO_CHUNKS,
    Cause,
    Extension,
    ExtensionLink,
    ExtensionMessage,
    HeaderRow,
    Inbound,
    PropertyRow,
)
from rpcrdma.wire.buffers import Buffer

__all__ = ["NAME", "batches_extension", "with_batches"]

NAME = "batches"

_REPLY = 1
_RPC_START = struct.Struct(">II")
"""XID and direction of an RPC message."""
_REFUSES_ALL = {Cause.HEADER, Cause.HEADER_TYPE, Cause.FLAGS}
"""Why a message is refused that was not read; what is in it then has not run."""


def with_batches(extensions: Sequence[Extension], *, wanted: bool) -> list[Extension]:
    """`extensions`, and this one if it is `wanted`, unless it is among them."""
    if not wanted or any(extension.name == NAME for extension in extensions):
        return list(extensions)
    return [*extensions, batches_extension()]


def batches_extension(messages_max: int = BATCH_MESSAGES_MAX) -> Extension:
    """For any number of connections: `messages_max` RPC messages at most are taken in one message, and sent in one.

    Raises:
        ValueError: they are none, or more than `rpcrdma.limits` allows.
    """
    if not 1 <= messages_max <= BATCH_MESSAGES_MAX:
        raise ValueError(f"messages_max must be from 1 to {BATCH_MESSAGES_MAX}")

    def on_ready(link: ExtensionLink) -> None:
        most = min(link.peer.get(BATCH_LIMIT, 0), messages_max)
        if most > 1:
            link.batch(_Sending(most, link.send_octets - link.prefix_octets))

    return Extension(
        name=NAME,
        headers=(HeaderRow(BATCH, "Batch", _on_batch),),
        properties=(PropertyRow(BATCH_LIMIT, "Batch Limit", encode_batch_limit(messages_max), decode_batch_limit),),
        on_ready=on_ready,
    )


class _Sending:
    """How one connection's messages are put together; implements `rpcrdma.transport.Batcher`."""

    __slots__ = ("_sent", "body_octets_max", "messages_max")

    header_type = BATCH

    def __init__(self, messages_max: int, body_octets_max: int) -> None:
        self.messages_max = messages_max
        self.body_octets_max = body_octets_max
        # By the XID of the first call, those of the others.
        self._sent: OrderedDict[int, Sequence[int]] = OrderedDict()

    def body_octets(self, octets: int, messages: int) -> int:
        return batch_octets(octets, messages)

    def encode(self, messages: Sequence[Buffer]) -> bytes:
        return encode_batch(messages)

    def on_calls_sent(self, xids: Sequence[int]) -> None:
        sent = self._sent
        # Such errors come at once or never.
        sent[xids[0]] = xids[1:]
        if len(sent) > EXTENSION_MESSAGES_REMEMBERED:
            sent.popitem(last=False)

    def refused_with(self, refused: Inbound) -> Sequence[int]:
        others = self._sent.pop(refused.xid, ())
        return others if refused.refusal is not None and refused.refusal.cause in _REFUSES_ALL else ()


def _on_batch(link: ExtensionLink, message: ExtensionMessage) -> None:
    """A message with several calls, or several replies.

    Raises:
        DecodeError: its calls are against the rules, so that none of them runs.
    """
    # Without flags the first RPC message says what they all are.
    direction = int(message.answers) if link.has_flags else None
    taken: list[tuple[int, bytes]] = []
    try:
        for xid, found, octets in _messages_in(message, direction):
            direction = found
            taken.append((xid, octets))
    except DecodeError as error:
        if direction != _REPLY:
            raise
        _fail_all(link, [message.xid, *(xid for xid, _ in taken)], error)
        return
    statistics = link.statistics
    statistics.batches_received += 1
    statistics.messages_in_batches_received += len(taken)
    for xid, octets in taken:
        if direction != _REPLY:
            link.deliver_call(xid, octets, NO_CHUNKS, None)
        elif not link.deliver_reply(xid, octets, None):
            statistics.discarded += 1


def _messages_in(message: ExtensionMessage, direction: int | None) -> Iterator[tuple[int, int, bytes]]:
    """XID, direction and octets of each RPC message; all have the `direction` that is given, or that of the first.

    Raises:
        DecodeError: they are not as they must be.
    """
    first = True
    for octets in iterate_batch(message.body):
        if len(octets) < _RPC_START.size:
            raise DecodeError("RPC message", 0, f"{_RPC_START.size} octets", str(len(octets)))
        xid, found = _RPC_START.unpack_from(octets)
        if found != direction if direction is not None else found > _REPLY:
            need = "0 or 1" if direction is None else f"{direction}, as all others"
            raise DecodeError("RPC message type", 4, need, str(found))
        if first and xid != message.xid:
            raise DecodeError("RPC message", 0, f"XID {message.xid:#010x}, as in the header", f"{xid:#010x}")
        first, direction = False, found
        yield xid, found, octets


def _fail_all(link: ExtensionLink, xids: Sequence[int], error: DecodeError) -> None:
    """Replies cannot be used: their calls fail."""
    failed = 0
    for xid in dict.fromkeys(xids):
        failed += link.fail_call(xid, error)
    if not failed:
        link.statistics.discarded += 1
