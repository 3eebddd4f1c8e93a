"""A client's endpoint in version 2 with a call outstanding, and the tests' view of its outcome."""

from __future__ import annotations

import struct

from rpcrdma.testing.endpoint_pair import message
from rpcrdma.transport import ReplyArrived, ReplyBound, Role, TransportConfig
from support import raw_messages as raw
from support.bare_messages import BareMessages
from support.one_call import OneCall
from support.raw_messages import RESPONSE, Segment, chunk

XID = 0x0DEFACED
CALL = struct.pack(">II", XID, 0)
REPLY = struct.pack(">II", XID, 1)
NOTHING = ReplyBound(0)
# Everything that could be moved by RDMA is.
CHUNKS = TransportConfig(in_messages_octets_max=0)


class Client(OneCall, BareMessages):
    """A client endpoint with one call outstanding, as the server heard it."""

    def __init__(
        self,
        bound: ReplyBound = NOTHING,
        config: TransportConfig | None = None,
        *properties: tuple[int, bytes],
        argument: int = 0,
        **options,
    ) -> None:
        super().__init__(Role.CLIENT, config or CHUNKS, *properties, **options)
        self.memory = bytearray(bound.items[0] if bound.items else 0)
        self.handle = self.endpoint.call(
            XID, message(XID, 0, (b"", bytes(argument))), bound, (self.memory,) if bound.items else ()
        )
        self.calls = self.heard()

    @property
    def offered(self) -> Segment:
        """The one segment of the one Write chunk."""
        ((segment,),) = self.calls[-1].writes
        return segment

    def reply(self, payload: bytes = REPLY, flags: int = RESPONSE, **parts) -> None:
        self.send(raw.message(XID, payload, flags, **parts))


def unused(*segments: Segment) -> bytes:
    """These segments, returned with nothing in them."""
    return chunk(*((handle, 0, offset) for handle, _, offset in segments))


def assert_works(peer: BareMessages) -> None:
    peer.endpoint.call(7, message(7, 0), NOTHING)
    (call,) = [each for each in peer.heard() if each.xid]
    assert call.xid == 7
    peer.send(raw.message(7, struct.pack(">II", 7, 1), RESPONSE))
    assert [type(event) for event in peer.endpoint_events()] == [ReplyArrived]
    assert not peer.endpoint_pd.regions
