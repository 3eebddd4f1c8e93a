"""Opens and byte-range locks of version 4.1, in octets: stateids, shares, conflicts, reclaims."""

from __future__ import annotations

import errno
import gc
import os
from pathlib import Path
from typing import Any

import pytest

from conversation import Conversation, two_clients
from few_files import FewFiles, File
from rpcrdma.nfs.export.tree import FileKind
from rpcrdma.rpc.auth import AuthSys
from state_rig import LEASE_S
from support.cases import each_case
from support.nfs4_client import (
    CURRENT,
    EXCLUSIVE,
    EXCLUSIVE4_1,
    GUARDED,
    MAX64,
    READ,
    UNCHECKED,
    WRITE,
    Stateid,
    close,
    fattr,
    free_stateid,
    getfh,
    lock,
    lock_more,
    lockt,
    locku,
    open_,
    open_downgrade,
    putfh,
    reclaim_complete,
    restorefh,
    savefh,
    sequence,
    test_stateid,
)

FILE, ROOT = putfh(b"file"), putfh(b"root")
BOTH = READ | WRITE
READ_LT, WRITE_LT, READW_LT, WRITEW_LT = 1, 2, 3, 4
TIME_ACCESS_SET = 48


def open_files(server: Conversation) -> int:
    gc.collect()
    return server.files.open_files


@pytest.mark.req("NF4-134", "NF4-144")
def test_a_file_is_opened_by_name_or_by_handle_and_closed() -> None:
    server = Conversation()
    client = server.client().start()
    reply = client.run(ROOT, open_(b"owner", READ, name="file"), getfh())
    opened = reply.value(18)
    assert reply.value(10) == b"file"
    assert (opened["stateid"].seqid, opened["flags"], opened["attributes"], opened["why"]) == (1, 12, (), None)
    assert opened["change"] == (0, 1, 1)
    by_handle = client.run(FILE, open_(b"other", READ)).value(18)["stateid"]
    assert by_handle.other != opened["stateid"].other
    assert open_files(server) == 2
    for stateid in (opened["stateid"], by_handle):
        assert client.run(FILE, close(stateid)).value(4) == Stateid(0xFFFFFFFF, bytes(12))
        assert client.run(FILE, close(stateid)).status == "BAD_STATEID"
    assert (open_files(server), len(server.claims)) == (0, 0)


@pytest.mark.req("NF4-124")
def test_a_second_open_of_an_owner_widens_the_first_and_counts_its_stateid() -> None:
    _, client, other = two_clients()
    first = client.opened(b"file", READ)
    second = client.opened(b"file", WRITE)
    assert (second.other, second.seqid) == (first.other, 2)
    assert other.run(FILE, open_(b"o", READ, WRITE)).status == "SHARE_DENIED"
    assert client.run(FILE, close(first)).status == "OLD_STATEID"
    assert client.run(FILE, close(second._replace(seqid=3))).status == "BAD_STATEID"
    assert client.run(FILE, close(second._replace(seqid=0))).status == "OK"
    assert other.run(FILE, open_(b"o", READ, WRITE)).status == "OK"


@pytest.mark.req("NF4-125")
def test_stateids_of_others_and_of_no_one_are_bad() -> None:
    server, client, other = two_clients()
    opened = client.opened(b"file", BOTH)
    locked = client.locked(b"file", opened)
    server.files.add("another")
    made_up = Stateid(1, opened.other[:4] + bytes(8))
    earlier = Stateid(1, bytes([255]) + opened.other[1:])
    for stateid in (opened, locked, made_up, earlier, CURRENT):
        for operation in (
            close(stateid),
            open_downgrade(stateid, READ),
            lock(stateid, b"l", WRITE_LT, 0, 1),
            lock_more(stateid, WRITE_LT, 0, 1),
            locku(stateid, 0, 1),
            free_stateid(stateid),
        ):
            assert other.run(FILE, operation).status == "BAD_STATEID"
    for operation in (close(opened), open_downgrade(opened, READ), lock(opened, b"l", WRITE_LT, 0, 1)):
        assert client.run(putfh(b"another"), operation).status == "BAD_STATEID", "it is of another file"
    for operation in (close(locked), open_downgrade(locked, READ), lock(locked, b"l", WRITE_LT, 0, 1)):
        assert client.run(FILE, operation).status == "BAD_STATEID", "locks are no open"
    for operation in (lock_more(opened, WRITE_LT, 0, 1), locku(opened, 0, 1)):
        assert client.run(FILE, operation).status == "BAD_STATEID", "an open is no lock"
    reply = client.run(test_stateid(opened, locked, made_up, locked._replace(seqid=2)))
    assert reply.value(55) == ["OK", "OK", "BAD_STATEID", "BAD_STATEID"]


