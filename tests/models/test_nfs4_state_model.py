"""The model of clients, leases, claims and restarts of NFS version 4.1, and the server against it.

From RFC 8881: sections 8.3 and 8.4 (leases, recovery, edge conditions), 9.1 (share reservations), 9.5 (locks), 18.51
(RECLAIM_COMPLETE). A client without a lease keeps what nobody else wants; if it has nothing, and nothing to reclaim,
the server forgets it. The end of a client voids the row of its earlier incarnation too. Two clients share one file of
two octets.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

import pytest

from conversation import Conversation
from model_replay import Action, Observation, check, traces
from state_rig import Disk, counted_octets
from support.nfs4_client import Client, Reply, Stateid, close, lock, locku, open_, putfh, reclaim_complete

pytestmark = pytest.mark.thorough

STEP_S = 60.0
"""One step is less than a lease of 90 s, two are more."""
BOTH, WRITE = 3, 2
DENIALS = (0, WRITE)


@dataclass(frozen=True)
class Known:
    """A client as the server knows it: `phase` is "away", "here" (with a session), or "ready" (reclaims no more).

    `idle` are the steps since its last call. `deny` is None without an open, which is always for reading and writing.
    `locks` has "-", "r" or "w" for each octet.
    """

    phase: str = "away"
    boot: int = 1
    idle: int = 0
    deny: int | None = None
    locks: str = "--"

    @property
    def courteous(self) -> bool:
        return self.idle > 1


@dataclass(frozen=True)
class State:
    """The server: its clients by name, those on its disk as (name, boot), and the grace period.

    `waiting` are the clients that may still reclaim. `steps` of the grace period have passed since its start, and since
    the last reclaim.
    """

    clients: tuple[tuple[str, Known], ...]
    rows: frozenset[tuple[str, int]] = frozenset()
    waiting: frozenset[tuple[str, int]] = frozenset()
    grace: bool = False
    steps: tuple[int, int] = (0, 0)

    def known(self, name: str) -> Known:
        return dict(self.clients)[name]

    def others(self, name: str) -> list[tuple[str, Known]]:
        return [each for each in self.clients if each[0] != name]

    def put(self, name: str, **changes: Any) -> State:
        changed = tuple((each, replace(old, **changes) if each == name else old) for each, old in self.clients)
        return replace(self, clients=changed)

    def evict(self, name: str) -> State:
        rows = frozenset(row for row in self.rows if row[0] != name)
        waiting = frozenset(row for row in self.waiting if row[0] != name)
        state = replace(self, rows=rows, waiting=waiting)
        return state.put(name, phase="away", deny=None, locks="--", idle=0)

    def record(self, name: str) -> State:
        """Who holds something is on the disk, in the place of its earlier incarnation."""
        rows = frozenset(row for row in self.rows if row[0] != name) | {(name, self.known(name).boot)}
        return replace(self, rows=rows)

    def end_of_grace(self) -> State:
        return replace(self, grace=False, rows=self.rows - self.waiting, waiting=frozenset())


class StateModel:
    """Clients that open and lock one file, with a server that restarts."""

    rare = frozenset({"restart", "reboot", "pass_time"})

    def __init__(self, *names: str) -> None:
        self.start = State(tuple((name, Known()) for name in names))

    def actions(self, state: State) -> list[Action]:
        """Calls of clients with a session, or that had one; reboots of either side; time."""
        possible: list[Action] = [("restart",), ("pass_time",)]
        for name, known in state.clients:
            if known.phase == "away":
                possible.append(("start", name))
            possible += [("renew", name), ("complete", name)]
            possible += [(kind, name, deny) for kind in ("open", "reopen") for deny in DENIALS]
            if known.boot < 2:
                possible.append(("reboot", name))
            if known.deny is not None:
                possible.append(("close", name))
                possible += [
                    (kind, name, octet, how) for kind in ("lock", "relock") for octet in (0, 1) for how in "rw"
                ]
            if known.locks != "--":
                possible += [("unlock", name, octet) for octet in (0, 1)]
        return possible

    def step(self, state: State, action: Action) -> tuple[State, Observation]:
        kind, *arguments = action
        if kind not in {"start", "reboot", "restart", "pass_time"}:
            if state.known(arguments[0]).phase == "away":
                return state, "BADSESSION"
            state = state.put(arguments[0], idle=0)
        following: tuple[State, Observation] = getattr(self, "_" + kind)(state, *arguments)
        return following

    def _start(self, state: State, name: str) -> tuple[State, Observation]:
        return state.put(name, phase="here", idle=0), "OK"

    def _reboot(self, state: State, name: str) -> tuple[State, Observation]:
        state = state.put(name, phase="here", idle=0, deny=None, locks="--", boot=state.known(name).boot + 1)
        return state, "OK"

    def _renew(self, state: State, _name: str) -> tuple[State, Observation]:
        return state, "OK"

    def _complete(self, state: State, name: str) -> tuple[State, Observation]:
        known = state.known(name)
        if known.phase == "ready":
            return state, "COMPLETE_ALREADY"
        rows = frozenset(row for row in state.rows if row[0] != name)
        waiting = frozenset(row for row in state.waiting if row[0] != name)
        state = replace(state, rows=rows, waiting=waiting).put(name, phase="ready")
        if known.deny is not None:
            state = state.record(name)
        return (state.end_of_grace() if state.grace and not waiting else state), "OK"

    def _may_claim(self, state: State, name: str, *, reclaims: bool) -> str | None:
        known = state.known(name)
        if reclaims:
            allowed = state.grace and known.phase == "here" and (name, known.boot) in state.waiting
            return None if allowed else "NO_GRACE"
        return "GRACE" if state.grace or known.phase == "here" else None

    def _claim(
        self, state: State, in_the_way: list[tuple[str, Known]], refusal: str, *, reclaims: bool
    ) -> tuple[State, str | None]:
        """Past the clients in the way, if all are courteous; a reclaim prolongs the grace period in any case."""
        if reclaims:
            state = replace(state, steps=(state.steps[0], 0))
        if not all(known.courteous for _, known in in_the_way):
            return state, "RECLAIM_CONFLICT" if reclaims else refusal
        for other, _ in in_the_way:
            state = state.evict(other)
        return state, None

    def _open(self, state: State, name: str, deny: int, *, reclaims: bool = False) -> tuple[State, Observation]:
        refused = self._may_claim(state, name, reclaims=reclaims)
        if refused is None:
            # The own open of a client counts like that of another (RFC 8881 section 9.7), unless it is reclaimed again.
            opens = state.others(name) if reclaims else state.clients
            in_the_way = [each for each in opens if each[1].deny is not None and each[1].deny | deny]
            state, refused = self._claim(state, in_the_way, "SHARE_DENIED", reclaims=reclaims)
        if refused is None:
            return state.put(name, deny=(state.known(name).deny or 0) | deny).record(name), "OK"
        return state, refused

    def _reopen(self, state: State, name: str, deny: int) -> tuple[State, Observation]:
        return self._open(state, name, deny, reclaims=True)

    def _close(self, state: State, name: str) -> tuple[State, Observation]:
        if state.known(name).locks != "--":
            return state, "LOCKS_HELD"
        return state.put(name, deny=None), "OK"

    def _lock(
        self, state: State, name: str, octet: int, how: str, *, reclaims: bool = False
    ) -> tuple[State, Observation]:
        refused = self._may_claim(state, name, reclaims=reclaims)
        if refused is None:
            harmless = "-" if how == "w" else "-r"
            in_the_way = [each for each in state.others(name) if each[1].locks[octet] not in harmless]
            state, refused = self._claim(state, in_the_way, "DENIED", reclaims=reclaims)
        if refused is None:
            locks = state.known(name).locks
            return state.put(name, locks=locks[:octet] + how + locks[octet + 1 :]), "OK"
        return state, refused

    def _relock(self, state: State, name: str, octet: int, how: str) -> tuple[State, Observation]:
        return self._lock(state, name, octet, how, reclaims=True)

    def _unlock(self, state: State, name: str, octet: int) -> tuple[State, Observation]:
        locks = state.known(name).locks
        return state.put(name, locks=locks[:octet] + "-" + locks[octet + 1 :]), "OK"

    def _pass_time(self, state: State) -> tuple[State, Observation]:
        changed = tuple(
            (name, replace(known, idle=min(known.idle + 1, 2)) if known.phase != "away" else known)
            for name, known in state.clients
        )
        first, last = state.steps
        state = replace(state, clients=changed, steps=(min(first + 1, 3), min(last + 1, 2)))
        for name, known in state.clients:
            if (
                known.phase != "away"
                and known.courteous
                and known.deny is None
                and (name, known.boot) not in state.waiting
            ):
                state = state.evict(name)
        # One lease since the last reclaim, two since the start: 90 s and 180 s.
        over = state.grace and (state.steps[1] > 1 or state.steps[0] > 2 or not state.waiting)
        return (state.end_of_grace() if over else state), "OK"

    def _restart(self, state: State) -> tuple[State, Observation]:
        lost = tuple((name, Known(boot=known.boot)) for name, known in state.clients)
        return State(lost, state.rows, state.rows, bool(state.rows)), "OK"


class Server:
    """The machine: a server that clients talk to in octets."""

    def __init__(self) -> None:
        self._disk = Disk()
        self._random_bytes = counted_octets()
        self._server = Conversation(database=self._disk, random_bytes=self._random_bytes)
        self._clients: dict[str, Client] = {}
        self._opened: dict[str, Stateid] = {}
        self._locked: dict[str, Stateid] = {}
        self._boots = {name: itertools.count(2) for name in "ab"}

    def _client(self, name: str) -> Client:
        client = self._clients.setdefault(name, self._server.client(name, verifier=b"boot   1"))
        client.exchange = self._server.client().exchange
        return client

    def _run(self, name: str, *operations: bytes) -> Reply:
        return self._client(name).run(putfh(b"file"), *operations)

    def start(self, name: str) -> str:
        self._client(name).start(complete=False)
        return "OK"

    def reboot(self, name: str) -> str:
        self._client(name).verifier = b"boot%4d" % next(self._boots[name])
        self._opened.pop(name, None)
        self._locked.pop(name, None)
        return self.start(name)

    def renew(self, name: str) -> str:
        return self._run(name).status

    def complete(self, name: str) -> str:
        return self._run(name, reclaim_complete()).status

    def open(self, name: str, deny: int, *, reclaim: bool = False) -> str:
        reply = self._run(name, open_(b"owner", BOTH, deny, reclaim=reclaim))
        if reply.status == "OK":
            self._opened[name] = reply.value(18)["stateid"]
        return reply.status

    def reopen(self, name: str, deny: int) -> str:
        return self.open(name, deny, reclaim=True)

    def close(self, name: str) -> str:
        return self._run(name, close(self._opened[name])).status

    def lock(self, name: str, octet: int, how: str, *, reclaim: bool = False) -> str:
        kind = {"r": 1, "w": 2}[how]
        reply = self._run(name, lock(self._opened[name], b"locker", kind, octet, 1, reclaim=reclaim))
        if reply.status == "OK":
            self._locked[name] = reply.value(12)._replace(seqid=0)
        return reply.status

    def relock(self, name: str, octet: int, how: str) -> str:
        return self.lock(name, octet, how, reclaim=True)

    def unlock(self, name: str, octet: int) -> str:
        return self._run(name, locku(self._locked[name], octet, 1)).status

    def pass_time(self) -> str:
        self._server.now_s += STEP_S
        self._server.state.sweep(self._server.now_s)
        return "OK"

    def restart(self) -> str:
        self._server = Conversation(
            files=self._server.files,
            now_s=self._server.now_s,
            database=self._disk,
            random_bytes=self._random_bytes,
        )
        return "OK"


def test_claims_leases_and_restarts_are_as_the_model_says() -> None:
    assert check(Server, traces(StateModel("a", "b"), depth=4)) > 4500
    assert check(Server, traces(StateModel("a", "b"), depth=1, walks=120, walk_steps=80)) > 8000
