"""The deadline for obligations of the peer: RDMA Read data, last pieces of messages, and taking replies.

This side holds memory until the peer meets them. Last pieces are due to both ends: of calls at a responder, of replies
at a requester.
"""

from __future__ import annotations

from rpcrdma.transport.call import IncomingCall
from rpcrdma.transport.responder import Responder
from rpcrdma.transport.session import Session

__all__ = ["StallWatch"]


class StallWatch:
    """Aborts the connection if the peer makes no progress with an obligation within `TransportConfig.stalled_s`.

    The obligations are the data of RDMA Reads, the last piece of a continued message, and the reception of replies. One
    deadline serves all of them: an obligation that arises while one runs is due at the end of the next, so that the
    peer has up to twice that time.
    """

    __slots__ = ("_deadline_s", "_pulling", "_replies_sent", "_responder", "_session", "_unfinished")

    def __init__(self, session: Session, responder: Responder | None) -> None:
        self._session = session
        self._responder = responder
        self._deadline_s: float | None = None
        self._pulling: IncomingCall | None = None
        self._replies_sent = 0
        self._unfinished = 0

    @property
    def running(self) -> bool:
        """Whether a deadline for obligations of the peer is set, even if the peer has met all of them meanwhile."""
        return self._deadline_s is not None

    def next_deadline_s(self, now_s: float) -> float | None:
        """Returns the deadline, in seconds of the caller's clock; None if the peer has no obligation.

        An obligation is to answer RDMA Reads, to complete a message in pieces, or to receive replies. `now_s`: the
        present time, from which a deadline counts that begins with this call. Ends the deadline if no obligation is
        left.
        """
        if not self._session.owed and not self._session.unfinished:
            self._deadline_s = None
        elif self._deadline_s is None:
            self._begin(now_s)
        return self._deadline_s

    def _begin(self, now_s: float) -> None:
        responder = self._responder
        self._deadline_s = now_s + self._session.config.stalled_s
        self._unfinished = self._session.unfinished
        if responder is not None:
            self._pulling = responder.pulling
            self._replies_sent = responder.replies_sent if responder.replies_unsent else -1

    def on_time(self, now_s: float) -> None:
        """Aborts the connection if the deadline has expired at `now_s` and one of the obligations made no progress.

        That is so if the message that was incomplete when the deadline began still is, or the call with the oldest
        outstanding RDMA Reads is the same, or Sends of replies had not completed and none of them has since. Otherwise
        the next call of `next_deadline_s` begins a new deadline.
        """
        if self._deadline_s is None or now_s < self._deadline_s:
            return
        self._deadline_s = None
        session, responder = self._session, self._responder
        if self._unfinished and session.unfinished == self._unfinished:
            session.qp.abort(f"the peer did not send the rest of a message within {session.config.stalled_s:g} s")
        elif responder is None:
            return
        elif responder.pulling is not None and responder.pulling is self._pulling:
            session.qp.abort(f"the peer did not answer our RDMA Reads within {session.config.stalled_s:g} s")
        elif responder.replies_unsent and responder.replies_sent == self._replies_sent:
            session.qp.abort(f"the peer took no reply within {session.config.stalled_s:g} s")