@pytest.mark.req("NF4-126")
def test_the_current_stateid_goes_along_with_its_filehandle() -> None:
    client = Conversation().client().start()
    opening = open_(b"owner", BOTH)
    assert client.run(FILE, opening, lock(CURRENT, b"l", WRITE_LT, 0, 1), locku(CURRENT, 0, 1)).status == "OK"
    assert client.run(FILE, opening, savefh(), FILE, close(CURRENT)).status == "BAD_STATEID"
    assert client.run(FILE, opening, savefh(), FILE, restorefh(), open_downgrade(CURRENT, BOTH)).status == "OK"
    reply = client.run(FILE, opening, lock(CURRENT, b"l", WRITE_LT, 0, 1), free_stateid(CURRENT))
    assert reply.status == "LOCKS_HELD"
    assert client.run(FILE, locku(reply.value(12)._replace(seqid=0), 0, MAX64), free_stateid(CURRENT)).status == "OK"
    assert client.run(FILE, opening, close(CURRENT), close(CURRENT)).status == "BAD_STATEID"


@pytest.mark.req("NF4-141")
@each_case("access, deny", [(0, 0), (4, 0), (READ, 4), (0x40000001, 0)])
def test_bits_that_there_are_not_are_invalid(access: int, deny: int) -> None:
    client = Conversation().client().start()
    assert client.run(FILE, open_(b"o", access, deny)).status == "INVAL"
    stateid = client.opened(b"file", BOTH)
    assert client.run(FILE, open_downgrade(stateid, access, deny)).status == "INVAL"


@pytest.mark.req("NF4-149")
@each_case(
    "opens, access, deny, status",
    [
        ([(READ, 0), (BOTH, 0)], READ, 0, "OK"),
        ([(BOTH, 0)], READ, 0, "INVAL"),
        ([(READ, 0), (WRITE, 0)], BOTH, 0, "OK"),
        ([(READ, WRITE), (READ, 0)], READ, WRITE, "OK"),
        ([(READ, WRITE), (READ, 0)], READ, 0, "OK"),
        ([(BOTH, READ), (WRITE, 0)], WRITE, 0, "OK"),
        ([(BOTH, READ), (WRITE, 0)], BOTH, 0, "INVAL"),
        ([(BOTH, READ), (WRITE, 0)], WRITE, READ, "INVAL"),
        ([(READ, 0)], WRITE, 0, "INVAL"),
    ],
)
def test_an_open_is_downgraded_to_the_union_of_some_of_its_opens(
    opens: list[tuple[int, int]], access: int, deny: int, status: str
) -> None:
    client = Conversation().client().start()
    for each in opens:
        stateid = client.opened(b"file", *each)
    assert client.run(FILE, open_downgrade(stateid, access, deny)).status == status
    if status == "OK":
        again = client.run(FILE, open_downgrade(stateid._replace(seqid=0), access, deny))
        assert again.value(21).seqid == stateid.seqid + 2


@pytest.mark.req("NF4-149")
def test_a_downgrade_gives_up_the_shares_and_the_file_for_writing() -> None:
    server, client, other = two_clients()
    client.opened(b"file", READ)
    stateid = client.opened(b"file", WRITE)
    assert open_files(server) == 2
    assert other.run(FILE, open_(b"o", READ, WRITE)).status == "SHARE_DENIED"
    assert client.run(FILE, open_downgrade(stateid, READ)).status == "OK"
    assert open_files(server) == 1
    assert other.run(FILE, open_(b"o", READ, WRITE)).status == "OK"


@pytest.mark.req("NF4-142")
@each_case(
    "mode, access, status",
    [(0o444, READ, "OK"), (0o444, WRITE, "ACCESS"), (0o666, BOTH, "OK"), (0o111, READ, "OK"), (0o222, READ, "ACCESS")],
)
def test_open_judges_the_caller(mode: int, access: int, status: str) -> None:
    server = Conversation()
    server.files.add("private", FileKind.FILE, mode, 7)
    client = server.client().start()
    assert client.run(ROOT, open_(b"o", access, name="private")).status == status
    assert len(server.claims) == (status == "OK")


