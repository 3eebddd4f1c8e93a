"""Two endpoints with the extension in memory, and one endpoint whose peer is the test."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from batches import BATCH, BATCH_LIMIT, BatchCounts, batches_extension

from rpcrdma import Call, TransportConfig
from rpcrdma.rpc import ReplyBound
from rpcrdma.testing import BarePeer, EndpointPair, calls_in, message
from rpcrdma.transport import Endpoint, IncomingCall, ReplyArrived, Role, offered

__all__ = ["BatchPair", "BatchPeer", "counts"]

_ENOUGH = 64
"""Octets of results: a reply with so many goes inline."""


def counts(end: Endpoint) -> BatchCounts:
    """The batches of one end; none where it is without the extension."""
    link = end.extensions.get("batches")
    return BatchCounts() if link is None or link.state is None else link.state


class BatchPair(EndpointPair):
    """`client` and `server` are how many messages each takes in one; None for the extension left out."""

    def __init__(
        self,
        client: int | None = 64,
        server: int | None = 64,
        *,
        version: str = "2",
        config: TransportConfig | None = None,
        reverse: bool = False,
    ) -> None:
        super().__init__(
            config,
            config,
            version=version,
            reverse=reverse,
            client_extensions=[] if client is None else [batches_extension(client)],
            server_extensions=[] if server is None else [batches_extension(server)],
        )
        self.connect()

    def call(self, xid: int, octets: int = 8) -> Call:
        """A small call of the client's, which goes out when the pair runs."""
        return self.client.call(xid, message(xid, 0, (bytes(octets), None)), ReplyBound(_ENOUGH))

    def reply(self, incoming: IncomingCall, octets: int = 8) -> None:
        """A small reply of the server's."""
        self.server.reply(incoming, message(incoming.xid, 1, (bytes(octets), None)))

    def answered(self) -> list[int]:
        """Runs both ends and answers all calls until no message is left; returns the XIDs of the replies."""
        replies: list[int] = []
        while True:
            self.run()
            calls = calls_in(self.server_events())
            for incoming in calls:
                self.reply(incoming)
            for event in self.client_events():
                assert isinstance(event, ReplyArrived), event
                replies.append(event.call.xid)
            if not calls:
                return replies

    def sends(self) -> tuple[int, int]:
        """Messages that client and server have sent so far."""
        return self.client.statistics.sends, self.server.statistics.sends


class BatchPeer(BarePeer):
    """A connected endpoint with the extension, whose peer is the test and takes `limit` messages in one.

    The peer has `credits` messages to send at first.
    """

    def __init__(self, role: Role, *, limit: int = 64, given: int = 32) -> None:
        super().__init__(role, dialects=offered("2"), extensions=[batches_extension()], ready=False)
        told = struct.pack(">IIII", 1, BATCH_LIMIT, 4, limit)
        self.send(self.header(1, 5, given) + told)
        self.endpoint_events()
        self.received.clear()

    def header(self, xid: int, header_type: int, given: int, flags: int = 0) -> bytes:
        """The prefix of a message in which the endpoint is given so many credits."""
        return struct.pack(">5I", xid, 2, given, header_type, flags)

    def batch(
        self, messages: Sequence[tuple[int, int]], *, xid: int | None = None, flags: int = 0, given: int = 32
    ) -> list[bytes]:
        """Sends RPC messages, as pairs of XID and direction, in one; the endpoint's immediate answers."""
        body = struct.pack(">I", len(messages))
        for one, direction in messages:
            body += struct.pack(">III", 8, one, direction)
        return self.octets(body, messages[0][0] if xid is None else xid, flags=flags, given=given)

    def octets(self, body: bytes, xid: int, *, flags: int = 0, given: int = 32) -> list[bytes]:
        """Sends a message of the extension's type with any body."""
        return self.send(self.header(xid, BATCH, given, flags) + body)

    def refusal(self, answers: Sequence[bytes]) -> tuple[int, int]:
        """XID and code of the error among the answers, of which there must be one."""
        found = []
        for answer in answers:
            words = struct.unpack_from(">6I", answer)
            if words[3] == 4:
                found.append((words[0], words[-1]))
        assert len(found) == 1, answers
        return found[0]
