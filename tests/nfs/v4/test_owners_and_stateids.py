"""Owners and stateids of version 4.1, in octets: what a server takes from them, and what it ignores."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from conversation import Conversation
from rpcrdma.nfs.v4.state_limits import NFS4_STATEIDS_AT_ONCE
from support.cases import each_case
from support.nfs4_client import (
    ANONYMOUS,
    BYPASS,
    CURRENT,
    READ,
    UNCHECKED,
    WRITE,
    Stateid,
    close,
    lock,
    lock_more,
    lockt,
    locku,
    open_,
    open_downgrade,
    putfh,
    sequence,
    test_stateid,
)

FILE = putfh(b"file")
BOTH = READ | WRITE
READ_LT, WRITE_LT = 1, 2
INVALID = Stateid(0xFFFFFFFF, bytes(12))


@pytest.mark.req("NF4-136")
@each_case("seqid", [0, 1, 7, 0xFFFFFFFF])
def test_the_numbers_of_owners_are_ignored(seqid: int) -> None:
    client = Conversation().client().start()
    reply = client.run(
        FILE,
        open_(b"owner", BOTH, seqid=seqid),
        lock(CURRENT, b"l", WRITE_LT, 0, 1, seqid=seqid),
        lock_more(CURRENT, WRITE_LT, 5, 1, seqid=seqid),
        locku(CURRENT, 0, 6, seqid=seqid),
    )
    assert reply.status == "OK", reply
    opened = reply.value(18)["stateid"]
    assert client.run(FILE, open_downgrade(opened, BOTH, seqid=seqid), close(CURRENT, seqid=seqid)).status == "OK"


@pytest.mark.req("NF4-137")
def test_owners_belong_to_the_client_of_the_session_whichever_they_name() -> None:
    server = Conversation()
    client, other = server.client("a").start(), server.client("b").start()
    for named in (0, other.id, 1 << 63):
        opened = client.run(FILE, open_(b"owner", BOTH, client=named)).value(18)["stateid"]
        assert client.run(FILE, lock(opened, b"l", WRITE_LT, 0, 1, client=named)).status == "OK"
        denied = other.run(FILE, lockt(b"l", READ_LT, 0, 1, client=client.id))
        assert (denied.status, denied.value(13)[3]) == ("DENIED", client.id)
        assert client.run(FILE, lockt(b"l", WRITE_LT, 0, 1, client=named)).status == "OK"
    assert client.run(test_stateid(opened)).value(55) == ["OK"]
    assert opened.seqid == 3, "one owner has opened the file three times"
    assert other.run(test_stateid(opened)).value(55) == ["BAD_STATEID"]


@pytest.mark.req("NF4-139")
@each_case("kind", [1, 2, 3, 4])
def test_a_lock_of_each_kind_is_unlocked_by_each_kind(kind: int) -> None:
    server = Conversation()
    client, other = server.client("a").start(), server.client("b").start()
    opened = client.opened(b"file", BOTH)
    for held in (1, 2, 3, 4):
        locked = client.run(FILE, lock(opened, b"l", held, 0, 10)).value(12)
        assert other.run(FILE, lockt(b"o", WRITE_LT, 0, 10)).status == "DENIED"
        assert client.run(FILE, locku(locked, 0, 10, kind=kind)).status == "OK"
        assert other.run(FILE, lockt(b"o", WRITE_LT, 0, 10)).status == "OK"


@pytest.mark.req("NF4-140")
@each_case(
    "access, deny, its_access, its_deny, status",
    [
        (READ, 0, READ, 0, "OK"),
        (READ, 0, BOTH, WRITE, "OK"),
        (READ, 0, READ, READ, "SHARE_DENIED"),
        (WRITE, 0, READ, WRITE, "SHARE_DENIED"),
        (READ, WRITE, WRITE, 0, "SHARE_DENIED"),
        (READ, WRITE, READ, WRITE, "OK"),
        (BOTH, BOTH, READ, 0, "SHARE_DENIED"),
    ],
)
def test_an_open_keeps_to_the_shares_of_other_opens(
    access: int, deny: int, its_access: int, its_deny: int, status: str
) -> None:
    server = Conversation()
    client, other = server.client("a").start(), server.client("b").start()
    its = other.opened(b"file", its_access, its_deny)
    assert client.run(FILE, open_(b"o", access, deny)).status == status
    own = client.run(FILE, open_(b"mine", READ if its_deny != READ else WRITE))
    assert client.run(FILE, open_(b"o", access, deny)).status == status
    assert other.run(FILE, close(its)).status == "OK"
    if own.status == "OK":
        client.run(FILE, close(own.value(18)["stateid"]))
    assert client.run(FILE, open_(b"o", access, deny)).status == "OK"


@pytest.mark.req("NF4-140")
@each_case(
    "first, second, status",
    [
        ((READ, WRITE), (WRITE, 0), "SHARE_DENIED"),
        ((WRITE, 0), (READ, WRITE), "SHARE_DENIED"),
        ((BOTH, BOTH), (BOTH, BOTH), "SHARE_DENIED"),
        ((READ, WRITE), (READ, WRITE), "OK"),
        ((WRITE, READ), (WRITE, 0), "OK"),
    ],
)
def test_an_open_keeps_to_the_share_of_its_own_owner_too(
    first: tuple[int, int], second: tuple[int, int], status: str
) -> None:
    client = Conversation().client().start()
    opened = client.opened(b"file", *first)
    assert client.run(FILE, open_(b"owner", *second)).status == status
    held = opened._replace(seqid=1 if status == "SHARE_DENIED" else 2)
    assert client.run(FILE, close(held)).status == "OK", "an OPEN that is refused changes nothing"
    assert client.run(FILE, open_(b"owner", *second)).status == "OK"


@pytest.mark.req("NF4-160")
def test_stateids_are_tested_whatever_they_are_of_and_special_ones_are_bad() -> None:
    server = Conversation()
    server.files.leases = True
    server.files.add("read")
    client, other = server.client("a").start(), server.client("b").start()
    delegation = client.run(putfh(b"read"), open_(b"o", READ)).value(18)["delegation"]
    first = client.opened(b"file", READ)
    opened = client.opened(b"file", BOTH)
    locked = client.locked(b"file", opened)
    theirs = other.opened(b"file", READ)
    given = [delegation, opened, locked, first, locked._replace(seqid=9), theirs, opened._replace(seqid=0)]
    expected = ["OK", "OK", "OK", "OLD_STATEID", "BAD_STATEID", "BAD_STATEID", "OK"]
    special = [ANONYMOUS, BYPASS, CURRENT, INVALID]
    # Neither a filehandle nor a current stateid has a part in it, and what it finds is no error.
    for before in ((), (putfh(b"root"),), (FILE, open_(b"another", READ))):
        reply = client.run(*before, test_stateid(*given, *special), test_stateid())
        assert reply.status == "OK"
        assert [value for number, _, value in reply.results if number == 55] == [
            expected + ["BAD_STATEID"] * len(special),
            [],
        ]


def test_many_stateids_are_looked_up_in_a_worker_thread() -> None:
    server = Conversation()
    client = server.client().start()
    opened = client.opened(b"file")
    server.hops = 0
    for count, hops in ((NFS4_STATEIDS_AT_ONCE, 0), (NFS4_STATEIDS_AT_ONCE + 1, 1), (1024, 2)):
        assert client.run(test_stateid(*[opened] * count)).value(55) == ["OK"] * count
        assert server.hops == hops


def test_an_owner_whose_opens_cut_a_file_at_the_same_time_in_vain_has_no_open() -> None:
    server = Conversation()
    client = server.client().start()
    opening = putfh(b"root"), open_(b"o", WRITE, name="file", create=UNCHECKED, size=0)
    meanwhile: list[str] = []

    def cut(*_: Any) -> None:
        if not meanwhile:
            meanwhile.append("begun")
            meanwhile.append(client.compound(sequence(client.session, 1, 1), *opening).status)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    server.files.files[b"file"].set_attributes = cut  # type: ignore[method-assign]
    assert client.run(*opening).status == "IO"
    assert meanwhile == ["begun", "DELAY"]
    assert len(server.claims) == 0
    assert client.run(*opening).status == "IO", "it is not put off any more"