@pytest.mark.req("NF4-135")
@each_case(
    "kind, status", [(FileKind.DIRECTORY, "ISDIR"), (FileKind.SYMLINK, "SYMLINK"), (FileKind.FIFO, "WRONG_TYPE")]
)
def test_only_regular_files_are_opened_and_locked(kind: FileKind, status: str) -> None:
    server = Conversation()
    server.files.add("special", kind)
    client = server.client().start()
    assert client.run(ROOT, open_(b"o", READ, name="special")).status == status
    locking = (lockt(b"l", READ_LT, 0, 1), lock(CURRENT, b"l", READ_LT, 0, 1), locku(CURRENT, 0, 1))
    assert [client.run(putfh(b"special"), each).status for each in locking] == [status] * 3
    assert client.run(ROOT, open_(b"o", READ, name="missing")).status == "NOENT"


@pytest.mark.req("NF4-146", "NF4-147", "NF4-148")
def test_files_are_created_in_four_ways() -> None:
    server = Conversation()
    client = server.client().start()
    new = client.run(ROOT, open_(b"o", BOTH, name="new", create=GUARDED), getfh())
    assert (new.value(10), new.value(18)["change"]) == (b"new", (1, 1, 2))
    assert client.run(ROOT, open_(b"o", BOTH, name="new", create=GUARDED)).status == "EXIST"
    server.files.files[b"new"].size = 5
    for size in (None, 3):
        kept = client.run(ROOT, open_(b"o", BOTH, name="new", create=UNCHECKED, size=size))
        assert (kept.status, server.files.files[b"new"].size, kept.value(18)["attributes"]) == ("OK", 5, ())
    cut = client.run(ROOT, open_(b"o", BOTH, name="new", create=UNCHECKED, size=0))
    assert (cut.status, server.files.files[b"new"].size, cut.value(18)["attributes"]) == ("OK", 0, (1 << 4,))
    for how in (EXCLUSIVE, EXCLUSIVE4_1):
        name = f"exclusive {how}"
        for _ in range(2):
            assert client.run(ROOT, open_(b"o", BOTH, name=name, create=how, verifier=b"mine    ")).status == "OK"
        assert client.run(ROOT, open_(b"o", BOTH, name=name, create=how, verifier=b"another ")).status == "EXIST"
    assert client.run(FILE, open_(b"o", BOTH, create=GUARDED)).status == "INVAL"
    timed = open_(b"o", BOTH, name="timed", create=EXCLUSIVE4_1, attributes=fattr({TIME_ACCESS_SET: bytes(4)}))
    assert client.run(ROOT, timed).status == "INVAL", "the times are the verifier"
    assert b"timed" not in server.files.files


@each_case("access", [READ, WRITE, BOTH])
def test_an_existing_file_is_not_cut_past_the_share_of_another_open(access: int) -> None:
    server, client, other = two_clients()
    other.opened(b"file", READ, WRITE)
    assert client.run(ROOT, open_(b"o", access, name="file", create=UNCHECKED, size=0)).status == "SHARE_DENIED"
    assert server.files.files[b"file"].size == 5


def test_a_file_that_appears_while_an_open_creates_it_is_cut_by_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    server, client, other = two_clients()
    make = File.create

    def made_by_another(self: File, *how: Any) -> Any:
        monkeypatch.setattr(File, "create", make)
        server.files.add("new")
        other.opened(b"new", READ, WRITE)
        return make(self, *how)

    monkeypatch.setattr(File, "create", made_by_another)
    opening = open_(b"o", READ, name="new", create=UNCHECKED, size=0)
    assert client.run(ROOT, opening).status == "SHARE_DENIED"
    assert server.files.files[b"new"].size == 5


def test_an_open_whose_file_cannot_be_cut_is_taken_back() -> None:
    server, client, other = two_clients()
    server.files.full = True
    assert client.run(ROOT, open_(b"o", WRITE, BOTH, name="file", create=UNCHECKED, size=0)).status != "OK"
    assert (len(server.claims), open_files(server)) == (0, 0)
    client.opened(b"file", READ, owner=b"o")
    assert client.run(ROOT, open_(b"o", WRITE, WRITE, name="file", create=UNCHECKED, size=0)).status == "IO"
    assert open_files(server) == 1, "the first open cannot write"
    assert other.run(FILE, open_(b"o", BOTH)).status == "OK", "the first open goes on as it was"


