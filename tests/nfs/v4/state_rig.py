"""A server's state without a server, and the calls of clients to it."""

from __future__ import annotations

import itertools
import weakref
from pathlib import Path
from typing import Any, NamedTuple

from rpcrdma.nfs.export.claims import Claims
from rpcrdma.nfs.v4.nfs4 import (
    CREATE_SESSION4args,
    CREATE_SESSION4resok,
    SEQUENCE4args,
    authsys_parms,
    callback_sec_parms4,
    channel_attrs4,
    nfsstat4,
)
from rpcrdma.nfs.v4.refusal import Refused
from rpcrdma.nfs.v4.server.client_identity import ClientIdentity
from rpcrdma.nfs.v4.server.clients import Client, Held
from rpcrdma.nfs.v4.server.recovery import ClientRow, RecoveryDatabase
from rpcrdma.nfs.v4.server.sessions import Nfs4Session
from rpcrdma.nfs.v4.server.state import State
from rpcrdma.nfs.v4.session_slots import Answer, Slot
from rpcrdma.rpc.auth import Credential

__all__ = ["FORE", "LEASE_S", "Caller", "Disk", "Holding", "StateRig", "counted_octets", "refused_with"]

LEASE_S = 90.0
FORE = channel_attrs4(0, 1_049_620, 1_049_480, 7_584, 8, 64, [])
"""The attributes that Linux asks for."""
BACK = channel_attrs4(0, 4096, 4096, 0, 2, 16, [])


def counted_octets() -> Any:
    """A source of octets that differ each time, alike in each run."""
    made = itertools.count(1)
    return lambda count: next(made).to_bytes(count, "big")


def refused_with(call: Any, *args: Any, **named: Any) -> nfsstat4 | None:
    """The status with which a call is refused; None if it is not."""
    try:
        call(*args, **named)
    except Refused as refused:
        return refused.status
    return None


class Caller:
    """Stands for a connection (`ReverseCaller`)."""

    def __init__(self) -> None:
        self.closed = False


class Holding(Held):
    """A state that holds a share reservation."""

    COUNTED_AS = "opens"

    __slots__ = ()

    def release(self, claims: Claims[Any, Any]) -> None:
        claims.unshare(self.file, self)

    def io_file(self, access: int) -> None:
        return None

    def opener(self, access: int) -> Credential:
        raise AssertionError(access)


class Placed(NamedTuple):
    """The answer to a SEQUENCE, and its slot."""

    answer: Answer
    slot: Slot[Any]


class Disk:
    """Implements `RecoveryDatabase`, and outlives the server."""

    def __init__(self) -> None:
        self.boot = 0
        self.kept: dict[bytes, ClientRow] = {}

    @property
    def rows(self) -> list[ClientRow]:
        self.boot += 1
        return list(self.kept.values())

    def begin(self) -> bool:
        """The rows of the last run are there already."""
        return True

    def keep(self, row: ClientRow) -> bool:
        self.kept[row.owner] = row
        return True

    def forget(self, rows: Any) -> bool:
        for row in rows:
            if row.owner in self.kept and self.kept[row.owner].principal == row.principal:
                del self.kept[row.owner]
        return True


class StateRig:
    """A state over a database in memory, or at `path`; methods do what operations do."""

    def __init__(self, path: Path | None = None, now_s: float = 0.0) -> None:
        self.now_s = now_s
        self.database = RecoveryDatabase(path, counted_octets())
        weakref.finalize(self, self.database.close)
        self.state = State(Claims(), self.database, counted_octets(), now_s, identity=b"server", lease_s=LEASE_S)
        self.sequences: dict[bytes, int] = {}
        self.waits = 0

    def wait(self) -> None:
        """Counts the times that an operation would go to a worker thread."""
        self.waits += 1

    def introduce(
        self, owner: str = "a", verifier: str = "1", principal: str = "sys:0", *, update: bool = False, **more: Any
    ) -> Client:
        introduction = ClientIdentity(owner.encode(), verifier.encode(), principal, **more)
        return self.state.settle(
            lambda: self.state.clients.exchange_id(introduction, self.now_s, update=update), self.wait
        )

    def create_session(
        self,
        client: Client,
        principal: str | None = None,
        *,
        sequence: int | None = None,
        caller: Any = None,
        fore: channel_attrs4 = FORE,
        back: channel_attrs4 = BACK,
        flags: int = 2,
        minor_version: int = 1,
        parms: list[callback_sec_parms4] | None = None,
    ) -> CREATE_SESSION4resok:
        if parms is None:
            parms = [callback_sec_parms4(1, authsys_parms(1, "host", 0, 0, []))]
        number = client.sequence + 1 if sequence is None else sequence
        args = CREATE_SESSION4args(client.id, number, flags, fore, back, 0x40000000, parms)
        who = client.introduction.principal if principal is None else principal
        return self.state.settle(
            lambda: self.state.sessions.create(
                args,
                self.state.clients.find(client.id),
                who,
                caller or Caller(),
                self.now_s,
                minor_version=minor_version,
            ),
            self.wait,
        )

    def session(self, *introduction: str, **more: Any) -> Nfs4Session:
        """A session of a client that has introduced itself."""
        return self.state.sessions.find(self.create_session(self.introduce(*introduction, **more)).csr_sessionid)

    def client(self, *introduction: str, **more: Any) -> Client:
        """A client with a session that may claim."""
        client = self.session(*introduction, **more).client
        self.state.complete_reclaim(client, self.now_s)
        return client

    def sequence(
        self,
        session: Nfs4Session,
        number: int | None = None,
        *,
        slot: int = 0,
        call: str = "call",
        caller: Any = None,
        operations: int = 2,
        octets: int = 100,
    ) -> Placed:
        """SEQUENCE; by default the next one of its slot."""
        if number is None:
            number = session.slots[slot].sequence + 1
        args = SEQUENCE4args(session.id, number, slot, slot, True)
        with self.state.lock:
            answer, session = self.state.sessions.sequence(
                args, call, caller or Caller(), self.now_s, operations=operations, octets=octets, reply_octets=88
            )
        return Placed(answer, session.slots[slot])

    def renew(self, client: Client) -> None:
        """A whole COMPOUND of nothing but SEQUENCE."""
        session = self.state.sessions.find(next(iter(client.sessions)))
        self.sequence(session).slot.finish(None)

    def hold(self, client: Client, file: bytes = b"file", access: int = 1, deny: int = 0) -> Holding:
        """Claims a file for a client, past those that are in the way."""

        def step() -> Holding:
            conflicts = self.state.claims.share_conflicts(file, None, access, deny)
            if conflicts:
                self.state.clients.in_the_way([each.client for each in conflicts], self.now_s)
                raise Refused(nfsstat4.NFS4ERR_SHARE_DENIED)
            other = self.state.new_other(client)
            held = Holding(client, other, other, file, file)
            self.state.add(held)
            self.state.claims.share(file, held, access, deny)
            return held

        return self.state.settle(step, self.wait)
