"""Whose rights count: the caller's when the server runs as root, the serving user's otherwise."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.aio.drivers.kept_identity import keep_identity
from rpcrdma.nfs import v3
from rpcrdma.nfs.export import file_access
from rpcrdma.nfs.export.access_terms import ANONYMOUS, Export
from rpcrdma.nfs.export.file_access import Callers, SwitchedCaller
from rpcrdma.nfs.export.grant import CallerIdentity
from rpcrdma.rpc.auth import AuthNone, AuthSys
from rpcrdma.rpc.service import WorkerNeeded
from support.cases import each_case

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as other users")

ROOT = AuthSys(uid=0, gid=0)
ALICE = AuthSys(uid=1000, gid=1000)
BOB = AuthSys(uid=1001, gid=1001)
BOB_OF_STAFF = AuthSys(uid=1001, gid=1001, gids=(50,))


def own(path: Path, uid: int, gid: int, mode: int) -> None:
    os.chown(path, uid, gid)
    path.chmod(mode)


def access(server: Any, handle: bytes, who: AuthSys) -> int:
    granted: int = server.call("access", v3.ACCESS3args(v3.nfs_fh3(handle), 0x3F), as_=who).value.access
    return granted


def read_status(server: Any, handle: bytes, who: Any) -> str:
    return str(server.status("read", v3.READ3args(v3.nfs_fh3(handle), 0, 10), as_=who))


def thread_identity() -> tuple[str, ...]:
    lines = Path(f"/proc/self/task/{threading.get_native_id()}/status").read_text().splitlines()
    return tuple(line for line in lines if line.startswith(("Uid:", "Gid:", "Groups:", "CapEff:")))


READ, WRITE, EXECUTE = v3.ACCESS3_READ, v3.ACCESS3_MODIFY | v3.ACCESS3_EXTEND, v3.ACCESS3_EXECUTE


@needs_root
@each_case(
    ("owner", "mode", "who", "granted", "reads", "writes"),
    [
        ((1000, 1000), 0o600, ALICE, READ | WRITE, True, True),
        ((1000, 1000), 0o600, BOB, 0, False, False),
        ((1000, 1000), 0o600, AuthNone(), 0, False, False),
        # By a group beside the first one.
        ((1000, 50), 0o640, BOB, 0, False, False),
        ((1000, 50), 0o640, BOB_OF_STAFF, READ, True, False),
        # The owner reads and writes whatever the mode; who may execute may read.
        ((1000, 1000), 0o000, ALICE, 0, True, True),
        ((0, 0), 0o711, BOB, EXECUTE, True, False),
    ],
)
def test_a_file_is_for_those_whom_its_mode_lets(
    server: Any, tree: Path, owner: tuple[int, int], mode: int, who: Any, granted: int, reads: bool, writes: bool
) -> None:
    own(tree / "hello.txt", *owner, mode)
    file = server.lookup(server.mount(), "hello.txt")
    assert read_status(server, file, who) == ("OK" if reads else "ACCES")
    assert (server.write(file, b"x", as_=who).status == v3.nfsstat3.NFS3_OK) == writes
    assert access(server, file, who) == granted


@each_case(("uid", "gid", "mode"), [(1001, 50, 0o600), (1001, 51, 0o640), (1002, 50, 0o640)])
@needs_root
def test_a_change_of_rights_counts_though_the_change_time_stays(
    server: Any, tree: Path, monkeypatch: pytest.MonkeyPatch, uid: int, gid: int, mode: int
) -> None:
    """As it does on file systems that count in ticks or seconds."""
    own(tree / "hello.txt", 1001, 50, 0o640)
    real = os.fstat

    def at_one_time(fd: int) -> os.stat_result:
        status = real(fd)
        beyond = {name for name in dir(status) if name.startswith("st_")} - set(status.__match_args__)
        return os.stat_result(tuple(status), {name: getattr(status, name) for name in beyond} | {"st_ctime_ns": 7})

    monkeypatch.setattr(os, "fstat", at_one_time)
    file = server.lookup(server.mount(), "hello.txt")
    reader = AuthSys(uid=1001 if uid != 1001 else 1003, gid=50 if uid == 1001 else 1000)
    assert read_status(server, file, reader) == "OK"
    own(tree / "hello.txt", uid, gid, mode)
    assert read_status(server, file, reader) == "ACCES"


@needs_root
def test_what_is_made_belongs_to_the_caller(server: Any) -> None:
    root = server.mount()
    wanted = server.sattr(mode=0o666, uid=0, gid=0)
    made = [
        server.call("mkdir", v3.MKDIR3args(server.dirop(root, "d"), wanted), as_=ALICE),
        server.call("symlink", v3.SYMLINK3args(server.dirop(root, "s"), v3.symlinkdata3(wanted, "x")), as_=ALICE),
        server.call(
            "mknod", v3.MKNOD3args(server.dirop(root, "f"), v3.mknoddata3(v3.ftype3.NF3FIFO, wanted)), as_=ALICE
        ),
        server.call(
            "create", v3.CREATE3args(server.dirop(root, "c"), v3.createhow3(v3.createmode3.GUARDED, wanted)), as_=ALICE
        ),
    ]
    owners = [(reply.value.obj_attributes.value.uid, reply.value.obj_attributes.value.gid) for reply in made]
    assert owners == [(1000, 1000)] * 4


@needs_root
def test_root_is_squashed_unless_told_otherwise(start: Any, tree: Path) -> None:
    own(tree / "hello.txt", 1000, 1000, 0o600)
    squashing, trusting = start(root_squash=True), start()
    file = trusting.lookup(trusting.mount(), "hello.txt")
    assert read_status(squashing, file, ROOT) == "ACCES"
    assert read_status(trusting, file, ROOT) == "OK"
    made = squashing.create(squashing.mount(), "mine")
    assert (squashing.attributes(made).uid, squashing.attributes(made).gid) == (ANONYMOUS, ANONYMOUS)


@each_case(
    "credential",
    [AuthSys(uid=0xFFFFFFFF, gid=1), AuthSys(uid=1, gid=0xFFFFFFFF), AuthSys(uid=1, gid=1, gids=(0xFFFFFFFF,))],
)
@needs_root
def test_the_number_that_changes_nothing_is_nobodys(start: Any, tree: Path, credential: AuthSys) -> None:
    own(tree / "hello.txt", 0, 0, 0o600)
    server = start()
    file = server.lookup(server.mount(), "hello.txt")
    assert read_status(server, file, credential) == "ACCES"
    server.credential = credential
    assert server.attributes(server.create(server.mount(), f"{credential.uid}-{credential.gid}")).uid == ANONYMOUS


@needs_root
def test_threads_come_back_as_they_were(server: Any, tree: Path) -> None:
    own(tree / "hello.txt", 1000, 1000, 0o600)
    before = thread_identity()
    file = server.lookup(server.mount(), "hello.txt")
    for who in (ALICE, BOB, AuthNone()):
        read_status(server, file, who)
        server.status(
            "create",
            v3.CREATE3args(server.dirop(file, "x"), v3.createhow3(v3.createmode3.EXCLUSIVE, bytes(8))),
            as_=who,
        )
    assert thread_identity() == before
    caller = Callers().of(Export(name="/", directory=tree).acting_as(ALICE))
    with caller:
        assert thread_identity() != before
    assert thread_identity() == before


@needs_root
@each_case("fixed_up", [True, False])
def test_a_block_that_fails_midway_leaves_the_thread_as_it_was(
    tree: Path, monkeypatch: pytest.MonkeyPatch, fixed_up: bool
) -> None:
    monkeypatch.setattr(file_access, "user_decides_capabilities", lambda: fixed_up)
    before = thread_identity()
    callers = Callers()
    export = Export(name="/", directory=tree)
    within: list[tuple[str, ...]] = []

    def fail_as_bob() -> None:
        with callers.of(export.acting_as(BOB_OF_STAFF)):
            within.append(thread_identity())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_as_bob()
    assert within[0][-1] == "CapEff:\t0000000000000000"
    assert thread_identity() == before
    bob = callers.of(export.acting_as(BOB_OF_STAFF))
    assert isinstance(bob, SwitchedCaller)

    def unmapped() -> int:
        ctypes.set_errno(errno.EINVAL)
        return -1

    bob._there.append(unmapped)
    with pytest.raises(PermissionError, match="lacks user 1001"), bob:
        pass
    assert thread_identity() == before


@needs_root
def test_a_thread_with_rdma_devices_keeps_its_identity_until_its_loop_is_closed(tree: Path) -> None:
    callers, export = Callers(), Export(name="/", directory=tree, root_squash=False)
    alice, root = (callers.of(export.acting_as(AuthSys(uid=uid, gid=os.getegid()))) for uid in (1000, 0))
    unchanged = AuthSys(uid=0, gid=os.getegid(), gids=tuple(os.getgroups()))

    async def act() -> None:
        keep_identity()
        before = thread_identity()
        with pytest.raises(WorkerNeeded), alice:
            pass
        assert thread_identity() == before
        with callers.of(export.acting_as(unchanged)):
            pass
        # Another thread may, as the one that tries whether the rules of an export can be obeyed.
        callers.try_out(Export(name="/", directory=tree))
        assert await asyncio.to_thread(identity_within, alice) != before

    asyncio.run(act())
    assert identity_within(alice) != identity_within(root)


def identity_within(caller: CallerIdentity) -> tuple[str, ...]:
    with caller:
        return thread_identity()


@needs_root
def test_only_what_differs_from_the_servers_identity_is_changed(tree: Path) -> None:
    callers = Callers()
    changed = {}
    for name, uid, gid, gids in (
        ("nothing", 0, os.getegid(), tuple(os.getgroups())),
        ("user", 7, os.getegid(), tuple(os.getgroups())),
        ("group", 0, 8, tuple(os.getgroups())),
        ("groups", 0, os.getegid(), (8,)),
    ):
        trusting = Export(name="/", directory=tree, root_squash=False)
        caller = callers.of(trusting.acting_as(AuthSys(uid=uid, gid=gid, gids=gids)))
        before = thread_identity()
        with caller:
            changed[name] = [
                old.partition(":")[0] for old, new in zip(before, thread_identity(), strict=True) if old != new
            ]
    assert changed == {"nothing": [], "user": ["Uid", "CapEff"], "group": ["Gid"], "groups": ["Groups"]}


@needs_root
def test_no_capability_is_in_effect_for_a_caller(server: Any, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the kernel's server: with CAP_SYS_RESOURCE, quotas and reserved blocks would not bind callers."""
    (tree / "hello.txt").chmod(0o666)
    root = server.mount()
    file = server.lookup(root, "hello.txt")
    in_effect: dict[AuthSys, set[str]] = {ALICE: set(), BOB: set(), ROOT: set()}
    acting = threading.local()
    own_line = thread_identity()[-1]
    for function in ("pwrite", "mkdir", "symlink", "rename", "unlink", "ftruncate", "link"):
        real = getattr(os, function)

        def seen(*args: Any, _real: Any = real, **options: Any) -> Any:
            in_effect[acting.caller].add(thread_identity()[-1])
            return _real(*args, **options)

        monkeypatch.setattr(os, function, seen)

    def work(who: AuthSys) -> None:
        acting.caller = who
        one, other = f"{who.uid}", f"{who.uid}-other"
        attributes = server.sattr(mode=0o755)
        size = v3.SETATTR3args(v3.nfs_fh3(file), server.sattr(size=5), v3.sattrguard3(False, None))
        for name, args in (
            ("write", v3.WRITE3args(v3.nfs_fh3(file), 0, 4, v3.stable_how.UNSTABLE, b"data")),
            ("setattr", size),
            ("mkdir", v3.MKDIR3args(server.dirop(root, one), attributes)),
            ("rename", v3.RENAME3args(server.dirop(root, one), server.dirop(root, other))),
            ("symlink", v3.SYMLINK3args(server.dirop(root, one), v3.symlinkdata3(attributes, "x"))),
            ("remove", v3.REMOVE3args(server.dirop(root, one))),
            ("link", v3.LINK3args(v3.nfs_fh3(file), server.dirop(root, one))),
        ):
            assert server.status(name, args, as_=who) == "OK", (who, name)
        assert thread_identity()[-1] == own_line

    threads = [threading.Thread(target=work, args=(who,)) for who in in_effect]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    none = "CapEff:\t0000000000000000"
    assert own_line != none
    assert in_effect == {ALICE: {none}, BOB: {none}, ROOT: {own_line}}