@each_case("is_open, loses", [(first, how) for first in (False, True) for how in ("revoke", "end")])
def test_a_client_that_loses_an_open_while_its_file_is_cut_in_vain_does_not_get_it_back(
    is_open: bool, loses: str
) -> None:
    server, client, other = two_clients()
    if is_open:
        client.opened(b"file", READ, owner=b"o")
    record = server.state.clients.find(client.id)

    def cut(*_: Any) -> None:
        if loses == "revoke":
            server.state.revoke_all(record)
        else:
            with server.state.locked():
                server.state.clients.remove(record)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    server.files.files[b"file"].set_attributes = cut  # type: ignore[method-assign]
    assert client.run(ROOT, open_(b"o", WRITE, WRITE, name="file", create=UNCHECKED, size=0)).status == "IO"
    assert (len(server.claims), open_files(server)) == (0, 0)
    assert other.run(FILE, open_(b"o", BOTH, BOTH)).status == "OK"


@each_case("meanwhile, stays", [(open_(b"o", READ), True), (open_(b"p", READ), False)])
def test_an_open_whose_file_cannot_be_cut_stays_for_another_call_that_has_opened_it_as_well(
    meanwhile: bytes, stays: bool
) -> None:
    server, client, _ = two_clients()

    def cut(*_: Any) -> None:
        reply = client.compound(sequence(client.session, 1, 1), FILE, meanwhile)
        opened.append(reply.value(18)["stateid"])
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    opened: list[Stateid] = []
    server.files.files[b"file"].set_attributes = cut  # type: ignore[method-assign]
    assert client.run(ROOT, open_(b"o", WRITE, name="file", create=UNCHECKED, size=0)).status == "IO"
    assert client.run(FILE, open_downgrade(opened[0], READ)).status == "OK"
    assert open_files(server) == 1
    assert (opened[0].seqid == 2) is stays


def test_a_file_in_a_read_only_export_is_opened_for_reading() -> None:
    server = Conversation()
    server.files.read_only = True
    for file in server.files.files.values():
        file.tree = server.files
    client = server.client().start()
    assert client.run(FILE, open_(b"o", READ)).status == "OK"
    assert client.run(FILE, open_(b"o", WRITE)).status == "ROFS"
    assert client.run(ROOT, open_(b"o", READ, name="new", create=GUARDED)).status == "ROFS"


@pytest.mark.req("NF4-145")
@each_case("wish, why", [(0, None), (0x100, 2), (0x300, 2), (0x400, 0), (0x500, 7)])
def test_wishes_for_delegations_are_answered(wish: int, why: int | None) -> None:
    client = Conversation().client().start()
    assert client.run(FILE, open_(b"o", READ | wish)).value(18)["why"] == why


def test_opens_wait_for_the_disk_in_a_thread() -> None:
    server = Conversation()
    client = server.client().start()
    hops = server.hops
    assert client.run(ROOT, open_(b"o", READ, name="file")).status == "OK"
    assert server.hops == hops + 1, "the client is written to the disk"
    assert client.run(ROOT, open_(b"o", READ, name="file")).status == "OK"
    assert server.hops == hops + 1
    server.files.cold = True
    assert client.run(ROOT, open_(b"o", READ, name="file")).status == "OK"
    assert client.run(FILE, open_(b"o", READ)).value(18)["stateid"].seqid == 4
    assert server.hops == hops + 3
    server.files.cold = False
    assert client.run(ROOT, open_(b"o", READ, name="new", create=GUARDED)).status == "OK"
    assert server.hops == hops + 4, "a file is created in a worker thread alone"


# Locks


@pytest.mark.req("NF4-127", "NF4-138")
def test_a_lock_denied_names_the_lock_in_the_way() -> None:
    _, client, other = two_clients()
    theirs = other.opened(b"file", BOTH)
    other.run(FILE, lock(theirs, b"holder", WRITE_LT, 10, 5))
    other.run(FILE, lock(theirs, b"holder 2", READ_LT, 100, MAX64))
    own = client.opened(b"file", BOTH)
    denied = client.run(FILE, lock(own, b"l", READ_LT, 0, 11))
    assert (denied.status, denied.value(12)) == ("DENIED", (10, 5, WRITE_LT, other.id, b"holder"))
    denied = client.run(FILE, lockt(b"l", WRITEW_LT, 200, 1))
    assert (denied.status, denied.value(13)) == ("DENIED", (100, MAX64, READ_LT, other.id, b"holder 2"))
    assert client.run(FILE, lockt(b"l", READW_LT, 200, 1)).status == "OK"
    assert client.run(FILE, lockt(b"l", WRITE_LT, 0, 10)).status == "OK"
    assert other.run(FILE, lockt(b"holder", WRITE_LT, 0, 100)).status == "OK", "its own locks are not in its way"


