"""Decodes octets without packets: one RPC-over-RDMA message, or one direction of an iWARP stream."""

from __future__ import annotations

from collections.abc import Iterator

from rpcrdma.dissect.connection import IwarpConnection, Settings, cut_off
from rpcrdma.dissect.message import Message

__all__ = ["hex_messages"]


def hex_messages(octets: bytes, settings: Settings, *, iwarp: bool) -> Iterator[Message]:
    """The messages in `octets`."""
    if not iwarp:
        message = Message("rpcrdma", "", number=1)
        conversation = settings.conversation()
        conversation.late = True
        conversation.send(0, octets, message)
        yield message
        return
    connection = IwarpConnection(settings)
    connection.halves[0].expect_fpdus_unless_startup(octets)
    number = 0
    for message in connection.feed(0, octets):
        number += 1
        message.number = number
        connection.finish(0, message)
        yield message
    rest = cut_off(connection.halves[0])
    if rest is not None:
        rest.number = number + 1
        yield rest
