"""The exports of running services change: what calls, handles, open files and descriptors meet."""

from __future__ import annotations

import errno
import gc
import ipaddress
import os
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conversation import with_version_4
from rpcrdma.nfs import v3
from rpcrdma.nfs.export.file_access import OpenFile
from rpcrdma.nfs.server import Export
from rpcrdma.nfs.server.exports_change import ExportsChange
from rpcrdma.nfs.v4.state_limits import NFS4_COURTESY_S
from rpcrdma.rpc.gss.flavors import SecurityFlavor
from served_directory import Server
from support.cases import each_case
from support.functions_entered import functions_entered
from support.nfs4_client import (
    ANONYMOUS,
    READ,
    WRITE,
    Client,
    Stateid,
    close,
    commit,
    free_stateid,
    getattr_,
    lock,
    locku,
    lookup,
    lookupp,
    open_,
    putfh,
    putrootfh,
    read,
    readdir,
    test_stateid,
    write,
)
from support.open_files import open_files

ADMIN_STATE_REVOKED = 0x20


def descriptors() -> int:
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


class Changing:
    """Directories a, b and c with a file each, of which a and b are exported by their names, and a client."""

    def __init__(self, place: Path) -> None:
        self.place = place
        for name in ("a", "b", "c"):
            (place / name).mkdir(parents=True)
            (place / name / "file").write_text(f"in {name}")
            (place / name / "file").chmod(0o666)
        self.exports = [self.export("a"), self.export("b")]
        self.server = Server(self.exports, place / "state")
        self.conversation = with_version_4(self.server, None, now_ns=5)
        self.service = self.conversation.service
        self.client: Client = self.conversation.client().start()

    def export(self, name: str, **terms: Any) -> Export:
        return Export(**{"name": f"/{name}", "directory": self.place / name, "root_squash": False} | terms)

    def plan(self, *exports: Export) -> ExportsChange:
        change = ExportsChange(self.server.services, self.service, exports)
        change.plan()
        return change

    def to(self, *exports: Export, now_ns: int = 6) -> None:
        """Changes the exports, with no call running."""
        change = self.plan(*exports)
        change.install(now_ns)
        assert change.retire(close=True) == []

    def root(self, name: str) -> bytes:
        return self.server.mount(f"/{name}")

    def file(self, name: str) -> bytes:
        return self.server.lookup(self.root(name), "file")

    def v4(self, handle: bytes) -> str:
        return self.client.run(putfh(handle), getattr_(1 << 3)).status

    def write(self, handle: bytes, data: bytes = b"x") -> str:
        status = self.server.write(handle, data).status.name
        return status.removeprefix("NFS3ERR_").removeprefix("NFS3_")

    def commit(self, handle: bytes) -> str:
        return self.server.status("commit", v3.COMMIT3args(v3.nfs_fh3(handle), 0, 0))

    def close(self) -> None:
        self.service.close()
        self.server.close()


@pytest.fixture
def changing(tmp_path: Path) -> Iterator[Changing]:
    for directory in (tmp_path, tmp_path.parent):
        directory.chmod(0o755)
    found = Changing(tmp_path / "place")
    yield found
    found.close()


def test_handles_of_a_removed_export_are_stale_in_both_versions_until_it_is_back(changing: Changing) -> None:
    root, file, other = changing.root("a"), changing.file("a"), changing.file("b")
    before = changing.client.run(putrootfh(), getattr_(1 << 3)).value(9)
    changing.to(changing.exports[1])
    for handle in (root, file):
        assert (changing.server.getattr_status(handle), changing.v4(handle)) == ("STALE", "STALE")
    assert changing.client.run(putfh(root), lookupp()).status == "STALE"
    assert changing.client.run(putrootfh(), lookup("a")).status == "NOENT"
    assert changing.client.run(putrootfh(), getattr_(1 << 3)).value(9) != before, "clients look anew"
    assert [entry[1] for entry in changing.client.run(putrootfh(), readdir()).value(26)[0]] == [b"b"]
    assert changing.server.call("mnt", "/a").fhs_status.name == "MNT3ERR_NOENT"
    assert [node.ex_dir for node in changing.server.call("export")] == ["/b"]
    assert changing.server.read(other) == b"in b"
    assert changing.v4(other) == "OK"

    changing.to(*changing.exports, now_ns=7)
    assert changing.server.read(file) == b"in a"
    assert (changing.server.getattr_status(root), changing.v4(root), changing.v4(file)) == ("OK", "OK", "OK")
    assert changing.client.run(putrootfh(), lookup("a"), lookup("file")).status == "OK"