@pytest.mark.req("NF4-133", "NF4-155")
def test_locks_of_an_owner_have_one_stateid_that_counts_its_changes() -> None:
    _, client, other = two_clients()
    opened = client.opened(b"file", BOTH)
    first = client.locked(b"file", opened, start=0, length=10)
    second = client.run(FILE, lock(opened, b"locker", READ_LT, 20, 10)).value(12)
    third = client.run(FILE, lock_more(second, WRITE_LT, 40, 10)).value(12)
    fourth = client.run(FILE, locku(third, 5, 40)).value(14)
    assert [each.seqid for each in (first, second, third, fourth)] == [1, 2, 3, 4]
    assert len({each.other for each in (first, second, third, fourth)}) == 1
    assert client.run(FILE, locku(third, 0, 1)).status == "OLD_STATEID"
    for start, status in [(0, "DENIED"), (5, "OK"), (20, "OK"), (44, "OK"), (45, "DENIED"), (50, "OK")]:
        assert other.run(FILE, lockt(b"l", WRITE_LT, start, 1)).status == status
    assert client.run(FILE, close(opened)).status == "LOCKS_HELD"
    assert client.run(free_stateid(fourth)).status == "LOCKS_HELD"
    assert client.run(free_stateid(opened)).status == "LOCKS_HELD"
    last = client.run(FILE, locku(fourth, 0, MAX64)).value(14)
    assert client.run(free_stateid(last)).status == "OK"
    assert client.run(FILE, close(opened)).status == "OK"


def test_unlocked_lock_states_end_with_their_open() -> None:
    server, client, _ = two_clients()
    opened = client.opened(b"file", BOTH)
    locked = client.locked(b"file", opened)
    locked = client.run(FILE, locku(locked, 0, MAX64)).value(14)
    assert client.run(FILE, close(opened)).status == "OK"
    assert client.run(test_stateid(locked)).value(55) == ["BAD_STATEID"]
    assert len(server.claims) == 0


@pytest.mark.req("NF4-128")
@each_case(
    "start, length, status",
    [
        (0, MAX64, "OK"),
        (MAX64, MAX64, "OK"),
        (MAX64 - 1, 1, "OK"),
        (1, MAX64 - 1, "OK"),
        (2, MAX64 - 1, "INVAL"),
        (0, 0, "INVAL"),
        (MAX64, 1, "INVAL"),
    ],
)
def test_ranges_reach_to_the_last_octet_and_no_further(start: int, length: int, status: str) -> None:
    _, client, other = two_clients()
    opened = client.opened(b"file", BOTH)
    locked = client.run(FILE, lock(opened, b"l", WRITE_LT, start, length))
    assert locked.status == status
    assert other.run(FILE, lockt(b"l", READ_LT, start, length)).status == ("DENIED" if status == "OK" else status)
    if status != "OK":
        assert client.run(FILE, locku(client.locked(b"file", opened), start, length)).status == status
    else:
        last = other.run(FILE, lockt(b"l", READ_LT, MAX64, MAX64))
        assert last.status == ("DENIED" if length == MAX64 else "OK")
        assert client.run(FILE, locku(locked.value(12), start, length)).status == "OK"
        assert other.run(FILE, lockt(b"l", READ_LT, 0, MAX64)).status == "OK"


def test_a_lock_takes_an_open_of_its_kind() -> None:
    client = Conversation().client().start()
    reading, writing = client.opened(b"file", READ), client.opened(b"file", WRITE, owner=b"writer")
    assert client.run(FILE, lock(reading, b"r", WRITE_LT, 0, 1)).status == "OPENMODE"
    assert client.run(FILE, lock(writing, b"w", READ_LT, 0, 1)).status == "OPENMODE"
    assert client.run(FILE, lock(reading, b"r", READ_LT, 0, 1)).status == "OK"
    assert client.run(FILE, lock(writing, b"w", WRITE_LT, 5, 1)).status == "OK"


