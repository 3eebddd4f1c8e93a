"""The model of a server that runs each call once, however often it comes, and the server's machine against it.

From RFC 5531 section 8 (a server may keep replies, and grants at most one execution by them), RFC 8166 section 4.5.3 (a
repeat that cannot be answered is refused, lest it come again for ever) and ARCHITECTURE.md ("When a connection is
lost").
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from model_replay import Action, Observation, check, traces
from rpcrdma.aio.answering.answering import Answering, AtMostOnce
from rpcrdma.aio.answering.buffer_pool import BufferPool
from rpcrdma.aio.answering.handler_runner import HandlerRunner
from rpcrdma.aio.answering.server_call import ServerCall
from rpcrdma.rpc.calling import CallEncoder, decode_result
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.rpc.program import Program
from rpcrdma.rpc.reply_cache import ReplyCache
from rpcrdma.rpc.service import Service, in_worker
from rpcrdma.xdr.codec import Decoder, Payload
from support.programs import opaque_of, procedure

pytestmark = pytest.mark.thorough

SMALL, LARGE = "small", "large"
"""Replies: of a size that is kept after it was sent, and of one that is not."""
REMEMBERED_MAX = 2
"""Answered calls."""
CONNECTIONS = 3


class Arrival(NamedTuple):
    """A call as it has come: on a connection, with memory for its reply that is enough for a large one, or not."""

    connection: int
    enough: bool


class Known(NamedTuple):
    """A call that waits for its handler (`run` is 0), runs, or has been answered (`age` is not None).

    `first` is the call whose handler runs, `newest` the repeat that gets the reply. `held`: the reply found too little
    memory, and waits for a repeat that has more.
    """

    first: Arrival
    newest: Arrival | None = None
    run: int = 0
    age: int | None = None
    size: str = ""
    held: bool = False


@dataclass(frozen=True)
class State:
    """`calls` has the known calls by name; answered ones are in the order of their answers."""

    calls: tuple[tuple[str, Known], ...] = ()
    ended: frozenset[int] = frozenset()
    runs: int = 0

    def known(self, name: str) -> Known | None:
        return dict(self.calls).get(name)

    def with_call(self, name: str, known: Known | None) -> State:
        """Puts the call behind all others; None: forgets it."""
        others = tuple(each for each in self.calls if each[0] != name)
        return replace(self, calls=others if known is None else (*others, (name, known)))


class AtMostOnceModel:
    """Repeats of the calls `names`, as one client makes them over several connections."""

    start = State()
    rare = frozenset({"cut", "pass_time", "restart"})

    def __init__(self, *names: str, connections: int = CONNECTIONS) -> None:
        self.names = names
        self.connections = connections

    def actions(self, state: State) -> list[Action]:
        """Calls come on connections that have not ended; handlers begin and end; time passes; the server restarts."""
        open_ones = [number for number in range(self.connections) if number not in state.ended]
        possible: list[Action] = [
            ("arrive", name, number, enough) for name in self.names for number in open_ones for enough in (True, False)
        ]
        for name, known in state.calls:
            if not known.run:
                possible.append(("begin", name))
            elif known.age is None:
                possible += [("finish", name, SMALL), ("finish", name, LARGE)]
        possible += [("cut", number) for number in open_ones]
        return [*possible, ("restart",), ("pass_time",)]

    def step(self, state: State, action: Action) -> tuple[State, Observation]:
        following, *happened = getattr(self, "_" + action[0])(state, *action[1:])
        return following, tuple(sorted(happened))

    def _arrive(self, state: State, name: str, connection: int, enough: bool) -> Any:
        known, arrival = state.known(name), Arrival(connection, enough)
        if known is None:
            return state.with_call(name, Known(arrival)), ("waits", name)
        if known.age is None:
            changed = tuple((each, old._replace(newest=arrival) if each == name else old) for each, old in state.calls)
            following = replace(state, calls=changed)
            return (following,) if known.newest is None else (following, ("dropped", known.newest.connection))
        if known.size == LARGE and not known.held:
            return state, ("refused", connection)
        told, held = self._tell(state, arrival, known.run, known.size)
        changed = tuple((each, old._replace(held=held) if each == name else old) for each, old in state.calls)
        return replace(state, calls=changed), told

    @staticmethod
    def _tell(state: State, to: Arrival, run: int, size: str) -> tuple[tuple[Any, ...], bool]:
        """The fate of a reply, and whether it is held for a repeat with more memory."""
        if to.connection in state.ended:
            return ("dropped", to.connection), False
        if size == LARGE and not to.enough:
            return ("too little memory", to.connection), True
        return ("reply", to.connection, run, size), False

    def _begin(self, state: State, name: str) -> Any:
        known = state.known(name)
        assert known is not None
        runs = state.runs + 1
        return replace(state.with_call(name, known._replace(run=runs)), runs=runs), ("runs", name, runs)

    def _finish(self, state: State, name: str, size: str) -> Any:
        known = state.known(name)
        assert known is not None
        told, held = self._tell(state, known.newest or known.first, known.run, size)
        following = state.with_call(name, Known(known.first, None, known.run, 0, size, held))
        answered = [each for each, other in following.calls if other.age is not None]
        if len(answered) > REMEMBERED_MAX:
            following = following.with_call(answered[0], None)
        if known.newest is None:
            return following, told
        return following, told, ("dropped", known.first.connection)

    def _cut(self, state: State, connection: int) -> Any:
        """A handler that has begun goes on; one that has not is begun for a repeat only, if that can be answered."""
        state = replace(state, ended=state.ended | {connection})
        happened: list[tuple[Any, ...]] = []
        for name, known in state.calls:
            if known.run or known.first.connection != connection:
                continue
            happened.append(("dropped", connection))
            repeat = known.newest
            if repeat is None:
                state = state.with_call(name, None)
            elif repeat.connection in state.ended:
                happened.append(("dropped", repeat.connection))
                state = state.with_call(name, None)
            else:
                happened.append(("waits", name))
                state = state.with_call(name, Known(repeat))
        return state, *happened

    def _restart(self, state: State) -> Any:
        """Nothing survives but the count of runs, which is that of the world."""
        return (State(runs=state.runs),)

    def _pass_time(self, state: State) -> Any:
        """Two steps are longer than answered calls are remembered."""
        calls = tuple(
            (name, known if known.age is None else known._replace(age=known.age + 1)) for name, known in state.calls
        )
        return (replace(state, calls=tuple(each for each in calls if each[1].age != 2)),)


OCTETS = opaque_of(1 << 20)
ENTER = procedure(0x20000077, 1, "enter", OCTETS, OCTETS)
REPLY_OCTETS = {SMALL: 16, LARGE: 5000}


class Ledger(Service):
    """Counts how often its handler runs."""

    PROGRAM = Program(0x20000077, 1, "LEDGER", {1: ENTER})

    def __init__(self, happened: list[tuple[Any, ...]]) -> None:
        self.runs = 0
        self._happened = happened

    @in_worker
    def enter(self, args: bytes, context: Any) -> bytes:
        """Returns the number of the run."""
        self.runs += 1
        self._happened.append(("runs", args.decode(), self.runs))
        return bytes([self.runs])


class Connection:
    """Implements `CallSource`."""

    client: Any = None
    host = "192.0.2.7"

    def __init__(self, number: int, pool: BufferPool, happened: list[tuple[Any, ...]]) -> None:
        self.number = number
        self.results = pool.share(self.host)
        self._happened = happened

    def reply(self, call: Any, reply: Payload) -> None:
        if self.results.closed:
            self.drop(call)
            return
        octets = decode_result(Decoder(b"".join(reply.gather())), call.xid, ENTER)
        size = SMALL if reply.length < 1000 else LARGE
        if size == LARGE and not call.enough:
            call.refusal = "the call offers too little"
            self._happened.append(("too little memory", self.number))
        else:
            self._happened.append(("reply", self.number, octets[0], size))

    def refuse(self, call: ServerCall) -> bool:
        self._happened.append(("refused", self.number))
        return True

    def drop(self, call: ServerCall) -> None:
        self._happened.append(("dropped", self.number))


class Threads:
    """Takes the place of the worker threads: handlers begin and end when the trace says so."""

    def __init__(self, runner: Any, happened: list[tuple[Any, ...]]) -> None:
        self._runner = runner
        self._happened = happened
        self.waiting: dict[str, Any] = {}
        self.running: dict[str, tuple[Any, Any]] = {}

    def submit(
        self, _address: str, _connection: object, call: Any, *, brief: bool, may_be_let_go: bool, waits_for: object
    ) -> None:
        assert waits_for is None
        assert may_be_let_go
        self.waiting[call.args.decode()] = call
        self._happened.append(("waits", call.args.decode()))

    def connection_ended(self, connection: object) -> None:
        for name, call in list(self.waiting.items()):
            if call.source is connection:
                del self.waiting[name]
                self._runner._let_go(call)

    def begin(self, name: str) -> None:
        call = self.waiting.pop(name)
        worker: Any = SimpleNamespace(act_as=lambda _identity: None)
        self.running[name] = call, self._runner._work(call, worker)

    def finish(self, name: str, size: str) -> None:
        call, (reply, failure) = self.running.pop(name)
        run = decode_result(Decoder(b"".join(reply.gather())), call.xid, ENTER)
        self._runner._deliver(call, (call.success(run.ljust(REPLY_OCTETS[size], b".")), failure))


class Server:
    """The machine: `Answering`, `AtMostOnce`, `HandlerRunner` and `ReplyCache` as a server has them."""

    def __init__(self) -> None:
        self._happened: list[tuple[Any, ...]] = []
        self._service = Ledger(self._happened)
        self._begin()

    def _begin(self) -> None:
        self._now_s = 0.0
        runner: Any = HandlerRunner()
        runner.workers = self._threads = Threads(runner, self._happened)
        once = AtMostOnce(runner)
        once.time = lambda: self._now_s
        once.cache = ReplyCache(entries_max=REMEMBERED_MAX, reply_octets_max=1000, age_s=1.5)
        self._runner = runner
        self._answering = Answering(Dispatcher([self._service]), runner, once)
        pool = BufferPool()
        self._connections = [Connection(number, pool, self._happened) for number in range(CONNECTIONS)]

    def _take_happened(self) -> Observation:
        happened = tuple(sorted(self._happened))
        self._happened.clear()
        return happened

    def arrive(self, name: str, connection: int, enough: bool) -> Observation:
        call: Any = ServerCall(ord(name), Decoder(CallEncoder().encode(ord(name), ENTER, name.encode()).reduced))
        call.enough = enough
        self._answering.take(call, self._connections[connection])
        return self._take_happened()

    def begin(self, name: str) -> Observation:
        self._threads.begin(name)
        return self._take_happened()

    def finish(self, name: str, size: str) -> Observation:
        self._threads.finish(name, size)
        return self._take_happened()

    def cut(self, connection: int) -> Observation:
        self._connections[connection].results.close()
        self._runner.workers.connection_ended(self._connections[connection])
        return self._take_happened()

    def restart(self) -> Observation:
        self._begin()
        return self._take_happened()

    def pass_time(self) -> Observation:
        self._now_s += 1.0
        return self._take_happened()


def test_calls_that_come_again_are_run_answered_and_refused_as_the_model_says() -> None:
    async def main() -> None:
        assert check(Server, traces(AtMostOnceModel("A", connections=2), depth=7)) > 8000
        assert check(Server, traces(AtMostOnceModel("A", "B", "C"), depth=1, walks=100, walk_steps=60)) > 6000

    asyncio.run(main())
