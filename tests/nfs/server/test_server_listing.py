"""READDIR and READDIRPLUS: limits, cookies, and the content of each entry."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.nfs import v3
from rpcrdma.nfs.export import directory_listing
from rpcrdma.nfs.export.directory_listing import DirectoryListings, name_digest

DOTS = [".", ".."]
ROW_OCTETS = 24 + 12
"""What a listing holds for a name of some twelve octets."""


def names_in(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


@pytest.fixture
def root(server: Any, tree: Path) -> bytes:
    (tree / "many").mkdir(mode=0o777)
    for number in range(200):
        (tree / "many" / f"file-{number:03}{'x' * (number % 7)}").touch()
    handle: bytes = server.lookup(server.mount(), "many")
    return handle


def plus(server: Any, directory: bytes, cookie: int, dircount: int, maxcount: int) -> Any:
    return server.call("readdirplus", v3.READDIRPLUS3args(v3.nfs_fh3(directory), cookie, bytes(8), dircount, maxcount))


def test_a_listing_shows_every_name_once(server: Any, root: bytes, tree: Path) -> None:
    for count in (400, 1000, 1 << 16):
        assert sorted(server.list_names(root, count)) == sorted(DOTS + names_in(tree / "many"))


def test_replies_fill_the_count_and_never_exceed_it(server: Any, root: bytes) -> None:
    for count in range(300, 700, 17):
        reply = server.call("readdir", v3.READDIR3args(v3.nfs_fh3(root), 0, bytes(8), count))
        resok = server.reply_octets - 4
        assert count - 44 <= resok <= count
        assert not reply.value.reply.eof
    for count in range(600, 1500, 31):
        plus(server, root, 0, 1 << 20, count)
        assert count - 190 <= server.reply_octets - 4 <= count
    # Too small a count is refused.
    assert server.status("readdir", v3.READDIR3args(v3.nfs_fh3(root), 0, bytes(8), 107)) == "TOOSMALL"
    assert server.status("readdir", v3.READDIR3args(v3.nfs_fh3(root), 0, bytes(8), 0)) == "TOOSMALL"
    assert plus(server, root, 0, 4096, 120).status == v3.nfsstat3.NFS3ERR_TOOSMALL


def test_plus_entries_have_attributes_and_good_handles(server: Any, root: bytes) -> None:
    page = plus(server, root, 0, 1 << 20, 1 << 20).value.reply
    assert page.eof
    assert len(page.entries) == 202
    for entry in page.entries[:20]:
        handle = entry.name_handle.value.data
        assert handle == server.lookup(root, entry.name)
        assert server.attributes(handle) == entry.name_attributes.value
        assert entry.fileid == entry.name_attributes.value.fileid
    # The count of names limits a plus reply.
    entries = plus(server, root, 2, 200, 1 << 20).value.reply.entries
    octets = [20 + 4 + (len(entry.name) + 3 & ~3) - 4 for entry in entries]
    assert sum(octets) <= 200 < sum(octets) + 40
    assert len(plus(server, root, 2, 0, 1 << 20).value.reply.entries) == 1


def test_dots_of_the_root_are_the_root(server: Any) -> None:
    root = server.mount()
    entries = plus(server, root, 0, 1 << 20, 1 << 20).value.reply.entries
    assert [entry.name_handle.value.data for entry in entries if entry.name in DOTS] == [root, root]
    # Listing a file is refused.
    file = v3.nfs_fh3(server.lookup(server.mount(), "hello.txt"))
    assert server.status("readdir", v3.READDIR3args(file, 0, bytes(8), 4096)) == "NOTDIR"
    assert server.status("readdirplus", v3.READDIRPLUS3args(file, 0, bytes(8), 4096, 4096)) == "NOTDIR"


def test_a_directory_larger_than_the_window_is_listed_whole(server: Any, root: bytes, tree: Path) -> None:
    server.services.nfs.exports.parts.listings = DirectoryListings(name_digest(b"k" * 32), limit=16 * ROW_OCTETS)
    assert sorted(server.list_names(root)) == sorted(DOTS + names_in(tree / "many"))


def test_names_that_share_a_cookie_stay_on_one_page(server: Any, root: bytes, tree: Path) -> None:
    server.services.nfs.exports.parts.listings = DirectoryListings(lambda name: 3 + len(name) + name[5] % 2)
    reference = sorted(DOTS + names_in(tree / "many"))
    assert sorted(server.list_names(root, 4096)) == reference


def test_a_page_of_nothing_but_names_gone_since_goes_on(server: Any, root: bytes, tree: Path) -> None:
    server.services.nfs.exports.parts.listings = DirectoryListings(name_digest(b"k" * 32), limit=16 * ROW_OCTETS)
    page = plus(server, root, 0, 1 << 20, 1 << 20).value.reply
    cookie = page.entries[3].cookie
    for path in (tree / "many").iterdir():
        path.unlink()
    end = plus(server, root, cookie, 1 << 20, 1 << 20).value.reply
    assert (end.entries, end.eof) == ([], True)


def test_windows_are_bounded_altogether() -> None:
    listings = DirectoryListings(name_digest(b"k" * 32), limit=100 * 26)
    for number in range(50):
        listings.after(b"%d" % number, 0, lambda: [(b"%02d" % name, name) for name in range(30)])
        assert listings._held <= 100 * 26
    assert len(listings._windows) == 3


def test_what_was_read_earlier_never_replaces_what_was_read_later() -> None:
    listings = DirectoryListings(name_digest(b"k" * 32))

    def slow() -> list[tuple[bytes, int]]:
        listings.after(b"d", 0, lambda: [(b"old", 1), (b"new", 2)])
        return [(b"old", 1)]

    assert [entry.name for entry in listings.after(b"d", 0, slow)[0]] == [b"old"]
    rest, complete = listings.after(b"d", 3, list)
    assert {entry.name for entry in rest} == {b"old", b"new"}
    assert complete


def test_a_name_that_a_file_system_lists_twice_is_listed_once() -> None:
    listings = DirectoryListings(name_digest(b"k" * 32))
    entries, _ = listings.after(b"d", 0, lambda: [(b"x", 1), (b"y", 2), (b"x", 1)])
    assert sorted(entry.name for entry in entries) == [b"x", b"y"]


def test_cookies_are_positive_signed_numbers_above_those_of_dots() -> None:
    digest = name_digest(b"k" * 32)
    cookies = [digest(b"%d" % number) for number in range(1000)]
    assert min(cookies) > directory_listing.COOKIE_DOT_DOT
    assert max(cookies) < 1 << 63


class CountedDigest:
    """Cookies as a server makes them; `names` counts the hashed ones."""

    def __init__(self) -> None:
        self.names = 0
        self._digest = name_digest(b"k" * 32)

    def __call__(self, name: bytes) -> int:
        self.names += 1
        return self._digest(name)


def readdir(server: Any, directory: bytes, cookie: int) -> Any:
    return server.call("readdir", v3.READDIR3args(v3.nfs_fh3(directory), cookie, bytes(8), 2000)).value.reply


def settle(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the directory had last been changed long ago."""
    monkeypatch.setattr("rpcrdma.nfs.export.local_listing.file_clock_ns", lambda: directory.stat().st_ctime_ns + 10**10)


