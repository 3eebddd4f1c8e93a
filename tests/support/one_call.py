"""The outcome of the one call that a client's endpoint has outstanding against a scripted server, in any version."""

from __future__ import annotations

from rpcrdma.errors import RpcRdmaError, TransportClosed
from rpcrdma.testing.endpoint_pair import BarePeer
from rpcrdma.transport import Call, CallFailed, Closed, ReplyArrived

__all__ = ["OneCall"]


class OneCall(BarePeer):
    """A server made of octets; `handle` is the client's call."""

    handle: Call

    def event(self) -> ReplyArrived | CallFailed:
        (event,) = self.endpoint_events()
        assert isinstance(event, ReplyArrived | CallFailed)
        assert event.call is self.handle
        assert not self.endpoint_pd.regions, "memory is exposed after the call's end"
        assert self.endpoint.calls_in_flight == 0
        return event

    def failure(self) -> RpcRdmaError:
        event = self.event()
        assert isinstance(event, CallFailed)
        return event.error

    def closed(self) -> str:
        failed, closed = self.endpoint_events()
        assert isinstance(failed, CallFailed)
        assert isinstance(failed.error, TransportClosed)
        assert isinstance(closed, Closed)
        assert closed.by_peer
        assert closed.protocol_error
        assert not self.endpoint_pd.regions
        return closed.reason
