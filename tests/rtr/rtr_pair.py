"""Two endpoints in memory that have the round-trip extension, and one call between them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.rtr import RoundTrip, RoundTripConfig
from rpcrdma.rtr.receive_slabs import SlabStore
from rpcrdma.testing.endpoint_pair import EndpointPair, calls_in, message
from rpcrdma.transport import CallFailed, ReplyArrived, TransportConfig
from rpcrdma.wire.buffers import Buffer

__all__ = ["Exchange", "RtrPair", "address_of", "slab_addresses", "slab_memory"]


def address_of(view: memoryview) -> int:
    """Where the octets of a writable view are in memory."""
    return ctypes.addressof(ctypes.c_char.from_buffer(view))


def slab_memory(rtr: RoundTrip | None) -> list[range]:
    """The addresses of the slabs that one end has."""
    assert rtr is not None
    (store,) = rtr._stores.values()
    return slab_addresses(store)


def slab_addresses(store: SlabStore) -> list[range]:
    """The addresses of all slabs that there are."""
    return [range(start, start + len(memory)) for memory in store.memory for start in [address_of(memoryview(memory))]]


class Exchange(NamedTuple):
    """One call: its arguments at the handler and its results at the caller, items as the views handed over."""

    argument: memoryview | None
    result: memoryview | None


class RtrPair(EndpointPair):
    """`client` and `server` are their settings of the extension; None for none."""

    def __init__(
        self,
        client: RoundTripConfig | None,
        server: RoundTripConfig | None,
        *,
        version: str = "2",
        transport: TransportConfig | None = None,
        server_transport: TransportConfig | None = None,
        reverse: bool = False,
    ) -> None:
        transport = transport or TransportConfig()
        server_transport = server_transport or transport
        self.client_rtr = None if client is None else RoundTrip(client, receive_octets=transport.offered_receive_octets)
        self.server_rtr = (
            None if server is None else RoundTrip(server, receive_octets=server_transport.offered_receive_octets)
        )
        super().__init__(
            transport,
            server_transport,
            version=version,
            reverse=reverse,
            client_extensions=[] if self.client_rtr is None else [self.client_rtr.extension],
            server_extensions=[] if self.server_rtr is None else [self.server_rtr.extension],
        )
        self.connect()
        self._xid = 0x100

    def exchange(
        self,
        argument: Buffer | None,
        result: Buffer | None,
        *,
        bound: int | None = None,
        into: Sequence[Buffer | None] = (),
        placement: str = "",
        backwards: bool = False,
    ) -> Exchange:
        """One call with these items; `bound` is the most that the result may have, its own length if not given.

        `backwards`: the server calls the client.
        """
        caller, answerer = (self.server, self.client) if backwards else (self.client, self.server)
        caller_events, answerer_events = self.client_events, self.server_events
        if backwards:
            caller_events, answerer_events = answerer_events, caller_events
        self._xid += 1
        xid = self._xid
        items = () if result is None else (len(result) if bound is None else bound,)
        caller.call(
            xid, message(xid, 0, (b"argument", argument)), ReplyBound(8 + 4 * len(items), items), into, placement
        )
        self.run()
        (incoming,) = calls_in(answerer_events())
        incoming.decoder.octets(16, "start")
        seen = None if argument is None else incoming.decoder.bulk(1 << 24, "item")
        incoming.decoder.done("call")
        answerer.reply(incoming, message(xid, 1, (b"response", result)))
        self.run()
        events = caller_events()
        assert len(events) == 1, events
        (event,) = events
        if isinstance(event, CallFailed):
            raise event.error
        assert isinstance(event, ReplyArrived)
        event.decoder.octets(16, "start")
        got = None if result is None else event.decoder.bulk(1 << 24, "item")
        event.decoder.done("reply")
        answerer_events()
        return Exchange(seen, got)
