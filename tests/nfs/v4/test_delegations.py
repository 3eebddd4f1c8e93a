"""Read delegations: when they are given, what waits for them, and their return, loss and revocation."""

from __future__ import annotations

import asyncio
import gc
from types import SimpleNamespace
from typing import Any

import pytest

from conversation import Conversation, FakeConnection
from few_files import FewLease
from rpcrdma.errors import CallTimeout
from rpcrdma.nfs.export.claims import READ as READ_CLAIM
from rpcrdma.nfs.export.memory_tree import MemoryNode, MemoryTree
from rpcrdma.nfs.v4.nfs4 import CB_COMPOUND4res, nfsstat4
from rpcrdma.nfs.v4.server.back_channel import Recalls
from rpcrdma.nfs.v4.server.clients import Delegation
from rpcrdma.nfs.v4.server.pseudo_root import PseudoRoot
from rpcrdma.nfs.v4.state_limits import NFS4_DELEGATE_AGAIN_S, NFS4_DELEGATIONS_TOTAL_MAX, NFS4_RECALLS_MAX
from rpcrdma.rpc.host_shares import HostShares
from served_exports import u32
from state_rig import LEASE_S, Caller, StateRig
from support.cases import each_case
from support.nfs4_client import (
    ANONYMOUS,
    GUARDED,
    READ,
    UNCHECKED,
    WRITE,
    Client,
    Stateid,
    close,
    delegreturn,
    free_stateid,
    link,
    lock,
    lookup,
    open_,
    open_downgrade,
    putfh,
    putrootfh,
    remove,
    removexattr,
    rename,
    savefh,
    setattr_,
    setattr_size,
    setxattr,
    test_stateid,
)

FILE, ROOT = putfh(b"file"), putfh(b"root")
FOUND = putrootfh(), lookup("file")
REVOKED, NONE_WANTED = 0x40, 0x400
DELEG = "delegation"


class Two:
    """A server that can give delegations, and two clients of it."""

    def __init__(self) -> None:
        self.server = Conversation()
        self.server.files.leases = True
        self.client, self.other = self.server.client("a").start(), self.server.client("b", peer="192.0.2.8").start()

    def delegated(self, client: Client | None = None, access: int = READ, owner: bytes = b"owner") -> Stateid | None:
        """The delegation that an OPEN brings."""
        reply = (client or self.client).run(FILE, open_(owner, access))
        assert reply.status == "OK", reply
        found: Stateid | None = reply.value(18)[DELEG]
        return found

    def given(self, client: Client | None = None) -> Stateid:
        found = self.delegated(client)
        assert found is not None
        return found


def test_readers_are_given_a_delegation_and_a_lease_lasts_as_long() -> None:
    two = Two()
    first, second = two.given(), two.given(two.other)
    assert first.other != second.other
    assert two.delegated() is None, "a client has one for a file"
    assert two.server.files.open_leases == 2
    for client, stateid in ((two.client, first), (two.other, second)):
        assert client.run(FILE, delegreturn(stateid)).status == "OK"
        assert client.run(FILE, delegreturn(stateid)).status == "BAD_STATEID"
    gc.collect()
    assert two.server.files.open_leases == 0
    assert two.server.claims.delegations == 0


@each_case("access", [READ | 0x400, READ | 0x500, WRITE, READ | WRITE])
def test_writers_and_those_who_want_none_get_none(access: int) -> None:
    assert Two().delegated(access=access) is None


def test_no_delegation_without_a_lease_a_back_channel_or_while_another_client_writes() -> None:
    two = Two()
    two.server.files.leases = False
    assert two.delegated() is None
    two.server.files.leases = True
    connection = FakeConnection()
    mute = two.server.client("mute", connection=connection).start()
    connection.closed = True
    assert two.delegated(mute) is None
    written = two.other.run(FILE, open_(b"writer", READ | WRITE)).value(18)["stateid"]
    assert two.delegated() is None
    assert two.other.run(FILE, close(written)).status == "OK"
    assert two.delegated() is not None


