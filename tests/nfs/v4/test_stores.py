"""Files of remote stores by version 4: an open shows what READ by a new open would show, and never two contents."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from conversation import Conversation
from fsspec_rig import Clock, Store, exported
from rpcrdma.nfs.export.read_ahead import BLOCK_OCTETS
from rpcrdma.nfs.v4.server.pseudo_root import PseudoRoot
from served_exports import CHANGE, SIZE
from support.nfs4_client import READ, Reply, Stateid, close, getattr_, open_, putfh, read, read_plus

PRESERVES_UNLINKED = 8
OCTETS = 3 * BLOCK_OCTETS


class Opened:
    """A store with one file of three blocks, which a client has open; its state is valid for a second."""

    def __init__(self, place: Path, held: contextlib.ExitStack) -> None:
        Store.clear()
        self.store = Store(skip_instance_cache=True)
        self.clock = Clock()
        self.fill(b"A" * OCTETS)
        exports = held.enter_context(exported(place, clock=self.clock, valid_s=1))
        self.client = Conversation(files=PseudoRoot(exports, 5)).client().start()  # type: ignore[arg-type]
        self.file = putfh(self.client.handle("file"))
        found = self.open().value(18)
        self.opened: Stateid = found["stateid"]
        self.flags: int = found["flags"]

    def fill(self, content: bytes) -> None:
        self.store.pipe("/bucket/file", content)

    def open(self) -> Reply:
        return self.client.run(self.file, open_(b"reader", READ))

    def read(self, offset: int, octets: int = 4) -> tuple[bool, bytes] | str:
        """Whether the file ends, and the data; or the status of the refusal."""
        reply = self.client.run(self.file, read(self.opened, offset, octets))
        return reply.value(25) if reply.status == "OK" else reply.status  # type: ignore[no-any-return]

    def change(self) -> bytes:
        reply = self.client.run(self.file, getattr_(CHANGE | SIZE))
        return reply.value(9)[1]  # type: ignore[no-any-return]


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Opened]:
    with contextlib.ExitStack() as held:
        yield Opened(tmp_path, held)
    Store.clear()


def test_an_open_reads_the_content_whose_change_its_client_was_told(stored: Opened) -> None:
    told = stored.change()
    assert stored.read(0) == (False, b"AAAA")
    stored.fill(b"B" * OCTETS)
    stored.clock.now_s += 2
    assert stored.change() != told
    assert [stored.read(offset) for offset in (0, OCTETS - 4)] == [(False, b"BBBB"), (True, b"BBBB")]
    stored.fill(b"C" * OCTETS + b"MORE")
    stored.clock.now_s += 2
    assert stored.read(OCTETS, 9) == (True, b"MORE")
    assert stored.client.run(stored.file, read_plus(stored.opened, OCTETS, 9), minor=2).value(68)[1][-1][-1] == b"MORE"
    stored.fill(b"short")
    stored.clock.now_s += 2
    assert stored.read(0, 9) == (True, b"short")


def test_a_file_that_was_cut_is_readable_again_by_its_open(stored: Opened) -> None:
    stored.fill(b"short")
    stored.clock.now_s += 0.1
    assert stored.read(0, 9) == "DELAY", "octets of the former content are gone"
    assert stored.read(0, 9) == (True, b"short")


def test_a_removed_object_is_stale_to_its_open_which_can_be_closed(stored: Opened) -> None:
    assert stored.read(0) == (False, b"AAAA")
    assert not stored.flags & PRESERVES_UNLINKED
    stored.store.rm("/bucket/file")
    stored.clock.now_s += 2
    assert [stored.read(offset) for offset in (0, OCTETS - 4, OCTETS)] == ["STALE"] * 3
    assert stored.client.run(stored.file, getattr_(CHANGE)).status == "STALE"
    assert stored.open().status == "STALE"
    assert stored.client.run(stored.file, close(stored.opened)).status == "OK"
    assert stored.client.run(stored.file).status == "STALE"


def test_an_open_waits_for_a_store_that_does_not_answer_and_can_be_closed(stored: Opened) -> None:
    def busy(*_: object, **__: object) -> NoReturn:
        raise TimeoutError

    stored.store.answers["info"] = busy
    stored.clock.now_s += 2
    assert (stored.read(0), stored.client.run(stored.file, getattr_(CHANGE)).status) == ("DELAY", "DELAY")
    assert stored.client.run(stored.file, getattr_(CHANGE), close(stored.opened)).status == "DELAY"
    del stored.store.answers["info"]
    stored.clock.now_s += 60
    assert stored.read(0) == (False, b"AAAA")
    stored.store.answers["info"] = busy
    stored.clock.now_s += 2
    assert stored.client.run(stored.file, close(stored.opened)).status == "OK"
