"""A host on the simulated fabric: its wire, its interrupts, the tasks of its programs, and its crashes."""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from rpcrdma.testing.virtual.faults import DELIVERED, Delivery, Faults, Message, MessageKind
from rpcrdma.testing.virtual.loop import VirtualLoop
from rpcrdma.testing.virtual.model import FabricModel
from rpcrdma.testing.virtual.trace import NO_CAUSE, EventKind, Trace
from rpcrdma.verbs import Completion, QueuePairEvent, Verb

__all__ = ["End", "Host", "running_host"]

T = TypeVar("T")

_RDMA = {MessageKind.WRITE, MessageKind.READ_REQUEST, MessageKind.READ_RESPONSE}
_running: contextvars.ContextVar[Host] = contextvars.ContextVar("rpcrdma simulated host")


def running_host() -> Host | None:
    """Returns the simulated host whose program or callback runs; None outside of all hosts."""
    return _running.get(None)


class End(Protocol):
    """One end of a simulated connection, as its `Host` calls it."""

    connection: int
    """The number of the connection."""

    def report(self, news: Completion | QueuePairEvent) -> None:
        """Hands a completion or an event to the software that owns this end; called after the interrupt for it.

        Args:
            news: a completion, or an event of the connection.
        """

    def crash(self) -> None:
        """Ends the connection without a message to the peer."""

    def cut(self, *, silent: bool = False) -> None:
        """Breaks the connection for both ends.

        Args:
            silent: whether the ends are not notified of the break.
        """


class _News:
    """A completion or an event (`news`) of the connection's `end`, on its way to the software.

    `cause` is the number of the trace event that caused it, `ready_s` the time from which it can be reported.
    `interrupt` is the number of the interrupt for it; None if the interrupt for earlier news takes it along.
    """

    __slots__ = ("cause", "end", "interrupt", "news", "ready_s")

    def __init__(self, end: End, news: Completion | QueuePairEvent, cause: int, ready_s: float) -> None:
        self.end = end
        self.news = news
        self.cause = cause
        self.ready_s = ready_s
        self.interrupt: int | None = None


