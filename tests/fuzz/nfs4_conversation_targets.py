"""A fuzz target of whole conversations of NFS version 4: several clients, with stateids and sessions of each other.

A case is a script. It chooses clients, operations, and operands out of pools that all clients share; it changes octets
of calls, repeats them, lets time pass, and restarts the server. Whatever comes, the server answers with a status other
than SERVERFAULT, no claims conflict, its tables agree with each other, and a repeat changes nothing.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from typing import Any

from case_script import Script
from conversation import ROOT, Conversation, FakeConnection
from decoder_targets import FuzzTarget
from rpcrdma.errors import DecodeError
from rpcrdma.nfs.export.memory_tree import MemoryTree
from rpcrdma.nfs.export.tree import Change, Create, CreateHow
from rpcrdma.nfs.v4.compounds import CompoundReply, decode_compound_reply
from rpcrdma.nfs.v4.nfs4 import nfsstat4
from rpcrdma.nfs.v4.server.clients import Delegation
from rpcrdma.nfs.v4.server.locks import LockState
from rpcrdma.nfs.v4.server.opens import Open
from rpcrdma.nfs.v4.server.pseudo_root import PseudoRoot
from rpcrdma.nfs.v4.session_slots import SlotState
from rpcrdma.nfs.v4.state_limits import NFS4_COURTESY_S
from rpcrdma.xdr.codec import Decoder
from state_rig import LEASE_S, Disk, counted_octets
from support import nfs4_client as ops
from support.nfs4_client import ANONYMOUS, BYPASS, CURRENT, MAX64, Stateid

__all__ = ["NFS4_CONVERSATIONS"]

_STEPS_MAX = 60
_OPERATIONS_MAX = 5
_NAMES = ("a", "b", "c")
_OWNERS = (b"one", b"two")
_FULL_NUMBERS = (0, 1, 5, 8, MAX64 - 1, MAX64)
_CLIENTS = 3
_POOL_MAX, _KEPT = 10, 3
"""Members of a pool, and those of its first ones that stay."""


class _Conversations:
    """The server, its clients, and the pools of what it has given to any of them."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.tree = MemoryTree(lambda: self.server.now_s if hasattr(self, "server") else 0.0)
        self.disk, self.random_bytes = Disk(), counted_octets()
        self.handles = [self.tree.root.handle]
        for name in _NAMES[:2]:
            made = self.tree.root.create(ROOT, name.encode(), Create(CreateHow.GUARDED), Change())
            self.handles.append(made.handle)
        self.stateids = [ANONYMOUS, BYPASS, CURRENT, Stateid(7, bytes(11) + b"x")]
        self.server = self._serve(0.0)
        self.connections = [FakeConnection() for _ in range(_CLIENTS)]
        self.ids = [0]
        self.sessions = [bytes(16)]
        self.numbers: dict[tuple[bytes, int], int] = {}
        """The numbers of the newest requests, by session and slot."""
        for number in range(_CLIENTS):
            self._introduce(number)

    def _introduce(self, number: int) -> None:
        """A client that begins anew, with a session that comes into the pool."""
        boot = b"boot %3d" % len(self.numbers)
        try:
            client = self.server.client(f"client {number}", verifier=boot, connection=self.connections[number])
            client.start(complete=self.script.below(4) != 1)
        except AssertionError:
            # The server has asked to wait.
            return
        self._take(self.ids, client.id)
        self._take(self.sessions, client.session)
        self.numbers[client.session, 0] = client.number

    def _serve(self, now_s: float) -> Conversation:
        exports: Any = PseudoRoot(self.tree, 0)
        return Conversation(files=exports, now_s=now_s, database=self.disk, random_bytes=self.random_bytes)

    # Choices

    def _of(self, pool: Any) -> Any:
        return pool[self.script.below(len(pool))]

    def _operations(self) -> tuple[bytes, ...]:
        """An operation, or a few that belong together."""
        handle, name, owner = self._of(self.handles), self._of(_NAMES), self._of(_OWNERS)
        stateid = self._of(self.stateids[-4:] if self.script.below(3) else self.stateids)
        start, length, bits = self._of(_FULL_NUMBERS), self._of(_FULL_NUMBERS), self.script.below(4)
        kind = 1 + self.script.below(4)
        kinds: list[Callable[[], bytes | tuple[bytes, ...]]] = [
            ops.putrootfh, ops.getfh, ops.savefh, ops.restorefh, ops.lookupp, ops.readlink, ops.reclaim_complete,
            lambda: ops.putfh(handle),
            lambda: ops.lookup(name),
            lambda: ops.open_(owner, bits, self.script.below(4), name=name, create=self._of((None, 0, 1, 2, 3))),
            lambda: ops.open_(owner, bits | self._of((0, 0x100, 0x400)), self.script.below(4)),
            lambda: ops.open_(owner, bits, self.script.below(4), reclaim=True),
            lambda: ops.open_(owner, bits, delegated=stateid),
            lambda: ops.close(stateid),
            lambda: ops.open_downgrade(stateid, bits, self.script.below(4)),
            lambda: ops.lock(stateid, owner, kind, start, length, reclaim=self.script.below(8) == 0),
            lambda: ops.lock_more(stateid, kind, start, length),
            lambda: ops.lockt(owner, kind, start, length),
            lambda: ops.locku(stateid, start, length),
            lambda: ops.read(stateid, start, bits * 10),
            lambda: ops.write(stateid, min(start, 1 << 16), b"x" * bits),
            lambda: ops.setattr_size(stateid, min(start, 1 << 16)),
            lambda: ops.test_stateid(stateid, self._of(self.stateids)),
            lambda: ops.free_stateid(stateid),
            lambda: ops.delegreturn(stateid),
            lambda: ops.remove(name),
            lambda: ops.rename(name, self._of(_NAMES)),
            lambda: ops.link(name),
            lambda: ops.readdir(bits, 1 << 20, octets=200 * bits),
            lambda: ops.copy(stateid, self._of(self.stateids), start, 0, length),
            lambda: ops.seek(stateid, start, bits),
            lambda: ops.backchannel_ctl(bits),
            lambda: ops.destroy_session(self._of(self.sessions)),
            lambda: (ops.open_(owner, 3), ops.lock(CURRENT, owner, kind, start, length or 1)),
            lambda: (ops.open_(owner, 3), ops.lock(CURRENT, owner, 2, bits, 2), ops.locku(CURRENT, start, length)),
            lambda: (ops.open_(owner, 3), ops.write(CURRENT, bits, b"data"), ops.close(CURRENT)),
            lambda: (ops.open_(owner, 3), ops.open_(owner, 1), ops.open_downgrade(CURRENT, 1)),
            lambda: (ops.open_(owner, 1), ops.seek(CURRENT, bits, 1)),
            lambda: (ops.putrootfh(), ops.open_(owner, 1, name=name), ops.getfh()),
            lambda: (ops.savefh(), ops.putrootfh(), ops.link(name)),
            lambda: (ops.putrootfh(), ops.savefh(), ops.rename(name, self._of(_NAMES))),
        ]  # fmt: skip
        found = self._of(kinds)()
        return found if isinstance(found, tuple) else (found,)

    def _outside(self) -> list[bytes]:
        """An operation that needs no session."""
        owner, boot = b"client %d" % self.script.below(_CLIENTS), b"boot   %d" % (1 + self.script.below(2))
        identity, session = self._of(self.ids), self._of(self.sessions)
        kinds = [
            lambda: ops.exchange_id(owner, boot, self._of((0x101, 0x40000101))),
            lambda: ops.create_session(identity, self.script.below(4)),
            lambda: ops.destroy_session(session),
            lambda: ops.destroy_clientid(identity),
            lambda: ops.bind_conn_to_session(session, self.script.below(8)),
        ]
        return [self._of(kinds)()]

    # Steps

    def step(self) -> None:
        match self.script.below(16):
            case 0:
                self.server.now_s += self._of((1.0, LEASE_S / 2, LEASE_S + 1, 3 * LEASE_S))
                self.server.state.sweep(self.server.now_s)
            case 1:
                if self.script.below(4) == 0:
                    self.server = self._serve(self.server.now_s)
                self._introduce(self.script.below(_CLIENTS))
            case 2:
                self._send(self._outside(), None)
            case _:
                usual = self.script.below(4)
                session = self._of(self.sessions if not usual else self.sessions[-_CLIENTS:])
                slot = 0 if usual else self._of((1, 63, 64))
                number = self.numbers.get((session, slot), 0) + (1 if usual else self._of((0, 1, 2)))
                first = ops.sequence(session, number & 0xFFFFFFFF, slot, kept=self.script.below(2) == 0)
                others = [each for _ in range(self.script.below(_OPERATIONS_MAX)) for each in self._operations()]
                if usual:
                    others.insert(0, ops.putfh(self._of(self.handles)))
                self._send([first, *others], (session, slot, number))
        self._check()

    def _send(self, operations: list[bytes], placed: tuple[bytes, int, int] | None) -> None:
        octets = bytearray(ops.opaque(b"") + struct.pack(">II", 1 + self.script.below(2), len(operations)))
        octets += b"".join(operations)
        if self.script.below(6) == 0:
            octets[self.script.number(2) % len(octets)] ^= 1 << self.script.below(8)
        connection = self._of(self.connections)
        reply = self._answer(bytes(octets), connection)
        if reply is None:
            return
        taken = placed is not None and reply.results and reply.results[0].status is nfsstat4.NFS4_OK
        if taken and self.numbers.get(placed[:2], 0) != placed[2]:
            self.numbers[placed[:2]] = placed[2]
            if self.script.below(3) == 0:
                before = self._fingerprint()
                again = self._answer(bytes(octets), connection)
                assert again is not None
                assert again.status in {reply.status, nfsstat4.NFS4ERR_RETRY_UNCACHED_REP, nfsstat4.NFS4ERR_BADSESSION}
                assert self._fingerprint() == before, "a repeat has changed the files or the state"
        self._learn(reply)

    def _answer(self, octets: bytes, connection: FakeConnection) -> CompoundReply | None:
        try:
            answered = self.server.answer(octets, connection)
        except DecodeError:
            return None
        reply = decode_compound_reply(Decoder(answered))
        assert nfsstat4.NFS4ERR_SERVERFAULT not in {reply.status, *(each.status for each in reply.results)}
        return reply

    def _learn(self, reply: CompoundReply) -> None:
        """Takes what the server has given into the pools."""
        for result in reply.results:
            value = result.value
            match result.operation.name, value:
                case "GETFH", _ if value is not None:
                    self._take(self.handles, bytes(value.object))
                case "EXCHANGE_ID", _ if value is not None:
                    self._take(self.ids, value.eir_clientid)
                case "CREATE_SESSION", _ if value is not None:
                    self._take(self.sessions, value.csr_sessionid)
                case (("OPEN" | "LOCK" | "LOCKU" | "CLOSE" | "OPEN_DOWNGRADE"), _) if result.status is nfsstat4.NFS4_OK:
                    for each in (value, getattr(value, "stateid", None), getattr(value, "lock_stateid", None)):
                        if hasattr(each, "seqid"):
                            self._take(self.stateids, Stateid(each.seqid, bytes(each.other)))
                    delegation = getattr(getattr(value, "delegation", None), "value", None)
                    if hasattr(delegation, "stateid"):
                        self._take(self.stateids, Stateid(delegation.stateid.seqid, bytes(delegation.stateid.other)))

    def _take(self, pool: list[Any], found: Any) -> None:
        if found not in pool:
            pool.append(found)
            if len(pool) > _POOL_MAX:
                del pool[_KEPT]

    # Invariants

    def _fingerprint(self) -> Any:
        held = sorted((each.other, each.seqid, type(each).__name__) for each in self.server.state._held.values())
        files = [(number, bytes(each.data), sorted(each.names)) for number, each in self.tree.objects.items()]
        return held, files

    def _check(self) -> None:
        state, claims = self.server.state, self.server.claims
        clients = state.clients.by_id.values()
        assert {id(each) for each in state._held.values()} == {id(h) for c in clients for h in c.held.values()}
        sessions = state.sessions._by_id
        assert set(sessions) == {number for client in clients for number in client.sessions}
        assert state.sessions.octets.used == sum(session.promised for session in sessions.values())
        assert not any(slot.state is SlotState.BUSY for session in sessions.values() for slot in session.slots)
        assert {each for each in state._held.values() if isinstance(each, Delegation) and each.lost is None} == set(
            state.delegations
        )
        opens = [each for each in state._held.values() if isinstance(each, Open)]
        for one, other in itertools.permutations(opens, 2):
            assert one.file != other.file or not one.access & other.deny, "shares conflict"
        locked = [each for each in state._held.values() if isinstance(each, LockState)]
        assert state.states_of_hosts.used == len(state._held)
        assert state.ranges_of_hosts.used == sum(len(claims.ranges(each.file, each)) for each in locked)
        assert state.delegations_of_hosts.used == len(state.delegations)
        self._check_ranges(locked)

    def _check_ranges(self, locked: list[LockState]) -> None:
        for one, other in itertools.combinations(locked, 2):
            if one.file == other.file and (one.client, one.owner) != (other.client, other.owner):
                for first, second in itertools.product(
                    self.server.claims.ranges(one.file, one), self.server.claims.ranges(other.file, other)
                ):
                    apart = first.end <= second.start or second.end <= first.start
                    assert apart or not (first.exclusive or second.exclusive), "locks conflict"

    def finish(self) -> None:
        """A day after their last word the clients have left nothing."""
        self.server.now_s += NFS4_COURTESY_S + 2 * LEASE_S
        for _ in range(2):
            self.server.state.sweep(self.server.now_s)
        self._check()
        state = self.server.state
        assert not state._held
        assert not state.clients.by_id
        assert not state.sessions.octets.used
        assert not len(self.server.claims)
        assert not self.disk.kept


def conversations(data: bytes) -> None:
    """Clients talk to a server, by a script."""
    talk = _Conversations(Script(data))
    for _ in range(_STEPS_MAX):
        if not talk.script.more:
            break
        talk.step()
    talk.finish()


def _seeds() -> list[bytes]:
    """Scripts of all choices, one after another, from several first ones."""
    steps = itertools.product((4, 7, 13), (1, 7, 37, 101))
    return [bytes((first + step * number) & 0xFF for number in range(400)) for first, step in steps]


NFS4_CONVERSATIONS = [FuzzTarget("nfs4_conversations", conversations, _seeds())]