# Leases


def test_a_courteous_client_yields_its_share_or_its_lock() -> None:
    for claimed in ("share", "lock"):
        server, client, other = two_clients()
        theirs = other.opened(b"file", BOTH, WRITE if claimed == "share" else 0)
        if claimed == "lock":
            other.locked(b"file", theirs)
        server.files.add("own")
        client.opened(b"own")
        server.now_s += LEASE_S + 1
        hops = server.hops
        if claimed == "share":
            assert client.run(FILE, open_(b"o", WRITE)).status == "OK"
        else:
            opened = client.opened(b"file", BOTH)
            assert client.run(FILE, lock(opened, b"l", WRITE_LT, 0, 1)).status == "OK"
        assert server.hops == hops + 1, "the disk forgets the other client first"
        assert other.run().status == "BADSESSION"
        assert other.start().run(FILE, close(theirs)).status == "BAD_STATEID"


def test_a_test_for_a_lock_ends_a_courteous_client_too() -> None:
    server, client, other = two_clients()
    other.locked(b"file", other.opened(b"file", BOTH))
    server.now_s += LEASE_S + 1
    assert client.run(FILE, lockt(b"l", WRITE_LT, 0, 1)).status == "OK"


def test_a_conflict_with_a_client_that_is_being_ended_is_put_off(monkeypatch: pytest.MonkeyPatch) -> None:
    server, client, other = two_clients()
    server.files.add("denied")
    third = server.client("c").start()
    other.locked(b"file", other.opened(b"file", BOTH))
    other.opened(b"denied", READ, BOTH)
    theirs, mine = third.opened(b"file", BOTH), client.opened(b"file", BOTH)
    server.now_s += LEASE_S + 1
    client.run(), third.run()
    calls = (
        (putfh(b"denied"), open_(b"o", READ)),
        (FILE, lock(theirs, b"l", WRITE_LT, 5, 1)),
        (FILE, lockt(b"l", WRITE_LT, 5, 1)),
    )
    usual, meanwhile = server.database.forget, []

    def forget(rows: Any) -> bool:
        meanwhile.extend(third.run(*call).status for call in calls)
        return bool(usual(rows))

    monkeypatch.setattr(server.database, "forget", forget)
    assert client.run(FILE, lock(mine, b"l", WRITE_LT, 0, 1)).status == "OK"
    assert meanwhile == ["DELAY"] * 3
    assert [third.run(*call).status for call in calls] == ["OK"] * 3


@each_case(
    ("handle", "step", "opening", "status"),
    [
        (b"file", "open", open_(b"o", READ), "DELAY"),
        (b"root", "lookup", open_(b"o", READ, name="new", create=UNCHECKED), "DELAY"),
        (b"file", "set_attributes", open_(b"o", WRITE, BOTH, name="file", create=UNCHECKED, size=0), "IO"),
    ],
)
def test_a_client_that_ends_while_its_call_runs_leaves_no_open_behind(
    handle: bytes, step: str, opening: bytes, status: str
) -> None:
    server = Conversation()
    client = server.client().start()
    record = server.state.clients.find(client.id)
    usual = getattr(server.files.files[handle], step)

    def slowly(*args: Any, **named: Any) -> Any:
        with server.state.locked():
            if record.id in server.state.clients.by_id:
                server.state.clients.remove(record)
        return usual(*args, **named)

    setattr(server.files.files[handle], step, slowly)
    server.files.full = step == "set_attributes"
    assert client.run(FILE if step == "open" else ROOT, opening).status == status
    assert (len(server.claims), open_files(server)) == (0, 0)
    assert server.files.files.keys() == {b"root", b"file"}


def test_an_open_that_is_closed_while_a_further_one_fails_to_cut_the_file_denies_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, client, other = two_clients()
    opened = client.opened(b"file", WRITE, READ, owner=b"o")

    def closed_meanwhile(*_args: Any, **_named: Any) -> None:
        monkeypatch.undo()
        number = client.number
        client.number = 0
        head = sequence(client.session, 1, 1)
        assert client.compound(head, FILE, close(Stateid(0, opened.other))).status == "OK"
        client.number = number
        raise OSError(errno.EIO, "full")

    monkeypatch.setattr(File, "set_attributes", closed_meanwhile)
    assert client.run(ROOT, open_(b"o", WRITE, name="file", create=UNCHECKED, size=0)).status == "IO"
    assert other.run(FILE, open_(b"o", BOTH)).status == "OK"


