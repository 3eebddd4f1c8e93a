"""Share reservations and byte-range locks: conflicts by the tables of the protocol, ranges to 2^64, what is counted."""

from __future__ import annotations

import itertools
import random

from rpcrdma.nfs.export.claims import READ, WRITE, Claims, Range, change_ranges
from support.cases import each_case

FILE, OTHER_FILE = b"file", b"other file"
END = 1 << 64
BITS = range(4)


def test_a_share_reservation_conflicts_with_what_it_denies_and_with_what_denies_it() -> None:
    for access, deny, its_access, its_deny in itertools.product(BITS, repeat=4):
        claims: Claims[str, str] = Claims()
        claims.share(FILE, "first", its_access, its_deny)
        claims.share(FILE, "harmless", 0, 0)
        expected = ["first"] if access & its_deny or deny & its_access else []
        assert claims.share_conflicts(FILE, "second", access, deny) == expected
        assert claims.share_conflicts(FILE, "first", access, deny) == [], "its own reservation is no conflict"
        assert claims.share_conflicts(OTHER_FILE, "second", access, deny) == []


def test_a_reservation_takes_the_place_of_the_one_before() -> None:
    claims: Claims[str, str] = Claims()
    claims.share(FILE, "a", READ | WRITE, WRITE)
    claims.share(FILE, "a", READ, 0)
    assert claims.share_conflicts(FILE, "b", WRITE, WRITE) == []
    assert claims.share_conflicts(FILE, "b", READ, READ) == ["a"]
    assert list(claims.sharers(FILE)) == [("a", READ)]
    claims.unshare(FILE, "a")
    claims.unshare(FILE, "a")
    assert claims.share_conflicts(FILE, "b", READ, READ) == []
    assert len(claims) == 0


def test_callers_without_an_open_obey_denials() -> None:
    claims: Claims[str, str] = Claims()
    assert not claims.denies_io(FILE, WRITE)
    claims.share(FILE, "a", READ, WRITE)
    claims.share(OTHER_FILE, "b", READ, 0)
    assert claims.denies_io(FILE, WRITE)
    assert not claims.denies_io(FILE, READ)
    assert not claims.denies_io(OTHER_FILE, WRITE)
    claims.unshare(FILE, "a")
    assert not claims.denies_io(FILE, WRITE)
    assert claims.denials == 0


@each_case(
    "before, change, after",
    [
        ([], (0, END, True), [Range(0, END, True)]),
        ([], (END - 1, END, False), [Range(END - 1, END, False)]),
        ([Range(0, END, True)], (5, 6, None), [Range(0, 5, True), Range(6, END, True)]),
        ([Range(0, END, True)], (5, 6, False), [Range(0, 5, True), Range(5, 6, False), Range(6, END, True)]),
        ([Range(0, 4, True), Range(8, 9, True)], (4, 8, True), [Range(0, 9, True)]),
        ([Range(0, 4, True), Range(8, 9, False)], (4, 8, True), [Range(0, 8, True), Range(8, 9, False)]),
        ([Range(0, 4, True), Range(5, 7, False)], (0, 9, False), [Range(0, 9, False)]),
        ([Range(0, 4, True)], (4, 9, None), [Range(0, 4, True)]),
        ([Range(0, 4, True)], (0, 4, None), []),
    ],
)
def test_a_change_replaces_splits_and_joins_ranges(
    before: list[Range], change: tuple[int, int, bool | None], after: list[Range]
) -> None:
    ranges = list(before)
    change_ranges(ranges, *change)
    assert ranges == after


def octets_of(ranges: list[Range]) -> dict[int, bool]:
    return {octet: each.exclusive for each in ranges for octet in range(each.start, each.end)}


def test_ranges_are_those_of_a_map_of_octets() -> None:
    draw = random.Random(7)
    for _ in range(300):
        ranges: list[Range] = []
        expected: dict[int, bool] = {}
        for _ in range(12):
            start = draw.randrange(20)
            end = start + draw.randrange(1, 12)
            kind = draw.choice([True, False, None])
            change_ranges(ranges, start, end, kind)
            for octet in range(start, end):
                expected.pop(octet, None)
                if kind is not None:
                    expected[octet] = kind
            assert octets_of(ranges) == expected
            for left, right in itertools.pairwise(ranges):
                assert left.end < right.start or (left.end == right.start and left.exclusive != right.exclusive)


def test_ranges_conflict_if_they_overlap_and_one_is_exclusive() -> None:
    for exclusive, its_exclusive, (start, end) in itertools.product(
        (True, False), (True, False), [(0, 4), (4, 5), (9, 10), (10, END), (0, END), (5, 6)]
    ):
        claims: Claims[str, str] = Claims()
        claims.change_range(FILE, "a", 0, 2, its_exclusive)
        claims.change_range(FILE, "a", 4, 10, its_exclusive)
        wanted = Range(start, end, exclusive)
        held = [Range(0, 2, its_exclusive), Range(4, 10, its_exclusive)]
        expected = [("a", each) for each in held if each.start < end and start < each.end and exclusive | its_exclusive]
        assert list(claims.range_conflicts(FILE, "b", wanted)) == expected[:1]
        assert list(claims.range_conflicts(FILE, "a", wanted)) == [], "a holder replaces its own ranges"
        assert list(claims.range_conflicts(OTHER_FILE, "b", wanted)) == []


def test_the_unlocked_parts_of_a_range_are_found() -> None:
    claims: Claims[str, str] = Claims()
    for holder, start, end in (("a", 0, 5), ("a", 10, 20), ("b", 15, 30), ("b", 40, END)):
        claims.change_range(FILE, holder, start, end, False)
    assert claims.unlocked(FILE, 0, END) == [(5, 10), (30, 40)]
    assert claims.unlocked(FILE, 4, 10) == [(5, 10)]
    assert claims.unlocked(FILE, 6, 8) == [(6, 8)]
    assert claims.unlocked(FILE, 12, 30) == []
    assert claims.unlocked(FILE, 12, 41) == [(30, 40)]


@each_case(
    "start, end, splits", [(1, 4, True), (0, 4, False), (1, 5, False), (5, 9, False), (6, 7, False), (12, 13, True)]
)
def test_a_range_is_split_by_unlocking_within_it(start: int, end: int, splits: bool) -> None:
    claims: Claims[str, str] = Claims()
    claims.change_range(FILE, "a", 0, 5, True)
    claims.change_range(FILE, "a", 10, 20, True)
    assert claims.splits(FILE, "a", start, end) is splits
    assert not claims.splits(FILE, "b", start, end)
    claims.change_range(FILE, "a", start, end, None)
    assert (claims.range_count > 2) is splits


def test_ranges_and_their_holders_are_counted_until_they_are_unlocked() -> None:
    claims: Claims[str, str] = Claims()
    for start in (0, 10, 20):
        claims.change_range(FILE, "a", start, start + 5, True)
    claims.change_range(FILE, "b", 30, 31, False)
    assert (claims.range_count, len(claims.range_holders(FILE)), len(claims)) == (4, 2, 1)
    assert claims.ranges(FILE, "b") == [Range(30, 31, False)]
    claims.change_range(FILE, "a", 5, 20, True)
    assert claims.range_count == 2
    claims.change_range(FILE, "a", 0, END, None)
    assert (claims.range_count, len(claims.range_holders(FILE))) == (1, 1)
    for _ in range(2):
        claims.change_range(FILE, "b", 0, END, None)
    assert (claims.range_count, len(claims.range_holders(FILE)), len(claims)) == (0, 0, 0)
