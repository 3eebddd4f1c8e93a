"""The body of a message of several RPC messages, and the property that says how many of them are taken."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from rpcrdma.errors import DecodeError
from rpcrdma.limits import BATCH_MESSAGES_MAX
from rpcrdma.wire.buffers import Buffer
from rpcrdma.wire.cursor import Reader

__all__ = [
    "batch_octets",
    "decode_batch",
    "decode_batch_limit",
    "encode_batch",
    "encode_batch_limit",
    "iterate_batch",
]

_WORD = struct.Struct(">I")
_PADDING = (b"", bytes(3), bytes(2), bytes(1))


def batch_octets(octets: int, messages: int) -> int:
    """The body with so many messages, whose lengths, each rounded up to a multiple of four, add up to `octets`."""
    return _WORD.size * (1 + messages) + octets


def encode_batch(messages: Sequence[Buffer]) -> bytes:
    """`struct { opaque message<>; } messages<>`."""
    parts: list[Buffer] = [_WORD.pack(len(messages))]
    for message in messages:
        length = len(message)
        parts += (_WORD.pack(length), message, _PADDING[length & 3])
    return b"".join(parts)


def iterate_batch(data: Buffer) -> Iterator[bytes]:
    """The messages of a body, one after another: copies, so that none keeps the memory of the others.

    Raises:
        DecodeError: the octets are no such body, or there are more messages than `rpcrdma.limits` allows; those before
            the fault have been given out.
    """
    reader = Reader(data)
    count = reader.u32("messages")
    if not 1 <= count <= BATCH_MESSAGES_MAX:
        raise DecodeError("messages", 0, f"from 1 to {BATCH_MESSAGES_MAX}", str(count))
    for _ in range(count):
        length = reader.u32("message")
        message = reader.octets(length, "message")
        # Its value is not looked at, as nowhere in XDR that comes from others.
        reader.view(-length & 3, "padding")
        yield message
    reader.done("messages")


def decode_batch(data: Buffer) -> list[bytes]:
    """The messages of a body.

    Raises:
        DecodeError: see `iterate_batch`.
    """
    return list(iterate_batch(data))


def encode_batch_limit(messages: int) -> bytes:
    """The property."""
    return _WORD.pack(messages)


def decode_batch_limit(data: Buffer) -> int:
    """The property.

    Raises:
        DecodeError: it is not one word.
    """
    reader = Reader(data)
    messages = reader.u32("batch limit")
    reader.done("batch limit")
    return messages