def test_a_client_that_writes_the_file_itself_may_have_one() -> None:
    two = Two()
    two.client.run(FILE, open_(b"writer", READ | WRITE))
    assert two.delegated() is not None


@pytest.mark.req("NF4-131")
@each_case(
    "change",
    [
        (FILE, open_(b"o", WRITE)),
        (FILE, open_(b"o", READ, READ)),
        (ROOT, open_(b"o", READ, name="file", create=UNCHECKED, size=0)),
        (FILE, setattr_size(ANONYMOUS, 0)),
    ],
)
def test_a_change_by_another_client_waits_until_the_delegation_is_back(change: tuple[bytes, ...]) -> None:
    two = Two()
    stateid = two.given()
    two.client.run(FILE, close(two.client.opened(b"file")))
    for _ in range(3):
        assert two.other.run(*change).status == "DELAY"
    assert [each.other for each in two.server.recalled] == [stateid.other], "it is recalled once"
    assert two.client.run(FILE, delegreturn(stateid)).status == "OK"
    assert two.other.run(*change).status == "OK"


def test_a_name_that_is_new_to_a_memory_tree_is_made_and_waits_for_no_delegation() -> None:
    exports: Any = PseudoRoot(MemoryTree(lambda: 0.0), 5)
    server = Conversation(files=exports)
    client = server.client().start()
    for name in ("file", "read"):
        made = client.run(putrootfh(), open_(b"owner", WRITE, name=name, create=UNCHECKED)).value(18)["stateid"]
        assert client.run(putrootfh(), lookup(name), close(made)).status == "OK"
    assert client.run(putrootfh(), lookup("read"), open_(b"o", READ)).value(18)[DELEG] is not None
    assert client.run(putrootfh(), open_(b"owner", WRITE, name="file", create=GUARDED)).status == "EXIST"
    # A memory tree refuses an unknown name with an exception of its own, a local one with that of the system.
    assert client.run(putrootfh(), savefh(), rename("file", "new")).status == "OK"
    assert client.run(putrootfh(), remove("file")).status == "NOENT"


