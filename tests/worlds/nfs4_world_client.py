"""One client of a world of NFS version 4.1: it opens, locks, writes and removes, and keeps its beliefs.

A belief is a right that the server has granted: a share reservation, a lock, a delegation. The client holds it until it
gives it back, until it learns that the server has dropped it, or until its lease has passed by its own clock. The
world compares the beliefs of all clients with each new one.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import random
from typing import TYPE_CHECKING, Any

import rpcrdma
from rpcrdma.errors import ConnectFailed, RpcRdmaError
from rpcrdma.nfs.v4 import nfs4
from rpcrdma.nfs.v4.compounds import COMPOUND
from rpcrdma.rpc.reply_bound import ReplyBound
from state_rig import LEASE_S
from support import nfs4_client as ops
from support.nfs4_client import ANONYMOUS, GUARDED, READ, WRITE, Reply, Stateid
from support.nfs4_results import decode_reply
from support.waiting import time_passes

if TYPE_CHECKING:
    from nfs4_world import World

__all__ = ["FOUGHT", "JOURNAL", "POPULAR", "RECORD_OCTETS", "Lost", "WorldClient"]

JOURNAL, FOUGHT, POPULAR = b"journal", b"fought", b"popular"
"""Files that all clients use: they append to the first under a lock, deny each other the second, read the third."""
RECORD_OCTETS = 16
_REPLY_OCTETS = 16384
_CALL_S = 30.0
_AGAIN_S = 2.0
_KEEP_S = 20.0
"""Seconds between the calls that keep the lease."""
_TRIES_MAX = 2000
_MAIN, _KEEPER, _RETURNS = range(3)
"""The slots of the session, one for each task."""
_OWNER, _LOCKER = b"owner", b"locker"
_BOTH = READ | WRITE
_WRITE_LOCK = 2
_BOTH_WAYS = 7
"""CDFC4_BACK_OR_BOTH."""
_REVOKED = 0x40
"""SEQ4_STATUS_RECALLABLE_STATE_REVOKED."""
_BACK_CHANNEL_DOWN = 1


class Lost(Exception):
    """The state that the client was using is lost."""


class _SessionGone(Exception):
    """The server does not know the session."""


def _rest(dec: Any) -> bytes:
    return bytes(dec.fixed(dec.end - dec.pos, "result"))


_OCTETS = dataclasses.replace(
    COMPOUND,
    encode_args=lambda enc, octets: enc.fixed(octets, len(octets), "arguments"),
    decode_result=_rest,
    bound=ReplyBound(_REPLY_OCTETS),
    status=None,
    named=None,
)
"""COMPOUND with octets as its arguments and its result."""


class _Callbacks(nfs4.NFS_CB_Service):
    """Answers recalls, as the habits of the client are."""

    def __init__(self, client: WorldClient) -> None:
        self._client = client

    async def cb_compound(self, args: nfs4.CB_COMPOUND4args, context: Any) -> nfs4.CB_COMPOUND4res:
        del context
        client, status = self._client, nfs4.nfsstat4.NFS4_OK
        sequence, recall = (operation.value for operation in args.argarray)
        assert isinstance(sequence, nfs4.CB_SEQUENCE4args)
        assert isinstance(recall, nfs4.CB_RECALL4args)
        if client.habit == "deaf":
            await time_passes(3600)
        if client.habit == "prompt":
            client.return_soon(bytes(recall.fh))
        done = nfs4.CB_SEQUENCE4resok(sequence.csa_sessionid, sequence.csa_sequenceid, 0, 0, 0)
        operations = nfs4.nfs_cb_opnum4
        return nfs4.CB_COMPOUND4res(
            status,
            args.tag,
            [
                nfs4.nfs_cb_resop4(operations.OP_CB_SEQUENCE, nfs4.CB_SEQUENCE4res(status, done)),
                nfs4.nfs_cb_resop4(operations.OP_CB_RECALL, status),
            ],
        )


class WorldClient:
    """The client `number` of a world; `habit` says what it does with a recall: "prompt", "stubborn" or "deaf"."""

    def __init__(self, world: World, number: int, habit: str) -> None:
        self.world, self.number, self.habit = world, number, habit
        self.name = f"client-{number}"
        self._choose = random.Random(f"{world.seed} {self.name}")
        self._loop = asyncio.get_running_loop()
        self._connection: Any = None
        self._boot = 1
        self._id = 0
        self._session = b""
        self._numbers = [0, 0, 0]
        self._recovering, self._returning = asyncio.Lock(), asyncio.Lock()
        self._created = 0
        self._renewed_s = float("-inf")
        self.asleep = False
        self.opens: dict[bytes, tuple[Stateid, int, int]] = {}
        """By handle: the stateid, the access and what it denies."""
        self.locks: dict[bytes, Stateid] = {}
        self.delegations: dict[bytes, tuple[Stateid, float]] = {}
        """By handle: the stateid, and the time when it was given."""
        self.files: dict[str, bytes] = {}
        """The content of each file of its own."""
        self.unknown: set[str] = set()
        """Names of files whose creation, removal or renaming the client does not know the end of."""
        self._made = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def has_lease(self) -> bool:
        """Whether the server cannot have ended it, as far as the client knows."""
        return self._loop.time() < self._renewed_s + LEASE_S

    # Calls

    async def connect(self) -> None:
        """Connects, and makes a session."""
        options = rpcrdma.ConnectOptions(
            provider=self.world.provider(self.name),
            rpcrdma_version=1,
            credential=rpcrdma.AuthSys(machine=self.name, uid=0, gid=0),
            call_timeout_s=_CALL_S,
            keepalive_s=5.0,
            reconnect_delay_max_s=2.0,
            services=[_Callbacks(self)],
        )
        while self._connection is None:
            try:
                self._connection = await rpcrdma.connect("rdma://server-0", nfs4.NFS_V4, options=options)
            except ConnectFailed:
                await time_passes(_AGAIN_S)
        await self._recover(b"")

    async def _exchange(self, *operations: bytes) -> Reply:
        """A COMPOUND, sent again until it is answered."""
        octets = ops.opaque(b"") + (1).to_bytes(4, "big") + len(operations).to_bytes(4, "big") + b"".join(operations)
        for _ in range(_TRIES_MAX):
            try:
                return decode_reply(await self._connection.call(_OCTETS, octets))
            except RpcRdmaError:
                await time_passes(_AGAIN_S)
        raise TimeoutError(f"{self.name}: no answer")

    async def _sequenced(self, slot: int, operations: tuple[bytes, ...], session: bytes) -> Reply:
        """A COMPOUND in a slot of a session, which runs once: the reply is kept."""
        number = self._numbers[slot] + 1
        while True:
            sent_s = self._loop.time()
            reply = await self._exchange(ops.sequence(session, number, slot, kept=True), *operations)
            if session != self._session:
                raise _SessionGone
            first = reply.results[0][1]
            if first in {"BADSESSION", "DEADSESSION"}:
                raise _SessionGone
            if first == "DELAY":
                await time_passes(_AGAIN_S)
                continue
            if first != "OK":
                self.world.violation(f"{self.name}: SEQUENCE {number} of slot {slot} was answered with {first}")
                raise _SessionGone
            self._numbers[slot] = number
            self._renewed_s = max(self._renewed_s, sent_s)
            return reply

    async def run(self, *operations: bytes, slot: int = _MAIN) -> Reply:
        """A COMPOUND, again while the server asks to wait; it runs once in a session.

        Raises:
            Lost: The session was lost, and another one has taken its place: it is not known whether it ran.
        """
        for _ in range(_TRIES_MAX):
            async with self._recovering:
                session = self._session
            try:
                reply = await self._sequenced(slot, operations, session)
            except _SessionGone:
                await self._recover(session)
                raise Lost from None
            if reply.status not in {"DELAY", "GRACE"}:
                return reply
            await time_passes(_AGAIN_S)
        raise TimeoutError(f"{self.name}: asked to wait for ever")

    # Sessions

    async def _recover(self, session: bytes) -> None:
        """Makes a session, and reclaims what the client had, unless another task has done so."""
        async with self._recovering:
            if session != self._session:
                return
            while not await self._new_session():
                pass

    async def _new_session(self) -> bool:
        """Tries it once; False if the server has restarted meanwhile."""
        had_lease, known = self.has_lease, False
        if self._id:
            # A CREATE_SESSION that is repeated has the number of the first one.
            reply = await self._exchange(ops.create_session(self._id, self._created + 1))
            known = reply.status == "OK"
            if not known and reply.status != "STALE_CLIENTID":
                await time_passes(_AGAIN_S)
                return False
        if not known:
            self.delegations.clear()
            verifier = b"boot%4d" % self._boot
            reply = await self._exchange(ops.exchange_id(self.name.encode(), verifier))
            if reply.status != "OK":
                await time_passes(_AGAIN_S)
                return False
            found = reply.value(42)
            self._id, number = found["client"], found["sequence"]
            sent_s = self._loop.time()
            reply = await self._exchange(ops.create_session(self._id, number))
            if reply.status != "OK":
                await time_passes(_AGAIN_S)
                return False
            self._renewed_s = max(self._renewed_s, sent_s)
        created = reply.value(43)
        self._session, self._created, self._numbers = created["session"], created["sequence"], [0, 0, 0]
        return known or await self._reclaim(had_lease=had_lease)

    async def _reclaim(self, *, had_lease: bool) -> bool:
        session, opens, locks = self._session, self.opens, self.locks
        try:
            for handle, (_, access, deny) in list(opens.items()):
                reply = await self._sequenced(
                    _MAIN, (ops.putfh(handle), ops.open_(_OWNER, access, deny, reclaim=True)), session
                )
                if reply.status != "OK":
                    self._not_reclaimed(handle, reply.status, had_lease=had_lease)
                    continue
                stateid = reply.value(18)["stateid"]
                opens[handle] = stateid, access, deny
                if handle in locks:
                    relock = ops.lock(stateid, _LOCKER, _WRITE_LOCK, 0, RECORD_OCTETS, reclaim=True)
                    reply = await self._sequenced(_MAIN, (ops.putfh(handle), relock), session)
                    if reply.status == "OK":
                        locks[handle] = reply.value(12)
                    else:
                        self._not_reclaimed(handle, reply.status, had_lease=had_lease)
            await self._sequenced(_MAIN, (ops.reclaim_complete(),), session)
        except _SessionGone:
            return False
        return True

    def _not_reclaimed(self, handle: bytes, status: str, *, had_lease: bool) -> None:
        self.opens.pop(handle, None)
        self.locks.pop(handle, None)
        if had_lease and self._loop.time() < self.world.restarted_s + LEASE_S:
            self.world.violation(f"{self.name}: {status} to a reclaim within the grace period, of state with a lease")

    async def reboot(self) -> None:
        """Begins anew with another verifier, so that the server drops the state of the client."""
        self._boot += 1
        self.opens.clear()
        self.locks.clear()
        self.delegations.clear()
        async with self._recovering:
            self._id, self._session = 0, b""
        await self._recover(b"")

    async def lose_session(self) -> None:
        """Ends the session, and makes another one; the state stays."""
        session = self._session
        await self._exchange(ops.destroy_session(session))
        await self._recover(session)

    async def keep_lease(self) -> None:
        """Renews the lease, unless the client is asleep, and does what the server's flags ask for."""
        while True:
            await time_passes(_KEEP_S)
            if self.asleep:
                continue
            with contextlib.suppress(Lost):
                flags = (await self.run(slot=_KEEPER)).value(53)[5]
                if flags & _BACK_CHANNEL_DOWN:
                    await self._exchange(ops.bind_conn_to_session(self._session, _BOTH_WAYS))
                if flags & _REVOKED:
                    await self._free_revoked()

    # Delegations

    def return_soon(self, handle: bytes) -> None:
        """Gives a delegation back, in a task."""
        task = self._loop.create_task(self._return(handle))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _return(self, handle: bytes) -> None:
        """Gives a delegation back; the client does not use it from now on."""
        given = self.delegations.pop(handle, None)
        while given is not None:
            with contextlib.suppress(Lost):
                async with self._returning:
                    reply = await self.run(ops.putfh(handle), ops.delegreturn(given[0]), slot=_RETURNS)
                    if reply.status == "DELEG_REVOKED":
                        await self.run(ops.free_stateid(given[0]), slot=_RETURNS)
                return

    async def _free_revoked(self) -> None:
        for handle, (stateid, _) in list(self.delegations.items()):
            if (await self.run(ops.test_stateid(stateid), slot=_KEEPER)).value(55) == ["DELEG_REVOKED"]:
                self.delegations.pop(handle, None)
                await self.run(ops.free_stateid(stateid), slot=_KEEPER)

    # Work

    async def work(self, steps: int) -> None:
        """Does so many things."""
        kinds = {
            self._append_to_journal: 6, self._fight: 3, self._create: 4, self._rename: 2, self._remove: 2,
            self._read_popular: 4, self._change_popular: 2, self._sleep: 1, self.lose_session: 1, self.reboot: 1,
        }  # fmt: skip
        for _ in range(steps):
            await time_passes(self._choose.random() * 3)
            (step,) = self._choose.choices(list(kinds), list(kinds.values()))
            with contextlib.suppress(Lost):
                await step()

    async def _sleep(self) -> None:
        self.asleep = True
        await time_passes(self._choose.uniform(20, 3 * LEASE_S))
        self.asleep = False

    async def _append_to_journal(self) -> None:
        """Appends a record under a lock of the whole file."""
        handle = self.world.handles[JOURNAL]
        if not await self._open(handle, _BOTH, 0):
            return
        asked = ops.lock(self.opens[handle][0], _LOCKER, _WRITE_LOCK, 0, ops.MAX64)
        reply = await self.run(ops.putfh(handle), asked)
        if reply.status == "OK":
            self.locks[handle] = reply.value(12)
            self.world.granted_lock(self, handle)
            try:
                await self._append(handle)
            finally:
                if (locked := self.locks.pop(handle, None)) is not None:
                    await self._expect(ops.putfh(handle), ops.locku(locked, 0, ops.MAX64))
        elif reply.status != "DENIED":
            self.world.violation(f"{self.name}: LOCK was answered with {reply.status}")
        await self._close(handle)

    async def _append(self, handle: bytes) -> None:
        reply = await self.run(ops.putfh(handle), ops.read(self.locks[handle], 0, _REPLY_OCTETS // 2))
        if reply.status != "OK":
            return
        number = len(reply.value(25)[1]) // RECORD_OCTETS
        self.world.check_journal(reply.value(25)[1], self.name)
        record = b"%-*d" % (RECORD_OCTETS, self.world.new_number())
        await time_passes(self._choose.random() * 4)
        if handle not in self.locks or not self.has_lease:
            return
        writing = ops.write(self.locks[handle], number * RECORD_OCTETS, record)
        if (await self.run(ops.putfh(handle), writing)).status == "OK":
            self.world.journalled(number, record)

    async def _fight(self) -> None:
        """Keeps everybody else from a file for a while."""
        handle = self.world.handles[FOUGHT]
        if await self._open(handle, _BOTH, _BOTH):
            await time_passes(self._choose.random() * 30)
            await self._close(handle)

    async def _create(self) -> None:
        """Makes a file, with a name that has never been."""
        self._made += 1
        name = f"{self.name}-{self._made}"
        self.unknown.add(name)
        reply = await self.run(ops.putrootfh(), ops.open_(_OWNER, _BOTH, name=name, create=GUARDED), ops.getfh())
        if reply.status != "OK":
            self.world.violation(f"{self.name}: {reply.status} to a new name")
            return
        handle = reply.value(10)
        self.opens[handle] = reply.value(18)["stateid"], _BOTH, 0
        content = f"{name} ".encode() * self._choose.randrange(1, 100)
        reply = await self.run(ops.putfh(handle), ops.write(self.opens[handle][0], 0, content))
        if reply.status == "OK":
            self.files[name] = content
            self.unknown.discard(name)
        await self._close(handle)

    async def _rename(self) -> None:
        if not self.files:
            return
        old = self._choose.choice(sorted(self.files))
        self._made += 1
        new, content = f"{self.name}-{self._made}", self.files.pop(old)
        self.unknown |= {old, new}
        if await self._expect(ops.putrootfh(), ops.savefh(), ops.rename(old, new)):
            self.unknown -= {old, new}
            self.files[new] = content

    async def _remove(self) -> None:
        if not self.files:
            return
        name = self._choose.choice(sorted(self.files))
        del self.files[name]
        self.unknown.add(name)
        if await self._expect(ops.putrootfh(), ops.remove(name)):
            self.unknown.discard(name)

    async def _read_popular(self) -> None:
        """Opens a file for reading, and keeps the delegation, if the server gives one."""
        handle = self.world.handles[POPULAR]
        if handle not in self.delegations and await self._open(handle, READ, 0):
            await self.run(ops.putfh(handle), ops.read(self.opens[handle][0], 0, 100))
            await self._close(handle)

    async def _change_popular(self) -> None:
        handle = self.world.handles[POPULAR]
        with self.world.change_begins(handle):
            if await self._open(handle, WRITE, 0):
                number = b"%d" % self.world.new_number()
                reply = await self.run(ops.putfh(handle), ops.write(self.opens[handle][0], 0, number))
                if reply.status == "OK":
                    self.world.changed(self, handle)
                await self._close(handle)

    async def _open(self, handle: bytes, access: int, deny: int) -> bool:
        """Opens a file, unless others deny that."""
        reply = await self.run(ops.putfh(handle), ops.open_(_OWNER, access, deny))
        if reply.status == "OK":
            found = reply.value(18)
            self.opens[handle] = found["stateid"], access, deny
            if found["delegation"] is not None:
                self.delegations[handle] = found["delegation"], self._loop.time()
            self.world.granted_open(self, handle)
        elif reply.status != "SHARE_DENIED":
            self.world.violation(f"{self.name}: OPEN was answered with {reply.status}")
        return reply.status == "OK"

    async def _close(self, handle: bytes) -> None:
        if (opened := self.opens.pop(handle, None)) is not None:
            await self._expect(ops.putfh(handle), ops.close(opened[0]))

    async def _expect(self, *operations: bytes) -> bool:
        """Runs what must succeed in a session, as it runs once and the client has a right to it."""
        had_lease = self.has_lease
        reply = await self.run(*operations)
        if reply.status != "OK" and had_lease:
            self.world.violation(f"{self.name}: {reply.status} in {reply.results}")
        return reply.status == "OK"

    # The end

    async def finish(self, *, vanishes: bool) -> None:
        """Without faults: compares the files of its own, gives back what it has and leaves, or `vanishes`."""
        self.asleep = False
        while True:
            with contextlib.suppress(Lost):
                await self._compare()
                if not vanishes:
                    await self._leave()
                break
        await self._connection.close()

    async def _compare(self) -> None:
        for name, content in self.files.items():
            reply = await self.run(ops.putrootfh(), ops.lookup(name), ops.read(ANONYMOUS, 0, _REPLY_OCTETS // 2))
            found = reply.value(25)[1] if reply.status == "OK" else reply.status
            if found != content:
                self.world.violation(f"{self.name}: {name} is {found!r}, not {content!r}")

    async def _leave(self) -> None:
        for handle in list(self.opens):
            await self._close(handle)
        for handle in list(self.delegations):
            await self._return(handle)
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self._exchange(ops.destroy_session(self._session))
        reply = await self._exchange(ops.destroy_clientid(self._id))
        if reply.status not in {"OK", "STALE_CLIENTID"}:
            self.world.violation(f"{self.name}: {reply.status} to DESTROY_CLIENTID")
