"""A call over RDMA for which its caller waits."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Protocol

from rpcrdma.aio.connections.call_outcome import count_failure
from rpcrdma.aio.connections.call_record import CallObserver, CallRecord, form_of
from rpcrdma.aio.drivers.sockets import authority
from rpcrdma.rpc.call_statistics import CallStatistics
from rpcrdma.rpc.program import Procedure
from rpcrdma.transport import CallHandle, ReplyArrived
from rpcrdma.transport.call_states import CallState
from rpcrdma.xdr.codec import Decoder

__all__ = ["CallingConnection", "PendingCall", "note_sent"]


class CallingConnection(Protocol):
    """The connection that has sent a call, as far as the call needs it."""

    @property
    def peer(self) -> tuple[str, int]:
        """The address and port of the responder."""

    @property
    def calls_made(self) -> CallStatistics | None:
        """The counts of this side's calls; None: they are not counted."""

    def give_up(self, handle: CallHandle) -> None:
        """Fences the call's memory: its caller no longer waits."""


class PendingCall(asyncio.Future[Any]):
    """The result of a call. Cancelling it, also by way of the task that waits for it, gives the call up."""

    __slots__ = ("began_ns", "connection", "handle", "octets_sent", "procedure", "reply", "sent_ns", "timer")

    connection: CallingConnection
    procedure: Procedure[Any, Any]
    handle: CallHandle | None
    """None as soon as there is a result: the handle refers to this object."""
    reply: Decoder | None
    """Only where calls are observed."""
    timer: asyncio.TimerHandle | None
    began_ns: int
    """When the call was made, on any connection; only where calls are counted, likewise the next two."""
    sent_ns: int
    """When it was sent on this one, `began_ns` if at once; 0 while it waits for a credit."""
    octets_sent: int

    def cancel(self, msg: Any | None = None) -> bool:
        handle = self.handle
        if not super().cancel(msg):
            return False
        self.count_failure(asyncio.CancelledError())
        self.over()
        assert handle is not None
        self.connection.give_up(handle)
        return True

    def over(self) -> None:
        """The call has ended or is given up: forgets the handle and stops the timer."""
        self.handle = None
        if self.timer is not None:
            self.timer.cancel()

    def tell(
        self, observer: CallObserver, handle: CallHandle, octets_sent: int, started_s: float, _done: object
    ) -> None:
        """Tells an observer of the call, which has ended."""
        observer(
            CallRecord(
                xid=handle.xid,
                procedure=self.procedure.name,
                peer=authority(*self.connection.peer),
                form=form_of(handle, self.reply),
                octets_sent=octets_sent,
                octets_received=0 if self.reply is None else self.reply.position,
                elapsed_s=time.perf_counter() - started_s,
                error=asyncio.CancelledError() if self.cancelled() else self.exception(),
            )
        )

    def count_answer(self, statistics: CallStatistics, status: int, now_ns: int, event: ReplyArrived) -> None:
        """Counts the call, which was answered at `now_ns` with a result of this status."""
        counts = statistics.of_status(self.procedure, status)
        counts.sent_again += event.handle.form.attempts - 1
        counts.bytes_sent += self.octets_sent
        counts.bytes_recv += event.decoder.position
        counts.add_parts(self.sent_ns - self.began_ns, now_ns - self.sent_ns)

    def count_failure(self, error: BaseException, octets_received: int = 0) -> None:
        """Counts the call, which ends with `error`."""
        if self.connection.calls_made is None:
            return
        count_failure(
            self.connection.calls_made,
            self.procedure,
            error,
            began_ns=self.began_ns,
            sent_ns=self.sent_ns,
            now_ns=time.perf_counter_ns(),
            octets_sent=self.octets_sent,
            octets_received=octets_received,
            transmissions=1 if self.handle is None else self.handle.form.attempts,
        )


def note_sent(queued: list[PendingCall]) -> None:
    """Of calls that waited for a credit, in the order in which they are sent, notes those that have got one."""
    now_ns = time.perf_counter_ns()
    sent = 0
    while sent < len(queued) and ((handle := queued[sent].handle) is None or handle.state is not CallState.QUEUED):
        queued[sent].sent_ns = now_ns
        sent += 1
    del queued[:sent]
