"""Fuzz targets: messages of several RPC messages, alone and as they come to a client and a server."""

from __future__ import annotations

import struct

from batch_pair import BatchPeer
from decoder_targets import FuzzTarget, golden
from rpcrdma.batches.messages import (
    batch_octets,
    decode_batch,
    decode_batch_limit,
    encode_batch,
    encode_batch_limit,
)
from rpcrdma.errors import DecodeError
from rpcrdma.limits import BATCH_MESSAGES_MAX
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.testing.endpoint_pair import message
from rpcrdma.transport import CallArrived, CallFailed, Closed, ReplyArrived, Role

__all__ = ["BATCHES"]

_XIDS = (7, 8, 9)
_RESPONSE = 1


def body(data: bytes) -> None:
    """What decodes is encoded to the same octets, but for its padding."""
    try:
        messages = decode_batch(data)
    except DecodeError:
        return
    assert 1 <= len(messages) <= BATCH_MESSAGES_MAX
    again = encode_batch(messages)
    assert len(again) == len(data) == batch_octets(sum((len(one) + 3) & ~3 for one in messages), len(messages))
    assert decode_batch(again) == messages


def limit(data: bytes) -> None:
    """The property, a single word."""
    try:
        messages = decode_batch_limit(data)
    except DecodeError:
        assert len(data) != 4
        return
    assert encode_batch_limit(messages) == data


def arriving(data: bytes) -> None:
    """The body of a message to a server and to a client with calls, in a draft with flags and in one without.

    Its calls are all reported or none is, and a call is answered or failed once.
    """
    for version in ("2", "2-07"):
        server = BatchPeer(Role.SERVER, version=version)
        answers = server.octets(data, 7)
        arrived = [event for event in server.endpoint_events() if isinstance(event, CallArrived)]
        statistics = server.endpoint.statistics
        assert len(arrived) in {0, statistics.messages_in_batches_received}
        assert not (arrived and answers)
        client = BatchPeer(Role.CLIENT, version=version)
        for xid in _XIDS:
            client.endpoint.call(xid, message(xid, 0, (b"argument", None)), ReplyBound(64))
        client.run()
        client.octets(data, 7, flags=_RESPONSE if version == "2" else 0)
        events = client.endpoint_events()
        ended = [event.call.xid for event in events if isinstance(event, ReplyArrived | CallFailed)]
        assert len(set(ended)) == len(ended)
        assert any(isinstance(event, Closed) for event in events) or (
            client.endpoint.calls_in_flight == len(_XIDS) - len(ended)
        )


def _replies(*xids: int) -> bytes:
    return struct.pack(">I", len(xids)) + b"".join(struct.pack(">III", 8, xid, 1) for xid in xids)


_SEEDS = golden("batches/messages.toml", "batch", "malformed")

BATCHES = [
    FuzzTarget("batch_body", body, _SEEDS),
    FuzzTarget("batch_limit", limit, [bytes(4), b"\0\0\0\x40", b"\xff" * 5]),
    FuzzTarget("batch_arriving", arriving, [*_SEEDS, _replies(7), _replies(7, 8, 9), _replies(7, 8, 8, 99)]),
]
"""The targets, named after what they are given."""
