"""The `info` dictionaries of fsspec's libraries: kinds, sizes, times, and the values that differ with the content."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from rpcrdma.nfs.export.fsspec_info import ObjectInfo, Unusable, info_of, packed_info, unpacked_info
from rpcrdma.nfs.export.tree import OFFSET_MAX, FileKind
from support.cases import each_case

SECOND = 1_000_000_000
THEN = 1_700_000_000
NOW_NS = (THEN + 100) * SECOND
DATE = datetime.fromtimestamp(THEN, UTC)


def file_info(**more: Any) -> ObjectInfo:
    return info_of({"name": "a", "type": "file", "size": 5, **more}, NOW_NS)


@each_case(
    ("key", "value"),
    [
        ("mtime", THEN),
        ("mtime", float(THEN)),
        ("LastModified", DATE),
        ("last_modified", DATE.replace(tzinfo=None)),
        ("last_modified", DATE.astimezone(timezone(timedelta(hours=5)))),
        ("updated", "2023-11-14T22:13:20Z"),
        ("updated", "2023-11-14T22:13:20+00:00"),
        ("Last-Modified", "Tue, 14 Nov 2023 22:13:20 GMT"),
        ("modify", "20231114221320"),
        ("modify", "20231114221320.000"),
        ("date_time", (2023, 11, 14, 22, 13, 20)),
        ("created", DATE),
    ],
)
def test_times_are_read_in_the_forms_of_all_libraries(key: str, value: object) -> None:
    assert file_info(**{key: value}).mtime_ns == THEN * SECOND


@each_case(
    "value", [None, "", "soon", float("nan"), float("inf"), 1e300, True, b"1", (1, 2), (2023, 99, 1), [], {}, "9" * 14]
)
def test_a_time_that_is_none_is_left_out(value: object) -> None:
    assert file_info(mtime=value).mtime_ns is None
    assert file_info(mtime=value, created=THEN).mtime_ns == THEN * SECOND


def test_parts_of_a_second_are_kept() -> None:
    assert file_info(mtime=THEN + 0.25).mtime_ns == THEN * SECOND + SECOND // 4
    assert file_info(created=DATE + timedelta(milliseconds=250)).mtime_ns == THEN * SECOND + SECOND // 4
    assert file_info(mtime=-0.25).mtime_ns == -SECOND // 4


def test_size_time_and_identity_each_make_another_state() -> None:
    states = [
        file_info(mtime=THEN),
        file_info(mtime=THEN, size=6),
        file_info(mtime=THEN - 1),
        file_info(mtime=THEN, ETag='"a"'),
        file_info(mtime=THEN, ETag='"b"'),
        file_info(mtime=THEN, ino=1),
        file_info(mtime=THEN, ino=2),
        file_info(ETag='"a"'),
        file_info(CRC=7),
        file_info(sha=b"\1"),
    ]
    changes = [state.change for state in states]
    assert None not in changes
    assert len(set(changes)) == len(states)
    assert file_info(mtime=THEN, ETag='"a"', VersionId="only in info").change == changes[3]


def test_a_state_that_the_next_one_might_equal_has_no_change() -> None:
    assert file_info().change is None
    assert file_info(ino=4).change is None
    assert file_info(mtime=THEN + 99).change is None
    assert file_info(mtime=THEN + 99, ino=4).change is None
    assert file_info(mtime=THEN + 99, ETag="a").change is not None
    assert file_info(mtime=THEN + 99.5).change is not None
    assert file_info(mtime=THEN + 97).change is not None
    assert info_of({"type": "directory", "mtime": THEN}, NOW_NS).change is None


def test_a_symbolic_link_has_its_target_and_nothing_of_the_object_that_it_leads_to() -> None:
    kinds: list[dict[str, Any]] = [
        {"type": "link", "destination": "../b\udcff"},
        {"type": "file", "islink": True, "destination": b"../b\xff", "size": 10**6, "mtime": THEN},
        {"type": "directory", "islink": True, "destination": "../b\udcff"},
        {"type": "other", "islink": True, "destination": "../b\udcff"},
    ]
    infos = {info_of(info, NOW_NS) for info in kinds}
    assert [(info.kind, info.size, info.mtime_ns, info.target) for info in infos] == [
        (FileKind.SYMLINK, 5, None, b"../b\xff")
    ]
    assert info_of({"type": "link", "destination": "c"}, NOW_NS).change not in {info.change for info in infos}


@each_case(
    "info",
    [
        None,
        [],
        "file",
        {},
        {"type": "other", "size": 1},
        {"type": None},
        {"type": 3},
        {"type": "x" * 10_000},
        {"type": "link"},
        {"type": "link", "destination": ""},
        {"type": "link", "destination": "a\0b"},
        {"type": "link", "destination": "\ud800"},
        {"type": "file", "size": -1},
        {"type": "file", "size": OFFSET_MAX + 1},
        {"type": "file", "size": "5"},
        {"type": "file", "size": 1.5},
        {"type": "file", "size": True},
    ],
)
def test_an_object_that_nfs_cannot_serve_is_unusable_and_the_cause_is_short(info: object) -> None:
    with pytest.raises(Unusable) as caught:
        info_of(info, NOW_NS)
    assert len(str(caught.value)) < 120


def test_a_packed_info_is_the_same_but_for_the_target() -> None:
    for info in (
        file_info(mtime=THEN, ETag="a"),
        file_info(mtime=-1, size=OFFSET_MAX),
        file_info(size=None),
        file_info(size=0),
        info_of({"type": "directory"}, NOW_NS),
        info_of({"type": "link", "destination": "x"}, NOW_NS),
    ):
        assert unpacked_info(packed_info(info, 1.5)) == (info._replace(target=None), 1.5)
    assert file_info(size=None).size is None