def test_another_directory_of_a_name_never_shows_its_files_by_old_handles(changing: Changing) -> None:
    root, file = changing.root("a"), changing.file("a")
    changing.to(changing.export("a", directory=changing.place / "c"), changing.exports[1])
    for handle in (root, file):
        assert (changing.server.getattr_status(handle), changing.v4(handle)) == ("STALE", "STALE")
    assert changing.server.read(changing.file("a")) == b"in c"
    assert changing.client.run(putrootfh(), lookup("a"), lookup("file")).status == "OK"
    changing.to(*changing.exports)
    assert changing.server.read(file) == b"in a"
    assert changing.server.read(changing.file("a")) == b"in a"


def test_a_path_that_leads_to_another_directory_by_now_is_another_directory(changing: Changing) -> None:
    file = changing.file("a")
    (changing.place / "a").rename(changing.place / "old")
    (changing.place / "c").rename(changing.place / "a")
    assert changing.server.read(file) == b"in a", "without a reload the directory stays"
    changing.to(*changing.exports)
    assert changing.server.getattr_status(file) == "STALE"
    assert changing.server.read(changing.file("a")) == b"in c"


def test_other_terms_hold_from_the_next_call_on_with_the_same_handles_and_opens(changing: Changing) -> None:
    file = changing.file("a")
    opened = changing.client.opened(file, READ | WRITE)
    assert changing.write(file) == "OK"
    assert changing.client.run(putfh(file), write(opened, 0, b"x")).status == "OK"
    a, b = changing.exports
    changing.to(replace(a, read_only=True), b)
    assert changing.write(file) == "ROFS"
    assert changing.client.run(putfh(file), write(opened, 0, b"x")).status == "ROFS"
    # Data that was written before is put on the disk.
    assert changing.commit(file) == "OK"
    assert changing.client.run(putfh(file), commit()).status == "OK"
    changing.to(replace(a, hosts=(ipaddress.ip_network("198.51.100.0/24"),)), b)
    assert (changing.server.getattr_status(file), changing.v4(file)) == ("ACCES", "ACCESS")
    assert changing.server.getattr_status(file, peer="198.51.100.1") == "OK"
    changing.to(replace(a, hosts=(ipaddress.ip_network("127.0.0.1/32"),)), b)
    assert changing.server.getattr_status(file, peer="198.51.100.1") == "ACCES", "an earlier decision is forgotten"
    changing.to(a, b)
    assert changing.write(file) == "OK"
    assert changing.client.run(test_stateid(opened)).value(55) == ["OK"]


@pytest.mark.skipif(os.geteuid() != 0, reason="the server acts as its callers")
def test_the_next_call_acts_as_another_anonymous_user(changing: Changing) -> None:
    root = changing.root("a")
    changing.place.joinpath("a").chmod(0o777)
    for number in (1001, 1002):
        changing.to(changing.export("a", all_squash=True, anonymous_uid=number))
        changing.server.create(root, f"of {number}")
        assert (changing.place / "a" / f"of {number}").stat().st_uid == number


def test_state_on_a_removed_export_is_revoked_and_that_of_others_stays(changing: Changing) -> None:
    client, stranger = changing.client, changing.conversation.client("b").start()
    file, other = changing.file("a"), changing.file("b")
    opened, kept = client.opened(file, READ | WRITE), client.opened(other, READ | WRITE)
    locked = client.locked(file, opened)
    state = changing.service.state
    before = len(state.claims)
    changing.to(changing.exports[1])
    assert len(state.claims) == before - 1
    assert len(state.mirrors) == 0
    assert client.run(test_stateid(opened, locked, kept)).value(55) == ["ADMIN_REVOKED", "ADMIN_REVOKED", "OK"]
    assert client.run(putfh(file)).status == "STALE", "a file that is open is served no more either"
    assert client.run().value(53)[-1] == ADMIN_STATE_REVOKED
    assert stranger.run().value(53)[-1] == 0
    changing.to(*changing.exports)
    mine = stranger.opened(file, READ | WRITE)
    assert stranger.run(putfh(file), lock(mine, b"l", 2, 0, 10)).status == "OK"