@needs_root
def test_set_user_id_bits_do_not_survive_a_write_by_others(server: Any, tree: Path) -> None:
    own(tree / "hello.txt", 0, 0, 0o6777)
    file = server.lookup(server.mount(), "hello.txt")
    server.write(file, b"x", as_=BOB)
    assert server.attributes(file).mode == 0o777


@needs_root
def test_a_new_object_keeps_its_set_id_bits_when_root_gives_it_away(server: Any) -> None:
    root, wanted = server.mount(), server.sattr(mode=0o6755, uid=1000, gid=1001)
    create = v3.createhow3(v3.createmode3.GUARDED, wanted)
    fifo = v3.mknoddata3(v3.ftype3.NF3FIFO, wanted)
    made = [
        server.call("create", v3.CREATE3args(server.dirop(root, "file"), create), as_=ROOT),
        server.call("mkdir", v3.MKDIR3args(server.dirop(root, "directory"), wanted), as_=ROOT),
        server.call("mknod", v3.MKNOD3args(server.dirop(root, "fifo"), fifo), as_=ROOT),
    ]
    found = [reply.value.obj_attributes.value for reply in made]
    assert [(oct(each.mode), each.uid, each.gid) for each in found] == [("0o6755", 1000, 1001)] * 3


@needs_root
def test_others_may_not_set_attributes(server: Any, tree: Path) -> None:
    own(tree / "hello.txt", 1000, 1000, 0o644)
    file = v3.nfs_fh3(server.lookup(server.mount(), "hello.txt"))
    guard = v3.sattrguard3(False, None)
    for wanted, status in (
        ({"mode": 0o777}, "PERM"),
        ({"size": 0}, "ACCES"),
        ({"mtime": v3.nfstime3(1, 1)}, "PERM"),
        ({"atime": "now", "mtime": "now"}, "ACCES"),
    ):
        assert server.status("setattr", v3.SETATTR3args(file, server.sattr(**wanted), guard), as_=BOB) == status
    assert server.status("setattr", v3.SETATTR3args(file, server.sattr(uid=1001), guard), as_=ALICE) == "PERM"
    assert server.status("setattr", v3.SETATTR3args(file, server.sattr(mode=0o600), guard), as_=ALICE) == "OK"
    assert server.status("setattr", v3.SETATTR3args(file, server.sattr(uid=1001), guard), as_=ROOT) == "OK"