# Restarts


@pytest.mark.req("NF4-129", "NF4-162")
def test_opens_and_locks_are_reclaimed_after_a_restart_and_nothing_else_is_granted_before(tmp_path: Path) -> None:
    files, path = FewFiles(), tmp_path / "clients.sqlite3"
    server = Conversation(path, files)
    client, other = server.client("a").start(), server.client("b").start()
    other.opened(b"file")
    client.locked(b"file", client.opened(b"file", BOTH, WRITE))
    server = Conversation(path, files, 500.0)
    client, other = server.client("a").start(complete=False), server.client("b").start(complete=False)
    stranger = server.client("stranger").start()
    assert stranger.run(FILE, open_(b"o", READ)).status == "GRACE"
    assert stranger.run(FILE, lockt(b"o", READ_LT, 0, 1)).status == "GRACE"
    assert stranger.run(FILE, open_(b"o", READ, reclaim=True)).status == "NO_GRACE"
    assert client.run(FILE, open_(b"o", READ)).status == "GRACE"
    for _ in range(2):
        reclaimed = client.run(FILE, open_(b"owner", BOTH, WRITE, reclaim=True)).value(18)["stateid"]
    assert other.run(FILE, open_(b"o", WRITE, reclaim=True)).status == "RECLAIM_CONFLICT"
    theirs = other.run(FILE, open_(b"o", READ, reclaim=True)).value(18)["stateid"]
    assert client.run(FILE, lock(reclaimed, b"l", WRITE_LT, 0, 10)).status == "GRACE"
    assert client.run(FILE, lock(reclaimed, b"l", WRITE_LT, 0, 10, reclaim=True)).status == "OK"
    assert other.run(FILE, lock(theirs, b"l", READ_LT, 0, 10, reclaim=True)).status == "RECLAIM_CONFLICT"
    assert client.run(reclaim_complete()).status == "OK"
    assert client.run(FILE, open_(b"owner", BOTH, reclaim=True)).status == "NO_GRACE"
    assert client.run(FILE, open_(b"o", READ)).status == "GRACE", "the other client is still waited for"
    assert other.run(reclaim_complete()).status == "OK"
    assert stranger.run(FILE, open_(b"o", READ)).status == "OK"
    assert stranger.run(FILE, lockt(b"o", READ_LT, 0, 1)).status == "DENIED"


def test_nothing_is_reclaimed_when_the_right_ends_while_the_file_is_opened(tmp_path: Path) -> None:
    files, path = FewFiles(), tmp_path / "clients.sqlite3"
    Conversation(path, files).client().start().opened(b"file")
    server = Conversation(path, files, 500.0)
    client = server.client().start(complete=False)
    record = server.state.clients.find(client.id)
    usual, files.cold = files.files[b"file"].open, True

    def open_slowly(*args: Any, at_once: bool) -> Any:
        if not at_once:
            server.state.complete_reclaim(record, server.now_s)
        return usual(*args, at_once=at_once)

    files.files[b"file"].open = open_slowly  # type: ignore[method-assign]
    assert client.run(FILE, open_(b"owner", READ, reclaim=True)).status == "NO_GRACE"
    assert len(server.claims) == 0


@pytest.mark.req("NF4-130")
def test_before_its_reclaim_complete_a_client_opens_nothing_new() -> None:
    client = Conversation().client().start(complete=False)
    assert client.run(FILE, open_(b"o", READ)).status == "GRACE"
    assert client.run(FILE, open_(b"o", READ, reclaim=True)).status == "NO_GRACE"
    assert client.run(reclaim_complete()).status == "OK"
    assert client.run(FILE, open_(b"o", READ)).status == "OK"


def test_a_file_that_its_owner_may_no_more_open_is_reclaimed_nevertheless(tmp_path: Path) -> None:
    files, path = FewFiles(), tmp_path / "clients.sqlite3"
    user = AuthSys(uid=7, gid=7)
    server = Conversation(path, files)
    server.client(credential=user).start().opened(b"file", BOTH)
    files.files[b"file"].mode = 0
    server = Conversation(path, files, 500.0)
    client = server.client(credential=user).start(complete=False)
    assert client.run(FILE, open_(b"owner", BOTH, reclaim=True)).status == "OK"