@pytest.mark.req("NF4-131")
@each_case(
    "change, method",
    [
        ((*FOUND, setattr_({33: u32(0o600)})), "set_attributes"),
        ((putrootfh(), open_(b"o", READ, name="file", create=UNCHECKED, size=0)), "set_attributes"),
        ((putrootfh(), remove("file")), "remove"),
        ((putrootfh(), savefh(), rename("file", "new")), "rename"),
        ((putrootfh(), savefh(), rename("another", "file")), "rename"),
        ((*FOUND, savefh(), putrootfh(), link("new")), "link"),
        ((*FOUND, setxattr(b"new", b"value")), "set_xattr"),
        ((*FOUND, removexattr(b"old")), "remove_xattr"),
    ],
)
def test_no_client_is_given_a_delegation_of_a_file_that_is_changing(
    change: tuple[bytes, ...], method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def touched(node: MemoryNode, *args: Any) -> None:
        with node.changing(args[-1]):
            node.touch()

    # A tree in memory has no extended attributes of its own.
    monkeypatch.setattr(MemoryTree, "xattrs", True)
    for each in ("get_xattr", "list_xattrs", "set_xattr", "remove_xattr"):
        monkeypatch.setattr(MemoryNode, each, touched, raising=False)
    exports: Any = PseudoRoot(MemoryTree(lambda: 0.0), 5)
    server = Conversation(files=exports)
    client, other = server.client("a").start(), server.client("b", peer="192.0.2.8").start()
    for name in ("file", "another"):
        made = client.run(putrootfh(), open_(b"o", WRITE, name=name, create=UNCHECKED)).value(18)["stateid"]
        client.run(putrootfh(), lookup(name), close(made))
    given: list[Stateid | None] = []
    changes = getattr(MemoryNode, method)

    def changed_late(*args: Any, **more: Any) -> None:
        monkeypatch.setattr(MemoryNode, method, changes)
        opened = other.run(*FOUND, open_(b"o", READ))
        given.append(opened.value(18)[DELEG])
        assert other.run(*FOUND, close(opened.value(18)["stateid"])).status == "OK"
        changes(*args, **more)

    monkeypatch.setattr(MemoryNode, method, changed_late)
    assert client.run(*change, minor=2).status == "OK"
    assert given == [None]
    assert not server.claims._changing
    assert server.recalled == []


def test_reads_and_the_clients_own_changes_wait_for_nothing() -> None:
    two = Two()
    two.given()
    assert two.other.run(FILE, open_(b"o", READ | NONE_WANTED)).status == "OK"
    assert two.client.run(FILE, open_(b"o", READ | WRITE)).status == "OK"
    assert two.client.run(FILE, setattr_size(ANONYMOUS, 3)).status == "OK"
    assert two.server.recalled == []


def test_callers_without_state_wait_too() -> None:
    two = Two()
    stateid = two.given()
    assert not two.server.claims.may_change([b"file"])
    assert two.server.claims.may_change([b"another"])
    assert not two.server.claims.deniers(b"file", READ_CLAIM)
    assert [each.other for each in two.server.recalled] == [stateid.other]


def test_a_delegation_that_came_back_is_not_revoked_for_a_caller_without_state() -> None:
    two = Two()
    stateid = two.given()
    assert not two.server.claims.may_change([b"file"])
    assert two.client.run(FILE, delegreturn(stateid)).status == "OK"
    two.server.now_s += LEASE_S + 1
    two.server.state.sweep(two.server.now_s)
    assert two.client.run(FILE).value(53)[5] & REVOKED == 0


def test_a_local_writer_breaks_the_lease_and_the_delegation_is_recalled() -> None:
    two = Two()
    stateid = two.given()
    two.server.state.sweep(two.server.now_s)
    assert two.server.recalled == []
    two.server.files.broken = True
    two.server.state.sweep(two.server.now_s)
    assert [each.other for each in two.server.recalled] == [stateid.other]


def test_after_a_recall_no_client_is_given_one_for_some_seconds() -> None:
    two = Two()
    stateid = two.given()
    assert two.other.run(FILE, open_(b"o", WRITE)).status == "DELAY"
    two.client.run(FILE, delegreturn(stateid))
    assert two.delegated() is None
    two.server.now_s += NFS4_DELEGATE_AGAIN_S
    assert two.delegated() is not None


def test_the_recalls_of_a_bounded_number_of_files_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rpcrdma.nfs.v4.server.state.NFS4_RECALLED_FILES_MAX", 2)
    two = Two()
    for name in (b"file", b"second", b"third"):
        two.server.files.add(name.decode())
        opened = two.client.run(putfh(name), open_(b"owner", READ)).value(18)
        assert two.other.run(putfh(name), open_(b"o", WRITE)).status == "DELAY"
        two.client.run(putfh(name), delegreturn(opened[DELEG]), close(opened["stateid"]))
        two.server.now_s += 1
    given = [two.client.run(putfh(name), open_(b"owner", READ)).value(18)[DELEG] for name in (b"file", b"second")]
    assert [each is not None for each in given] == [True, False]


def test_a_recall_that_no_client_has_heard_of_is_made_again_with_each_sweep() -> None:
    two = Two()
    two.given()
    two.other.run(FILE, open_(b"o", WRITE))
    two.server.state.sweep(two.server.now_s)
    two.server.state.sweep(two.server.now_s)
    assert len(two.server.recalled) == 3
    two.server.recalled[0].asked = True
    two.server.state.sweep(two.server.now_s)
    assert len(two.server.recalled) == 3


def given(rig: StateRig, owner: str, caller: Caller, count: int = 1, host: str = "") -> list[Delegation]:
    """Delegations of a new client at `host`, which is called over `caller`."""
    client = rig.introduce(owner, address=host)
    rig.create_session(client, caller=caller, minor_version=2)
    rig.hold(client)
    found = []
    for number in range(count):
        nothing: Any = None
        name = b"%d" % number
        node: Any = SimpleNamespace(handle=name)
        found.append(Delegation(client, rig.state.new_other(client), node, name, nothing, nothing, nothing))
        rig.state.add(found[-1])
    return found


async def turns() -> None:
    for _ in range(100):
        await asyncio.sleep(0)


def test_a_client_that_does_not_answer_keeps_no_recall_of_another_one_waiting() -> None:
    async def main() -> None:
        rig = StateRig()
        asked: list[tuple[str, bytes]] = []
        minors: list[int] = []
        silence = asyncio.Event()

        class Answering(Caller):
            def __init__(self, owner: str) -> None:
                super().__init__()
                self.owner = owner

            async def call(self, _procedure: Any, args: Any, **_more: Any) -> Any:
                asked.append((self.owner, args.argarray[1].value.fh))
                minors.append(args.minorversion)
                if self.owner == "silent":
                    await silence.wait()
                    raise CallTimeout("no answer")
                return CB_COMPOUND4res(nfsstat4.NFS4_OK, b"", args.argarray)

        many = given(rig, "silent", Answering("silent"), 2 * NFS4_RECALLS_MAX)
        one = given(rig, "other", Answering("other"))
        Recalls(rig.state, asyncio.get_running_loop(), lambda: rig.now_s)
        with rig.state.lock:
            rig.state.recall(many + one, rig.now_s)
        await turns()
        assert asked == [("silent", b"0"), ("other", b"0")]
        assert one[0].asked
        rig.state.sweep(rig.now_s)
        await turns()
        silence.set()
        await turns()
        assert len(asked) == 2, "those that wait are not tried one after another"
        with rig.state.locked():
            rig.state.revoke(many[0], nfsstat4.NFS4ERR_DELEG_REVOKED)
        rig.state.sweep(rig.now_s)
        with rig.state.locked():
            rig.state.revoke(many[1])
        await turns()
        assert asked[2:] == [("silent", b"2")], "what was revoked is asked for no more, also when it was queued before"
        assert set(minors) == {2}, "Linux knows a session by its minor version"

    asyncio.run(main())


def test_the_silent_clients_of_a_host_keep_no_recall_of_another_host_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rpcrdma.nfs.v4.server.back_channel.NFS4_RECALLS_MAX", 8)

    async def main() -> None:
        rig, asked, silence = StateRig(), 0, asyncio.Event()

        class Silent(Caller):
            async def call(self, *_: Any, **__: Any) -> Any:
                nonlocal asked
                asked += 1
                await silence.wait()
                raise CallTimeout("no answer")

        class Answering(Caller):
            async def call(self, *_: Any, **__: Any) -> Any:
                return CB_COMPOUND4res(nfsstat4.NFS4_OK, b"", [])

        many = [each for number in range(20) for each in given(rig, f"silent {number}", Silent(), host="192.0.2.7")]
        ones = [each for number in range(9) for each in given(rig, f"{number}", Answering(), host=f"192.0.2.{number}")]
        Recalls(rig.state, asyncio.get_running_loop(), lambda: rig.now_s)
        with rig.state.lock:
            rig.state.recall(many + ones, rig.now_s)
        await turns()
        assert asked == 4
        assert all(each.asked for each in ones if each.client.host != ("192.0.2.7",))
        silence.set()
        await turns()
        assert asked == 20
        assert all(each.asked for each in ones)

    asyncio.run(main())


def test_the_recalls_of_many_clients_begin_after_few_looks_at_those_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[tuple[str, ...]] = []

    class Counted(HostShares):
        def left(self, names: tuple[str, ...]) -> int:
            looks.append(names)
            return super().left(names)

    async def main() -> None:
        class Answering(Caller):
            async def call(self, *_: Any, **__: Any) -> Any:
                return CB_COMPOUND4res(nfsstat4.NFS4_OK, b"", [])

        rig, answering = StateRig(), Answering()
        delegations = [each for number in range(300) for each in given(rig, f"{number}", answering, host="192.0.2.7")]
        Recalls(rig.state, asyncio.get_running_loop(), lambda: rig.now_s)
        with rig.state.lock:
            rig.state.recall(delegations, rig.now_s)
        await turns()
        assert all(each.asked for each in delegations)
        assert len(looks) < 5 * len(delegations)

    monkeypatch.setattr("rpcrdma.nfs.v4.server.back_channel.HostShares", Counted)
    asyncio.run(main())


@each_case(("status", "counts"), [(nfsstat4.NFS4_OK, [1, 1, 1]), (nfsstat4.NFS4ERR_DELAY, [1, 2, 3])])
def test_a_sweep_repeats_a_recall_that_was_refused_and_none_under_way(status: nfsstat4, counts: list[int]) -> None:
    async def main() -> None:
        rig, answered, asked, found = StateRig(), asyncio.Event(), 0, []

        class Slow(Caller):
            async def call(self, *_: Any, **__: Any) -> Any:
                nonlocal asked
                asked += 1
                await answered.wait()
                return CB_COMPOUND4res(status, b"", [])

        recalled = given(rig, "slow", Slow())
        Recalls(rig.state, asyncio.get_running_loop(), lambda: rig.now_s)
        with rig.state.lock:
            rig.state.recall(recalled, rig.now_s)
        for moment in ("under way", "just before the answer is heard", "later"):
            await turns()
            if moment == "just before the answer is heard":
                answered.set()
            rig.state.sweep(rig.now_s)
            await turns()
            found.append(asked)
        assert found == counts

    asyncio.run(main())


@pytest.mark.req("NF4-132")
def test_a_delegation_that_does_not_come_back_is_revoked_and_its_client_told() -> None:
    two = Two()
    stateid = two.given()
    assert two.other.run(FILE, open_(b"o", WRITE)).status == "DELAY"
    two.server.now_s += LEASE_S / 2
    two.client.run()
    assert two.other.run(FILE, open_(b"o", WRITE)).status == "DELAY"
    two.server.now_s += LEASE_S / 2 + 1
    assert two.client.run().value(53)[-1] == 0
    two.other.run(FILE, open_(b"o", WRITE))
    assert two.other.run(FILE, open_(b"o", WRITE)).status == "OK"
    assert two.client.run().value(53)[-1] == REVOKED
    assert two.client.run(test_stateid(stateid)).value(55) == ["DELEG_REVOKED"]
    assert two.client.run(FILE, delegreturn(stateid)).status == "DELEG_REVOKED"
    assert two.client.run(free_stateid(stateid)).status == "OK"
    assert two.client.run().value(53)[-1] == 0
    assert two.client.run(test_stateid(stateid)).value(55) == ["BAD_STATEID"]


def test_the_sweep_revokes_what_nobody_asks_for_any_more() -> None:
    two = Two()
    two.given()
    two.other.run(FILE, open_(b"o", WRITE))
    two.server.now_s += LEASE_S + 1
    two.client.run()
    two.server.state.sweep(two.server.now_s)
    assert two.client.run().value(53)[-1] == REVOKED
    assert two.server.claims.delegations == 0


def test_a_delegation_that_comes_back_while_the_sweep_asks_for_writers_is_not_revoked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    two = Two()
    stateid = two.given()
    two.other.run(FILE, open_(b"o", WRITE))
    two.server.now_s += LEASE_S + 1
    two.client.run()

    def broken(_: FewLease) -> bool:
        assert two.client.run(FILE, delegreturn(stateid)).status == "OK"
        return True

    monkeypatch.setattr(FewLease, "broken", property(broken))
    two.server.state.sweep(two.server.now_s)
    assert two.client.run().value(53)[-1] == 0


def test_the_delegation_of_a_courteous_client_ends_with_it() -> None:
    two = Two()
    two.given()
    two.server.now_s += LEASE_S + 1
    assert two.other.run(FILE, open_(b"o", WRITE)).status == "OK"
    assert two.server.recalled == []
    assert two.client.run().status == "BADSESSION"


def test_opens_made_by_a_delegation_are_told_to_the_server_before_it_goes_back() -> None:
    two = Two()
    stateid = two.given()
    assert two.other.run(FILE, open_(b"o", WRITE)).status == "DELAY"
    assert two.other.run(FILE, open_(b"local", READ, delegated=stateid)).status == "BAD_STATEID"
    assert two.client.run(FILE, open_(b"local", READ, delegated=stateid)).status == "OK"
    assert two.client.run(ROOT, open_(b"local", READ, delegated=stateid)).status == "BAD_STATEID"
    opened = two.client.opened(b"file", owner=b"local")
    assert two.client.run(FILE, open_(b"local", READ, delegated=opened)).status == "BAD_STATEID"


def test_a_delegation_is_no_open_and_no_lock() -> None:
    two = Two()
    stateid = two.given()
    for operation in (
        close(stateid),
        open_downgrade(stateid, READ),
        lock(stateid, b"l", 1, 0, 1),
        delegreturn(stateid),
    ):
        expected = "OK" if operation == delegreturn(stateid) else "BAD_STATEID"
        assert two.client.run(FILE, operation).status == expected
    assert two.client.run(free_stateid(two.given(two.other))).status == "BAD_STATEID"


@pytest.mark.req("NF4-155")
def test_a_delegation_is_freed_by_its_return_alone() -> None:
    two = Two()
    assert two.client.run(free_stateid(two.given())).status == "LOCKS_HELD"


def test_delegations_leave_room_for_opens() -> None:
    two = Two()
    assert two.server.state.delegations_of_hosts.most == NFS4_DELEGATIONS_TOTAL_MAX
    two.server.state.states_of_hosts.most = 32
    two.server.state.delegations_of_hosts.most = 8
    for number in range(20):
        two.server.files.add(f"{number}")
        file = putfh(b"%d" % number)
        reply = two.client.run(file, open_(b"owner", READ))
        assert reply.status == "OK"
        assert two.client.run(file, close(reply.value(18)["stateid"])).status == "OK"
    assert two.server.claims.delegations == 4
    for number in range(20):
        before = len(two.server.state._held)
        opened = two.client.run(FILE, open_(b"%d" % number, READ)).status == "OK"
        assert opened is (number < 12)
        assert len(two.server.state._held) == before + opened, "an OPEN that is refused leaves nothing"


def test_an_open_for_which_there_is_room_alone_brings_no_delegation() -> None:
    two = Two()
    two.server.state.states_of_hosts.most = 6
    for number in (1, 2):
        assert two.delegated(access=WRITE, owner=b"%d" % number) is None
    assert two.delegated() is None
    assert len(two.server.state._held) == 3


@each_case("limit, ours", [("NFS4_DELEGATIONS_MAX", 3), ("of hosts", 6)])
def test_delegations_of_a_client_and_of_a_host_are_bounded(
    limit: str, ours: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = Two()
    two.server.state.delegations_of_hosts.most = 12
    if limit == "NFS4_DELEGATIONS_MAX":
        monkeypatch.setattr("rpcrdma.nfs.v4.server.delegations.NFS4_DELEGATIONS_MAX", 3)
    files = [b"%d" % number for number in range(12)]
    for file in files:
        two.server.files.add(file.decode())

    def given(client: Client) -> list[bytes]:
        found = []
        for file in files:
            reply = client.run(putfh(file), open_(b"owner", READ))
            assert reply.status == "OK"
            found += [file] * (reply.value(18)[DELEG] is not None)
        return found

    assert given(two.client) == files[:ours]
    assert given(two.other) == files[:3]
    another = given(two.server.client("another").start())
    assert another == (files[:2] if limit == "NFS4_DELEGATIONS_MAX" else []), "it is at the host of the first"
