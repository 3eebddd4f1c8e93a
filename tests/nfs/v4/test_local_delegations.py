"""Delegations of files in local directories: leases of the kernel, local writers, and the server's own descriptors."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import resource
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from conversation import Conversation
from rpcrdma.nfs.export import local_leases
from rpcrdma.nfs.export.local_files import Files
from rpcrdma.nfs.export.tree import MODIFY
from rpcrdma.nfs.v4.server.recovery import ClientRow
from served_exports import Served, u32
from state_rig import LEASE_S
from support.nfs4_client import (
    ANONYMOUS,
    READ,
    UNCHECKED,
    WRITE,
    Client,
    Stateid,
    allocate,
    clone,
    close,
    commit,
    copy,
    deallocate,
    delegreturn,
    link,
    lock,
    lockt,
    locku,
    open_,
    putfh,
    putrootfh,
    read,
    remove,
    rename,
    savefh,
    setattr_,
    setattr_size,
    write,
)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the server acts as its callers")

NONE_WANTED = 0x400
READ_DELEGATION = 1
READ_LT, WRITE_LT = 1, 2


class Leased:
    """A server of a directory that takes leases, and two clients of it."""

    def __init__(self, served: Served) -> None:
        served.local.parts.leases.files_max = 100
        self.served, self.server, self.path = served, served.server, served.place / "files/file"
        self.leases = served.local.parts.leases
        self.client, self.other = served.client, served.server.client("b").start()
        self.handle = self.client.handle("file")
        self.file = putfh(self.handle)
        self.asked = threading.Event()
        self.take = self.server.recalled.take
        self.server.state.wake = self.taken

    def taken(self) -> None:
        self.take()
        self.asked.set()

    def delegated(self, client: Client | None = None, handle: bytes | None = None, **more: Any) -> Stateid | None:
        """The delegation that an OPEN for reading brings; the open is closed."""
        client, handle = client or self.client, handle or self.handle
        reply = client.run(putfh(handle), open_(b"reader", READ, **more))
        assert reply.status == "OK", reply
        assert client.run(putfh(handle), close(reply.value(18)["stateid"])).status == "OK"
        found: Stateid | None = reply.value(18)["delegation"]
        return found

    def given(self, client: Client | None = None, handle: bytes | None = None) -> Stateid:
        found = self.delegated(client, handle)
        assert found is not None
        return found

    @property
    def lock_is_free(self) -> bool:
        """Whether another thread than this one could take or end a lease now."""
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(self._take_lock).result()

    def _take_lock(self) -> bool:
        is_free = self.leases._lock.acquire(blocking=False)
        if is_free:
            self.leases._lock.release()
        return is_free

    @property
    def lease_holds(self) -> bool:
        """Whether the kernel would hold a local writer."""
        gc.collect()
        return len(self.leases) == 1 and all(each.locked for each in self.leases._files.values())


@pytest.fixture
def leased(serve: Callable[..., Served]) -> Iterator[Leased]:
    made = Leased(serve())
    yield made
    made.server.recalled.clear()


def test_a_local_writer_waits_until_the_delegation_is_back_and_the_program_keeps_its_signals(leased: Leased) -> None:
    handled: list[int] = []
    before = signal.signal(signal.SIGIO, lambda number, _frame: handled.append(number))
    try:
        stateid = leased.given()
        assert leased.lease_holds
        writes = threading.Event()

        def append() -> None:
            with leased.path.open("ab") as file:
                writes.set()
                file.write(b"!")

        writer = threading.Thread(target=append)
        writer.start()
        assert leased.asked.wait(60)
        assert [each.other for each in leased.server.recalled] == [stateid.other]
        assert not writes.is_set()
        assert leased.client.run(leased.file, read(stateid, 0, 100)).value(25)[1] == b"some data"
        assert leased.client.run(leased.file, delegreturn(stateid)).status == "OK"
        leased.server.recalled.clear()
        writer.join(60)
        assert leased.path.read_bytes() == b"some data!"
        os.kill(os.getpid(), signal.SIGIO)
    finally:
        signal.signal(signal.SIGIO, before)
    assert handled == [signal.SIGIO]


def test_a_signal_for_which_any_thread_of_the_program_waits_is_left_to_it() -> None:
    taken = local_leases._unused_signal()
    waits, end = threading.Event(), threading.Event()

    def wait() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {taken})
        waits.set()
        end.wait(60)

    thread = threading.Thread(target=wait)
    thread.start()
    assert waits.wait(60)
    assert local_leases._unused_signal() != taken
    end.set()
    thread.join()


def test_a_signal_that_cannot_be_queued_ends_nothing_and_the_sweep_finds_the_writer(leased: Leased) -> None:
    handled: list[int] = []
    limits = resource.getrlimit(resource.RLIMIT_SIGPENDING)
    before = signal.signal(signal.SIGIO, lambda number, _frame: handled.append(number))
    try:
        stateid = leased.given()
        resource.setrlimit(resource.RLIMIT_SIGPENDING, (0, limits[1]))
        with pytest.raises(BlockingIOError):
            os.open(leased.path, os.O_WRONLY | os.O_NONBLOCK)
        leased.server.state.sweep(leased.server.now_s)
    finally:
        resource.setrlimit(resource.RLIMIT_SIGPENDING, limits)
        signal.signal(signal.SIGIO, before)
    leased.take()
    assert [each.other for each in leased.server.recalled] == [stateid.other]
    assert handled == []


def test_a_writer_passes_by_a_server_whose_event_loop_stands_still(
    leased: Leased, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_leases, "NFS_LEASE_STALLED_S", 0)
    leased.given()
    leased.server.state.wake_broken = lambda: None
    with leased.path.open("ab"):
        pass
    assert leased.server.recalled == []
    leased.server.state.recall_broken(leased.server.now_s)
    assert len(leased.server.recalled) == 1


@pytest.mark.parametrize(
    "change",
    [
        ("file", open_(b"o", WRITE)),
        ("file", open_(b"o", READ, READ)),
        ("root", open_(b"o", READ, name="file", create=UNCHECKED, size=0)),
        ("file", setattr_size(ANONYMOUS, 0)),
        ("file", setattr_({33: u32(0o600)})),
        ("file", write(ANONYMOUS, 0, b"x")),
        ("file", commit()),
        ("root", remove("file")),
        ("root", rename("file", "other")),
        ("root", rename("link", "file")),
        ("root", link("another")),
    ],
)
def test_a_change_by_another_client_leaves_file_and_lease_alone_until_the_delegation_is_back(
    serve: Callable[..., Served], change: tuple[str, bytes]
) -> None:
    leased = Leased(serve())
    stateid = leased.given()
    start = [leased.file] if change[0] == "file" else [leased.file, savefh(), putrootfh()]
    if b"file" in change[1] and change[0] == "root":
        start = [putrootfh(), savefh(), putrootfh()]
    before = leased.path.stat()
    for _ in range(2):
        assert leased.other.run(*start, change[1]).status == "DELAY"
    assert leased.lease_holds
    assert leased.path.stat() == before
    assert [each.other for each in leased.server.recalled] == [stateid.other]
    leased.server.recalled.clear()
    assert leased.client.run(leased.file, delegreturn(stateid)).status == "OK"
    assert leased.other.run(*start, change[1]).status == "OK"
    gc.collect()
    assert len(leased.leases) == 0


@pytest.mark.parametrize(
    "change",
    [
        write(ANONYMOUS, 0, b"x"),
        setattr_size(ANONYMOUS, 0),
        allocate(ANONYMOUS, 0, 100),
        deallocate(ANONYMOUS, 0, 4),
        copy(ANONYMOUS, ANONYMOUS, 0, 0, 0),
        clone(ANONYMOUS, ANONYMOUS, 0, 0, 0),
    ],
)
def test_a_delegation_given_before_a_change_opens_the_file_is_waited_for(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch, change: bytes
) -> None:
    leased = Leased(serve())
    source = leased.path.with_name("source")
    source.write_bytes(b"other data")
    saved = putfh(leased.client.handle("source"))
    before = leased.path.read_bytes()
    given: list[Stateid] = []

    def opened(node: Any, who: Any, wanted: int, *, at_once: bool) -> Any:
        if wanted == MODIFY and not given:
            given.append(leased.given())
        return open_of_node(node, who, wanted, at_once=at_once)

    open_of_node = Files.open
    monkeypatch.setattr(Files, "open", opened)
    for _ in range(2):
        assert leased.other.run(saved, savefh(), leased.file, change, minor=2).status == "DELAY"
    assert leased.path.read_bytes() == before
    assert [each.other for each in leased.server.recalled] == [given[0].other]


def test_a_clients_own_changes_recall_nothing(leased: Leased) -> None:
    stateid = leased.given()
    client = leased.client
    assert client.run(leased.file, setattr_({33: u32(0o600)})).status == "OK"
    assert leased.lease_holds
    assert client.run(putrootfh(), savefh(), putrootfh(), rename("file", "moved")).status == "OK"
    opened = client.opened(leased.handle, READ | WRITE)
    assert client.run(leased.file, write(opened, 0, b"own")).status == "OK"
    assert client.run(putrootfh(), remove("moved")).status == "OK"
    leased.server.state.sweep(leased.server.now_s)
    assert leased.server.recalled == []
    assert client.run(leased.file, close(opened)).status == "OK"
    assert client.run(leased.file, delegreturn(stateid)).status == "OK", "the handle lasts as long as the delegation"
    assert client.run(leased.file).status == "STALE"


def test_local_writers_wait_also_after_others_have_locked_for_reading_or_asked_for_locks(leased: Leased) -> None:
    stateid = leased.given()
    reader, writer = leased.other.opened(leased.handle, READ | NONE_WANTED), leased.client.opened(leased.handle, READ)
    locked = leased.other.run(leased.file, lock(reader, b"l", READ_LT, 0, 5))
    assert locked.status == "OK"
    for operation, status in (
        (lockt(b"l", READ_LT, 0, 1), "OK"),
        (lockt(b"l", WRITE_LT, 0, 1), "OK"),
        (lock(reader, b"l", WRITE_LT, 0, 1), "OPENMODE"),
        (lock(writer, b"l", WRITE_LT, 0, 1), "BAD_STATEID"),
        (locku(locked.value(12), 0, 5), "OK"),
    ):
        assert leased.other.run(leased.file, operation).status == status
        assert leased.lease_holds
    with pytest.raises(BlockingIOError):
        os.open(leased.path, os.O_WRONLY | os.O_NONBLOCK)
    assert leased.asked.wait(60)
    assert [each.other for each in leased.server.recalled] == [stateid.other]


def test_a_descriptor_for_writing_that_nobody_needs_is_in_nobodys_way(
    leased: Leased, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, closed = leased.served.local.parts.files, []

    def close_idle(node: Any) -> bool:
        # It takes another lock, with which a thread may wait for the lock of the leases.
        assert leased.lock_is_free
        closed.append(node)
        return idle(node)

    idle = files.drop_idle_writer
    monkeypatch.setattr(files, "drop_idle_writer", close_idle)
    written = leased.other.opened(leased.handle, READ | WRITE)
    assert leased.other.run(leased.file, write(written, 0, b"x")).status == "OK"
    assert leased.delegated() is None
    assert leased.other.run(leased.file, close(written)).status == "OK"
    assert leased.delegated() is not None
    assert closed


def test_no_lease_ends_while_another_thread_asks_the_kernel_about_it(
    leased: Leased, monkeypatch: pytest.MonkeyPatch
) -> None:
    leased.given()
    (lease,) = (each.lease for each in leased.server.state.claims.delegates(next(iter(leased.leases._files))))
    real, free = fcntl.fcntl, []

    def ask(fd: int, *how: Any) -> Any:
        free.append(leased.lock_is_free)
        return real(fd, *how)

    monkeypatch.setattr(fcntl, "fcntl", ask)
    assert not lease.broken
    assert free == [False], "its descriptor might be another file's by then"


def test_none_is_given_of_a_file_that_a_local_process_has_open_for_writing(leased: Leased) -> None:
    with leased.path.open("ab"):
        assert leased.delegated() is None
    assert leased.given()


def test_leases_are_bounded_and_shared_by_the_readers_of_a_file(
    leased: Leased, monkeypatch: pytest.MonkeyPatch
) -> None:
    leased.leases.files_max = 1
    inner = leased.client.handle("directory", "inner")
    first = leased.given()
    others, leased.leases._files, opened = leased.leases._files, {}, os.open

    def opens_later(*how: Any, **more: Any) -> int:
        leased.leases._files.update(others)
        return opened(*how, **more)

    with monkeypatch.context() as patch:
        # Another thread has taken a lease while this one opens the file.
        patch.setattr(os, "open", opens_later)
        assert leased.delegated(handle=inner) is None
    second = leased.given(leased.other)
    assert leased.delegated(handle=inner) is None
    gc.collect()
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    assert leased.client.run(leased.file, delegreturn(first)).status == "OK"
    assert leased.lease_holds
    assert leased.other.run(leased.file, delegreturn(second)).status == "OK"
    gc.collect()
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors - 1
    assert leased.delegated(handle=inner) is not None


def test_a_lack_of_descriptors_or_threads_leaves_none_open_and_passes(
    leased: Leased, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Any:
        raise OSError(errno.EMFILE, "too many open files")

    def starts_not(_: Any) -> None:
        raise RuntimeError("can't start new thread")

    def descriptors() -> int:
        gc.collect()
        return len(list(Path("/proc/self/fd").iterdir()))

    assert leased.client.run(leased.file, open_(b"reader", READ | NONE_WANTED)).status == "OK"
    before = descriptors()
    for owner, name, lack in (
        (local_leases, "change_events", fails),
        (local_leases, "signal_events", fails),
        (os, "eventfd", fails),
        (threading.Thread, "start", starts_not),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, lack)
            assert leased.delegated() is None
        assert descriptors() == before, name
    assert leased.delegated() is not None


@pytest.mark.parametrize("end", ["revoked", "expired", "gone", "closed"])
def test_a_lease_ends_with_its_delegation(serve: Callable[..., Served], end: str) -> None:
    leased = Leased(serve())
    leased.given()
    server = leased.server
    if end == "revoked":
        assert leased.other.run(leased.file, open_(b"o", WRITE)).status == "DELAY"
        server.now_s += LEASE_S + 1
        leased.client.run()
        leased.other.run(leased.file, open_(b"o", WRITE))
    elif end == "expired":
        server.now_s += LEASE_S + 1
        assert leased.other.run(leased.file, open_(b"o", WRITE)).status == "OK"
    elif end == "gone":
        assert server.client("client", verifier=b"boot   2").start()
    else:
        leased.served.local.close()
    server.recalled.clear()
    gc.collect()
    assert len(leased.leases) == 0
    with leased.path.open("ab"):
        pass
    assert not leased.asked.is_set() or end == "revoked"


def test_claims_on_one_file_meet_through_two_exports_of_it(serve: Callable[..., Served], tmp_path: Path) -> None:
    leased = Leased(serve({"name": "/"}, {"name": "/inner", "directory": tmp_path / "files/directory"}))
    outer, inner = leased.client.handle("directory", "inner"), leased.client.handle("inner", "inner")
    assert outer != inner
    stateid = leased.given(handle=outer)
    assert leased.other.run(putfh(inner), open_(b"o", WRITE)).status == "DELAY"
    assert [each.handle for each in leased.server.recalled] == [outer]
    leased.server.recalled.clear()
    assert leased.client.run(putfh(inner), setattr_size(ANONYMOUS, 3)).status == "OK", "its own"
    assert leased.client.run(putfh(outer), delegreturn(stateid)).status == "OK"
    denying = leased.other.opened(inner, READ | NONE_WANTED, WRITE)
    assert leased.client.run(putfh(outer), open_(b"o", WRITE)).status == "SHARE_DENIED"
    assert leased.client.run(putfh(outer), write(ANONYMOUS, 0, b"x")).status == "LOCKED"
    assert leased.other.run(putfh(outer), close(denying)).status == "BAD_STATEID"
    assert leased.other.run(putfh(inner), close(denying)).status == "OK"
    opened, of_other = leased.client.opened(outer, WRITE), leased.other.opened(inner, WRITE)
    leased.client.locked(outer, opened)
    with pytest.raises(AssertionError, match="DENIED"):
        leased.other.locked(inner, of_other)


def test_a_delegation_is_reclaimed_after_a_restart(leased: Leased) -> None:
    leased.given()
    old = leased.server
    restarted = Conversation(files=old.files, database=_Rows(old), now_s=old.now_s)
    client = restarted.client().start(complete=False)
    reply = client.run(leased.file, open_(b"reader", READ, reclaim=True, delegation=READ_DELEGATION))
    assert (reply.status, bool(reply.value(18)["delegation"])) == ("OK", True)
    plain = client.run(leased.file, open_(b"another", READ, reclaim=True))
    assert (plain.status, plain.value(18)["delegation"]) == ("OK", None)


class _Rows:
    """The clients of an earlier run, as the disk has them."""

    def __init__(self, old: Conversation) -> None:
        self.boot = old.database.boot + 1
        self.rows = [
            ClientRow(*row) for row in old.database._database.execute("SELECT owner, verifier, principal FROM client")
        ]

    def keep(self, row: Any) -> None:
        """Keeps nothing."""

    def forget(self, rows: Any) -> bool:
        return True


@pytest.mark.thorough
@pytest.mark.parametrize(
    "command", ["mv file moved", "touch new; mv new file", "chmod 600 file", "ln file linked", "rm file", "echo >>file"]
)
def test_other_processes_are_noticed_also_where_the_kernel_holds_none_of_them(
    serve: Callable[..., Served], command: str
) -> None:
    leased = Leased(serve())
    stateid = leased.given()
    running = subprocess.Popen(command, shell=True, cwd=leased.path.parent)
    assert leased.asked.wait(60)
    assert [each.other for each in leased.server.recalled] == [stateid.other]
    leased.server.recalled.clear()
    assert leased.client.run(leased.file, delegreturn(stateid)).status in {"OK", "STALE"}
    assert running.wait(60) == 0


@pytest.mark.thorough
def test_a_local_writer_beside_the_clients_own_open_for_writing_is_noticed(leased: Leased) -> None:
    stateid = leased.given()
    opened = leased.client.opened(leased.handle, READ | WRITE)
    assert leased.client.run(leased.file, write(opened, 0, b"own")).status == "OK"
    subprocess.run("echo >>file", shell=True, cwd=leased.path.parent, check=True)
    assert leased.asked.wait(60)
    assert [each.other for each in leased.server.recalled] == [stateid.other]
    leased.server.recalled.clear()
