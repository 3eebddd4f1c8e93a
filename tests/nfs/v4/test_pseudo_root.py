"""The pseudo root of version 4 above several exports, and their security flavors."""

from __future__ import annotations

import errno
import os
import struct
import sys
from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

from rpcrdma.nfs.export.grant import Grant, ServingUser
from rpcrdma.nfs.v4.server import handles, listing
from rpcrdma.rpc.auth import AuthSys
from rpcrdma.rpc.gss.flavors import SecurityFlavor
from rpcrdma.rpc.host_identity import CallOrigin
from served_exports import FILEID, FSID, MOUNTED_ON, SIZE, Served, names, u32
from support.nfs4_client import (
    GUARDED,
    READ,
    UNCHECKED,
    access,
    create,
    getattr_,
    getfh,
    link,
    lookup,
    lookupp,
    open_,
    putfh,
    putrootfh,
    readdir,
    readlink,
    remove,
    rename,
    savefh,
    secinfo,
    secinfo_no_name,
    setattr_,
)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the server acts as its callers")
MAXNAME = 1 << 29
KERBEROS = bytes.fromhex("2a864886f712010202")


# The pseudo root


@pytest.mark.req("NF4-22")
def test_an_only_export_named_by_a_slash_is_the_root(serve: Callable[..., Served]) -> None:
    served = serve()
    assert names(served.run(putrootfh(), readdir())) == [b"directory", b"file", b"link"]
    assert served.status(putrootfh(), lookupp()) == "NOENT"


@pytest.mark.req("NF4-22")
def test_exports_are_found_by_the_parts_of_their_names(serve: Callable[..., Served]) -> None:
    served = serve({"name": "/a/one"}, {"name": "/a/two"}, {"name": "/b"})
    assert names(served.run(putrootfh(), readdir())) == [b"a", b"b"]
    assert names(served.run(putrootfh(), lookup("a"), readdir())) == [b"one", b"two"]
    assert names(served.run(putrootfh(), lookup("a"), lookup("two"), readdir())) == [b"directory", b"file", b"link"]
    assert served.status(putrootfh(), lookup("c")) == "NOENT"
    assert served.status(putrootfh(), lookup("a"), lookup("three")) == "NOENT"


@pytest.mark.req("NF4-22")
def test_the_way_up_leads_out_of_an_export(serve: Callable[..., Served]) -> None:
    served = serve({"name": "/a/one"}, {"name": "/b"})
    root, above = served.client.handle(), served.client.handle("a")
    up = served.run(putrootfh(), lookup("a"), lookup("one"), lookup("directory"), lookupp(), lookupp(), getfh())
    assert up.value(10) == above
    assert served.run(putfh(above), lookupp(), getfh()).value(10) == root
    assert served.status(putfh(root), lookupp()) == "NOENT"


