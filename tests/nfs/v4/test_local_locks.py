"""Locks of clients and of local processes on one file: each sees the others', and both see them end."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import struct
import threading
from collections.abc import Callable, Collection, Iterator

import pytest

from rpcrdma.nfs.export.claims import Claims, Range
from rpcrdma.nfs.export.lock_mirror import LocalLocks, LockMirrors
from rpcrdma.rpc.host_shares import HostShares
from served_exports import Served
from state_rig import LEASE_S
from support.cases import each_case
from support.nfs4_client import MAX64, Client, Stateid, close, lock, lockt, locku, putfh

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the server acts as its callers")

READ_LT, WRITE_LT = 1, 2


class Locking:
    """A server of a directory with one file, the file as a local process has it open, and two clients."""

    def __init__(self, served: Served, handle: bytes = b"") -> None:
        self.local = os.open(served.place / "files/file", os.O_RDWR)
        self.server = served.server
        self.client, self.other = served.client, served.server.client("b").start()
        self.handle = handle or self.client.handle("file")
        self.file = putfh(self.handle)

    def opened(self, client: Client) -> Stateid:
        return client.opened(self.handle, 3)

    def lock_locally(self, kind: int, start: int, length: int) -> None:
        """Locks as another process would: locks of this very process end whenever it closes the file."""
        fcntl.fcntl(self.local, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, 0))

    def is_free(self, kind: int, start: int, length: int = 1) -> bool:
        """Whether a local process could lock this."""
        try:
            self.lock_locally({READ_LT: fcntl.F_RDLCK, WRITE_LT: fcntl.F_WRLCK}[kind], start, length)
        except BlockingIOError:
            return False
        self.lock_locally(fcntl.F_UNLCK, start, length)
        return True


@pytest.fixture
def served(serve: Callable[..., Served]) -> Iterator[Locking]:
    made = Locking(serve())
    yield made
    os.close(made.local)


def test_local_processes_see_a_clients_lock_until_it_is_unlocked(served: Locking) -> None:
    opened = served.opened(served.client)
    locked = served.client.locked(served.handle, opened, start=10, length=10)
    assert [served.is_free(READ_LT, start) for start in (9, 10, 19, 20)] == [True, False, False, True]
    half = served.client.run(served.file, locku(locked, 10, 5)).value(14)
    assert [served.is_free(READ_LT, start) for start in (10, 14, 15)] == [True, True, False]
    shared = served.client.run(served.file, lock(opened, b"locker", READ_LT, 15, 5)).value(12)
    assert (served.is_free(READ_LT, 15), served.is_free(WRITE_LT, 15)) == (True, False)
    assert half.other == shared.other
    served.client.run(served.file, locku(shared, 0, MAX64))
    assert served.is_free(WRITE_LT, 0, 100)
    assert len(served.server.state.mirrors) == 0


def test_a_client_is_denied_what_a_local_process_has_locked(served: Locking) -> None:
    opened = served.opened(served.client)
    served.lock_locally(fcntl.F_WRLCK, 10, 5)
    denied = served.client.run(served.file, lock(opened, b"l", READ_LT, 0, 11))
    assert (denied.status, denied.value(12)) == ("DENIED", (10, 5, WRITE_LT, 0, b"a process of the server"))
    denied = served.client.run(served.file, lockt(b"l", WRITE_LT, 0, MAX64))
    assert (denied.status, denied.value(13)[:3]) == ("DENIED", (10, 5, WRITE_LT))
    assert served.client.run(served.file, lockt(b"l", WRITE_LT, 0, 10)).status == "OK"
    locked = served.client.run(served.file, lock(opened, b"l", WRITE_LT, 0, 10))
    assert locked.status == "OK"
    again = served.client.run(served.file, lock(opened, b"l", WRITE_LT, 5, 10))
    assert again.status == "DENIED"
    assert served.other.run(served.file, lockt(b"x", READ_LT, 10, 1)).status == "DENIED"
    served.lock_locally(fcntl.F_UNLCK, 10, 5)
    assert served.other.run(served.file, lockt(b"x", READ_LT, 10, 1)).status == "OK", "nothing is left of a denied lock"
    assert served.client.run(served.file, locku(locked.value(12), 0, 10)).status == "OK", "its stateid is unchanged"


def test_a_range_that_two_clients_share_is_unlocked_with_the_second(served: Locking) -> None:
    locked = [
        client.run(served.file, lock(served.opened(client), b"l", READ_LT, start, 10)).value(12)
        for client, start in ((served.client, 0), (served.other, 5))
    ]
    assert served.client.run(served.file, locku(locked[0], 0, MAX64)).status == "OK"
    assert [served.is_free(WRITE_LT, start) for start in (4, 5, 14, 15)] == [True, False, False, True]
    assert served.other.run(served.file, locku(locked[1], 0, MAX64)).status == "OK"
    assert served.is_free(WRITE_LT, 0, 100)


def test_the_locks_of_a_client_that_ends_are_free_for_local_processes(served: Locking) -> None:
    served.client.locked(served.handle, served.opened(served.client), start=0, length=10)
    served.client.verifier = b"boot   2"
    served.client.start()
    assert served.is_free(WRITE_LT, 0, 10)
    served.client.locked(served.handle, served.opened(served.client), start=0, length=10)
    served.server.now_s += LEASE_S + 1
    assert served.other.run(served.file, lockt(b"l", WRITE_LT, 5, 1)).status == "OK"
    assert served.is_free(WRITE_LT, 0, 10)


def test_a_write_lock_is_seen_also_after_a_read_lock_by_a_read_only_export(serve: Callable[..., Served]) -> None:
    served = serve({"name": "/ro", "read_only": True}, {"name": "/rw"})
    by_reader, by_writer = served.client.handle("ro", "file"), served.client.handle("rw", "file")
    locals_ = Locking(served, by_writer)
    reader, writer = locals_.client, locals_.other
    opened = writer.opened(by_writer, 3)
    read_lock = reader.run(putfh(by_reader), lock(reader.opened(by_reader, 1), b"l", READ_LT, 0, 10)).value(12)
    write_lock = writer.run(putfh(by_writer), lock(opened, b"l", WRITE_LT, 100, 10)).value(12)
    assert [locals_.is_free(READ_LT, start) for start in (0, 99, 100, 109, 110)] == [True, True, False, False, True]
    assert [locals_.is_free(WRITE_LT, start) for start in (0, 9, 10)] == [False, False, True], "the read lock stays"
    assert writer.run(putfh(by_writer), locku(write_lock, 0, MAX64)).status == "OK"
    assert [locals_.is_free(WRITE_LT, start) for start in (0, 100)] == [False, True]
    assert reader.run(putfh(by_reader), locku(read_lock, 0, MAX64)).status == "OK"
    assert locals_.is_free(WRITE_LT, 0, 0)
    assert len(served.server.state.mirrors) == 0
    os.close(locals_.local)


def test_locks_of_an_owner_by_two_exports_of_one_file_are_those_of_one_owner(serve: Callable[..., Served]) -> None:
    served = serve({"name": "/a"}, {"name": "/b"})
    one, two = served.client.handle("a", "file"), served.client.handle("b", "file")
    locking = Locking(served, one)
    client, other, first, second = locking.client, locking.other, putfh(one), putfh(two)
    of_first = client.locked(one, client.opened(one, 3), start=0, length=10)
    assert client.run(second, lockt(b"locker", WRITE_LT, 0, MAX64)).status == "OK"
    assert client.run(second, lockt(b"another", READ_LT, 0, 1)).status == "DENIED"
    opened = client.opened(two, 3)
    of_second = client.run(second, lock(opened, b"locker", READ_LT, 5, 10)).value(12)
    assert of_second.other != of_first.other
    for start, kind, status in ((4, READ_LT, "DENIED"), (5, READ_LT, "OK"), (14, WRITE_LT, "DENIED")):
        assert other.run(first, lockt(b"l", kind, start, 1)).status == status
        assert locking.is_free(kind, start) is (status == "OK")
    assert client.run(second, locku(of_second, 2, 4)).status == "OK"
    for start, status in ((1, "DENIED"), (2, "OK"), (5, "OK"), (6, "DENIED")):
        assert other.run(first, lockt(b"l", WRITE_LT, start, 1)).status == status
        assert locking.is_free(WRITE_LT, start) is (status == "OK")
    assert client.run(first, locku(of_first, 0, MAX64)).status == "OK"
    assert other.run(second, lockt(b"l", WRITE_LT, 0, MAX64)).status == "OK"
    assert client.run(second, close(opened)).status == "OK"
    assert locking.is_free(WRITE_LT, 0, 0)
    os.close(locking.local)


@each_case("held, wanted", [(READ_LT, WRITE_LT), (WRITE_LT, READ_LT)])
def test_a_lock_that_fails_at_last_leaves_local_processes_the_locks_there_were(
    served: Locking, monkeypatch: pytest.MonkeyPatch, held: int, wanted: int
) -> None:
    opened = served.opened(served.client)
    assert served.client.run(served.file, lock(opened, b"l", held, 5, 10)).status == "OK"

    def changed(mirror: LocalLocks, to: Range, *, unlock: bool = False) -> bool:
        # Others have taken the last locks that the server has.
        monkeypatch.setattr(HostShares, "left", lambda *_: 0)
        return change(mirror, to, unlock=unlock)

    change = LocalLocks.change
    monkeypatch.setattr(LocalLocks, "change", changed)
    assert served.client.run(served.file, lock(opened, b"l", wanted, 0, 20)).status == "DELAY"
    shared = held == READ_LT
    assert [served.is_free(READ_LT, start) for start in (4, 5, 14, 15)] == [True, shared, shared, True]
    assert [served.is_free(WRITE_LT, start) for start in (4, 5, 14, 15)] == [True, False, False, True]


def test_a_lock_that_the_system_does_not_remove_keeps_no_other_and_no_client(
    served: Locking, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    inner = served.client.handle("directory", "inner")
    usual, failing = LocalLocks.change, True

    def change(locks: LocalLocks, wanted: Range, *, unlock: bool = False) -> bool:
        if unlock and failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return usual(locks, wanted, unlock=unlock)

    monkeypatch.setattr(LocalLocks, "change", change)
    for verifier in (b"boot   2", b"boot   3"):
        for handle in (served.handle, inner):
            locked = served.client.locked(handle, served.client.opened(handle, 3), start=0, length=10)
            assert served.client.run(putfh(handle), locku(locked, 0, 5)).status == "OK"
        assert not served.is_free(WRITE_LT, 0, 10)
        served.client.verifier = verifier
        served.client.start()
        assert served.is_free(WRITE_LT, 0, 10), "with the last lock of a client on the file the system's are gone"
        assert len(served.server.state.mirrors) == 0
    (told,) = caplog.messages
    assert told.startswith("local processes may see locks that clients no longer have: [Errno 5]")


def test_ranges_beyond_the_offsets_of_the_system_are_locked_up_to_them(served: Locking) -> None:
    opened = served.opened(served.client)
    for start, length in ((0, MAX64), (1 << 63, 5), (MAX64 - 1, 1), (5, (1 << 63) - 1)):
        locked = served.client.run(served.file, lock(opened, b"l", WRITE_LT, start, length))
        assert locked.status == "OK", (start, length)
        assert served.is_free(WRITE_LT, 7) is (start > 7)
        assert served.client.run(served.file, locku(locked.value(12), 0, MAX64)).status == "OK"
    assert served.is_free(WRITE_LT, 0, 0)


def test_a_mirror_is_one_for_all_calls_that_hold_or_await_it() -> None:
    class Guarded(Claims[str, str]):
        def range_holders(self, file: bytes) -> Collection[str]:
            assert self.lock.locked()
            return super().range_holders(file)

    mirrors = LockMirrors(Guarded())
    made: list[object] = []

    class Locks:
        exclusive = True

        def change(self, _wanted: Range, *, unlock: bool = False) -> bool:
            return unlock or True

        def in_the_way(self, _wanted: Range) -> None:
            return None

    class File:
        handle = b"file"

        def range_locks(self, *, exclusive: bool) -> Locks:
            made.append(exclusive)
            return Locks()

    order: list[str] = []
    entered, go_on = threading.Event(), threading.Event()

    def hold(name: str, wait: Callable[[], object]) -> None:
        with mirrors.of(File(), b"file") as locks:  # type: ignore[arg-type]
            order.append(f"{name} {id(locks)}")
            entered.set()
            wait()

    first = threading.Thread(target=hold, args=("first", lambda: go_on.wait(120)))
    first.start()
    assert entered.wait(120)
    second = threading.Thread(target=hold, args=("second", lambda: None))
    second.start()
    assert len(order) == 1
    go_on.set()
    first.join(120)
    second.join(120)
    assert [each.split()[0] for each in order] == ["first", "second"]
    assert len({each.split()[1] for each in order}) == 1
    assert len(mirrors) == 0


@pytest.mark.thorough
def test_threads_that_fight_for_a_file_leave_nothing_behind(served: Locking) -> None:
    faults: list[BaseException] = []
    granted: list[str] = []
    served.server.service.log_fault = lambda name, error: faults.append(error)  # type: ignore[method-assign]

    def fight(number: int) -> None:
        try:
            client = served.server.client(f"fighter {number}").start()
            draw = random.Random(number)
            for turn in range(60):
                opened = served.opened(client)
                start, kind = draw.randrange(8), draw.choice((READ_LT, WRITE_LT))
                reply = client.run(served.file, lock(opened, b"l", kind, start, draw.randrange(1, 4)))
                assert reply.status in {"OK", "DENIED"}
                if reply.status == "OK":
                    granted.append(f"{number} {turn}")
                    assert not served.is_free(WRITE_LT, start)
                    assert client.run(served.file, locku(reply.value(12), 0, MAX64)).status == "OK"
                if turn % 20 == 19:
                    client.locked(served.handle, opened, owner=b"kept", start=100 + number, length=1)
                    client.verifier = b"boot %3d" % turn
                    client.start()
                else:
                    assert client.run(served.file, close(opened)).status == "OK"
        except BaseException as error:  # noqa: BLE001 - for the thread of the test
            faults.append(error)

    threads = [threading.Thread(target=fight, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert faults == []
    assert len(granted) > 60
    assert len(served.server.claims) == 0
    assert len(served.server.state.mirrors) == 0
    assert served.is_free(WRITE_LT, 0, 0)