def test_state_on_an_export_that_version_4_serves_no_more_is_revoked_and_can_be_freed(changing: Changing) -> None:
    a, b = changing.exports
    client, service, file = changing.client, changing.service, changing.file("a")
    opened, kept = client.opened(file, READ | WRITE, WRITE), client.opened(changing.file("b"), READ)
    locked = client.locked(file, opened)
    assert client.run(putfh(file), write(opened, 0, b"unstable")).status == "OK"
    assert changing.write(file) == "ACCES", "a share reservation denies it"
    changing.to(replace(a, versions=(3,)), b)
    assert client.run(putfh(file)).status == "ACCESS"
    assert client.run(test_stateid(opened, locked, kept)).value(55) == ["ADMIN_REVOKED", "ADMIN_REVOKED", "OK"]
    assert (service.state.claims.denials, len(service.state.claims), len(service.state.mirrors)) == (0, 1, 0)
    assert changing.write(file) == "OK"
    assert client.run().value(53)[-1] == ADMIN_STATE_REVOKED
    for stateid in (locked, opened):
        assert client.run(free_stateid(stateid)).status == "OK"
    assert client.run().value(53)[-1] == 0
    changing.to(a, b)
    removal = changing.plan(replace(a, versions=(3,)), b)
    removal.install(8)
    changing.to(a, b)
    again = client.opened(file, READ)
    assert removal.retire(close=True) == []
    assert client.run(test_stateid(again)).value(55) == ["OK"], "version 4 serves it again"


@each_case(
    "terms, status",
    [
        ({"hosts": (ipaddress.ip_network("198.51.100.0/24"),)}, "ACCESS"),
        ({"security": (SecurityFlavor.KRB5,)}, "WRONGSEC"),
    ],
)
def test_a_client_without_access_gives_back_what_it_holds_and_does_nothing_else(
    terms: dict[str, Any], status: str, changing: Changing
) -> None:
    a, b = changing.exports
    changing.to(a, b)
    client, other, file = changing.client, changing.conversation.client(status).start(), changing.file("a")
    opened = client.opened(file, READ | WRITE, WRITE)
    locked = client.locked(file, opened)
    changing.to(replace(a, **terms), b)
    for calls in ([getattr_(1 << 4)], [read(opened, 0, 4)], [close(opened), read(ANONYMOUS, 0, 4)], []):
        assert client.run(putfh(file), *calls).status == status
    assert other.run(putfh(file), close(opened)).status == status, "it holds nothing there"
    assert client.run(putfh(file), locku(locked, 0, 10)).status == "OK"
    assert client.run(putfh(file), getattr_(1 << 4), close(opened)).status == "OK"
    assert len(changing.service.state.claims) == 0


def test_nothing_of_a_removed_export_stays_open(changing: Changing) -> None:
    a, b = changing.exports
    before = 0
    for _ in range(3):
        changing.to(a, b)
        file = changing.file("a")
        opened = changing.client.opened(file, READ | WRITE)
        changing.client.locked(file, opened)
        assert changing.client.run(putfh(file), open_(b"deleg", READ)).status == "OK"
        assert changing.write(file) == "OK"
        changing.server.list_names(changing.root("a"))
        there = descriptors()
        changing.to(b)
        # The first delegation has started the thread for reports of the kernel, whose descriptors stay.
        before = before or descriptors()
        assert descriptors() == before < there - 4
    assert changing.service.state.delegations == {}
    assert changing.server.services.nfs.exports.parts.nodes.held.keys() == set()


