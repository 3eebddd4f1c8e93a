"""Version 3 obeys the opens of clients of other versions, and waits while these reclaim them after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rpcrdma.nfs import v3
from rpcrdma.nfs.export.claims import READ, WRITE
from rpcrdma.nfs.export.local_files import Files
from rpcrdma.nfs.export.local_names import Naming
from rpcrdma.nfs.export.tree import MODIFY
from support.cases import each_case

HOLDER = "an open of version 4"


def statuses(server: Any, tree: Path) -> dict[str, str]:
    """The status of each call about hello.txt that the claims on it could forbid."""
    root = server.mount()
    file = server.lookup(root, "hello.txt")
    handle = v3.nfs_fh3(file)
    unguarded = v3.sattrguard3(False, None)
    cut = v3.createhow3(v3.createmode3.UNCHECKED, server.sattr(size=0))
    found = {
        "read": server.status("read", v3.READ3args(handle, 0, 5)),
        "write": server.status("write", v3.WRITE3args(handle, 0, 1, v3.stable_how.FILE_SYNC, b"x")),
        "commit": server.status("commit", v3.COMMIT3args(handle, 0, 0)),
        "mode": server.status("setattr", v3.SETATTR3args(handle, server.sattr(mode=0o640), unguarded)),
        "size": server.status("setattr", v3.SETATTR3args(handle, server.sattr(size=0), unguarded)),
        "cut": server.status("create", v3.CREATE3args(server.dirop(root, "hello.txt"), cut)),
        "new": server.status("create", v3.CREATE3args(server.dirop(root, "new"), cut)),
    }
    (tree / "new").unlink(missing_ok=True)
    return found


@each_case("deny, forbidden", [(0, set()), (READ, {"read"}), (WRITE, {"write", "size", "cut"})])
def test_denied_reads_and_writes_are_refused_until_the_open_ends(
    server: Any, tree: Path, deny: int, forbidden: set[str]
) -> None:
    claims = server.services.nfs.claims
    file = server.services.nfs.exports.file_of(server.lookup(server.mount(), "hello.txt"))
    content = (tree / "hello.txt").read_bytes()
    with claims.lock:
        claims.share(file, HOLDER, READ, deny)
    assert {name for name, status in statuses(server, tree).items() if status == "ACCES"} == forbidden
    if deny == WRITE:
        assert (tree / "hello.txt").read_bytes() == content
    with claims.lock:
        claims.unshare(file, HOLDER)
    assert set(statuses(server, tree).values()) == {"OK"}


def test_files_without_a_denial_are_served_beside_one_that_has_one(server: Any, tree: Path) -> None:
    claims = server.services.nfs.claims
    other = server.services.nfs.exports.file_of(server.lookup(server.mount(), "a", "b", "deep.txt"))
    with claims.lock:
        claims.share(other, HOLDER, READ, READ | WRITE)
    assert set(statuses(server, tree).values()) == {"OK"}


def test_changes_wait_while_clients_reclaim_and_reads_do_not(server: Any, tree: Path) -> None:
    claims = server.services.nfs.claims
    claims.in_grace = True
    found = statuses(server, tree)
    assert found.pop("read") == "OK"
    assert set(found.values()) == {"JUKEBOX"}
    root = server.mount()
    assert server.status("remove", v3.REMOVE3args(server.dirop(root, "hello.txt"))) == "JUKEBOX"
    rename = v3.RENAME3args(server.dirop(root, "hello.txt"), server.dirop(root, "other"))
    assert server.status("rename", rename) == "JUKEBOX"
    claims.in_grace = False
    assert set(statuses(server, tree).values()) == {"OK"}


def test_a_delegation_given_before_a_change_opens_the_file_is_waited_for(
    server: Any, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims, content = server.services.nfs.claims, (tree / "hello.txt").read_bytes()
    handle = v3.nfs_fh3(server.lookup(server.mount(), "hello.txt"))

    def opened(node: Any, who: Any, wanted: int, *, at_once: bool) -> Any:
        if wanted == MODIFY:
            with claims.lock:
                claims.delegate(server.services.nfs.exports.file_of(handle.data), HOLDER)
        return open_of_node(node, who, wanted, at_once=at_once)

    open_of_node = Files.open
    monkeypatch.setattr(Files, "open", opened)
    size = v3.SETATTR3args(handle, server.sattr(size=0), v3.sattrguard3(False, None))
    for name, args in (("setattr", size), ("write", v3.WRITE3args(handle, 0, 1, v3.stable_how.FILE_SYNC, b"x"))):
        assert server.status(name, args) == "JUKEBOX"
        assert (tree / "hello.txt").read_bytes() == content
        with claims.lock:
            claims.undelegate(server.services.nfs.exports.file_of(handle.data), HOLDER)
        server.services.nfs.exports.parts.files.close()


def test_changes_wait_for_delegations_and_ask_for_them_and_reads_do_not(server: Any, tree: Path) -> None:
    claims = server.services.nfs.claims
    root = server.mount()
    file = server.lookup(root, "hello.txt")
    asked: list[str] = []
    claims.wake = asked.extend
    with claims.lock:
        claims.delegate(server.services.nfs.exports.file_of(file), HOLDER)
    found = statuses(server, tree)
    assert (found.pop("read"), found.pop("new")) == ("OK", "OK")
    assert set(found.values()) == {"JUKEBOX"}
    guarded = v3.createhow3(v3.createmode3.GUARDED, server.sattr(size=0))
    assert server.status("create", v3.CREATE3args(server.dirop(root, "hello.txt"), guarded)) == "EXIST"
    assert asked == [HOLDER], "each delegation once, and no look at others that are in the way"
    assert server.status("remove", v3.REMOVE3args(server.dirop(root, "hello.txt"))) == "JUKEBOX"
    for old, new in (("hello.txt", "other"), ("link", "hello.txt")):
        rename = v3.RENAME3args(server.dirop(root, old), server.dirop(root, new))
        assert server.status("rename", rename) == "JUKEBOX"
    link = v3.LINK3args(v3.nfs_fh3(file), server.dirop(root, "another name"))
    assert server.status("link", link) == "JUKEBOX"
    with claims.lock:
        claims.undelegate(server.services.nfs.exports.file_of(file), HOLDER)
    assert set(statuses(server, tree).values()) == {"OK"}
    assert server.status("link", link) == "OK"


def test_no_client_is_given_a_delegation_of_a_file_that_version_3_changes(
    server: Any, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims, root = server.services.nfs.claims, server.mount()
    handle = server.lookup(root, "hello.txt")
    file = server.services.nfs.exports.file_of(handle)
    seen: list[tuple[str, bool]] = []

    def watch(part: Any, method: str) -> None:
        changes = getattr(part, method)

        def changed(*args: Any, **more: Any) -> Any:
            with claims.lock:
                seen.append((method, claims.is_changing(file)))
            return changes(*args, **more)

        monkeypatch.setattr(part, method, changed)

    for part, method in (
        (Files, "set_attributes"),
        (Files, "create"),
        (Naming, "link"),
        (Naming, "rename"),
        (Naming, "remove"),
    ):
        watch(part, method)
    unguarded, cut = v3.sattrguard3(False, None), v3.createhow3(v3.createmode3.UNCHECKED, server.sattr(size=0))
    name, new = server.dirop(root, "hello.txt"), server.dirop(root, "new")
    for call, args in (
        ("setattr", v3.SETATTR3args(v3.nfs_fh3(handle), server.sattr(size=0), unguarded)),
        ("create", v3.CREATE3args(name, cut)),
        ("link", v3.LINK3args(v3.nfs_fh3(handle), new)),
        ("remove", v3.REMOVE3args(new)),
        ("rename", v3.RENAME3args(name, new)),
        ("remove", v3.REMOVE3args(new)),
    ):
        assert server.status(call, args) == "OK"
    assert len(seen) >= 6
    assert {changing for _, changing in seen} == {True}
    assert not claims._changing
