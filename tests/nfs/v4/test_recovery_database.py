"""The database of clients that may reclaim: whose rows a server finds, and what becomes of the others."""

from __future__ import annotations

import sqlite3
import struct
import threading
from contextlib import closing
from pathlib import Path

import pytest

from rpcrdma.nfs.export.lock_mirror import LocalLocks
from rpcrdma.nfs.v4.server.recovery import ClientRow, RecoveryDatabase
from state_rig import counted_octets
from support.cases import each_case


def test_servers_that_share_a_database_await_their_own_clients_alone(tmp_path: Path) -> None:
    path = tmp_path / "clients.sqlite3"
    row, other = ClientRow(b"a", b"1", "sys:0"), ClientRow(b"a", b"2", "sys:0")

    def opened(address: str, *exports: str) -> closing[RecoveryDatabase]:
        return closing(RecoveryDatabase(path, counted_octets(), addresses=[address], exports=exports))

    with opened("rdma://h:1", "/=/x") as first, opened("rdma://h:2", "/=/x") as second:
        assert first.boot != second.boot
        first.keep(row)
        second.keep(other)
        assert first.forget([row])
        first.keep(row)
    with opened("rdma://h:2", "/=/x") as second, opened("rdma://h:3", "/=/x") as third:
        assert (second.rows, third.rows) == ([other], [])
    with opened("rdma://h:1", "/=/y") as unrelated:
        assert unrelated.rows == []
    with opened("rdma://h:1", "/a=/y", "/=/x") as grown:
        assert grown.rows == [row], "an export more is the same server"


ROW = ClientRow(b"a", b"1", "sys:0")


