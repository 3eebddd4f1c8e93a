"""The access log: whole lines, files that are renamed, full disks, slow ones, and the journal."""

from __future__ import annotations

import errno
import os
import socket
import threading
from pathlib import Path

import pytest

from rpcrdma.aio.drivers import audit_log
from rpcrdma.aio.drivers.audit_log import AuditFile, AuditLog, Journal, NotWritten, Nowhere
from rpcrdma.limits import AUDIT_RECORDS_MAX
from support.command_process import HANG_S


class Gated:
    """A destination that takes nothing before its gate is open."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.written: list[bytes] = []
        self.closed = False

    def write(self, records: list[bytes]) -> None:
        self.entered.set()
        assert self.gate.wait(HANG_S)
        self.written += records

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No record is given up because the machine is slow."""
    monkeypatch.setattr(audit_log, "_CLOSE_S", HANG_S)


def test_all_records_are_written_in_order_before_the_log_is_closed(tmp_path: Path) -> None:
    log = AuditLog(AuditFile(tmp_path / "log"))
    records = [b"%d" % number for number in range(1000)]
    for record in records:
        log.put(record)
    log.close()
    assert (tmp_path / "log").read_bytes().split(b"\n") == [*records, b""]
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600
    assert log.lost == 0


def test_a_file_that_is_renamed_or_removed_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = AuditFile(path)
    file.write([b"1"])
    path.rename(tmp_path / "old")
    file.write([b"2"])
    path.unlink()
    file.write([b"3"])
    file.write([b"4"])
    file.close()
    again = AuditFile(path)
    again.write([b"5"])
    again.close()
    assert ((tmp_path / "old").read_bytes(), path.read_bytes()) == (b"1\n", b"3\n4\n5\n")


def test_a_full_disk_costs_records_and_breaks_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, real, room = tmp_path / "log", os.write, [7]
    file = AuditFile(path)

    def write(fd: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = real(fd, data[: room[0]])
        room[0] -= written
        return written

    monkeypatch.setattr(os, "write", write)
    for records, count in (([b"12", b"34", b"56"], 2), ([b"78"], 0)):
        with pytest.raises(NotWritten, match="no space left on device") as failure:
            file.write(records)
        assert failure.value.count == count
    assert path.read_bytes() == b"12\n34\n"
    room[0] = 100
    file.write([b"9"])
    assert path.read_bytes() == b"12\n34\n9\n"

    def append_only(fd: int, length: int) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "ftruncate", append_only)
    room[0] = 4
    with pytest.raises(NotWritten, match="operation not permitted") as failure:
        file.write([b"10", b"11"])
    assert failure.value.count == 1
    file.close()


def test_records_that_a_full_disk_does_not_take_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    written: list[bytes] = []

    class Full(Gated):
        def write(self, records: list[bytes]) -> None:
            if b"last" not in records:
                raise NotWritten(OSError(errno.ENOSPC, "No space left on device"), 0)
            written.extend(records)

    log = AuditLog(Full())
    log.put(b"first")
    while log.lost != 1:
        assert log._thread.is_alive()
    log.put(b"last")
    log.close()
    assert written == [b"last"]
    assert caplog.messages == [
        "records of the access log are lost: no space left on device",
        "the access log is written again; 1 records were lost",
        "1 records of the access log were lost",
    ]


def test_a_slow_disk_costs_records_and_holds_up_nobody() -> None:
    disk = Gated()
    log = AuditLog(disk)
    log.put(b"first")
    assert disk.entered.wait(HANG_S)
    for number in range(AUDIT_RECORDS_MAX + 5):
        log.put(b"%d" % number)
    assert log.lost == 5
    disk.gate.set()
    log.close()
    assert disk.written == [b"first", *(b"%d" % number for number in range(AUDIT_RECORDS_MAX))]
    assert disk.closed


def test_records_that_wait_move_with_the_log_and_are_written_before_it_is_turned_off() -> None:
    records = [b"%d" % number for number in range(AUDIT_RECORDS_MAX // 2)]
    other = Gated()
    other.gate.set()
    for following, here, there in ((other, [], records), (Nowhere(), records, records)):
        disk = Gated()
        log = AuditLog(disk)
        log.put(b"first")
        assert disk.entered.wait(HANG_S)
        for record in records:
            log.put(record)
        log.move(following)
        disk.gate.set()
        log.close()
        assert (disk.written, disk.closed, log.lost) == ([b"first", *here], True, 0)
        assert other.written == there


def test_a_file_whose_end_fails_costs_no_records_of_the_next_one(caplog: pytest.LogCaptureFixture) -> None:
    class Overdrawn(Gated):
        def close(self) -> None:
            raise OSError(errno.EDQUOT, "Disk quota exceeded")

    first, second = Overdrawn(), Overdrawn()
    first.gate.set()
    second.gate.set()
    log = AuditLog(first)
    log.move(second)
    log.put(b"record")
    log.close()
    assert (second.written, log._thread.is_alive()) == ([b"record"], False)
    assert caplog.messages == ["records of the access log may be lost: disk quota exceeded"] * 2


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(OSError, match="no regular file"):
        AuditFile(tmp_path / "pipe")
    os.close(reader)
    with pytest.raises(OSError, match="No such device"):
        AuditFile(tmp_path / "pipe")


def test_records_are_entries_of_the_journal(tmp_path: Path) -> None:
    place = str(tmp_path / "socket")
    with pytest.raises(OSError, match="there is no journal"):
        Journal(place)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(place)
        journal = Journal(place)
        journal.write([b'{"a":1}', b"{}"])
        head = b"SYSLOG_IDENTIFIER=rpcrdma-audit\nPRIORITY=6\nMESSAGE="
        assert [systemd.recv(4096) for _ in range(2)] == [head + b'{"a":1}\n', head + b"{}\n"]
    Path(place).unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(place)
        with pytest.raises(NotWritten) as failure:
            journal.write([b"1", b"2"])
        assert failure.value.count == 0
        journal.write([b"3"])
        assert systemd.recv(4096) == head + b"3\n"
    journal.close()
