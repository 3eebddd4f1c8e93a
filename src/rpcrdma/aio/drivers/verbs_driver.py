"""Runs the queue pair of an RDMA device in the event loop, by the descriptor of its completion queue."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial

from rpcrdma.aio.drivers.deadline_timer import Alarm, DeadlineTimer
from rpcrdma.aio.drivers.provider import Terms
from rpcrdma.aio.drivers.sockets import KEEP_ALIVE_IDLE_S
from rpcrdma.aio.drivers.verbs_devices import WatchedDevice
from rpcrdma.aio.drivers.verbs_manager import ConnectionManager
from rpcrdma.verbs import ProtectionDomain
from rpcrdma.verbs.binding import ConnectionIdentifier, ManagerEvent
from rpcrdma.verbs.device_config import VerbsConfig
from rpcrdma.verbs.device_queue_pair import DeviceQueuePair
from rpcrdma.verbs.posting import EndState

__all__ = ["VerbsDriver"]

_POLLS = 16
"""Lists of completions that are taken before other connections get their turn."""

_PROBE_S = KEEP_ALIVE_IDLE_S / 2
"""A peer is probed after one to two of these periods without any completion. A device gives a dead peer up within
seconds to a minute, so that the connection ends within two minutes, as over the software RNIC."""

_LINGER_S = 2.0
"""Seconds for which the peer's answer to the end of the connection is awaited, so that the request can be sent
again."""


class VerbsDriver:
    """Moves the data of a queue pair of an RDMA device, whose completion queue it polls in the event loop; a `Driver`.

    Args:
        manager: the connection manager of the loop.
        identifier: the connection's rdma_cm_id, which the driver closes at its end; if a thread still connects then
            (over iWARP), identifier and queue pair are released when the thread ends, after `on_closed`.
        device: the device, which reports its loss to the driver; None: it is not watched.
        queue_pair: the queue pair, which the driver releases at its end.
        timer: the connection's timer, which the driver stops at its end.
        on_turn: called when the queue pair may have completions or events.
        on_closed: called once, at the end of the connection.
        config: the settings, of which `busy_poll_s` is used.
    """

    __slots__ = (
        "_awake_until_s",
        "_busy_poll_s",
        "_device",
        "_identifier",
        "_linger",
        "_loop",
        "_manager",
        "_on_closed",
        "_on_turn",
        "_polls",
        "_probe_timer",
        "_timer",
        "blocked",
        "queue_pair",
    )

    def __init__(
        self,
        manager: ConnectionManager,
        identifier: ConnectionIdentifier,
        device: WatchedDevice | None,
        queue_pair: DeviceQueuePair,
        timer: DeadlineTimer,
        on_turn: Callable[[], None],
        on_closed: Callable[[], None],
        config: VerbsConfig,
    ) -> None:
        self._busy_poll_s = config.busy_poll_s
        self._awake_until_s = 0.0
        self._polls = False
        """Whether a call of `_poll` is scheduled."""
        self._loop = asyncio.get_running_loop()
        self._manager = manager
        self._identifier = identifier
        self.queue_pair = queue_pair
        self._timer = timer
        self._on_turn = on_turn
        self._on_closed = on_closed
        # From its end on, as the attribute that the owner reads in each turn: a property would be a call more.
        self.blocked = False
        self._linger = Alarm(self._give_up)
        timer.watch(self._linger)
        # Not the connection's timer, which looks at each deadline in each turn.
        self._probe_timer = self._loop.call_later(_PROBE_S, self._probe)
        self._loop.add_reader(queue_pair.fileno(), self._readable)
        manager.watch(identifier, self._on_event)
        self._device = device
        if device is not None:
            device.add(self, identifier.port)
            queue_pair.trouble = partial(device.trouble, identifier.port)
        if queue_pair.pd.device["iwarp"]:
            queue_pair.asks = self._ask
        if queue_pair.events:
            # The peer's request for the connection.
            self._loop.call_soon(self._turn)

    @property
    def protection_domain(self) -> ProtectionDomain:
        return self.queue_pair.pd

    @property
    def terms(self) -> Terms:
        queue_pair = self.queue_pair
        return Terms(
            crc=True,
            inbound_reads=queue_pair.inbound_reads,
            outbound_reads=queue_pair.outbound_reads,
            device=queue_pair.pd.device["name"],
        )

    @property
    def round_trip_s(self) -> float | None:
        return None

    def _readable(self) -> None:
        if self.blocked:
            return
        for _ in range(_POLLS):
            if not self.queue_pair.poll(arm=not self._busy_poll_s):
                break
        else:
            self._loop.call_soon(self._readable)
        if self._busy_poll_s:
            self._stay_awake()
        self._turn()

    def _stay_awake(self) -> None:
        """Polls the completion queue in each iteration of the event loop for the next `busy_poll_s` seconds."""
        self._awake_until_s = self._loop.time() + self._busy_poll_s
        if not self._polls:
            self._polls = True
            self._loop.call_soon(self._poll)

    def _poll(self) -> None:
        self._polls = False
        if self.blocked:
            return
        sleeps = self._loop.time() >= self._awake_until_s
        more = self.queue_pair.poll(arm=sleeps)
        if more or self.queue_pair.completions or self.queue_pair.events:
            self._stay_awake()
            self._turn()
        elif not sleeps:
            self._polls = True
            self._loop.call_soon(self._poll)

    def _on_event(self, event: ManagerEvent) -> None:
        self.queue_pair.on_event(event)
        self._turn()

    def _turn(self) -> None:
        """Calls `on_turn` if there are completions or events; else starts posted work by `flush`."""
        queue_pair = self.queue_pair
        if (queue_pair.completions or queue_pair.events) and not self.blocked:
            # It flushes at its end.
            self._on_turn()
        else:
            self.flush()

    def flush(self) -> None:
        if self.blocked:
            return
        queue_pair = self.queue_pair
        queue_pair.flush()
        if self._busy_poll_s and not queue_pair.idle:
            self._stay_awake()
        if queue_pair.completions or queue_pair.events:
            self._loop.call_soon(self._turn)
        elif queue_pair.state is EndState.CLOSED:
            if queue_pair.parted:
                self.close()
            else:
                self.expect_end()

    def _ask(self, ask: Callable[[], None]) -> bool:
        """Runs `ask`, a call that connects and may block, in a daemon thread; returns True at once.

        True means that `_asked` gets the outcome, in the event loop. Linux's siw connects TCP within the call, which
        may take minutes. The program's end does not wait for the thread.
        """

        def run() -> None:
            failure: OSError | None = None
            try:
                ask()
            except OSError as error:
                failure = error
            # The event loop may have ended meanwhile.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._asked, failure)

        threading.Thread(target=run, name="rpcrdma-connect", daemon=True).start()
        return True

    def _asked(self, failure: OSError | None) -> None:
        self.queue_pair.asked(failure)
        if self.blocked:
            self._release()
        else:
            self._turn()

    def _probe(self) -> None:
        """Sends a probe, by which the device detects a dead peer, if nothing completed in 30 s; runs every 30 s."""
        queue_pair = self.queue_pair
        if not queue_pair.heard:
            queue_pair.probe()
            self.flush()
        queue_pair.heard = False
        if not self.blocked:
            self._probe_timer = self._loop.call_later(_PROBE_S, self._probe)

    def expect_end(self) -> None:
        """Schedules an abort in 2 s, in case the peer does not answer the disconnect that this end has sent.

        No effect on a closed driver, or when repeated.
        """
        if self._linger.due_s is None and not self.blocked:
            self._linger.due_s = self._loop.time() + _LINGER_S
            self._timer.look()

    def _give_up(self) -> None:
        self._end_now("the peer did not let the connection end")

    def _end_now(self, reason: str) -> None:
        """Aborts the connection for `reason`, calls `on_turn` for its last completions, then `close`.

        It is both `on_device_lost` and `on_port_down` of the interface `DeviceUser`.
        """
        if self.blocked:
            return
        self.queue_pair.abort(reason)
        # The owner takes the end before everything is released: calls fail, and replies give their memory back.
        try:
            self._on_turn()
        finally:
            self.close()

    on_device_lost = on_port_down = _end_now

    def close(self) -> None:
        if self.blocked:
            return
        self.blocked = True
        self._timer.stop()
        self._probe_timer.cancel()
        self.queue_pair.abort("the connection was closed")
        self._loop.remove_reader(self.queue_pair.fileno())
        self._manager.forget(self._identifier)
        if self._device is not None:
            self._device.remove(self)
        if not self.queue_pair.asking:
            self._release()
        self._on_closed()

    def _release(self) -> None:
        self.queue_pair.release()
        self._identifier.close()
