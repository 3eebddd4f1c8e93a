"""Files of exported directories by version 4: names, attributes, listings, data, changes."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conversation import FakeConnection
from rpcrdma.nfs.export import tree_search
from rpcrdma.nfs.export.file_access import OpenFile
from rpcrdma.rpc.auth import AuthSys
from served_exports import CHANGE, FILEID, MODE, SIZE, Served, names, u32, u64
from state_rig import LEASE_S
from support.cases import each_case
from support.nfs4_client import (
    ANONYMOUS,
    BYPASS,
    EXCLUSIVE4_1,
    FORE,
    GUARDED,
    READ,
    WRITE,
    access,
    close,
    commit,
    create,
    fattr,
    getattr_,
    getfh,
    link,
    lookup,
    lookup_octets,
    lookupp,
    opaque,
    open_,
    putfh,
    putrootfh,
    read,
    readdir,
    readlink,
    remove,
    rename,
    restorefh,
    savefh,
    setattr_,
    verify,
    write,
)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the server acts as its callers")


# Names and handles


def test_a_name_stands_for_one_entry(serve: Callable[..., Served]) -> None:
    served = serve()
    expected = {
        b"": "INVAL",
        b".": "BADNAME",
        b"..": "BADNAME",
        b"a/b": "BADCHAR",
        b"a\0b": "BADCHAR",
        b"x" * 256: "NAMETOOLONG",
        b"x" * 255: "NOENT",
        b"x" * 1025: "BADXDR",
        b"\xff": "NOENT",
    }
    assert {name: served.status(putrootfh(), lookup_octets(name)) for name in expected} == expected


def test_names_are_looked_up_in_directories(serve: Callable[..., Served]) -> None:
    served = serve()
    for last in (lookup("x"), lookupp()):
        assert served.status(putrootfh(), lookup("file"), last) == "NOTDIR"
        assert served.status(putrootfh(), lookup("link"), last) == "SYMLINK"


def test_a_handle_that_the_server_has_not_made_is_bad(serve: Callable[..., Served]) -> None:
    served = serve()
    handle = served.client.handle("file")
    assert served.status(putfh(handle), getattr_(SIZE)) == "OK"
    assert [served.status(putfh(bad)) for bad in (b"", b"x", handle[:-1] + b"x", bytes(128))] == ["BADHANDLE"] * 4
    assert served.status(putfh(bytes(129))) == "BADXDR"


def test_a_handle_of_a_removed_file_is_stale_unless_the_client_has_it_open(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    served = serve()
    handle = served.client.handle("file")
    opened = served.client.opened(handle)
    assert served.status(putrootfh(), remove("file")) == "OK"
    assert served.run(putfh(handle), getattr_(SIZE), read(opened, 0, 100)).value(25) == (True, b"some data")
    other = served.server.client("another").start()
    assert other.run(putfh(handle)).status == "STALE"
    assert served.status(putfh(handle), close(opened)) == "OK"
    assert served.status(putfh(handle)) == "STALE"


def test_an_open_file_that_a_local_process_removes_is_found_without_a_search(
    serve: Callable[..., Served], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve()
    handle = served.client.handle("file")
    opened = served.client.opened(handle)
    tree = served.local.trees[0]
    monkeypatch.setattr(tree, "_readable_root", None)
    monkeypatch.setattr(tree_search, "NFS_SEARCH_FREE_ENTRIES", 0)
    tree._search.walk()
    (tmp_path / "files/file").unlink()
    assert served.run(putfh(handle), read(opened, 0, 100)).value(25) == (True, b"some data")


# Attributes, rights, links


def test_attributes_are_those_of_the_file(serve: Callable[..., Served], tmp_path: Path) -> None:
    served = serve()
    status = (tmp_path / "files/file").stat()
    words, values = served.run(putrootfh(), lookup("file"), getattr_(1 << 1 | SIZE | FILEID, MODE)).value(9)
    assert words == (1 << 1 | SIZE | FILEID, MODE)
    assert struct.unpack(">IQQI", values) == (1, 9, status.st_ino, status.st_mode & 0o7777)


def test_attributes_are_verified(serve: Callable[..., Served]) -> None:
    served = serve()
    file = putfh(served.client.handle("file"))
    assert served.status(file, verify({4: u64(9)}), getattr_(SIZE)) == "OK"
    assert served.status(file, verify({4: u64(8)}), getattr_(SIZE)) == "NOT_SAME"
    assert served.status(file, verify({4: u64(8)}, differs=True), getattr_(SIZE)) == "OK"
    assert served.status(file, verify({4: u64(9)}, differs=True), getattr_(SIZE)) == "SAME"


def test_rights_are_those_of_the_caller(serve: Callable[..., Served], tmp_path: Path) -> None:

    served = serve()
    (tmp_path / "files/file").chmod(0o640)
    tmp_path.chmod(0o755)
    handle = served.client.handle("file")
    assert served.run(putfh(handle), access(0x3F)).value(3) == (0x3F, 0xD)
    stranger = served.server.client("stranger", credential=AuthSys(uid=1000, gid=1000)).start()
    assert stranger.run(putfh(handle), access(0x3F)).value(3) == (0x3F, 0)
    assert stranger.run(putfh(handle), access(0x1C1)).value(3) == (0x1C1, 0)
    assert stranger.run(putfh(handle), access(0x200)).status == "INVAL"
    assert stranger.run(putfh(handle), open_(b"owner", READ)).status == "ACCESS"


def test_a_symbolic_link_is_read(serve: Callable[..., Served]) -> None:
    served = serve()
    assert served.run(putrootfh(), lookup("link"), readlink()).value(27) == b"file"
    assert served.status(putrootfh(), lookup("file"), readlink()) == "WRONG_TYPE"


# READDIR


@pytest.mark.req("NF4-24")
def test_a_listing_goes_on_where_it_has_ended(serve: Callable[..., Served], tmp_path: Path) -> None:
    served = serve()
    for number in range(50):
        (tmp_path / f"files/directory/{number:03}").touch()
    directory = putfh(served.client.handle("directory"))
    found: list[bytes] = []
    cookie, calls, complete = 0, 0, False
    while not complete:
        reply = served.run(directory, readdir(cookie, FILEID, octets=512))
        entries, complete = reply.value(26)
        # The size of the call counts the whole result.
        octets = 16 + sum(
            24 + (len(name) + 3 & ~3) + 4 * len(words) + len(values) for _, name, words, values in entries
        )
        assert octets <= 512
        found += [entry[1] for entry in entries]
        cookie, calls = entries[-1][0], calls + 1
    assert sorted(found) == [f"{number:03}".encode() for number in range(50)] + [b"inner"]
    assert calls > 3


@pytest.mark.req("NF4-24")
def test_a_listing_has_no_dots_and_reserved_cookies_are_bad(serve: Callable[..., Served]) -> None:
    served = serve()
    assert names(served.run(putrootfh(), readdir())) == [b"directory", b"file", b"link"]
    assert [served.status(putrootfh(), readdir(cookie)) for cookie in (1, 2)] == ["BAD_COOKIE"] * 2


@pytest.mark.req("NF4-25")
def test_a_listing_without_room_for_an_entry_is_refused(serve: Callable[..., Served]) -> None:
    served = serve()
    for octets in (0, 15, 16, 40):
        assert served.status(putrootfh(), lookup("directory"), readdir(octets=octets)) == "TOOSMALL"
    # TRUE, cookie, name, two words for no attributes, and the ends.
    assert served.status(putrootfh(), lookup("directory"), readdir(octets=16 + 12 + 12 + 8)) == "OK"
    assert served.status(putrootfh(), lookup("directory"), readdir(octets=16 + 12 + 12 + 7)) == "TOOSMALL"


def test_octets_of_names_are_a_hint(serve: Callable[..., Served]) -> None:
    served = serve()
    entries, complete = served.run(putrootfh(), readdir(names_octets=1)).value(26)
    assert (len(entries), complete) == (1, False)


def test_entries_have_the_attributes_that_are_asked_for(serve: Callable[..., Served], tmp_path: Path) -> None:
    served = serve()
    entries, _ = served.run(putrootfh(), readdir(0, 1 << 11 | SIZE, MODE)).value(26)
    (values,) = [values for _, name, _, values in entries if name == b"file"]
    assert struct.unpack(">QII", values)[0] == 9
    assert served.status(putrootfh(), readdir(0, 0, 1 << 48 - 32)) == "INVAL"


def test_only_directories_are_listed(serve: Callable[..., Served]) -> None:
    served = serve()
    assert served.status(putrootfh(), lookup("file"), readdir()) == "NOTDIR"


# READ and WRITE


def test_data_is_read_by_an_open_up_to_the_end(serve: Callable[..., Served]) -> None:
    served = serve()
    handle = served.client.handle("file")
    opened = served.client.opened(handle)

    def data(offset: int, count: int) -> Any:
        return served.run(putfh(handle), read(opened, offset, count)).value(25)

    assert data(0, 4) == (False, b"some")
    assert data(5, 100) == (True, b"data")
    assert data(5, 4) == (True, b"data")
    assert data(9, 1) == data(100, 1) == data((1 << 64) - 1, 1) == (True, b"")
    assert data(0, 0) == (False, b"")


def test_a_file_that_loses_its_end_while_it_is_read_gives_no_octets_to_the_next_one(
    serve: Callable[..., Served], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve()
    for name, octet in (("file", b"F"), ("other", b"O")):
        (tmp_path / "files" / name).write_bytes(4096 * octet)
    file, other = served.client.handle("file"), served.client.handle("other")
    opened, opened_too = (served.client.opened(handle, owner=handle) for handle in (file, other))

    def read_half(self: OpenFile, buffer: memoryview, offset: int, *, at_once: bool) -> int:
        got: int = whole(self, buffer[:2048] if at_once else buffer, offset, at_once=False)
        if at_once:
            os.truncate(tmp_path / "files/file", 0)
        return got

    whole = OpenFile.read
    monkeypatch.setattr(OpenFile, "read", read_half)
    for parent in served.local.trees:
        monkeypatch.setattr(parent, "in_memory", False)
    found = served.run(putfh(file), read(opened, 0, 4096), putfh(other), read(opened_too, 0, 4096))
    assert served.server.hops
    assert [value for number, _, value in found.results if number == 25] == [(True, b""), (True, 4096 * b"O")]


def test_an_open_for_writing_reads_nothing_that_another_open_denies(serve: Callable[..., Served]) -> None:
    served = serve()
    other, handle = served.server.client("other").start(), served.client.handle("file")
    opened = served.client.opened(handle, WRITE)
    stateids = opened, served.client.locked(handle, opened)
    denied = other.opened(handle, WRITE, READ)
    assert [served.status(putfh(handle), read(each, 0, 4)) for each in stateids] == ["LOCKED", "LOCKED"]
    assert other.run(putfh(handle), read(denied, 0, 4)).status == "OK", "its own reservation"
    other.run(putfh(handle), close(denied))
    assert [served.status(putfh(handle), read(each, 0, 4)) for each in stateids] == ["OK", "OK"]


@each_case("how", ["read", "write", "size", "open for writing"])
def test_what_a_client_without_a_lease_denies_is_done_once_it_has_ended(how: str, serve: Callable[..., Served]) -> None:
    served = serve()
    handle = served.client.handle("file")
    stateid = served.client.opened(handle, WRITE) if how == "open for writing" else ANONYMOUS
    other = served.server.client("other").start()
    other.opened(handle, WRITE, READ if how == "open for writing" else READ | WRITE)
    call = {"write": write(stateid, 0, b"data"), "size": setattr_({4: u64(9)})}.get(how, read(stateid, 0, 4))
    clients = served.server.state.clients
    record = clients.by_id[other.id]
    assert served.status(putfh(handle), call) == "LOCKED"
    for seconds in (LEASE_S, 1.0):
        served.server.now_s += seconds
        served.run()
    clients.pass_leases(served.server.now_s)
    assert clients.evict(record)
    assert served.status(putfh(handle), call) == "DELAY", "another call ends the client"
    clients.stay(record)
    assert served.status(putfh(handle), call) == "OK"
    assert other.run().status == "BADSESSION"


@pytest.mark.req("NF4-143")
def test_a_stateid_gives_no_rights_to_another_user_of_the_client(serve: Callable[..., Served], tmp_path: Path) -> None:
    served = serve()
    (tmp_path / "files/file").chmod(0o600)
    tmp_path.chmod(0o755)
    handle = served.client.handle("file")
    opened = served.client.opened(handle, READ | WRITE)
    stateids = opened, served.client.locked(handle, opened)
    calls = [operation for each in stateids for operation in (read(each, 0, 4), write(each, 0, b"data"))]

    def statuses(uid: int) -> set[str]:
        served.client.exchange = lambda octets: served.server.answer(octets, FakeConnection(), AuthSys(uid=uid, gid=0))
        return {served.status(putfh(handle), call) for call in calls}

    assert (statuses(1000), statuses(0)) == ({"ACCESS"}, {"OK"})
    os.chown(tmp_path / "files/file", 1000, 1000)
    assert statuses(1000) == {"OK"}
    os.chown(tmp_path / "files/file", 0, 0)
    (tmp_path / "files/file").chmod(0o644)
    reading = served.client.opened(handle, READ)
    calls = [call for each in (reading, stateids[1]) for call in (write(each, 0, b"data"), read(each, 0, 4))]
    assert [served.status(putfh(handle), call) for call in calls] == ["ACCESS", "OK"] * 2, (
        "opened to write by uid 0 alone"
    )


def test_data_is_read_without_an_open_by_those_who_may(serve: Callable[..., Served], tmp_path: Path) -> None:
    served = serve()
    (tmp_path / "files/file").chmod(0o600)
    tmp_path.chmod(0o755)
    handle = served.client.handle("file")
    for stateid in (ANONYMOUS, BYPASS):
        assert served.run(putfh(handle), read(stateid, 0, 4)).value(25) == (False, b"some")
    stranger = served.server.client("stranger", credential=AuthSys(uid=1000, gid=1000)).start()
    assert stranger.run(putfh(handle), read(ANONYMOUS, 0, 4)).status == "ACCESS"


def test_only_files_are_read_and_written(serve: Callable[..., Served]) -> None:
    served = serve()
    for operation in (read(ANONYMOUS, 0, 4), write(ANONYMOUS, 0, b"data"), commit()):
        assert served.status(putrootfh(), operation) == "ISDIR"
        assert served.status(putrootfh(), lookup("link"), operation) == "SYMLINK"


@pytest.mark.req("NF4-13")
def test_more_data_than_the_reply_may_have_is_refused(serve: Callable[..., Served], tmp_path: Path) -> None:

    served = serve()
    (tmp_path / "files/file").write_bytes(bytes(5000))
    small = served.server.client("small").start(fore=FORE._replace(reply_octets=1000))
    handle = small.handle("file")
    assert small.run(putfh(handle), read(ANONYMOUS, 0, 2000)).status == "REP_TOO_BIG"
    assert small.run(putfh(handle), read(ANONYMOUS, 0, 800)).status == "OK"
    # Data that is not there takes no room.
    assert small.run(putfh(handle), read(ANONYMOUS, 4500, 2000)).status == "OK"


def test_a_reply_fits_the_memory_that_the_client_offers(serve: Callable[..., Served], tmp_path: Path) -> None:
    served = serve()
    (tmp_path / "files/file").write_bytes(bytes(5000))
    handle = served.client.handle("file")
    served.server.offered = 1000
    assert served.status(putfh(handle), read(ANONYMOUS, 0, 2000)) == "REP_TOO_BIG"
    assert served.status(putfh(handle), read(ANONYMOUS, 0, 800)) == "OK"
    served.server.offered = 179
    # The rest of the directory is for the next call.
    assert not served.run(putrootfh(), readdir(octets=8192)).value(26)[1]


@pytest.mark.req("NF4-12")
def test_a_call_longer_than_the_session_allows_is_refused(serve: Callable[..., Served]) -> None:
    served = serve()
    small = served.server.client("small").start(fore=FORE._replace(request_octets=500))
    assert small.run(putrootfh(), lookup("x" * 400)).status == "REQ_TOO_BIG"
    small.number -= 1  # its slot is as it was
    assert small.run(putrootfh()).status == "OK"


@pytest.mark.req("NF4-11")
def test_more_operations_than_the_session_allows_are_refused(serve: Callable[..., Served]) -> None:
    served = serve()
    assert served.status(*[putrootfh()] * 8) == "TOO_MANY_OPS"
    served.client.number -= 1
    assert served.status(*[putrootfh()] * 7) == "OK"


def test_data_is_written_by_an_open_and_committed(serve: Callable[..., Served], tmp_path: Path) -> None:
    served = serve()
    handle = served.client.handle("file")
    opened = served.client.opened(handle, READ | WRITE)
    written = served.run(putfh(handle), write(opened, 5, b"words"), getattr_(SIZE))
    assert written.value(38)[:2] == (5, 2)
    assert written.value(9)[1] == u64(10)
    assert (tmp_path / "files/file").read_bytes() == b"some words"
    assert served.run(putfh(handle), commit()).value(5) == written.value(38)[2]
    only_read = served.client.opened(handle, READ, owner=b"reader")
    assert served.status(putfh(handle), write(only_read, 0, b"x")) == "OPENMODE"
    locked = served.client.locked(handle, opened)
    assert served.status(putfh(handle), write(locked, 0, b"SOME")) == "OK"
    assert served.run(putfh(handle), read(locked, 0, 4)).value(25)[1] == b"SOME"


# Changes of directories


@pytest.mark.parametrize("kind", [2, 5, 6, 7])
def test_objects_are_made_and_become_the_current_one(serve: Callable[..., Served], kind: int, tmp_path: Path) -> None:
    served = serve()
    data = {5: opaque(b"to"), 6: b"", 7: b""}.get(kind, b"")
    mode = {33: u32(0o751)}

    made = served.run(putrootfh(), getattr_(CHANGE), create("new", kind, data, fattr(mode)), getattr_(1 << 1))
    assert made.value(9)[1] == u32(kind)
    (atomic, before, after), words = made.value(6)
    assert (atomic, words) == (1, () if kind == 5 else (0, 1 << 33 - 32)), "a symbolic link has no mode"
    assert before != after
    now = served.run(putrootfh(), getattr_(CHANGE)).value(9)[1]
    assert now == u64(after)
    assert served.status(putrootfh(), create("new", kind, data)) == "EXIST"


def test_the_attributes_that_are_told_as_set_are_those_that_were_set(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    served = serve()
    files = tmp_path / "files"
    files.chmod(0o777)
    os.chown(files / "file", 1001, 1001)
    user = served.server.client("user", credential=AuthSys(uid=1001, gid=1001)).start()
    owner, group, mode = {36: opaque(b"1234")}, {37: opaque(b"1001")}, {33: u32(0o700)}
    made = user.run(putrootfh(), create("new", 2, attributes=fattr({4: u64(5)} | owner | group | mode)))
    assert made.value(6)[1] == (0, 1 << 37 - 32 | 1 << 33 - 32)
    assert (files / "new").stat().st_uid == 1001
    opened = user.run(putrootfh(), open_(b"o", WRITE, name="created", create=GUARDED, attributes=fattr(owner | mode)))
    assert opened.value(18)["attributes"] == (0, 1 << 33 - 32)
    for _ in range(2):
        empty = user.run(putrootfh(), open_(b"o", WRITE, name="empty", create=EXCLUSIVE4_1, size=0))
        assert empty.value(18)["attributes"] == (1 << 4, 1 << 48 - 32 | 1 << 54 - 32), (
            "the times are the verifier still"
        )
    by_root = served.run(putrootfh(), create("of root", 2, attributes=fattr(owner)))
    assert (by_root.value(6)[1], (files / "of root").stat().st_uid) == ((0, 1 << 36 - 32), 1234)

    file = putfh(user.handle("file"))
    failed = user.run(file, setattr_({4: u64(0), 36: opaque(b"0")} | mode))
    assert (failed.status, failed.value(34)) == ("PERM", (1 << 4,))
    assert (files / "file").stat().st_size == 0
    assert (files / "file").stat().st_mode & 0o777 != 0o700
    failed = user.run(file, setattr_({4: u64(0), 36: opaque(b"0")}))
    assert (failed.status, failed.value(34)) == ("PERM", ()), "nothing has changed"


def test_a_device_has_its_number_and_a_file_is_not_made_by_create(serve: Callable[..., Served]) -> None:
    served = serve()
    assert served.status(putrootfh(), create("new", 1)) == "BADTYPE"
    made = served.run(putrootfh(), create("device", 4, struct.pack(">II", 1, 3)), getattr_(0, 1 << 41 - 32))
    assert made.status == "PERM" or made.value(9)[1] == struct.pack(">II", 1, 3)
    assert served.status(putrootfh(), create("empty", 5, opaque(b""))) == "INVAL"


def test_names_are_removed_renamed_and_linked(serve: Callable[..., Served], tmp_path: Path) -> None:
    served = serve()
    root, directory = putrootfh(), putfh(served.client.handle("directory"))
    file = putfh(served.client.handle("file"))
    assert served.status(file, savefh(), directory, link("linked"), restorefh(), getattr_(SIZE)) == "OK"
    assert served.status(root, savefh(), directory, rename("file", "moved")) == "OK"
    assert sorted(each.name for each in (tmp_path / "files/directory").iterdir()) == ["inner", "linked", "moved"]
    assert served.status(directory, remove("linked")) == "OK"
    assert served.status(root, remove("directory")) == "NOTEMPTY"
    assert served.status(directory, remove("none")) == "NOENT"
    assert served.status(root, savefh(), directory, rename("none", "x")) == "NOENT"
    assert served.status(root, savefh(), root, link("x")) == "ISDIR"


def test_renaming_a_file_to_itself_or_to_its_other_name_does_nothing(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    served = serve()
    os.link(tmp_path / "files/file", tmp_path / "files/other")
    for new in ("file", "other"):
        source, target = served.run(putrootfh(), savefh(), putrootfh(), rename("file", new)).value(29)
        assert source == target == (1, source[1], source[1])
    assert (tmp_path / "files/file").exists()
    assert (tmp_path / "files/other").exists()


def test_names_do_not_move_between_exports(serve: Callable[..., Served], tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    served = serve({"name": "/a"}, {"name": "/b", "directory": tmp_path / "other"})
    a, b = putfh(served.client.handle("a")), putfh(served.client.handle("b"))
    assert served.status(a, savefh(), b, rename("file", "file")) == "XDEV"
    assert served.status(a, lookup("file"), savefh(), b, link("file")) == "XDEV"


def test_a_read_only_export_is_not_changed(serve: Callable[..., Served]) -> None:
    served = serve({"name": "/", "read_only": True})
    root, file = putrootfh(), putfh(served.client.handle("file"))
    assert served.status(root, create("new", 2)) == "ROFS"
    assert served.status(root, remove("file")) == "ROFS"
    assert served.status(root, savefh(), root, rename("file", "new")) == "ROFS"
    assert served.status(file, savefh(), root, link("new")) == "ROFS"
    assert served.status(file, setattr_({33: u32(0o600)})) == "ROFS"
    assert served.status(file, write(ANONYMOUS, 0, b"x")) == "ROFS"
    assert served.status(file, commit()) == "OK", "it may have been one for writing before"


# SETATTR


def test_attributes_are_set(serve: Callable[..., Served], tmp_path: Path) -> None:
    served = serve()
    handle = served.client.handle("file")
    reply = served.run(putfh(handle), setattr_({4: u64(4), 33: u32(0o640), 36: opaque(b"1"), 37: opaque(b"2")}))
    assert reply.value(34) == (1 << 4, 1 << 1 | 1 << 4 | 1 << 5)
    status = (tmp_path / "files/file").stat()
    assert (status.st_size, status.st_mode & 0o7777, status.st_uid, status.st_gid) == (4, 0o640, 1, 2)


def test_a_failed_setattr_says_that_nothing_was_set(serve: Callable[..., Served]) -> None:
    served = serve()
    reply = served.run(putrootfh(), setattr_({33: u32(0o10000)}))
    assert (reply.status, reply.value(34)) == ("INVAL", ())
    assert served.run(putrootfh(), setattr_({4: u64(0)})).status == "ISDIR"


def test_the_mode_of_a_symbolic_link_is_passed_over(serve: Callable[..., Served]) -> None:
    served = serve()
    reply = served.run(putrootfh(), lookup("link"), setattr_({33: u32(0o600)}))
    assert (reply.status, reply.value(34)) == ("OK", ())


def test_the_size_is_set_only_by_an_open_for_writing(serve: Callable[..., Served]) -> None:
    served = serve()
    handle = served.client.handle("file")
    reading = served.client.opened(handle, READ, owner=b"reader")
    assert served.status(putfh(handle), setattr_({4: u64(1)}, reading)) == "OPENMODE"
    writing = served.client.opened(handle, WRITE, owner=b"writer")
    assert served.status(putfh(handle), setattr_({4: u64(1)}, writing)) == "OK"


# Where calls run


def test_calls_on_what_is_in_memory_stay_in_the_event_loop(serve: Callable[..., Served]) -> None:
    served = serve()
    handle = served.client.handle("file")
    opened = served.client.opened(handle)
    served.run(putfh(handle), read(opened, 0, 100))
    before = served.server.hops
    for operation in (read(opened, 0, 100), getattr_(SIZE), access(1)):
        assert served.status(putfh(handle), operation) == "OK"
    assert served.status(putrootfh(), lookup("file"), getfh(), getattr_(SIZE)) == "OK"
    assert served.server.hops == before


def test_a_large_file_in_memory_loses_its_last_name_in_a_thread(
    serve: Callable[..., Served], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve()
    monkeypatch.setattr(served.local.trees[0], "in_memory", True)
    files = tmp_path / "files"
    for name, octets in (("small", 4096), ("moved", 4096), ("large", (4 << 20) + 1), ("larger", 5 << 20)):
        (files / name).touch()
        os.truncate(files / name, octets)
    served.client.handle("file")
    hops = served.server.hops
    assert served.status(putrootfh(), remove("small")) == "OK"
    assert served.server.hops == hops
    assert served.status(putrootfh(), remove("large")) == "OK"
    assert served.status(putrootfh(), savefh(), rename("moved", "larger")) == "OK"
    assert served.server.hops == hops + 2
    assert served.status(putrootfh(), remove("none")) == "NOENT"


def test_the_name_of_an_owner_is_looked_up_in_a_thread(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve()
    monkeypatch.setattr(served.local.trees[0], "in_memory", True)
    served.client.handle("file")
    hops = served.server.hops
    assert served.status(putrootfh(), create("new", 2, attributes=fattr({36: opaque(b"root@here")}))) == "OK"
    assert served.server.hops == hops + 1


@each_case("by_another", [False, True])
def test_data_written_through_an_open_that_was_long_idle_is_put_on_the_disk_at_a_stop(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch, by_another: bool
) -> None:
    served = serve()
    served.local.trees[0].in_memory = False
    handle = served.client.handle("file")
    opened = served.client.opened(handle, 3)
    for _ in range(2):
        served.local.close_idle()
    if by_another:
        served.client.opened(handle, 3, owner=b"another")
    for committed in (True, False):
        assert served.status(putfh(handle), write(opened, 0, b"data", stable=0)) == "OK"
        assert not committed or served.status(putfh(handle), commit()) == "OK"
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_ino))
    assert served.local.close() == []
    assert synced == [(served.place / "files/file").stat().st_ino]