def test_nothing_of_a_removed_export_stays_open_of_a_client_that_has_ended(changing: Changing) -> None:
    root = str(changing.place / "a")
    changing.client.opened(changing.file("a"), READ | WRITE)
    changing.conversation.now_s += 2 * NFS4_COURTESY_S
    changing.service.sweep()
    changing.service.sweep()
    changing.to(changing.exports[1])
    gc.collect()
    held = [str(fd.readlink()) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]
    assert not [path for path in held if path.startswith(root)]


def test_a_call_that_runs_ends_under_the_old_exports_and_then_its_files_close(changing: Changing) -> None:
    changing.to(changing.exports[1])
    before = descriptors()
    changing.to(*changing.exports)
    file = changing.file("a")
    exports = changing.server.services.nfs.exports
    context = changing.server.contexts[-1]
    context.may_block = True
    located: Any = exports.locate(file, context)
    node, who = located
    change = changing.plan(changing.exports[1])
    change.install(6)
    assert change.retire(close=False) == []
    opened = node.open(who, READ, at_once=False)
    assert opened.read(memoryview(bytearray(4)), 0, at_once=False) == 4
    directory = node.tree.root.lookup(who, b".", at_once=False)
    assert directory.lookup(who, b"file", at_once=False).handle == file
    # What that call has put into the caches is served to nobody.
    assert changing.server.getattr_status(file) == "STALE"
    del located, node, opened, directory
    assert descriptors() > before
    assert change.retire(close=True) == []
    assert descriptors() == before


@each_case("url", [False, True])
def test_an_export_that_is_back_is_served_though_a_call_that_began_before_has_left_its_objects(
    changing: Changing, url: bool
) -> None:
    more = [Export(name="/u", url=f"file://{changing.place}/c", read_only=True)] if url else []
    changing.to(*changing.exports, *more)
    file = changing.file("u" if url else "a")
    removal = changing.plan(changing.exports[1])
    removal.install(6)
    changing.plan(*changing.exports, *more).install(7)
    assert changing.server.getattr_status(file) == "OK"
    assert removal.retire(close=True) == []
    assert changing.server.getattr_status(file) == "OK"


def test_unstable_data_of_a_removed_export_is_on_the_disk_before_and_a_fault_changes_nothing(
    changing: Changing, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, synced = changing.file("a"), list[bytes]()
    verifier = changing.server.write(file, b"x").value.verf
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(5, "the disk fails")))
        before = descriptors()
        for exports in ([changing.exports[1]], [changing.export("a", directory=changing.place / "c")]):
            changing.server.write(file, b"x")
            with pytest.raises(OSError, match="the disk fails"):
                changing.plan(*exports)
        assert descriptors() == before
    assert changing.server.getattr_status(file) == "OK"
    assert changing.server.write(file, b"x").value.verf != verifier, "clients write it again"
    with monkeypatch.context() as patch:
        patch.setattr(OpenFile, "commit", lambda self, _: synced.append(self.handle))
        changing.plan(changing.exports[1]).discard()
    assert synced == [file]


@each_case("fault", ["missing", "twice", "url"])
def test_exports_that_cannot_be_served_change_nothing(changing: Changing, fault: str) -> None:
    wrong = {
        "missing": changing.export("c", directory=changing.place / "none"),
        "twice": changing.export("b", directory=changing.place / "c"),
        "url": Export(name="/c", url="nowhere://x", read_only=True),
    }[fault]
    before = descriptors()
    with pytest.raises((OSError, ValueError)):
        changing.plan(changing.export("a", directory=changing.place / "c"), changing.exports[1], wrong)
    assert descriptors() == before
    assert changing.server.read(changing.file("a")) == b"in a"
    assert [node.ex_dir for node in changing.server.call("export")] == ["/a", "/b"]