class Host:
    """One simulated machine, with its wire, interrupts, programs and crashes.

    Args:
        host: the machine's name, which is its address.
        loop: the event loop.
        model: distance and costs.
        trace: records the events.
        faults: decides about faults; None: no faults.
    """

    def __init__(self, host: str, loop: VirtualLoop, model: FabricModel, trace: Trace, faults: Faults | None) -> None:
        self.host = host
        self.loop = loop
        self.model = model
        self.trace = trace
        self.faults = faults
        self.up = True
        """Whether the machine runs: it does not from `crash` to `restart`, and then takes nothing from the fabric."""
        self.context = contextvars.copy_context()
        self.context.run(_running.set, self)
        self.ends: dict[End, None] = {}
        """The ends of connections that have not ended."""
        self.registered_octets = 0
        """Octets of the regions that exist now."""
        self.registered_octets_max: int | None = None
        """Octets that can be registered; None: any number. A lower number is the fault of exhausted memory."""
        self._crashes_s: list[float] = []
        self._wire_free_s = 0.0
        self._left = NO_CAUSE
        self._pending: deque[_News] = deque()
        self._done: deque[_News] = deque()
        """Completions of posted work. The software looks for them first: waiting messages must not hide the peer's
        reading."""
        self._attended = False
        """Whether an interrupt is in progress, or the software is busy with news."""
        self._stalled_until_s = 0.0
        self._tasks: dict[asyncio.Task[Any], None] = {}

    def start(self, program: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Runs a program on this host; `crash` cancels it with all tasks that it has started.

        Args:
            program: the coroutine.

        Returns:
            The task.
        """
        return self.context.copy().run(self.loop.create_task, program)

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """Makes `crash` cancel a task, until it has ended.

        Args:
            task: the task.
        """
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    def record(
        self, kind: EventKind, text: str = "", *, octets: int = 0, cost_s: float = 0.0, connection: int = -1
    ) -> int:
        """Records an event that has the running callback's cause, and makes the event the callback's new cause.

        So all that the caller does next follows from the new event. The caller's time advances by `cost_s`.

        Args:
            kind: the kind of the event.
            text: details.
            octets: octets concerned.
            cost_s: seconds of this host that the event takes.
            connection: the number of the connection; -1: none.

        Returns:
            The number of the event in the trace; `NO_CAUSE` if the trace is not enabled.
        """
        loop = self.loop
        loop.spend(cost_s)
        number = self.note(kind, loop.time(), loop.cause, connection, octets=octets, cost_s=cost_s, text=text)
        loop.cause = number
        return number

    def note(
        self,
        kind: EventKind,
        at_s: float,
        cause: int,
        connection: int,
        *,
        octets: int = 0,
        cost_s: float = 0.0,
        text: str = "",
    ) -> int:
        """Records an event of this host; neither the caller's time nor the cause of later events changes.

        Args:
            kind: the kind of the event.
            at_s: the time of its end.
            cause: the number of the event that caused it.
            connection: the number of the connection; -1: none.
            octets: octets concerned.
            cost_s: seconds that it takes.
            text: details.

        Returns:
            The number of the event in the trace; `NO_CAUSE` if the trace is not enabled.
        """
        return self.trace.add(
            kind, self.host, at_s=at_s, cause=cause, connection=connection, octets=octets, cost_s=cost_s, text=text
        )

    def leave(self, kind: MessageKind, octets: int, cause: int, connection: int) -> tuple[float, int]:
        """Occupies this host's wire with a message, after the messages sent before it, and records its departure.

        The RNIC prepares a message while an earlier one leaves. The text of the event of departure (`EventKind.LEAVE`)
        names the event of an earlier message that delays it.

        Args:
            kind: the kind of the message.
            octets: its data in octets.
            cause: the number of the event that caused it.
            connection: the number of the connection.

        Returns:
            The time in seconds at which its last octet has left, and the number of the event of departure.
        """
        ready_s, rdma = self.loop.time(), kind in _RDMA
        model = self.model
        prepared_s = model.message_s + model.rdma_operation_s if rdma else model.message_s
        wire_s = model.wire_s(octets)
        begins_s, text = ready_s + prepared_s, kind.value
        if begins_s < self._wire_free_s:
            begins_s = self._wire_free_s
            text += f" behind {self._left}"
        self._wire_free_s = left_s = begins_s + wire_s
        self._left = self.note(
            EventKind.LEAVE,
            left_s,
            cause,
            connection,
            octets=octets + model.header_octets,
            cost_s=prepared_s + wire_s,
            text=text,
        )
        return left_s, self._left

    def acknowledge(self) -> float:
        """Occupies the wire for an acknowledgement, which leaves at once, between the packets of messages.

        Returns:
            The seconds that it takes.
        """
        acknowledgement_s = self.model.acknowledgement_s
        self._wire_free_s = max(self._wire_free_s, self.loop.now_s) + acknowledgement_s
        return acknowledgement_s

    def fate(self, message: Message) -> Delivery:
        """Asks `Faults.on_message` for the fate of a message, and records it in the trace unless it is `DELIVERED`.

        Args:
            message: the message.

        Returns:
            The fate; `DELIVERED` if this host has no `faults`.
        """
        fate = DELIVERED if self.faults is None else self.faults.on_message(message)
        if fate != DELIVERED:
            loop = self.loop
            text = f"{message.kind.value} {message.number}: {_fate_text(fate)}"
            self.note(EventKind.FAULT, loop.time(), loop.cause, message.connection, text=text)
        return fate

    def interrupt(self, end: End, news: Completion | QueuePairEvent, cause: int, ready_s: float = 0.0) -> None:
        """Reports a completion or event to the software after an interrupt's latency; no effect if the host is down.

        With `FabricModel.coalescing`, news that arrive while an interrupt is in progress, or while the software is busy
        with earlier news, need no interrupt of their own.

        Args:
            end: the end of the connection.
            news: the completion or event.
            cause: the number of the trace event that caused it.
            ready_s: the time in seconds from which it can be reported.
        """
        if not self.up:
            return
        posted = isinstance(news, Completion) and news.verb is not Verb.RECEIVE
        (self._done if posted else self._pending).append(_News(end, news, cause, max(ready_s, self.loop.now_s)))
        if not self._attended:
            self._interrupt()

    def _interrupt(self) -> None:
        """Schedules an interrupt, after which the first waiting completion or event is handed to the software."""
        self._attended = True
        first = (self._done or self._pending)[0]
        interrupt_s = self.model.interrupt_s
        ends_s = max(first.ready_s, self.loop.now_s, self._stalled_until_s) + interrupt_s
        first.interrupt = self.note(
            EventKind.INTERRUPT,
            ends_s,
            first.cause,
            first.end.connection,
            cost_s=interrupt_s,
            text=_words_of(first.news),
        )
        self.loop.schedule(ends_s, first.interrupt, self._take_next, self.boots, context=self.context)

    def _take_next(self, boots: int) -> None:
        """Hands the next waiting completion or event to the software; no effect if none waits.

        Schedules the handover of the one after it: with coalescing for the time when the software has processed this
        one, otherwise by an interrupt. While the software is stalled, postpones itself to the end of the stall. No
        effect if the host has crashed since the call was scheduled, when the property `boots` was `boots`.
        """
        loop = self.loop
        if boots != self.boots:
            return
        if loop.now_s < self._stalled_until_s:
            loop.schedule(self._stalled_until_s, loop.cause, self._take_next, boots, context=self.context)
            return
        self._attended = False
        pending = self._done or self._pending
        if not pending:
            return
        taken = pending.popleft()
        news, end = taken.news, taken.end
        # News that were taken along follow from their own arrival, and not from that for which the interrupt was.
        cause, cost_s = (taken.cause, loop.now_s - taken.ready_s) if taken.interrupt is None else (taken.interrupt, 0.0)
        loop.cause = self.note(
            EventKind.COMPLETE, loop.now_s, cause, end.connection, cost_s=cost_s, octets=_octets_of(news),
            text=_words_of(news),
        )  # fmt: skip
        self._attended = self.model.coalescing
        try:
            end.report(news)
        finally:
            waits = bool(self._done or self._pending)
            if not self.model.coalescing:
                if waits:
                    self._interrupt()
            elif waits or loop.time() > loop.now_s:
                loop.schedule(loop.time(), NO_CAUSE, self._take_next, boots, context=self.context)
            else:
                self._attended = False

    def withdraw(self, end: End) -> list[Completion | QueuePairEvent]:
        """Removes the completions and events of one end that have not been reported to the software yet.

        Args:
            end: the end of the connection.

        Returns:
            The completions of posted work, then receives and events, each in the order of arrival.
        """
        own = [each.news for each in (*self._done, *self._pending) if each.end is end]
        if own:
            self._done = deque(each for each in self._done if each.end is not end)
            self._pending = deque(each for each in self._pending if each.end is not end)
        return own

    @property
    def boots(self) -> int:
        """The number of crashes so far; `crashed_before` needs the number at the time when a message was sent."""
        return len(self._crashes_s)

    def crashed_before(self, left_s: float, boots: int) -> bool:
        """Returns whether the host crashed after a message was sent, and before its last octet had left.

        Args:
            left_s: the time in seconds at which the last octet leaves.
            boots: the property `boots` when the message was sent.
        """
        return boots < len(self._crashes_s) and left_s > self._crashes_s[boots]

    def stall(self, duration_s: float) -> None:
        """Stops the software from taking completions and events for `duration_s`, and records a fault in the trace.

        An earlier stall that lasts longer goes on.

        Args:
            duration_s: seconds.
        """
        self.record(EventKind.FAULT, f"stalled for {duration_s:g} s")
        self._stalled_until_s = max(self._stalled_until_s, self.loop.time() + duration_s)

    def crash(self) -> None:
        """Ends all connections without messages to the peers, and cancels all programs; no effect if the host is down.

        A cancelled program may still close its connections and files; nothing of that reaches the fabric.
        """
        if not self.up:
            return
        self.record(EventKind.CRASH)
        self.up = False
        self._crashes_s.append(self.loop.now_s)
        self._wire_free_s = self._stalled_until_s = 0.0
        self._attended = False
        self._pending.clear()
        self._done.clear()
        for end in list(self.ends):
            end.crash()
        for task in list(self._tasks):
            task.cancel()

    def restart(self) -> None:
        """Starts the machine again, without programs; no effect if the host is up.

        A peer that sends on a connection from before learns that it has ended.
        """
        if not self.up:
            self.up = True
            self.record(EventKind.RESTART)


def _fate_text(fate: Delivery) -> str:
    cut = "" if fate.cut_at is None else f"{' silently' if fate.silent else ''} cut after {fate.cut_at} octets"
    return f"delayed by {fate.delay_s!r} s{cut}" if fate.delay_s else cut.strip()


def _octets_of(news: Completion | QueuePairEvent) -> int:
    return news.length if isinstance(news, Completion) else 0


def _words_of(news: Completion | QueuePairEvent) -> str:
    if isinstance(news, Completion):
        return news.verb.value if news.status.value == "success" else f"{news.verb.value} {news.status.value}"
    return type(news).__name__.lower()
