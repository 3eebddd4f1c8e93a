"""The model of the life of a call over lost connections, and a client's connection against it.

From RFC 5531 section 9 (a client may send a call again with its XID, and a reply ends it), ARCHITECTURE.md ("When a
connection is lost") and the documentation of `ReconnectPolicy`: each unanswered call goes out again on the next
connection, until it is answered or refused, its caller gives up, or its time is over; a breach of the protocol that
comes three times in succession ends the calls that may have provoked it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from model_replay import Action, Observation, check, traces
from rpcrdma.aio.client.connection import Connection
from rpcrdma.aio.client.reconnecting import ReconnectPolicy
from rpcrdma.aio.drivers.deadline_timer import DeadlineTimer
from rpcrdma.aio.urls import parse_url
from rpcrdma.errors import CallTimeout, ConnectFailed, RemoteSystemError, TransportClosed
from rpcrdma.rpc.program import Procedure, Program
from rpcrdma.testing.virtual import VirtualLoop
from rpcrdma.transport import Call, TransportStatistics
from support.cases import each_case
from support.waiting import time_passes

pytestmark = pytest.mark.thorough

CALLS_MAX = 6
BREACHES_MAX = 3
STEP_S, CALL_TIMEOUT_S = 60.0, 100.0
"""Two steps of time are longer than a call may take."""


@dataclass(frozen=True)
class State:
    """`calls` are unanswered: number, steps of time, connections lost, and those of them lost by a breach.

    `breaches` are those in succession since the last answer. `gave_up`: no connection is made until a call wants one.
    """

    calls: tuple[tuple[int, int, int, int], ...] = ()
    made: int = 0
    connected: bool = True
    breaches: int = 0
    gave_up: bool = False
    closed: bool = False


class CallLife:
    """Calls of one client; `repeats_max` is how often each of them may be sent again, None: as often as it takes."""

    start = State()
    rare = frozenset({"close", "pass_time", "cancel", "refuse", "fail_to_connect", "lose"})

    def __init__(self, repeats_max: int | None) -> None:
        self._repeats_max = repeats_max

    def actions(self, state: State) -> list[Action]:
        """Calls begin and end, connections are lost and made again, time passes."""
        possible: list[Action] = [("call", state.made)] if state.made < CALLS_MAX else []
        if state.closed:
            return possible
        possible += [("cancel", call[0]) for call in state.calls]
        possible += [("pass_time",), ("close",)]
        if state.connected:
            possible += [("answer", call[0]) for call in state.calls]
            possible += [("refuse", call[0]) for call in state.calls]
            possible += [("lose",), ("breach",)]
        elif not state.gave_up:
            possible += [("connect",), ("fail_to_connect",)]
        return possible

    def step(self, state: State, action: Action) -> tuple[State, Observation]:
        step: Callable[..., tuple[State, tuple[Any, ...], tuple[int, ...]]] = getattr(self, "_" + action[0])
        state, ended, sent = step(state, *action[1:])
        exposed = tuple(call[0] for call in state.calls) if state.connected else ()
        return state, (tuple(sorted(ended)), tuple(sorted(sent)), exposed)

    def _call(self, state: State, number: int) -> Any:
        state = replace(state, made=number + 1)
        if state.closed:
            return state, (("lost", number),), ()
        state = replace(state, calls=(*state.calls, (number, 0, 0, 0)), gave_up=False)
        return state, (), (number,) if state.connected else ()

    def _end(self, state: State, number: int, outcome: str) -> Any:
        calls = tuple(call for call in state.calls if call[0] != number)
        return replace(state, calls=calls), ((outcome, number),), ()

    def _answer(self, state: State, number: int) -> Any:
        return self._end(replace(state, breaches=0), number, "answered")

    def _refuse(self, state: State, number: int) -> Any:
        return self._end(replace(state, breaches=0), number, "refused")

    def _cancel(self, state: State, number: int) -> Any:
        return self._end(state, number, "cancelled")

    def _pass_time(self, state: State) -> Any:
        late = tuple(("timed out", call[0]) for call in state.calls if call[1])
        calls = tuple((number, 1, *rest) for number, age, *rest in state.calls if not age)
        return replace(state, calls=calls), late, ()  # type: ignore[arg-type]

    def _lose(self, state: State, breach: int = 0) -> Any:
        breaches = state.breaches + breach
        calls, ended = [], []
        for number, age, lost, broken in state.calls:
            exhausted = self._repeats_max is not None and lost + 1 > self._repeats_max
            if exhausted or BREACHES_MAX in (broken + breach, breaches):
                ended.append(("lost", number))
            else:
                calls.append((number, age, lost + 1, broken + breach))
        gave_up = breaches == BREACHES_MAX
        following = replace(
            state, calls=tuple(calls), connected=False, breaches=0 if gave_up else breaches, gave_up=gave_up
        )
        return following, tuple(ended), ()

    def _breach(self, state: State) -> Any:
        """Of an idle connection a breach is a loss as any other: no call has provoked it."""
        return self._lose(state, 1 if state.calls else 0)

    def _connect(self, state: State) -> Any:
        return replace(state, connected=True), (), tuple(call[0] for call in state.calls)

    def _fail_to_connect(self, state: State) -> Any:
        return state, (), ()

    def _close(self, state: State) -> Any:
        ended = tuple(("lost", call[0]) for call in state.calls)
        return replace(state, calls=(), closed=True, connected=False), ended, ()


VOID: Any = None
PROGRAM = Program(9, 1, "PROGRAM", {})


class Line:
    """One connection, with a future for each call that was sent; implements `SingleConnection`."""

    negotiated = None

    def __init__(self, sent: list[tuple[int, int]]) -> None:
        self._sent = sent
        self.calls: dict[int, asyncio.Future[Any]] = {}
        """By the number of the procedure, as long as the memory of the call is exposed."""
        self.closed = False
        self._ended = asyncio.Event()
        self.timer = DeadlineTimer(asyncio.get_running_loop())
        self.statistics = TransportStatistics()

    async def start(self, call: Call) -> Any:
        if self.closed:
            raise TransportClosed("it has ended")
        number = call.procedure.number
        if not number:
            return None
        self._sent.append((number, call.xid))
        call.future = self.calls[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout_at(call.deadline_s):
                return await call.future
        except TimeoutError:
            raise CallTimeout("no reply") from None
        finally:
            del self.calls[number]

    def lose(self, *, breach: bool = False) -> None:
        self.closed = True
        self.timer.stop()
        self._ended.set()
        for future in self.calls.values():
            if not future.done():
                future.set_exception(TransportClosed("lost", protocol_error=breach))

    def abort(self, _reason: str) -> None:
        self.lose()

    async def close(self) -> None:
        self.lose()

    async def wait_closed(self) -> None:
        await self._ended.wait()


class Client:
    """The machine: `Connection` and its `ConnectionKeeper`, over lines that are lost and made as the trace says."""

    def __init__(self, loop: VirtualLoop, repeats_max: int | None) -> None:
        self._loop = loop
        self._repeats_max = repeats_max
        self._xids: dict[int, int] = {}
        self._tasks: dict[int, asyncio.Task[Any]] = {}
        self._sent: list[tuple[int, int]] = []
        self._lines: list[Line] = []
        self._dialled: asyncio.Future[Line] | None = None
        loop.run_until_complete(self._begin())

    async def _begin(self) -> None:
        policy = ReconnectPolicy(initial_s=0.001, max_s=0.001, keepalive_s=None, retransmissions=self._repeats_max)
        self._lines = [Line(self._sent)]
        url = parse_url("rdma://192.0.2.1")
        self._connection = Connection(url, self._lines[0], self._dial, policy, PROGRAM)
        # A server that has never answered is given up earlier.
        first = asyncio.ensure_future(self._connection.call(self._procedure(CALLS_MAX), None))
        await time_passes(0.01)
        self._lines[0].calls[self._sent.pop()[0]].set_result(None)
        await first

    async def _dial(self) -> Line:
        self._dialled = self._loop.create_future()
        return await self._dialled

    @staticmethod
    def _procedure(number: int) -> Procedure[Any, Any]:
        return Procedure(9, 1, number + 1, f"PROCEDURE_{number}", "method", VOID, VOID, VOID, VOID)

    def _observed(self, wait_s: float = 0.01) -> Observation:
        self._loop.run_until_complete(time_passes(wait_s))
        ended = []
        for number, task in list(self._tasks.items()):
            if task.done():
                del self._tasks[number]
                ended.append((_outcome(task), number))
        sent = tuple(sorted(number - 1 for number, _ in self._sent))
        for number, xid in self._sent:
            assert self._xids.setdefault(number, xid) == xid, "a call has one XID"
        self._sent.clear()
        exposed = tuple(sorted(number - 1 for line in self._lines for number in line.calls))
        return tuple(sorted(ended)), sent, exposed

    def _future(self, number: int) -> asyncio.Future[Any]:
        return self._lines[-1].calls[number + 1]

    def call(self, number: int) -> Observation:
        async def make() -> Any:
            return await self._connection.call(self._procedure(number), None, timeout_s=CALL_TIMEOUT_S)

        self._tasks[number] = self._loop.create_task(make())
        return self._observed()

    def answer(self, number: int) -> Observation:
        self._future(number).set_result(None)
        return self._observed()

    def refuse(self, number: int) -> Observation:
        self._future(number).set_exception(RemoteSystemError())
        return self._observed()

    def cancel(self, number: int) -> Observation:
        self._tasks[number].cancel()
        return self._observed()

    def pass_time(self) -> Observation:
        return self._observed(STEP_S)

    def lose(self) -> Observation:
        self._lines[-1].lose()
        return self._observed()

    def breach(self) -> Observation:
        self._lines[-1].lose(breach=True)
        return self._observed()

    def connect(self) -> Observation:
        assert self._dialled is not None
        self._lines.append(Line.__new__(Line))
        self._loop.run_until_complete(self._connect(self._lines[-1], self._dialled))
        return self._observed()

    async def _connect(self, line: Line, dialled: asyncio.Future[Line]) -> None:
        line.__init__(self._sent)  # type: ignore[misc]
        dialled.set_result(line)

    def fail_to_connect(self) -> Observation:
        assert self._dialled is not None
        self._dialled.set_exception(ConnectFailed("refused"))
        return self._observed()

    def close(self) -> Observation:
        self._loop.run_until_complete(self._connection.close())
        return self._observed()


def _outcome(task: asyncio.Task[Any]) -> str:
    if task.cancelled():
        return "cancelled"
    match task.exception():
        case None:
            return "answered"
        case CallTimeout():
            return "timed out"
        case TransportClosed():
            return "lost"
        case RemoteSystemError():
            return "refused"
        case error:
            return repr(error)


@each_case("repeats_max", [None, 1])
def test_calls_live_as_the_model_says(repeats_max: int | None) -> None:
    loop = VirtualLoop()
    clients: list[Client] = []

    def client() -> Client:
        clients.append(Client(loop, repeats_max))
        return clients[-1]

    try:
        found = traces(CallLife(repeats_max), depth=4, walks=50, walk_steps=60)
        assert check(client, found) > 1500
    finally:
        for each in clients:
            each.close()
        loop.close()