def test_cookies_at_random_read_a_large_directory_once(server: Any, root: bytes, tree: Path) -> None:
    """Not for each such call."""
    digest = CountedDigest()
    listings = server.services.nfs.exports.parts.listings = DirectoryListings(digest)
    names = [(b"file-number-%06d" % number, number) for number in range(20_000)]
    reads: list[int] = []

    def scan() -> list[tuple[bytes, int]]:
        reads.append(1)
        return names

    chosen = random.Random(1)
    for _ in range(17):
        cookie = chosen.randrange(3, 1 << 63)
        entries, complete = listings.after(b"large", cookie, scan)
        assert complete
        assert next(entries).cookie > cookie
    assert (len(reads), digest.names) == (1, 20_000)
    assert listings._held < 8 << 20


def test_what_a_cookie_shows_is_what_a_whole_listing_shows_there(server: Any, root: bytes, tree: Path) -> None:
    whole = plus(server, root, 0, 1 << 20, 1 << 20).value.reply.entries
    chosen = random.Random(1)
    for cookie in [chosen.randrange(1 << 63) for _ in range(20)] + [0, 1, 2, (1 << 64) - 1, whole[7].cookie]:
        server.services.nfs.exports.parts.listings = DirectoryListings(
            name_digest(server.state.key), limit=40 * ROW_OCTETS
        )
        shown = [entry.name for entry in readdir(server, root, cookie).entries]
        assert shown == [entry.name for entry in whole if entry.cookie > cookie][: len(shown)]
        assert shown or cookie > whole[-2].cookie


def test_a_directory_that_does_not_change_is_read_once(
    server: Any, root: bytes, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = CountedDigest()
    server.services.nfs.exports.parts.listings = DirectoryListings(digest)
    settle(tree / "many", monkeypatch)
    for _ in range(5):
        assert len(server.list_names(root, 1000)) == 202
    assert digest.names == 200
    (tree / "many" / "one more").touch()
    assert len(server.list_names(root, 1000)) == 203
    assert digest.names == 401


def test_a_directory_that_has_just_changed_is_read_by_each_listing_that_begins(
    server: Any, root: bytes, tree: Path
) -> None:
    """Its times may be the same after another change; here the test sets them back to their old values."""
    for number in range(3):
        before = (tree / "many").stat()
        (tree / "many" / f"new-{number}").touch()
        os.utime(tree / "many", ns=(before.st_atime_ns, before.st_mtime_ns))
        assert f"new-{number}" in server.list_names(root, 1000)


def test_listings_that_begin_at_once_share_what_is_read() -> None:
    listings = DirectoryListings(name_digest(b"k" * 32))
    reads: list[int] = []
    reading, go_on = threading.Event(), threading.Event()

    def scan() -> Iterator[tuple[bytes, int]]:
        reads.append(1)
        reading.set()
        go_on.wait()
        yield b"name", 1

    def begin() -> None:
        assert [entry.name for entry in listings.after(b"d", 0, scan)[0]] == [b"name"]

    first = threading.Thread(target=begin)
    first.start()
    reading.wait()
    others = [threading.Thread(target=begin) for _ in range(8)]
    for thread in others:
        thread.start()
    while listings._turns[b"d"].users < 9:
        assert all(thread.is_alive() for thread in others)
    go_on.set()
    for thread in [first, *others]:
        thread.join()
    # The first was reading before the others asked; one more read is recent enough for all of them.
    assert len(reads) == 2
    assert not listings._turns