def test_an_export_below_another_one_covers_the_name_there(serve: Callable[..., Served], tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/here").touch()
    served = serve({"name": "/"}, {"name": "/directory", "directory": tmp_path / "other"})
    assert names(served.run(putrootfh(), lookup("directory"), readdir())) == [b"here"]
    assert served.status(putrootfh(), lookup("directory"), lookup("inner")) == "NOENT"
    assert names(served.run(putrootfh(), lookup("directory"), lookupp(), readdir())) == [b"directory", b"file", b"link"]


def test_a_covered_name_is_listed_as_its_export_and_nobody_changes_it(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    served = serve({"name": "/"}, {"name": "/directory", "directory": tmp_path / "other"}, {"name": "/fresh"})
    wanted = FSID | FILEID, MOUNTED_ON
    listed = {name: value for _, name, _, value in served.run(putrootfh(), readdir(0, *wanted)).value(26)[0]}
    fsid, _, number, mounted_on = struct.unpack(">QQQQ", listed[b"directory"])
    found = served.run(putrootfh(), lookup("directory"), getattr_(FSID | FILEID)).value(9)[1]
    assert (fsid, number) == struct.unpack(">Q8xQ", found)
    assert mounted_on == (tmp_path / "files/directory").stat().st_ino
    for name in ("directory", "fresh"):
        assert served.status(putrootfh(), remove(name)) == "FILE_OPEN"
        assert served.status(putrootfh(), savefh(), rename(name, "moved")) == "FILE_OPEN"
        assert served.status(putrootfh(), savefh(), rename("file", name)) == "FILE_OPEN"
        assert served.status(putrootfh(), create(name, 2)) == "EXIST"
        assert served.status(putrootfh(), lookup("file"), savefh(), putrootfh(), link(name)) == "EXIST"
        assert served.status(putrootfh(), open_(b"o", READ, name=name, create=GUARDED)) == "EXIST"
        assert served.status(putrootfh(), open_(b"o", READ, name=name, create=UNCHECKED)) == "ISDIR"
    assert sorted(each.name for each in (tmp_path / "files").iterdir()) == ["directory", "file", "link"]


def described(served: Served, *path: str) -> tuple[int, int, int]:
    """(fsid, fileid, mounted_on_fileid) by GETATTR, which are those of READDIR in the directory above."""
    wanted = FSID | FILEID, MOUNTED_ON
    found: bytes = served.run(putrootfh(), *map(lookup, path), getattr_(*wanted)).value(9)[1]
    *above, name = path
    for numbers in (wanted, (FILEID, MOUNTED_ON)):
        listed = served.run(putrootfh(), *map(lookup, above), readdir(0, *numbers)).value(26)[0]
        (there,) = [value for _, each, _, value in listed if each == name.encode()]
        assert there in {found, found[16:]}
    fsid, _, number, mounted_on = struct.unpack(">QQQQ", found)
    return fsid, number, mounted_on


@pytest.mark.req("NF4-22")
def test_an_export_covers_a_directory_at_any_depth_of_another_one(serve: Callable[..., Served], tmp_path: Path) -> None:
    for name in ("other/here", "files/directory/sub/real", "elsewhere/sub"):
        (tmp_path / name).mkdir(parents=True)
    below = {"name": "/directory/sub", "directory": tmp_path / "other"}
    served = serve({"name": "/"}, below, {"name": "/sub", "directory": tmp_path / "elsewhere"})
    way = lookup("directory"), lookup("sub")
    assert names(served.run(putrootfh(), *way, readdir())) == [b"here"]
    root = served.local.trees[1].root.attributes()
    covered = tmp_path / "files/directory/sub"
    assert described(served, "directory", "sub") == (root.fsid, root.number, covered.stat().st_ino)
    above = served.client.handle("directory")
    assert served.run(putrootfh(), *way, lookupp(), getfh()).value(10) == above
    assert served.run(putfh(above), lookup("sub"), readdir()).value(26)[0][0][1] == b"here"
    for change in (remove("sub"), create("sub", 2), open_(b"o", READ, name="sub", create=GUARDED)):
        assert served.status(putfh(above), change) in {"FILE_OPEN", "EXIST"}
    assert served.status(putfh(above), savefh(), rename("inner", "sub")) == "FILE_OPEN"
    assert served.status(putfh(above), lookup("sub"), secinfo_no_name(1)) == "OK"
    # A directory of the same name elsewhere is none of it.
    assert served.status(putrootfh(), lookup("sub"), lookup("sub"), lookup("here")) == "NOENT"
    # What is there may be another directory at another time.
    covered.rename(tmp_path / "files/moved")
    covered.mkdir()
    assert described(served, "directory", "sub")[2] == covered.stat().st_ino
    (tmp_path / "files/directory").rename(tmp_path / "files/away")
    assert names(served.run(putrootfh(), *way, lookupp(), readdir())) == [b"sub"], "the way to an export stays"
    assert served.status(putfh(above), lookup("sub"), lookup("here")) == "NOENT"
    assert served.status(putfh(above), remove("sub")) == "OK"


def test_an_export_that_ends_while_its_name_is_looked_up_covers_nothing(
    serve: Callable[..., Served], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "files/directory/sub").mkdir()
    (tmp_path / "other").mkdir()
    below = {"name": "/directory/sub", "directory": tmp_path / "other"}
    served = serve({"name": "/"}, below)
    look = handles._directory_at

    def ended(*where: Any) -> Any:
        found = look(*where)
        served.change_exports({"name": "/"})
        return found

    monkeypatch.setattr(handles, "_directory_at", ended)
    for operation in (readdir(), lookup("sub")):
        assert served.status(putrootfh(), lookup("directory"), operation) == "OK"
        served.change_exports({"name": "/"}, below)


@pytest.mark.parametrize("path", [("directory",), ("directory", "within")])
def test_a_directory_that_cannot_be_read_for_now_hides_no_export_below_it_and_nothing_beside_it(
    path: tuple[str, ...], serve: Callable[..., Served], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "files" / "/".join(path) / "sub").mkdir(parents=True)
    (tmp_path / "files/elsewhere/deeper").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    beside: list[list[bytes]] = [
        [lookup(name) for name in way] for way in ((), ("elsewhere",), ("elsewhere", "deeper"))
    ]
    for directory in ("files", "files/elsewhere", "files/elsewhere/deeper"):
        (tmp_path / directory / "sub").touch()
    served = serve({"name": "/"}, {"name": f"/{'/'.join(path)}/sub", "directory": tmp_path / "other"})
    above = served.client.handle(*path)
    root = served.run(putrootfh(), *map(lookup, path), lookup("sub"), getfh()).value(10)
    node = type(served.local.trees[0].root)
    look = node.lookup

    def failing(self: Any, who: Any, name: bytes, **how: Any) -> Any:
        if name == b"directory":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return look(self, who, name, **how)

    with monkeypatch.context() as patch:
        patch.setattr(node, "lookup", failing)
        assert [served.status(putfh(above), call) for call in (lookup("sub"), remove("sub"), readdir())] == ["IO"] * 3
        assert served.status(putfh(root), lookupp()) == "IO"
        assert served.status(putfh(root), getattr_(0, MOUNTED_ON)) == "OK", "the export below is whole"
        for way in beside:
            assert {served.status(putrootfh(), *way, call) for call in (lookup("sub"), readdir())} == {"OK"}


def test_a_path_that_comes_to_lie_within_an_export_has_a_number_that_no_file_there_has(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    below = {"name": "/absent/sub", "directory": tmp_path / "other"}
    served = serve(below)
    served.change_exports({"name": "/"}, below)
    assert described(served, "absent", "sub")[2] >= 1 << 63


def test_an_export_above_that_comes_later_has_the_directory_that_a_root_covers(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    below = {"name": "/a/directory", "directory": tmp_path / "other"}
    served = serve(below)
    ask = (putrootfh(), lookup("a"), lookup("directory"), getattr_(0, MOUNTED_ON))
    (before,) = struct.unpack(">Q", served.run(*ask).value(9)[1])
    served.change_exports({"name": "/a"}, below)
    (after,) = struct.unpack(">Q", served.run(*ask).value(9)[1])
    assert before >= 1 << 63
    assert after == (tmp_path / "files/directory").stat().st_ino


def test_attributes_of_a_root_within_a_silent_export_wait_for_it_only_if_they_are_of_it(
    serve: Callable[..., Served], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    served = serve({"name": "/"}, {"name": "/directory/sub", "directory": tmp_path / "other"})
    root = served.run(putrootfh(), lookup("directory"), lookup("sub"), getfh()).value(10)
    looks: list[Any] = []
    look = handles._directory_at
    monkeypatch.setattr(handles, "_directory_at", lambda *where: (looks.append(where), look(*where))[1])
    assert served.status(putfh(root), getattr_(FILEID)) == "OK"
    assert not looks
    assert served.status(putfh(root), getattr_(0, MOUNTED_ON)) == "OK"
    assert looks


def test_a_path_to_an_export_does_not_cover_a_directory_of_another(serve: Callable[..., Served]) -> None:
    served = serve({"name": "/"}, *({"name": name} for name in ("/directory/below", "/new/below", "/directory/x/y")))
    assert names(served.run(putrootfh(), lookup("directory"), readdir())) == [b"inner"]
    assert served.status(putrootfh(), lookup("directory"), lookup("below"), lookup("file")) == "OK"
    up = served.run(putrootfh(), *map(lookup, ("directory", "x", "y")), lookupp(), lookupp(), getfh())
    assert up.value(10) == served.client.handle("directory")
    assert names(served.run(putrootfh(), lookup("new"), readdir())) == [b"below"]
    assert served.status(putrootfh(), lookup("new"), lookup("below"), lookup("file")) == "OK"


def test_each_export_has_a_file_system_id_and_covers_a_number_of_the_directory_above(
    serve: Callable[..., Served],
) -> None:
    served = serve({"name": "/a"}, {"name": "/b"})

    def attributes(*path: str) -> tuple[int, int, int]:
        found = served.run(putrootfh(), *map(lookup, path), getattr_(FSID | FILEID, MOUNTED_ON)).value(9)[1]
        fsid, _, number, mounted_on = struct.unpack(">QQQQ", found)
        return fsid, number, mounted_on

    root, a, b = attributes(), attributes("a"), attributes("b")
    assert (described(served, "a"), described(served, "b")) == (a, b)
    assert len({root[0], a[0], b[0]}) == 3
    assert root[1] == root[2]
    assert len({root[2], a[2], b[2]}) == 3
    inner = attributes("a", "directory")
    assert (inner[0], inner[1]) == (a[0], inner[2])
    listed = served.run(putrootfh(), readdir(0, FSID, MOUNTED_ON)).value(26)[0]
    assert {name: struct.unpack(">QQQ", values) for _, name, _, values in listed} == {
        b"a": (a[0], 0, a[2]),
        b"b": (b[0], 0, b[2]),
    }


def test_a_call_that_asks_in_the_midst_of_a_change_finds_no_export(serve: Callable[..., Served]) -> None:
    above = serve({"name": "/a"}).server.service.exports
    handle = above.at((b"a",)).handle

    class Changing(dict[bytes, tuple[bytes, ...]]):
        def get(self, *key: Any) -> Any:
            above._roots = {}
            return super().get(*key)

    above._paths = Changing(above._paths)
    assert above.export_of(handle) is None


def test_a_host_is_judged_while_another_thread_forgets_hosts_or_ends_exports(serve: Callable[..., Served]) -> None:
    above = serve({"name": "/a"}).server.service.exports
    context: Any = SimpleNamespace(client=SimpleNamespace(origin=CallOrigin("192.0.2.7", "tcp")))

    class Cleared(dict[CallOrigin, bool]):
        def __setitem__(self, *_: Any) -> None:
            pass

    above._hosts = Cleared()
    above.check_host(context)
    above._hosts = {context.client.origin: False}
    above._roots = {}
    above.check_host(context)


def test_a_listing_leaves_out_an_export_that_ends_meanwhile(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve({"name": "/a"}, {"name": "/b"})
    exports = served.server.service.exports
    look = exports.names_below
    found = [look(())] * 2

    def ended(*path: Any, **named: Any) -> list[bytes]:
        served.change_exports({"name": "/a"})
        return found.pop() if found else look(*path, **named)

    monkeypatch.setattr(exports, "names_below", ended)
    assert names(served.run(putrootfh(), readdir())) == [b"a"]
    assert not found


def test_a_listing_with_attributes_of_the_file_system_goes_on_past_entries_that_are_removed_meanwhile(
    serve: Callable[..., Served], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve()
    file, describe = served.client.handle("file"), listing.Described

    def removing(attributes: Any, handle: bytes, *more: Any, **named: Any) -> Any:
        if handle == file:
            (tmp_path / "files/file").unlink()
        return describe(attributes, handle, *more, **named)

    monkeypatch.setattr(listing, "Described", removing)
    assert names(served.run(putrootfh(), readdir(0, MAXNAME))) == [b"directory", b"file", b"link"]


def test_a_look_at_a_pseudo_directory_does_not_pass_all_exports(serve: Callable[..., Served]) -> None:
    root = serve(*({"name": f"/far/{number}"} for number in range(100))).server.service.exports.root
    entered = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal entered
        entered += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        found = root.attributes()
    finally:
        sys.setprofile(None)
    assert found.links == 3
    assert entered < 50


def test_nothing_is_changed_in_the_pseudo_root(serve: Callable[..., Served]) -> None:
    served = serve({"name": "/a"}, {"name": "/b"})
    assert served.run(putrootfh(), access(0x3F)).value(3) == (0x3F, 0x23)
    assert served.status(putrootfh(), create("new", 2)) == "ROFS"
    assert served.status(putrootfh(), remove("a")) == "ROFS"
    assert served.status(putrootfh(), savefh(), putrootfh(), rename("a", "b")) == "ROFS"
    assert served.status(putrootfh(), setattr_({33: u32(0o777)})) == "ROFS"
    assert served.status(putrootfh(), open_(b"owner", READ, name="new", create=0)) == "ROFS"
    assert served.status(putrootfh(), open_(b"owner", READ)) == "ISDIR"
    assert served.status(putrootfh(), readlink()) == "WRONG_TYPE"
    assert served.status(putrootfh(), getattr_(1 << 21 | 1 << 29, 1 << 42 - 32)) == "OK"


def test_an_export_is_closed_to_other_hosts_and_its_name_is_seen(serve: Callable[..., Served]) -> None:
    served = serve({"name": "/open"}, {"name": "/closed", "hosts": (ip_network("198.51.100.0/24"),)})
    assert served.status(putrootfh(), lookup("closed")) == "ACCESS"
    error, mounted_on = 1 << 11, MOUNTED_ON
    listed = served.run(putrootfh(), readdir(0, error | SIZE, mounted_on)).value(26)[0]
    (closed,) = [entry for entry in listed if entry[1] == b"closed"]
    assert (closed[2], closed[3]) == ((error,), u32(13))
    # A client that cannot be told of the error gets what is known.
    listed = served.run(putrootfh(), readdir(0, SIZE, mounted_on)).value(26)[0]
    (closed,) = [entry for entry in listed if entry[1] == b"closed"]
    assert (closed[2], len(closed[3])) == ((0, mounted_on), 8)


def test_the_way_into_an_export_looks_up_the_groups_of_its_user(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve({"name": "/one", "groups": "server"}, {"name": "/two"})
    for place in (served.place, served.place.parent):
        place.chmod(0o755)
    os.chown(served.place / "files", 0, 50)
    (served.place / "files").chmod(0o750)
    bob = served.server.client(credential=AuthSys(uid=1001, gid=1001)).start()
    groups = served.local.parts.groups
    hops: list[int] = []

    def find(uid: int) -> tuple[int, ...]:
        hops.append(served.server.hops)
        groups.known[uid] = (50,)
        return groups.known[uid]

    monkeypatch.setattr(groups, "find", find)
    inner = (lookup("directory"), lookup("inner"), getfh())
    served.server.hops = 0
    found = bob.run(putrootfh(), lookup("one"), *inner)
    assert (found.status, len(hops), served.server.hops) == ("OK", 1, 1)
    groups.known.clear()
    served.local.parts.admission.forget()
    assert bob.run(putfh(found.value(10)), access(1)).status == "OK"
    assert (len(hops), served.server.hops) == (2, 2)
    assert bob.run(putfh(found.value(10)), access(1)).status == "OK"
    assert (len(hops), served.server.hops) == (2, 2), "known groups need no worker thread"
    assert bob.run(putrootfh(), lookup("two"), *inner).status == "ACCESS"


# Security flavors


@pytest.mark.req("NF4-23")
def test_flavors_are_told_and_end_the_filehandle(serve: Callable[..., Served]) -> None:
    served = serve()
    assert served.run(putrootfh(), secinfo_no_name()).value(52) == [1, 0]
    assert served.run(putrootfh(), secinfo("directory")).value(33) == [1, 0]
    for ask in (secinfo_no_name(), secinfo("directory")):
        assert served.status(putrootfh(), ask, getfh()) == "NOFILEHANDLE"
    assert served.status(putrootfh(), secinfo("none")) == "NOENT"
    assert served.status(putrootfh(), lookup("file"), secinfo("none")) == "NOTDIR"
    assert served.run(putrootfh(), lookup("directory"), secinfo_no_name(1)).value(52) == [1, 0]
    assert served.status(putrootfh(), secinfo_no_name(1)) == "NOENT"


def test_an_export_that_asks_for_kerberos_is_found_and_tells_its_flavors(serve: Callable[..., Served]) -> None:
    served = serve({"name": "/plain"}, {"name": "/proved", "security": (SecurityFlavor.KRB5P, SecurityFlavor.KRB5)})
    assert served.status(putrootfh(), lookup("proved")) == "WRONGSEC"
    assert served.run(putrootfh(), secinfo("proved")).value(33) == [(KERBEROS, 0, 3), (KERBEROS, 0, 1)]
    # On the way there every flavor of an export does.
    assert served.run(putrootfh(), secinfo_no_name()).value(52) == [1, 0, (KERBEROS, 0, 3), (KERBEROS, 0, 1)]


def test_whoever_asks_for_flavors_needs_none_of_them(serve: Callable[..., Served]) -> None:
    """RFC 8881 section 2.6.3.1.1."""
    proved = {"security": (SecurityFlavor.KRB5,), "versions": (4,)}
    served = serve({"name": "/a"} | proved, {"name": "/a/b"} | proved)
    above, below = (each.root.handle for each in served.local.trees)
    handle = served.local.trees[0].root.lookup(Grant(ServingUser()), b"directory", at_once=False).handle
    flavors = [(KERBEROS, 0, 1)]
    for each in (above, below, handle):
        assert served.run(putfh(each), secinfo_no_name()).value(52) == flavors
        assert served.status(putfh(each), getattr_(SIZE)) == "WRONGSEC"
    assert served.run(putfh(above), secinfo("directory")).value(33) == flavors
    assert served.run(putfh(above), secinfo("b")).value(33) == flavors
    assert served.run(putfh(below), secinfo_no_name(1)).value(52) == flavors


def test_the_flavors_of_a_root_that_asks_for_another_one_are_told(serve: Callable[..., Served]) -> None:
    # Version 3, whose MOUNT lets everybody ask, does not serve it.
    served = serve({"name": "/", "security": (SecurityFlavor.KRB5,), "versions": (4,)})
    assert served.run(putrootfh(), secinfo_no_name()).value(52) == [(KERBEROS, 0, 1)]
    assert served.status(putrootfh(), getfh()) == "WRONGSEC"
