"""Events that wait for one subscriber: numbered without gaps, bounded, never lost without a word."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcrdma.nfs.server.change_journal import ChangeJournal, change_octets, ended, rescan
from rpcrdma.nfs.watch import WATCH_PATHLEN, encode_watch_change, watch_change, watch_kind, watch_status
from rpcrdma.xdr.codec import Encoder
from support.cases import each_case

CREATED, REMOVED, RENAMED = watch_kind.WATCH_CREATED, watch_kind.WATCH_REMOVED, watch_kind.WATCH_RENAMED
CHANGED, ATTRIBUTES = watch_kind.WATCH_CHANGED, watch_kind.WATCH_ATTRIBUTES
RESCAN, ENDED = watch_kind.WATCH_RESCAN, watch_kind.WATCH_ENDED
OCTETS = 4000


def change(kind: watch_kind, path: str, target: str = "", *, directory: bool = False) -> watch_change:
    return watch_change(kind, directory, path, target, watch_status.WATCH_OK)


def told(journal: ChangeJournal, octets: int = OCTETS) -> list[tuple[int, str, str]]:
    batch = journal.batch(octets)
    if batch is None:
        return []
    return [(n, c.kind.name.removeprefix("WATCH_"), c.path) for n, c in enumerate(batch.changes, batch.first)]


def test_changes_are_numbered_and_told_until_they_are_acknowledged() -> None:
    journal = ChangeJournal(7)
    assert journal.batch(OCTETS) is None
    for name in "abc":
        journal.add(change(CREATED, name))
    assert told(journal) == told(journal) == [(8, "CREATED", "a"), (9, "CREATED", "b"), (10, "CREATED", "c")]
    journal.acknowledge(9)
    journal.add(change(REMOVED, "a"))
    assert told(journal) == [(10, "CREATED", "c"), (11, "REMOVED", "a")]
    journal.acknowledge(11)
    assert told(journal) == []
    assert len(journal) == 0


def test_what_repeats_is_told_once_until_it_was_sent() -> None:
    journal = ChangeJournal()
    for _ in range(3):
        journal.add(change(CHANGED, "a"))
        journal.add(change(ATTRIBUTES, "a"))
    assert told(journal) == [(1, "CHANGED", "a"), (2, "ATTRIBUTES", "a")]
    journal.add(change(CHANGED, "a"))
    assert told(journal)[2:] == [(3, "CHANGED", "a")]
    # Who is told of a creation looks at the content anyway.
    journal = ChangeJournal()
    for kind in (CREATED, CHANGED, ATTRIBUTES, REMOVED, CREATED, CHANGED):
        journal.add(change(kind, "a"))
    assert [kind for _, kind, _ in told(journal)] == ["CREATED", "REMOVED", "CREATED"]


@each_case("between", [change(RENAMED, "a", "b"), change(REMOVED, "dir", directory=True), change(REMOVED, "a")])
def test_a_path_that_may_stand_for_something_else_is_told_of_again(between: watch_change) -> None:
    journal = ChangeJournal()
    for each in (change(CHANGED, "a"), between, change(CHANGED, "a")):
        journal.add(each)
    assert len(told(journal)) == 3


def test_too_many_become_one_rescan_with_a_number_of_its_own() -> None:
    journal = ChangeJournal(entries_max=3)
    for name in "abc":
        journal.add(change(CREATED, name))
    assert len(told(journal)) == 3
    journal.acknowledge(1)
    for name in "de":
        journal.add(change(CREATED, name))
    # Of 2 to 4 only the acknowledgement of sent events may still come.
    assert told(journal) == [(5, "RESCAN", "")]
    journal.acknowledge(3)
    assert told(journal) == [(5, "RESCAN", "")]
    journal.add(change(CREATED, "f"))
    assert told(journal) == [(5, "RESCAN", ""), (6, "CREATED", "f")]
    journal.acknowledge(6)
    assert told(journal) == []


def test_nothing_is_added_to_a_rescan_that_was_not_sent_nor_to_the_end() -> None:
    journal = ChangeJournal()
    journal.lose()
    for name in "abc":
        journal.add(change(CREATED, name))
        journal.lose()
    assert journal.begins_with_rescan
    assert told(journal) == [(1, "RESCAN", "")]
    journal = ChangeJournal()
    journal.end(watch_status.WATCHERR_STALE)
    journal.add(change(CREATED, "a"))
    journal.lose()
    journal.end(watch_status.WATCHERR_ACCES)
    batch = journal.batch(OCTETS)
    assert batch is not None
    assert batch.changes == [ended(watch_status.WATCHERR_STALE)]


def test_a_path_that_no_message_can_carry_becomes_a_rescan() -> None:
    journal = ChangeJournal()
    journal.add(change(CREATED, "x" * (WATCH_PATHLEN + 1)))
    assert told(journal) == [(1, "RESCAN", "")]
    journal = ChangeJournal()
    journal.add(change(CREATED, "x" * 2000))
    journal.end(watch_status.WATCHERR_STALE)
    assert [kind for _, kind, _ in told(journal, 1000)] == ["RESCAN", "ENDED"]


def test_batches_keep_to_their_bounds() -> None:
    journal = ChangeJournal()
    for number in range(300):
        journal.add(change(CREATED, f"{number:04}"))
    size = change_octets(change(CREATED, "0000"))
    assert len(told(journal, 10 * size)) == 10
    assert len(told(journal, 10 * size - 1)) == 9
    assert len(told(journal, 1 << 20)) == 256
    # So does what waits.
    journal = ChangeJournal(octets_max=1000)
    for number in range(20):
        journal.add(change(CREATED, f"{number:0100}"))
    assert len(journal) == 1
    assert journal.begins_with_rescan
    # The size of a change is that of its encoding.
    for each in (change(CREATED, "abc"), change(RENAMED, "a" * 7, "\udcff" * 5), rescan()):
        enc = Encoder()
        encode_watch_change(enc, each)
        assert change_octets(each) == len(b"".join(enc.gather()))


@each_case("number", [4, 7, 8, 1 << 63])
def test_what_cannot_have_been_got_is_not_acknowledged(number: int) -> None:
    journal = ChangeJournal(5)
    for name in "abc":
        journal.add(change(CREATED, name))
    journal.batch(change_octets(change(CREATED, "a")))
    with pytest.raises(ValueError, match="is not from 5 to 6"):
        journal.acknowledge(number)
    journal.acknowledge(6)


class Follower:
    """Keeps a copy of a directory (names and versions of their content) by the reported events."""

    def __init__(self, world: dict[str, int]) -> None:
        self.world = world
        self.copy = dict(world)
        self.got = 0

    def take(self, journal: ChangeJournal, octets: int) -> None:
        batch = journal.batch(octets)
        if batch is None:
            return
        assert batch.first <= self.got + 1 or batch.changes[0].kind is RESCAN
        for number, each in enumerate(batch.changes, batch.first):
            if number <= self.got:
                continue
            self.got = number
            if each.kind is RESCAN:
                self.copy = dict(self.world)
            elif each.kind is REMOVED:
                self.copy.pop(each.path, None)
            elif each.kind is RENAMED:
                self.copy.pop(each.path, None)
                self.look(each.target)
            else:
                self.look(each.path)

    def look(self, name: str) -> None:
        self.copy.pop(name, None)
        if name in self.world:
            self.copy[name] = self.world[name]


NAMES = st.sampled_from("abcd")
STEP = st.one_of(
    st.tuples(st.sampled_from(["write", "remove"]), NAMES, NAMES),
    st.tuples(st.just("rename"), NAMES, NAMES),
    st.tuples(st.sampled_from(["told", "told and acknowledged"]), st.integers(60, 400), st.none()),
)


@given(st.lists(STEP, max_size=80), st.integers(1, 12))
def test_who_follows_the_numbers_knows_the_directory(steps: list[Any], entries_max: int) -> None:
    world: dict[str, int] = {}
    journal = ChangeJournal(entries_max=entries_max)
    follower = Follower(world)
    version = 0
    for step, name, other in steps:
        if step == "write":
            version += 1
            kind = CHANGED if name in world else CREATED
            world[name] = version
            journal.add(change(kind, name))
        elif step == "remove" and world.pop(name, None):
            journal.add(change(REMOVED, name))
        elif step == "rename" and name in world and name != other:
            world[other] = world.pop(name)
            journal.add(change(RENAMED, name, other))
        elif step.startswith("told"):
            follower.take(journal, name)
            if step.endswith("acknowledged"):
                journal.acknowledge(follower.got)
    while len(journal):
        follower.take(journal, 100)
        journal.acknowledge(follower.got)
    assert follower.copy == world
