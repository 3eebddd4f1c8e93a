"""Copies that the server makes by version 4.2: COPY, CLONE."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.nfs.export import file_access
from rpcrdma.nfs.v4.server import copying
from rpcrdma.rpc.auth import AuthSys
from served_exports import SIZE, Served, u64
from support.nfs4_client import (
    ANONYMOUS,
    CURRENT,
    MAX64,
    READ,
    WRITE,
    Client,
    clone,
    close,
    commit,
    copy,
    getattr_,
    lookup,
    opaque,
    open_,
    putfh,
    putrootfh,
    savefh,
)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the server acts as its callers")

CONTENT = bytes(range(256)) * 40


class Two:
    """A source with content and an empty target, which a client has open for reading and for writing."""

    def __init__(self, served: Served, directory: Path) -> None:
        self.served = served
        self.source, self.target = directory / "file", directory / "target"
        self.source.write_bytes(CONTENT)
        self.target.touch()
        client = served.client
        self.handles = client.handle("file"), client.handle("target")
        self.reads = client.opened(self.handles[0], READ)
        self.writes = client.opened(self.handles[1], WRITE, owner=b"writer")

    def run(self, *operations: bytes, client: Client | None = None) -> Any:
        source, target = self.handles
        return (client or self.served.client).run(putfh(source), savefh(), putfh(target), *operations, minor=2)

    def copied(self, start: int, to: int, count: int, **more: Any) -> Any:
        return self.run(copy(self.reads, self.writes, start, to, count, **more)).value(60)


@pytest.fixture
def two(serve: Callable[..., Served], tmp_path: Path) -> Two:
    return Two(serve(), tmp_path / "files")


@pytest.fixture
def cloned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """(offset, offset in the target, octets) of the ranges that were cloned by a file system that can."""
    ranges = []

    def clone_range(source: int, source_offset: int, fd: int, offset: int, octets: int) -> None:
        ranges.append((source_offset, offset, octets))
        os.copy_file_range(source, fd, octets or 1 << 20, source_offset, offset)

    monkeypatch.setattr(file_access, "clone_range", clone_range)
    return ranges


def test_a_range_is_copied_and_stays_after_commit(two: Two) -> None:
    octets, stable, verifier = two.copied(256, 10, 500)
    assert (octets, stable) == (500, 0)
    assert two.target.read_bytes() == bytes(10) + CONTENT[256:756]
    reply = two.run(copy(two.reads, two.writes, 0, 0, 10), commit(), getattr_(SIZE))
    assert reply.value(5) == reply.value(60)[2] == verifier
    assert reply.value(9)[1] == u64(510)
    assert two.target.read_bytes() == CONTENT[:10] + CONTENT[256:756]


@pytest.mark.req("NF4-31")
def test_no_octets_stand_for_the_rest_of_the_source(two: Two) -> None:
    assert two.copied(256, 0, 0)[0] == len(CONTENT) - 256
    assert two.target.read_bytes() == CONTENT[256:]
    change = two.run(getattr_(1 << 3)).value(9)
    assert two.copied(len(CONTENT), 0, 0)[0] == 0
    assert two.run(getattr_(1 << 3)).value(9) == change


@pytest.mark.req("NF4-30")
def test_octets_that_the_source_does_not_have_are_refused(two: Two, cloned: list[tuple[int, ...]]) -> None:
    for operation in (copy, clone):
        for start, to, count, status in (
            (0, 0, len(CONTENT) + 1, "INVAL"),
            (len(CONTENT) + 1, 0, 0, "INVAL"),
            (1, 0, MAX64, "INVAL"),
            (MAX64, MAX64, MAX64, "INVAL"),
            (0, MAX64, 0, "FBIG"),
            (0, (1 << 63) - 2, 2, "FBIG"),
        ):
            assert two.run(operation(two.reads, two.writes, start, to, count)).status == status
    assert two.target.read_bytes() == b""
    assert cloned == []


def test_a_long_copy_is_cut_short(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "NFS4_COPY_OCTETS_MAX", 1000)
    assert two.copied(0, 0, 0)[0] == 1000
    assert two.copied(1000, 1000, 2000)[0] == 1000
    assert two.target.read_bytes() == CONTENT[:2000]
    parts = [copy(two.reads, two.writes, start, 2000 + start, 600) for start in (0, 600, 1000)]
    reply = two.run(*parts)
    copies = [(status, value and value[0]) for operation, status, value in reply.results if operation == 60]
    assert copies == [("OK", 600), ("OK", 400), ("DELAY", None)], "all COPYs of a call together"


def test_a_copy_that_need_not_be_synchronous_is_so_all_the_same(two: Two) -> None:
    assert two.copied(0, 0, 0, synchronous=False)[0] == len(CONTENT)


def test_nothing_is_copied_from_another_server(two: Two) -> None:
    there = struct.pack(">I", 1) + opaque(b"another.example")
    assert two.run(copy(two.reads, two.writes, 0, 0, 0, servers=there)).status == "PARTNER_NOTSUPP"
    unknown = struct.pack(">I", 4) + opaque(b"another.example")
    assert two.run(copy(two.reads, two.writes, 0, 0, 0, servers=unknown)).status == "BADXDR"


@pytest.mark.req("NF4-32")
@pytest.mark.req("NF4-49")
def test_both_files_are_needed_and_stateids_have_the_rules_of_read_and_write(
    two: Two, cloned: list[tuple[int, ...]]
) -> None:
    source, target = map(putfh, two.handles)
    run = two.served.client.run
    for operation in (copy, clone):
        right = operation(two.reads, two.writes, 0, 0, 0)
        assert run(target, right, minor=2).status == "NOFILEHANDLE"
        for other in (putrootfh(),), (putrootfh(), lookup("link")):
            assert run(*other, savefh(), target, right, minor=2).status == "WRONG_TYPE"
            assert run(source, savefh(), *other, right, minor=2).status == "WRONG_TYPE"
        assert run(source, savefh(), source, operation(two.reads, two.reads, 0, 0, 0), minor=2).status == "OPENMODE"
        assert two.run(operation(two.writes, two.writes, 0, 0, 0)).status == "BAD_STATEID"
        assert two.run(operation(two.reads, two.reads, 0, 0, 0)).status == "BAD_STATEID"
        assert two.run(operation(ANONYMOUS, ANONYMOUS, 0, 0, 0)).status == "OK"
        assert two.run(right).status == "OK"


def test_the_current_stateid_of_the_source_is_the_saved_one(two: Two) -> None:
    source, target = map(putfh, two.handles)
    opens = [source, open_(b"owner", READ), savefh(), target, open_(b"writer", WRITE)]
    reply = two.served.client.run(*opens, copy(CURRENT, CURRENT, 0, 0, 5), minor=2)
    assert (reply.status, reply.value(60)[0]) == ("OK", 5)
    assert two.run(copy(CURRENT, two.writes, 0, 0, 5)).status == "BAD_STATEID"


def test_denials_and_a_grace_period_are_obeyed_on_both_sides(two: Two) -> None:
    (two.target.parent / "third").touch()
    source, target, third = *two.handles, two.served.client.handle("third")
    stranger = two.served.server.client("stranger").start()

    def status(*handles: bytes) -> Any:
        return stranger.run(
            putfh(handles[0]), savefh(), putfh(handles[1]), copy(ANONYMOUS, ANONYMOUS, 0, 0, 0), minor=2
        ).status

    two.served.client.run(putfh(target), close(two.writes))
    two.served.client.opened(target, WRITE, WRITE, owner=b"writer")
    assert (status(source, target), status(target, third)) == ("LOCKED", "OK")
    two.served.client.run(putfh(source), close(two.reads))
    two.served.client.opened(source, READ, READ)
    assert (status(source, third), status(third, source)) == ("LOCKED", "OK")
    two.served.server.claims.in_grace = True
    assert status(third, source) == "GRACE"


def test_the_file_system_judges_the_caller(two: Two, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    stranger = two.served.server.client("stranger", credential=AuthSys(uid=1000, gid=1000)).start()
    for source, target, status in ((0o600, 0o666, "ACCESS"), (0o644, 0o644, "ACCESS"), (0o644, 0o666, "OK")):
        two.source.chmod(source)
        two.target.chmod(target)
        assert two.run(copy(ANONYMOUS, ANONYMOUS, 0, 0, 0), client=stranger).status == status


def test_a_read_only_export_gives_and_takes_nothing(serve: Callable[..., Served], tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").write_bytes(CONTENT)
    served = serve({"name": "/a"}, {"name": "/b", "directory": tmp_path / "other", "read_only": True})
    here, there = putfh(served.client.handle("a", "file")), putfh(served.client.handle("b", "file"))
    for operation in (copy, clone):
        assert served.run(here, savefh(), there, operation(ANONYMOUS, ANONYMOUS, 0, 0, 0), minor=2).status == "ROFS"
    # The two exports are in one file system.
    assert served.run(there, savefh(), here, copy(ANONYMOUS, ANONYMOUS, 0, 0, 0), minor=2).status == "OK"
    assert (tmp_path / "files/file").read_bytes() == CONTENT


@pytest.mark.req("NF4-51")
@pytest.mark.req("NF4-52")
def test_within_one_file_only_clones_are_made_between_ranges_that_do_not_overlap(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    two.handles = two.handles[0], two.handles[0]
    assert two.run(copy(ANONYMOUS, ANONYMOUS, 0, 300, 200)).status == "INVAL"
    assert two.source.read_bytes() == CONTENT

    def clone_range(_source: int, start: int, _fd: int, to: int, octets: int) -> None:
        if abs(start - to) < octets:
            raise OSError(errno.EINVAL, "overlap")

    monkeypatch.setattr(file_access, "clone_range", clone_range)
    assert two.run(clone(ANONYMOUS, ANONYMOUS, 0, 100, 200)).status == "INVAL"
    assert two.run(clone(ANONYMOUS, ANONYMOUS, 0, 200, 200)).status == "OK"


@pytest.mark.req("NF4-51")
def test_one_file_in_two_exports_is_one_file(serve: Callable[..., Served]) -> None:
    served = serve({"name": "/a"}, {"name": "/b"})
    here, there = putfh(served.client.handle("a", "file")), putfh(served.client.handle("b", "file"))
    assert served.run(here, savefh(), there, copy(ANONYMOUS, ANONYMOUS, 0, 0, 0), minor=2).status == "INVAL"


def test_copies_are_made_in_a_worker_thread(two: Two, cloned: list[tuple[int, ...]]) -> None:
    for operation in (copy, clone):
        before = two.served.server.hops
        assert two.run(operation(two.reads, two.writes, 0, 0, 0)).status == "OK"
        assert two.served.server.hops == before + 1


def test_a_range_is_cloned(two: Two, cloned: list[tuple[int, ...]]) -> None:
    change = two.run(getattr_(1 << 3)).value(9)
    assert two.run(clone(two.reads, two.writes, 256, 10, 100)).status == "OK"
    assert two.target.read_bytes() == bytes(10) + CONTENT[256:356]
    assert two.run(getattr_(1 << 3)).value(9) != change
    assert two.run(clone(two.reads, two.writes, 256, 0, 0)).status == "OK"
    assert cloned == [(256, 10, 100), (256, 0, 0)]
    assert two.target.read_bytes() == CONTENT[256:]


@pytest.mark.req("NF4-33")
def test_a_file_system_that_cannot_clone_is_answered_as_such(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, status in ((errno.EOPNOTSUPP, "NOTSUPP"), (errno.ENOTTY, "NOTSUPP"), (errno.EXDEV, "XDEV")):

        def ioctl(_fd: int, _request: int, _argument: bytes, number: int = number) -> int:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr("fcntl.ioctl", ioctl)
        assert two.run(clone(two.reads, two.writes, 0, 0, 0)).status == status
        assert two.target.read_bytes() == b""


def test_a_clone_asks_the_kernel_for_the_whole_range(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("fcntl.ioctl", lambda _fd, request, argument: asked.append((request & 0xFFFF, argument)))
    assert two.run(clone(two.reads, two.writes, 256, 1024, 512)).status == "OK"
    ((request, argument),) = asked
    source, *ranges = struct.unpack("=qQQQ", argument)
    assert (request, ranges) == (0x940D, [256, 512, 1024])
    assert os.fstat(source).st_ino == two.source.stat().st_ino
