"""Extended attributes by version 4.2 (RFC 8276): GETXATTR, SETXATTR, LISTXATTRS, REMOVEXATTR."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.nfs.export import linux_calls
from rpcrdma.rpc.auth import AuthSys
from served_exports import CHANGE, Served, u32, u64
from support.nfs4_client import (
    FORE,
    READ,
    Client,
    access,
    delegreturn,
    getattr_,
    getxattr,
    listxattrs,
    lookup,
    open_,
    putfh,
    putrootfh,
    removexattr,
    setattr_,
    setxattr,
)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the server acts as its callers")

CREATE, REPLACE = 1, 2
CTIME, XATTR_SUPPORT = 1 << 52 - 32, 1 << 82 - 64
XAREAD, XAWRITE, XALIST = 0x40, 0x80, 0x100


class Xattrs:
    """A file, and a client that asks for its attributes."""

    def __init__(self, served: Served, path: Path) -> None:
        self.served, self.path = served, path
        self.handle = served.client.handle("file")

    def run(self, *operations: bytes, client: Client | None = None) -> Any:
        return (client or self.served.client).run(putfh(self.handle), *operations, minor=2)

    def status(self, *operations: bytes) -> Any:
        return self.run(*operations).status

    def names(self, cookie: int = 0, octets: int = 8192) -> Any:
        return self.run(listxattrs(cookie, octets)).value(74)


@pytest.fixture
def xattrs(serve: Callable[..., Served], tmp_path: Path) -> Xattrs:
    return Xattrs(serve(), tmp_path / "files/file")


@pytest.mark.req("NF4-40")
def test_values_are_those_of_local_programs_without_the_prefix_of_linux(xattrs: Xattrs) -> None:
    assert xattrs.names() == (0, [], True)
    assert xattrs.status(setxattr(b"checksum", b"\0\xff", CREATE)) == "OK"
    assert os.getxattr(xattrs.path, "user.checksum") == b"\0\xff"
    os.setxattr(xattrs.path, "user.with/slash", b"")
    os.setxattr(xattrs.path, "trusted.secret", b"of the system")
    assert xattrs.run(getxattr(b"with/slash")).value(72) == b""
    assert xattrs.run(getxattr(b"checksum")).value(72) == b"\0\xff"
    assert sorted(xattrs.names()[1]) == [b"checksum", b"with/slash"]
    assert xattrs.status(getxattr(b"secret")) == "NOXATTR"
    assert xattrs.status(removexattr(b"checksum")) == "OK"
    assert os.listxattr(xattrs.path) == ["user.with/slash", "trusted.secret"]


@pytest.mark.req("NF4-36")
@pytest.mark.req("NF4-37")
@pytest.mark.req("NF4-38")
def test_attributes_that_exist_and_those_that_do_not_are_told_apart(xattrs: Xattrs) -> None:
    assert xattrs.status(getxattr(b"name")) == "NOXATTR"
    assert xattrs.status(removexattr(b"name")) == "NOXATTR"
    assert xattrs.status(setxattr(b"name", b"1", REPLACE)) == "NOXATTR"
    assert xattrs.status(setxattr(b"name", b"2", CREATE)) == "OK"
    assert xattrs.status(setxattr(b"name", b"3", CREATE)) == "EXIST"
    assert xattrs.run(getxattr(b"name")).value(72) == b"2"
    assert xattrs.status(setxattr(b"name", b"4", REPLACE)) == "OK"
    assert xattrs.status(setxattr(b"name", b"5")) == "OK"
    assert xattrs.run(getxattr(b"name")).value(72) == b"5"
    assert xattrs.status(setxattr(b"name", b"", 3)) == "BADXDR"


def test_attributes_of_what_another_client_may_have_delegated_change_after_the_grace_period(xattrs: Xattrs) -> None:
    os.setxattr(xattrs.path, "user.name", b"1")
    xattrs.served.server.claims.in_grace = True
    changes = setxattr(b"name", b"2"), removexattr(b"name"), setattr_({33: u32(0o600)})
    assert [xattrs.status(change) for change in changes] == ["GRACE"] * 3
    xattrs.served.server.claims.in_grace = False
    assert [xattrs.status(change) for change in changes] == ["OK"] * 3


@pytest.mark.req("NF4-39")
def test_each_change_moves_the_change_attribute_and_the_time_of_the_metadata(xattrs: Xattrs) -> None:
    os.utime(xattrs.path, (1, 1))
    for operation, number in ((setxattr(b"name", b"1"), 73), (setxattr(b"name", b"2"), 73), (removexattr(b"name"), 75)):
        before = xattrs.run(getattr_(CHANGE)).value(9)[1]
        # The clock of the file system has ticked once it gives another time to another file.
        ticked(xattrs.path)
        ctime = xattrs.run(getattr_(0, CTIME)).value(9)[1]
        reply = xattrs.run(operation, getattr_(CHANGE))
        atomic, was, now = reply.value(number)
        assert (atomic, u64(was), u64(now)) == (1, before, reply.value(9)[1])
        assert was != now
        assert xattrs.run(getattr_(0, CTIME)).value(9)[1] > ctime


def ticked(path: Path) -> None:
    """Waits until the clock of the file system is behind the last change of a file."""
    since = path.stat().st_ctime_ns
    while linux_calls.file_clock_ns() <= since:
        pass


def test_a_listing_goes_on_behind_a_name_though_others_come_and_go(xattrs: Xattrs) -> None:
    everything = [b"name%02d" % number for number in range(20)]
    for name in everything:
        os.setxattr(xattrs.path, b"user." + name, b"")
    found: list[bytes] = []
    cookie, ends = 0, False
    while not ends:
        # Room for three names.
        cookie, names, ends = xattrs.names(cookie, 16 + 3 * 12)
        assert len(names) == 3 or ends
        found += names
        # A name before the cookie goes, which would move all others were they counted.
        if len(found) == 3:
            assert xattrs.status(removexattr(found[0])) == "OK"
    assert sorted(found) == everything
    assert xattrs.names(cookie) == (cookie, [], True)


@pytest.mark.req("NF4-41")
def test_a_listing_without_room_for_a_name_is_refused(xattrs: Xattrs) -> None:
    assert xattrs.names(0, 16) == (0, [], True)
    assert xattrs.status(listxattrs(0, 15)) == "TOOSMALL"
    os.setxattr(xattrs.path, b"user.12345", b"")
    assert xattrs.status(listxattrs(0, 16 + 11)) == "TOOSMALL"
    assert xattrs.names(0, 16 + 12)[1:] == ([b"12345"], True)
    # Over RDMA the memory that the client offers is a bound, too: 64 octets come before the result.
    xattrs.served.server.offered = 64 + 8 + 16 + 12
    assert xattrs.run(listxattrs()).status == "OK"
    xattrs.served.server.offered -= 1
    assert xattrs.run(listxattrs()).status == "TOOSMALL"


def test_names_that_linux_cannot_have_are_refused(xattrs: Xattrs) -> None:
    operations: list[Callable[[bytes], bytes]] = [getxattr, removexattr, lambda name: setxattr(name, b"")]
    for operation in operations:
        assert xattrs.status(operation(b"")) == "INVAL"
        assert xattrs.status(operation(b"a\0b")) == "INVAL"
        assert xattrs.status(operation(b"n" * 251)) == "NAMETOOLONG"
        assert xattrs.status(operation(b"n" * 250)) in {"OK", "NOXATTR"}


def test_values_have_at_most_64_kib(xattrs: Xattrs) -> None:
    assert xattrs.status(setxattr(b"name", bytes((64 << 10) + 1))) == "XATTR2BIG"
    assert xattrs.status(setxattr(b"name", bytes((1 << 20) + 1))) == "XATTR2BIG"
    # The file system may have less room for a value.
    assert xattrs.status(setxattr(b"name", bytes(64 << 10))) in {"OK", "NOSPC", "XATTR2BIG"}
    assert xattrs.status(setxattr(b"name", bytes(9 << 17))) == "REQ_TOO_BIG"


@pytest.mark.req("NF4-35")
def test_a_value_beyond_the_reply_is_refused(xattrs: Xattrs) -> None:
    os.setxattr(xattrs.path, "user.name", bytes(1000))
    small = xattrs.served.server.client("small").start(fore=FORE._replace(reply_octets=1000))
    assert xattrs.run(getxattr(b"name"), client=small).status == "REP_TOO_BIG"
    xattrs.served.server.offered = 1000
    assert xattrs.status(getxattr(b"name")) == "REP_TOO_BIG"


def test_a_file_system_that_is_full_says_so(xattrs: Xattrs, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, status in ((errno.ENOSPC, "NOSPC"), (errno.E2BIG, "XATTR2BIG"), (errno.EIO, "IO")):

        def fail(*_: Any, number: int = number) -> None:
            raise OSError(number, "full")

        monkeypatch.setattr(os, "setxattr", fail)
        assert xattrs.status(setxattr(b"name", b"")) == status


def test_the_permissions_of_the_file_protect_its_attributes(xattrs: Xattrs, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    os.setxattr(xattrs.path, "user.name", b"value")
    stranger = xattrs.served.server.client("stranger", credential=AuthSys(uid=1000, gid=1000)).start()
    everything = XAREAD | XAWRITE | XALIST
    for mode, granted in ((0o600, 0), (0o604, XAREAD | XALIST), (0o602, XAWRITE), (0o606, everything)):
        xattrs.path.chmod(mode)
        assert xattrs.run(access(everything), client=stranger).value(3) == (everything, granted)
        for operation, bit in (
            (getxattr(b"name"), XAREAD),
            (listxattrs(), XALIST),
            (setxattr(b"name", b"value"), XAWRITE),
            (removexattr(b"other"), XAWRITE),
        ):
            refused = xattrs.run(operation, client=stranger).status == "ACCESS"
            assert refused is not bool(granted & bit)


def test_rights_to_attributes_are_granted_beside_the_others(xattrs: Xattrs) -> None:
    assert xattrs.run(access(0x1FF)).value(3) == (0x1FF, 0x1FF & ~0x02 & ~0x10 & ~0x20)
    assert xattrs.run(access(XAREAD | 0x04)).value(3) == (XAREAD | 0x04, XAREAD | 0x04)
    assert xattrs.status(access(0x200)) == "INVAL"


@pytest.mark.req("NF4-34")
def test_a_tree_without_attributes_has_none_of_the_operations(
    serve: Callable[..., Served], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    xattrs = Xattrs(serve(), tmp_path)
    assert xattrs.run(getattr_(0, 0, XATTR_SUPPORT)).value(9)[1] == u32(1)
    tree: Any = xattrs.served.server.service.exports.trees[0]
    tree.xattrs = False
    assert xattrs.run(getattr_(0, 0, XATTR_SUPPORT)).value(9)[1] == u32(0)
    for operation in (getxattr(b"n"), setxattr(b"n", b""), listxattrs(), removexattr(b"n")):
        assert xattrs.status(operation) == "NOTSUPP"
    assert xattrs.run(access(XAREAD | 0x04)).value(3) == (0x04, 0x04)


def test_a_file_system_is_asked_whether_it_has_attributes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert linux_calls.has_user_xattrs(os.fsencode(tmp_path))
    assert not linux_calls.has_user_xattrs(b"/proc/self")
    monkeypatch.setattr(os, "getxattr", lambda *_: b"")
    assert linux_calls.has_user_xattrs(b"/proc/self")


def test_minor_version_1_has_none_of_the_operations(xattrs: Xattrs) -> None:
    for operation in (getxattr(b"n"), setxattr(b"n", b""), listxattrs(), removexattr(b"n")):
        assert xattrs.served.status(putfh(xattrs.handle), operation) == "OP_ILLEGAL"


def test_only_files_and_directories_have_attributes(serve: Callable[..., Served], tmp_path: Path) -> None:
    served = serve()
    os.mkfifo(tmp_path / "files/fifo")
    for name in ("link", "fifo"):
        for operation in (getxattr(b"n"), setxattr(b"n", b""), listxattrs(), removexattr(b"n")):
            assert served.run(putrootfh(), lookup(name), operation, minor=2).status == "WRONG_TYPE"
        assert served.run(putrootfh(), lookup(name), access(XAREAD), minor=2).value(3) == (0, 0)
    assert served.run(putrootfh(), setxattr(b"n", b"v"), minor=2).status == "OK"
    assert os.getxattr(tmp_path / "files", "user.n") == b"v"


def test_a_read_only_export_keeps_its_attributes(serve: Callable[..., Served], tmp_path: Path) -> None:
    xattrs = Xattrs(serve({"name": "/", "read_only": True}), tmp_path / "files/file")
    os.setxattr(xattrs.path, "user.name", b"value")
    assert xattrs.status(setxattr(b"name", b"")) == "ROFS"
    assert xattrs.status(removexattr(b"name")) == "ROFS"
    assert xattrs.run(getxattr(b"name")).value(72) == b"value"
    assert xattrs.run(access(XAREAD | XAWRITE)).value(3) == (XAREAD | XAWRITE, XAREAD)


@pytest.mark.req("NF4-42")
def test_share_reservations_do_not_concern_attributes(xattrs: Xattrs) -> None:
    other = xattrs.served.server.client("other").start()
    assert xattrs.run(open_(b"owner", READ, 3)).status == "OK"
    for operation in (setxattr(b"name", b"value"), getxattr(b"name"), removexattr(b"name")):
        assert xattrs.run(operation, client=other).status == "OK"


@pytest.mark.req("NF4-42")
def test_a_change_waits_for_the_delegations_of_other_clients(xattrs: Xattrs) -> None:
    xattrs.served.local.parts.leases.files_max = 1
    holder, other = xattrs.served.client, xattrs.served.server.client("other").start()
    file = putrootfh(), lookup("file")
    delegation = holder.run(*file, open_(b"owner", READ)).value(18)["delegation"]
    assert delegation is not None
    for operation in (setxattr(b"name", b"1"), removexattr(b"name")):
        assert other.run(*file, operation, minor=2).status == "DELAY"
        assert holder.run(*file, operation, minor=2).status == "OK"
    assert other.run(*file, listxattrs(), minor=2).value(74) == (0, [], True)
    assert holder.run(*file, delegreturn(delegation)).status == "OK"
    assert other.run(*file, setxattr(b"name", b"2"), minor=2).status == "OK"


def test_attributes_are_changed_in_a_worker_thread(xattrs: Xattrs) -> None:
    tree: Any = xattrs.served.server.service.exports.trees[0]
    tree.in_memory = False
    server = xattrs.served.server
    for operation in (setxattr(b"name", b""), getxattr(b"name"), listxattrs(), removexattr(b"name")):
        before = server.hops
        assert xattrs.status(operation) == "OK"
        assert server.hops == before + 1
