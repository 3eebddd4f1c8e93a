"""Groups of the server's user database: they take the place of those that a call states."""

from __future__ import annotations

import os
import pwd
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rpcrdma.nfs import v3
from rpcrdma.nfs.export import user_groups
from rpcrdma.nfs.export.export_limits import NFS_CALLERS_MAX
from rpcrdma.nfs.export.tree import Refused
from rpcrdma.nfs.export.user_groups import LOOKUPS_MAX, UNKNOWN_S, VALID_S, UserGroups
from rpcrdma.nfs.server import Export
from rpcrdma.rpc.auth import AuthSys
from support.command_process import HANG_S

STAFF = 50


@pytest.fixture
def members(monkeypatch: pytest.MonkeyPatch) -> dict[int, list[int]]:
    """The user database: groups by UID; "asked" under -1."""
    found: dict[int, list[int]] = {-1: []}

    def user(uid: int) -> Any:
        found[-1].append(uid)
        if uid not in found:
            raise KeyError(uid)
        return SimpleNamespace(pw_name=str(uid), pw_gid=uid)

    monkeypatch.setattr(pwd, "getpwuid", user)
    monkeypatch.setattr(os, "getgrouplist", lambda name, gid: [gid, *found[int(name)]])
    return found


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as other users")
def test_the_groups_of_the_database_count_and_not_those_of_the_call(
    start: Any, tree: Path, members: dict[int, list[int]]
) -> None:
    server = start(
        [
            Export(name="/", directory=tree, groups="server"),
            Export(name="/client", directory=tree),
            Export(name="/url", url=f"file://{tree}", read_only=True, groups="server"),
        ]
    )
    members[1001] = [STAFF]
    os.chown(tree / "hello.txt", 1000, STAFF)
    (tree / "hello.txt").chmod(0o640)
    file = server.lookup(server.mount("/"), "hello.txt")
    as_stated = server.lookup(server.mount("/client"), "hello.txt")
    members[-1].clear()

    def read(uid: int, *gids: int, handle: bytes = file) -> str:
        args = v3.READ3args(v3.nfs_fh3(handle), 0, 10)
        found: str = server.status("read", args, as_=AuthSys(uid=uid, gid=uid, gids=gids))
        return found

    assert read(1001) == "OK"
    assert server.contexts[-1].may_block, "a database that does not answer holds up a worker thread alone"
    assert read(1001) == "OK"
    assert not server.contexts[-1].may_block
    assert read(1002, STAFF) == "ACCES"
    assert (read(1001, handle=as_stated), read(1002, STAFF, handle=as_stated)) == ("ACCES", "OK")
    assert read(1003, handle=server.lookup(server.mount("/url"), "hello.txt")) == "OK", "all users are one"
    assert members[-1] == [1001, 1002]
    groups = server.services.nfs.exports.parts.groups
    groups._until_s[1001] = 0.0
    members[1001] = []
    server.services.nfs.close_idle()
    assert read(1001) == "ACCES", "another credential of the user"
    assert members[-1] == [1001, 1002, 1001]


def test_groups_are_looked_up_again_after_their_time(members: dict[int, list[int]]) -> None:
    now_s = [0.0]
    groups = UserGroups(lambda: now_s[0])
    members[1] = [7, 5, 7]
    for uid in (1, 2, 1, 0xFFFFFFFF):
        groups.find(uid)
    assert groups.known == {1: (1, 5, 7), 2: (), 0xFFFFFFFF: ()}
    assert members[-1] == [1, 2, 0xFFFFFFFF]
    now_s[0] = UNKNOWN_S
    assert groups.drop_old()
    assert list(groups.known) == [1]
    assert not groups.drop_old()
    now_s[0] = VALID_S
    assert groups.drop_old()
    assert groups.known == {}


def test_so_many_users_are_remembered_and_no_more(members: dict[int, list[int]]) -> None:
    groups = UserGroups()
    for uid in range(NFS_CALLERS_MAX + 2):
        groups.find(uid)
    assert (min(groups.known), len(groups.known), len(groups._until_s)) == (2, *[NFS_CALLERS_MAX] * 2)


def test_users_whom_nobody_knows_take_no_place_of_those_who_are_known(members: dict[int, list[int]]) -> None:
    groups = UserGroups()
    members[7] = [10]
    for uid in range(NFS_CALLERS_MAX + 9):
        groups.find(uid)
    assert groups.known[7] == (7, 10)


def test_a_database_that_hangs_occupies_few_threads(
    members: dict[int, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_groups, "_WAIT_S", 0)
    groups, gate = UserGroups(), threading.Event()
    entered = threading.Semaphore(0)

    def hangs(uid: int) -> Any:
        entered.release()
        assert gate.wait(HANG_S)
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", hangs)
    threads = [threading.Thread(target=groups.find, args=(uid,)) for uid in range(LOOKUPS_MAX)]
    for thread in threads:
        thread.start()
        assert entered.acquire(timeout=HANG_S)
    with pytest.raises(Refused, match="EAGAIN"):
        groups.find(77)
    gate.set()
    for thread in threads:
        thread.join()
    groups.find(77)
    assert 77 in groups.known
