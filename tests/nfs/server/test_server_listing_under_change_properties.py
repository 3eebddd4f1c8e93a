"""Listings while names come and go: a name that exists throughout is listed exactly once."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpcrdma.nfs import v3
from rpcrdma.nfs.export.directory_listing import DirectoryListings, name_digest
from rpcrdma.nfs.server import Export
from served_directory import Server

pytestmark = pytest.mark.thorough


NUMBERS = st.integers(0, 59)
CHANGE = st.tuples(st.sampled_from(["create", "delete", "rename", "list", "drop", "restart"]), NUMBERS, NUMBERS)


def page(server: Any, directory: bytes, cookie: int, count: int, *, plus: bool) -> Any:
    if plus:
        args = v3.READDIRPLUS3args(v3.nfs_fh3(directory), cookie, bytes(8), count, count + 400)
        return server.call("readdirplus", args).value.reply
    return server.call("readdir", v3.READDIR3args(v3.nfs_fh3(directory), cookie, bytes(8), count)).value.reply


@given(
    start=st.sets(NUMBERS, max_size=60),
    between=st.lists(st.lists(CHANGE, max_size=6), max_size=12),
    count=st.integers(200, 900),
    window=st.sampled_from([4, 16, 100_000]),
    plus=st.booleans(),
)
@settings(max_examples=40)
def test_names_that_stay_are_listed_once(
    start: set[int], between: list[list[tuple[str, int, int]]], count: int, window: int, plus: bool
) -> None:
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        root = base / "export"
        root.mkdir()
        for number in start:
            (root / f"{number}").touch()
        exports = [Export(name="/", directory=root, root_squash=False, synchronous=False)]
        server = Server(exports, base / "state")
        listings = DirectoryListings(name_digest(b"k" * 32), limit=window)
        server.services.nfs.exports.parts.listings = listings
        directory = server.mount()

        stayed, ever = set(start), set(start)
        seen: list[str] = []
        cookie, eof, turn = 0, False, 0
        while not eof:
            got = page(server, directory, cookie, count, plus=plus)
            seen += [entry.name for entry in got.entries]
            eof = got.eof
            assert got.entries or eof
            cookie = got.entries[-1].cookie if got.entries else cookie
            for what, one, other in between[turn] if turn < len(between) else []:
                path, target = root / f"{one}", root / f"{other}"
                if what == "create":
                    path.touch()
                    ever.add(one)
                elif what == "delete":
                    path.unlink(missing_ok=True)
                    stayed.discard(one)
                elif what == "rename" and path.exists() and one != other:
                    path.rename(target)
                    ever.add(other)
                    stayed.discard(one)
                elif what == "list":
                    page(server, directory, 0, 300, plus=False)
                elif what == "drop":
                    listings.forget(directory)
                elif what == "restart":
                    server.close()
                    server = Server(exports, base / "state")
                    server.services.nfs.exports.parts.listings = listings
            turn += 1
        server.close()
    names = [int(name) for name in seen if name not in {".", ".."}]
    assert len(names) == len(set(names))
    for number in stayed:
        assert names.count(number) == 1
    assert set(names) <= ever
    assert len(seen) - len(names) == 2