@each_case("step", ["object_identity", "MountTable.file_system_of", "lives_in_memory", "TreeSearch", "os.readlink"])
def test_a_directory_that_cannot_be_examined_leaves_nothing_open(
    changing: Changing, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fails(*_: object) -> None:
        raise OSError(errno.EIO, "the disk fails")

    before = open_files()
    with monkeypatch.context() as patch:
        patch.setattr(f"rpcrdma.nfs.export.object_tree.{step}", fails)
        with pytest.raises(OSError, match="the disk fails"):
            changing.server.services.nfs.exports.plan([changing.export("c")])
        there = open_files()
    assert there <= before, "before the next collection of garbage"


def test_an_export_of_a_url_comes_and_goes_beside_directories(changing: Changing) -> None:
    a, b = changing.exports
    file = changing.file("a")
    url = Export(name="/u", url=f"file://{changing.place}/c", read_only=True)
    changing.to(a, b, url)
    remote = changing.file("u")
    assert (changing.server.read(remote), changing.server.read(file)) == (b"in c", b"in a")
    assert changing.v4(remote) == "OK"
    changing.to(a, b, replace(url, url=f"file://{changing.place}/b"))
    assert (changing.server.getattr_status(remote), changing.v4(remote)) == ("STALE", "STALE")
    changing.to(a, b, replace(url, anonymous_uid=7))
    assert changing.server.attributes(remote).uid == 7
    changing.to(a, b, replace(url, anonymous_uid=8))
    assert changing.server.attributes(remote).uid == 8
    changing.to(a, b, changing.export("u", directory=changing.place / "c"))
    assert (changing.server.getattr_status(remote), changing.v4(remote)) == ("STALE", "STALE")
    assert changing.server.read(changing.file("u")) == b"in c"
    changing.to(b)
    assert [changing.server.getattr_status(each) for each in (remote, file)] == ["STALE", "STALE"]


def test_directories_above_exports_go_with_them_and_come_back_with_their_handles(changing: Changing) -> None:
    deep = changing.export("x/y/a", directory=changing.place / "a")
    changing.to(deep, changing.exports[1])
    above = changing.client.handle("x", "y")
    changing.to(changing.exports[1])
    assert changing.v4(above) == "STALE"
    changing.to(deep)
    assert changing.v4(above) == "OK"
    changing.to(replace(changing.exports[0], name="/"))
    assert changing.v4(above) == "STALE"
    assert changing.client.run(putrootfh(), lookup("file")).status == "OK"
    changing.to()
    assert changing.client.run(putrootfh(), readdir()).value(26)[0] == []


def test_mounts_of_removed_exports_leave_the_list(changing: Changing) -> None:
    changing.root("a"), changing.root("b")
    changing.to(changing.exports[1])
    assert [mount.ml_directory for mount in changing.server.call("dump")] == ["/b"]


def test_the_swap_of_many_exports_enters_few_functions_and_no_system_call(
    changing: Changing, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = 200
    for number in range(many):
        (changing.place / f"d{number}").mkdir()
    half = [changing.export(f"d{number}") for number in range(0, many, 2)]
    every = [changing.export(f"d{number}", read_only=True) for number in range(many)]
    changing.to(*half)
    change = changing.plan(*every)
    for name in ("open", "fstat", "stat", "fsync", "readlink", "close"):
        monkeypatch.setattr(os, name, lambda *_, **__: pytest.fail("it waits for the system"))
    # 20 ms are room for 100,000 on the slowest machine that serves.
    assert functions_entered(lambda: change.install(7)) < 40 * many
    monkeypatch.undo()
    change.retire(close=True)


@pytest.mark.thorough
def test_a_hundred_changes_leave_no_memory_behind(changing: Changing) -> None:
    a, b = changing.exports
    versions = [[b], [a, b], [replace(a, read_only=True), b], [changing.export("a", directory=changing.place / "c"), b]]

    def turn() -> None:
        for exports in versions:
            changing.to(*exports)
            for tree in changing.server.services.nfs.exports.trees:
                file = changing.file(tree.export.name[1:])
                opened = changing.client.run(putfh(file), open_(b"owner", READ)).value(18)
                assert changing.server.read(file)
                for stateid in filter(None, (opened["stateid"], opened["delegation"])):
                    changing.client.run(putfh(file), free_stateid(stateid))
        revoked = [each.other for each in changing.service.state.states() if each.lost is not None]
        for other in revoked:
            assert changing.client.run(free_stateid(Stateid(0, other))).status == "OK"
        changing.server.contexts.clear()

    tracemalloc.start()
    try:
        for _ in range(5):
            turn()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(25):
            turn()
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 100 * 100, f"{grown / 100:.0f} octets for each change"