class Runs:
    """Runs of servers that share a database; one that is killed writes nothing at its end."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "clients.sqlite3"
        self._random_bytes = counted_octets()

    def start(self, *addresses: str, exports: str = "/a", begins: bool = True) -> RecoveryDatabase:
        found = RecoveryDatabase(self._path, self._random_bytes, addresses=addresses, exports=exports.split())
        if begins:
            found.begin()
        return found

    def kill(self, *addresses: str, exports: str = "/a", row: ClientRow = ROW) -> None:
        """A run in which a client gets an open, and that ends without an end."""
        with closing(self.start(*addresses, exports=exports)) as database:
            database.keep(row)


@pytest.mark.req("NF4-116")
@each_case(
    "before, now, returns",
    [
        ("tcp://h:1", "tcp://h:1 tcp://h:2", True),
        ("tcp://h:1 rdma://h:3", "rdma://h:3 tcp://h:2", True),
        ("tcp://192.0.2.1:1", "tcp://0.0.0.0:1", True),
        ("tcp://[::]:1", "tcp://192.0.2.1:1", True),
        ("tcp://h:1", "tcp://h:2 rdma://h:1", False),
        ("tcp://192.0.2.1:1", "tcp://192.0.2.2:1", False),
        ("tcp://h:0", "tcp://h:0", False),
    ],
)
def test_clients_return_to_a_server_that_has_one_of_their_addresses(
    before: str, now: str, returns: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for path in tmp_path.iterdir():
        path.unlink()
    caplog.clear()
    runs = Runs(tmp_path)
    runs.kill(*before.split())
    with closing(runs.start(*before.split())) as database:
        name = database.name
    with closing(runs.start(*now.split())) as database:
        assert database.rows == [ROW] * returns
        assert (database.name == name) is returns, "clients reclaim nothing from a server with another name"
    # The clients of the first run have lost to those of the second what they had.
    with closing(runs.start(*before.split())) as database:
        assert database.rows == [ROW] * returns
    told = f"the clients of an earlier run at {before}, 1, lose their opens and locks"
    assert [told in message for message in caplog.messages] == [True] * (not returns)


@pytest.mark.req("NF4-118")
def test_clients_that_did_not_come_to_one_of_the_later_addresses_are_not_awaited_again(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    runs.kill("tcp://h:1")
    with closing(runs.start("tcp://h:1", "tcp://h:2")) as database:
        assert database.forget(database.rows)
    with closing(runs.start("tcp://h:1")) as database:
        assert database.rows == []


def test_a_start_that_fails_takes_no_row(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    runs.kill("tcp://h:1")
    for addresses in (["tcp://h:1", "tcp://h:2"], ["tcp://h:2"]):
        runs.start(*addresses, begins=False).close()
    with closing(runs.start("tcp://h:1")) as database:
        assert database.rows == [ROW]


def test_servers_that_have_run_beside_each_other_keep_their_rows_whichever_starts_first(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    other = ROW._replace(verifier=b"2")
    with closing(runs.start("tcp://h:1")) as one, closing(runs.start("tcp://h:2")) as two:
        one.keep(ROW)
        two.keep(other)
        assert one.name != two.name
    for order in (("1", "2"), ("2", "1")):
        found = {}
        for port in order:
            with closing(runs.start(f"tcp://h:{port}")) as database:
                found[port] = database.rows
        assert found == {"1": [ROW], "2": [other]}


def test_the_rows_of_a_server_that_runs_are_its_own(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    with closing(runs.start("tcp://127.0.0.1:1")) as running:
        running.keep(ROW)
        with closing(runs.start("tcp://[::]:1")) as beside:
            assert beside.rows == [], "it has the addresses of IPv6"
            assert beside.name != running.name
    with closing(runs.start("tcp://127.0.0.1:1")) as database:
        assert database.rows == [ROW]


def test_rows_of_other_exports_wait_until_these_are_served_without_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for reloads in (False, True):
        runs = Runs(tmp_path)
        runs.kill("tcp://h:1")
        with closing(runs.start("tcp://h:1", exports="/b")) as database:
            assert database.rows == []
            if reloads:
                database.serve(["tcp://h:1"], ["/a", "/b"])
        with closing(runs.start("tcp://h:1", exports="/a /b")) as database:
            assert database.rows == ([] if reloads else [ROW])
            database.forget([ROW])
        assert len(caplog.messages) == reloads


def test_no_two_servers_have_one_name(tmp_path: Path) -> None:
    runs = Runs(tmp_path)
    with closing(runs.start("tcp://h:1", "tcp://h:2")) as database:
        name = database.name
    with closing(runs.start("tcp://h:2", "tcp://h:3")) as moved:
        assert moved.name == name
        names = {moved.name}
        for addresses in (["tcp://h:1", "tcp://h:2"], ["tcp://h:0"], ["tcp://h:0"]):
            with closing(runs.start(*addresses)) as database:
                names.add(database.name)
        assert len(names) == 4


def test_clients_are_found_by_other_addresses_and_exports_of_the_running_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "clients.sqlite3"
    rows = [ClientRow(owner, b"1", "sys:0") for owner in (b"a", b"b")]

    def rows_of(address: str, *exports: str) -> list[ClientRow]:
        with closing(RecoveryDatabase(path, counted_octets(), addresses=[address], exports=exports)) as database:
            return sorted(database.rows)

    with closing(RecoveryDatabase(path, counted_octets(), addresses=["tcp://h:1"], exports=["/a"])) as database:
        database.keep(rows[0])
        database.serve(["tcp://h:2"], ["/a", "/b"])
        database.keep(rows[1])
        assert [rows_of("tcp://h:2", each) for each in ("/a", "/b", "/c")] == [rows, rows, []]
        assert rows_of("tcp://h:1", "/a") == []
        database.serve(["tcp://h:2"], ["/b"])
        assert [rows_of("tcp://h:2", each) for each in ("/a", "/b")] == [[], rows]
        database._database.execute("PRAGMA query_only = 1")
        database.serve(["tcp://h:3"], ["/c"])
        assert "attempt to write a readonly database" in caplog.text
        assert rows_of("tcp://h:2", "/b") == rows
        database._database.execute("PRAGMA query_only = 0")
        assert database.begin()
        assert [rows_of(*each) for each in (("tcp://h:2", "/b"), ("tcp://h:3", "/c"))] == [[], rows]


def test_locks_that_fail_beside_the_database_are_a_failure_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> bool:
        raise OSError(5, "no answer")

    runs = Runs(tmp_path)
    for method in ("change", "in_the_way"):
        with closing(runs.start("tcp://h:1")), closing(runs.start("tcp://h:2", begins=False)) as database:
            with monkeypatch.context() as patched:
                patched.setattr(LocalLocks, method, fails)
                assert not database.begin()
                assert not database.keep(ROW)
                database.serve(["tcp://h:3"], ["/a"])
                assert "no answer" in database.failure
            assert database.keep(ROW)
            assert database.failure == ""
    assert len(caplog.messages) == 2


def test_a_client_that_is_written_while_the_addresses_change_is_found_by_the_later_ones(tmp_path: Path) -> None:
    path = tmp_path / "clients.sqlite3"
    row = ClientRow(b"a", b"1", "sys:0")

    class LockWithGuest:
        """A lock after whose first release another thread has its turn."""

        lock, guests = threading.Lock(), [row]

        def __enter__(self) -> None:
            self.lock.acquire()

        def __exit__(self, *_: object) -> None:
            self.lock.release()
            if self.guests:
                database.keep(self.guests.pop())

    with closing(RecoveryDatabase(path, counted_octets(), addresses=["tcp://h:1"])) as database:
        database._lock = LockWithGuest()  # type: ignore[assignment]
        database.serve(["tcp://h:2"], [])
    with closing(RecoveryDatabase(path, counted_octets(), addresses=["tcp://h:2"])) as database:
        assert database.rows == [row]


def test_boot_numbers_count_up_and_begin_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "clients.sqlite3"
    boots = []
    for _ in range(3):
        with closing(RecoveryDatabase(path, lambda _count: b"\xff\xff\xff\xfe")) as database:
            boots.append(database.boot)
    assert boots == [0xFFFFFFFF, 0, 1]
    assert path.stat().st_mode & 0o077 == 0, "owners' names are nobody else's business"


@each_case("place", ["head", "row", "index"])
def test_a_damaged_database_is_put_aside(place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "clients.sqlite3"
    caplog.clear()
    path.unlink(missing_ok=True)
    if place == "head":
        path.write_bytes(b"nonsense" * 100)
    else:
        with closing(RecoveryDatabase(path, counted_octets())) as database:
            for number in range(200):
                database.keep(ClientRow(b"%03d" % number * 300, b"boot", "sys:0"))
        with closing(sqlite3.connect(path)) as found:
            size = found.execute("PRAGMA page_size").fetchone()[0]
            name = "client" if place == "row" else "sqlite_autoindex_client_1"
            (root,) = found.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()
        octets = bytearray(path.read_bytes())
        # Far from the first rows: the last child of the tree's root.
        (child,) = struct.unpack_from(">I", octets, (root - 1) * size + 8)
        octets[(child - 1) * size : child * size] = b"\xa5" * size
        path.write_bytes(octets)
    with closing(RecoveryDatabase(path, counted_octets())) as database:
        assert database.rows == []
    assert (tmp_path / "clients.sqlite3.damaged").exists()
    assert "clients lose their locks in this restart" in caplog.text


def test_a_database_that_cannot_be_used_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "clients.sqlite3"
    path.mkdir()
    with pytest.raises(OSError, match=r"clients\.sqlite3: .*: free space on the disk, or remove the file"):
        RecoveryDatabase(path, counted_octets())
