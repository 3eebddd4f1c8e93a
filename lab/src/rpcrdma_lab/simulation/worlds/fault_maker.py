"""Makes the faults of a plan happen in a simulated fabric, and records which failures of calls they explain."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping

from rpcrdma.errors import LocalProtocolError, NoAnswer, RpcError
from rpcrdma.testing.virtual import DELIVERED, Delivery, Host, Message, VirtualLoop
from rpcrdma_lab.simulation.worlds.faults import Fault, FaultKind, Side
from rpcrdma_lab.simulation.worlds.history import Disturbance, History
from rpcrdma_lab.simulation.worlds.watched_provider import WatchedProvider
from rpcrdma_lab.simulation.worlds.world_client import RECOVERED_S

__all__ = ["FaultMaker"]


_ERRORS: Mapping[FaultKind, tuple[type[Exception], ...]] = {
    # Three cuts before the first answer.
    FaultKind.CUT: (NoAnswer,),
    # A call that ran before and is repeated after the restart may find its own effect.
    FaultKind.CRASH: (OSError,),
    FaultKind.FAILING_REGISTRATION: (LocalProtocolError, RpcError),
    FaultKind.EXHAUSTED_MEMORY: (LocalProtocolError, RpcError),
}
"""The exceptions of calls that faults explain, beside timeouts. A call that lost its connection is sent again."""
_NOTICED = frozenset(
    {FaultKind.DELAY, FaultKind.CUT, FaultKind.SLOW_REGISTRATION, FaultKind.FAILING_REGISTRATION}
    | {FaultKind.EXHAUSTED_MEMORY, FaultKind.STALLED_APPLICATION}
)
"""Kinds of faults after which each end knows at once whether its connection is usable."""
_RECONNECTED_S = 5.0
"""Seconds in which a connection whose end is known is replaced."""


class _Cut:
    """A fault that breaks a connection at a time, or after a number of octets or messages from `sender` to `receiver`.

    `sender` and `receiver` are names of nodes, and `fault` states time or numbers.
    """

    def __init__(self, fault: Fault, sender: str, receiver: str) -> None:
        self.fault = fault
        self.ends = sender, receiver
        self.counts: dict[int, list[int]] = {}
        """By connection, the messages and the octets that `sender` has sent."""

    def place(self, message: Message, now_s: float) -> int | None:
        """Counts a message that is about to leave a node, and decides whether the connection breaks within it.

        Returns the number of octets of the message that still arrive before the break, possibly 0; None if the
        connection stays. `now_s` is the virtual time in seconds.
        """
        fault = self.fault
        if fault.after_octets is None and fault.after_operations is None:
            due = now_s >= fault.at_s and {message.sender, message.receiver} == set(self.ends)
            return 0 if due else None
        if (message.sender, message.receiver) != self.ends:
            return None
        counts = self.counts.setdefault(message.connection, [0, 0])
        counts[0] += 1
        before = counts[1]
        counts[1] += len(message.data)
        if fault.after_operations is not None:
            return 0 if counts[0] > fault.after_operations else None
        assert fault.after_octets is not None
        return fault.after_octets - before if counts[1] > fault.after_octets else None


class FaultMaker:
    """Applies the faults of a world's plan to a simulated fabric; implements `rpcrdma.testing.virtual.faults.Faults`.

    Args:
        faults: the faults of the plan.
        server_of: the number of the server of each client, by the client's number.
        history: the record in which each fault is noted as a reason for failures.
    """

    def __init__(self, faults: tuple[Fault, ...], server_of: Mapping[int, int], history: History) -> None:
        self._faults = faults
        self._server_of = server_of
        self._history = history
        self._cuts: list[_Cut] = []
        self._delays: dict[str, float] = {}
        self._slow: dict[str, float] = {}
        self._failing: set[str] = set()
        self._application_stalled_until_s: dict[int, float] = {}
        self._lasting: Counter[tuple[FaultKind, str]] = Counter()
        """By kind and node, the number of faults that have begun and not ended; the last one ends their effect."""
        self.silent_cuts: Counter[int] = Counter()
        """By server, the number of connections that ended without a report to their ends."""
        self.applied = 0
        """The number of faults that have happened."""

    def start(
        self,
        loop: VirtualLoop,
        host: Callable[[str], Host],
        provider: Callable[[str], WatchedProvider],
        crash: Callable[[int, float], None],
        restart: Callable[[int], None],
    ) -> float:
        """Schedules the faults on the event loop, and prepares the cuts of connections for `on_message`.

        Args:
            loop: the event loop of the world.
            host: returns the host of a node by name, such as "client-0".
            provider: returns the provider of a node by name.
            crash: crashes a server; arguments are its number and the share (0 to 1) of unstable writes to be kept.
            restart: starts a crashed server, by number, again.

        Returns:
            The virtual time in seconds at which all faults have ended or are due; cuts by octets or operations do not
            count.
        """
        self._loop = loop
        self._host = host
        self._provider = provider
        self._crash = crash
        self._restart = restart
        over_s = 0.0
        for fault in self._faults:
            if fault.kind is FaultKind.CUT:
                ends = f"client-{fault.client}", f"server-{self._server_of.get(fault.client, fault.server)}"
                self._cuts.append(_Cut(fault, *(ends if fault.side is Side.CLIENT else ends[::-1])))
            else:
                loop.call_at(fault.at_s, functools.partial(self._begin, fault))
            over_s = max(over_s, fault.at_s + fault.for_s)
        return over_s

    def application_stalled_until_s(self, server: int) -> float:
        """Returns the virtual time in seconds until which handlers of server number `server` wait.

        The time may be in the past; 0: the handlers were never stalled.
        """
        return self._application_stalled_until_s.get(server, 0.0)

    def stop(self) -> None:
        """Drops the cuts of connections that have not happened yet; other faults stay scheduled."""
        self._cuts.clear()

    def on_message(self, message: Message) -> Delivery:
        """Returns the fate of a message about to leave a node: its delay and, if a cut is due, the octets that arrive.

        A cut happens once, and is recorded in the history. Returns `DELIVERED` if the message has no fault.
        """
        delay_s = self._delays.get(message.sender, 0.0)
        for cut in self._cuts:
            place = cut.place(message, self._loop.time())
            if place is not None:
                self._cuts.remove(cut)
                self._note(cut.fault)
                if cut.fault.silent:
                    self.silent_cuts[self._server_of[cut.fault.client]] += 1
                return Delivery(delay_s=delay_s, cut_at=place, silent=cut.fault.silent)
        return Delivery(delay_s=delay_s) if delay_s else DELIVERED

    def on_register(self, node: str, octets: int) -> float:
        """Returns the seconds by which a memory registration at the node named `node` is delayed, 0 without a fault.

        Raises:
            LocalProtocolError: a fault makes registrations of this node fail.
        """
        del octets
        if node in self._failing:
            raise LocalProtocolError(f"{node} can register no memory at present")
        return self._slow.get(node, 0.0)

    def _note(self, fault: Fault) -> None:
        self.applied += 1
        client: int | None = fault.client
        server: int | None = fault.server
        if fault.kind is FaultKind.CUT:
            server = None
        elif fault.kind is FaultKind.CLOCK_JUMP:
            client = server = None
        elif fault.side is Side.CLIENT:
            server = None
        else:
            client = None
        now_s = self._loop.time()
        noticed = fault.kind in _NOTICED and not fault.silent
        cost_s = fault.for_s + (_RECONNECTED_S if noticed else RECOVERED_S)
        end_s = now_s + fault.for_s + RECOVERED_S
        errors = _ERRORS.get(fault.kind, ())
        self._history.disturbances.append(Disturbance(client, server, now_s, end_s, cost_s, errors))

    def _begin(self, fault: Fault) -> None:
        self._note(fault)
        node = fault.node
        host = self._host(node)
        end = functools.partial(self._end, fault)
        match fault.kind:
            case FaultKind.DELAY:
                self._delays[node] = fault.delay_s
            case FaultKind.CRASH:
                self._crash(fault.server, fault.kept)
            case FaultKind.SLOW_REGISTRATION:
                self._slow[node] = fault.delay_s
            case FaultKind.FAILING_REGISTRATION:
                self._failing.add(node)
            case FaultKind.EXHAUSTED_MEMORY:
                host.registered_octets_max = host.registered_octets
            case FaultKind.STALLED_APPLICATION:
                until_s = max(self.application_stalled_until_s(fault.server), self._loop.time() + fault.for_s)
                self._application_stalled_until_s[fault.server] = until_s
            case FaultKind.STALLED_READER:
                host.stall(fault.for_s)
            case FaultKind.WITHHELD_GRANTS:
                self._provider(node).withholds_grants = True
            case FaultKind.CLOCK_JUMP:
                self._loop.jump(fault.for_s)
                return
        self._lasting[fault.kind, node] += 1
        self._loop.call_at(self._loop.time() + fault.for_s, end)

    def _end(self, fault: Fault) -> None:
        node = fault.node
        self._lasting[fault.kind, node] -= 1
        if self._lasting[fault.kind, node]:
            return
        match fault.kind:
            case FaultKind.DELAY:
                self._delays.pop(node, None)
            case FaultKind.CRASH:
                self._restart(fault.server)
            case FaultKind.SLOW_REGISTRATION:
                self._slow.pop(node, None)
            case FaultKind.FAILING_REGISTRATION:
                self._failing.discard(node)
            case FaultKind.EXHAUSTED_MEMORY:
                self._host(node).registered_octets_max = None
            case FaultKind.WITHHELD_GRANTS:
                self._provider(node).withholds_grants = False
            case _:
                pass