@needs_root
def test_a_private_directory_is_entered_and_listed_by_its_owner_only(server: Any, tree: Path) -> None:
    own(tree / "a", 1000, 1000, 0o700)
    directory = server.lookup(server.mount(), "a")
    entries = v3.READDIRPLUS3args(v3.nfs_fh3(directory), 0, bytes(8), 4096, 4096)
    for name, args in (
        ("lookup", v3.LOOKUP3args(server.dirop(directory, "b"))),
        ("lookup", v3.LOOKUP3args(server.dirop(directory, ".."))),
        ("readdir", v3.READDIR3args(v3.nfs_fh3(directory), 0, bytes(8), 4096)),
        ("readdirplus", entries),
    ):
        assert server.status(name, args, as_=ALICE) == "OK"
        assert server.status(name, args, as_=BOB) == "ACCES"
    assert server.call("mnt", "/a/b", as_=ALICE).fhs_status.name == "MNT3_OK"
    assert server.call("mnt", "/a/b", as_=BOB).fhs_status.name == "MNT3ERR_ACCES"
    # Who may list but not search sees names alone.
    own(tree / "a", 1000, 1000, 0o744)
    entry = next(e for e in server.call("readdirplus", entries, as_=BOB).value.reply.entries if e.name == "b")
    assert not entry.name_attributes.attributes_follow
    assert not entry.name_handle.handle_follows
