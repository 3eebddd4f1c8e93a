"""fattr4 in both directions: bitmaps, values in the order of their numbers, and what cannot be set."""

from __future__ import annotations

import os
import pwd
import stat
import struct
from dataclasses import replace
from typing import Any

import pytest

from rpcrdma.nfs.export.tree import SERVER_TIME, Attributes, FileKind, PathLimits, Space, Wanted
from rpcrdma.nfs.v4 import attributes
from rpcrdma.nfs.v4.attributes import SUPPORTED, Described, bits, bits_of, equal_to, fattr_of, wanted_of, words
from rpcrdma.nfs.v4.nfs4 import fattr4, nfsstat4
from rpcrdma.nfs.v4.refusal import Refused
from support.cases import each_case

FILE = Attributes(
    kind=FileKind.FILE, mode=0o4755, links=2, uid=1000, gid=100, size=1 << 33, space_used=4096, device=(0, 0), fsid=7,
    number=12, atime_ns=-1, mtime_ns=5_000_000_006, ctime_ns=(1 << 40) * 1_000_000_000, change=9,
)  # fmt: skip
OBJECT = Described(
    FILE, b"a handle", 90, mounted_on=3, space=Space(100, 90, 80, 70, 60, 50), paths=PathLimits(127, 255), xattrs=True
)


def opaque(octets: bytes) -> bytes:
    return struct.pack(">I", len(octets)) + octets + bytes(-len(octets) & 3)


# RFC 8881 section 5: number, value.
VALUES: dict[int, bytes] = {
    1: struct.pack(">I", 1),
    2: struct.pack(">I", 0),
    3: struct.pack(">Q", 9),
    4: struct.pack(">Q", 1 << 33),
    5: struct.pack(">I", 1),
    6: struct.pack(">I", 1),
    7: struct.pack(">I", 0),
    8: struct.pack(">QQ", 7, 0),
    9: struct.pack(">I", 1),
    10: struct.pack(">I", 90),
    11: struct.pack(">I", 0),
    13: struct.pack(">I", 0),
    15: struct.pack(">I", 1),
    16: struct.pack(">I", 0),
    17: struct.pack(">I", 1),
    18: struct.pack(">I", 1),
    19: opaque(b"a handle"),
    20: struct.pack(">Q", 12),
    21: struct.pack(">Q", 50),
    22: struct.pack(">Q", 60),
    23: struct.pack(">Q", 70),
    26: struct.pack(">I", 1),
    27: struct.pack(">Q", (1 << 63) - 1),
    28: struct.pack(">I", 127),
    29: struct.pack(">I", 255),
    30: struct.pack(">Q", 1 << 20),
    31: struct.pack(">Q", 1 << 20),
    33: struct.pack(">I", 0o4755),
    34: struct.pack(">I", 1),
    35: struct.pack(">I", 2),
    36: opaque(b"1000"),
    37: opaque(b"100"),
    38: struct.pack(">Q", 80),
    39: struct.pack(">Q", 80),
    40: struct.pack(">Q", 10),
    41: struct.pack(">II", 0, 0),
    42: struct.pack(">Q", 80),
    43: struct.pack(">Q", 90),
    44: struct.pack(">Q", 100),
    45: struct.pack(">Q", 4096),
    47: struct.pack(">qI", -1, 999_999_999),
    51: struct.pack(">qI", 0, 1),
    52: struct.pack(">qI", 1 << 40, 0),
    53: struct.pack(">qI", 5, 6),
    55: struct.pack(">Q", 3),
    82: struct.pack(">I", 1),
}


@pytest.mark.req("NF4-17")
def test_each_attribute_has_its_number_and_form() -> None:
    for number, value in VALUES.items():
        found = fattr_of(OBJECT, bits(number))
        assert (number, bits_of(found.attrmask), found.attr_vals) == (number, bits(number), value)


@pytest.mark.req("NF4-17")
def test_values_stand_in_the_order_of_their_numbers() -> None:
    found = fattr_of(OBJECT, bits(*VALUES))
    assert found.attr_vals == b"".join(VALUES.values())
    assert bits_of(found.attrmask) == bits(*VALUES)


def test_the_supported_attributes_are_those_that_can_be_read_or_set() -> None:
    supported = fattr_of(OBJECT, bits(0)).attr_vals
    count, *found = struct.unpack(f">{len(supported) // 4}I", supported)
    assert count == len(found) == 3
    assert bits_of(found) == SUPPORTED == bits(*VALUES, 0, 48, 54, 75)
    exclusive = fattr_of(OBJECT, bits(75)).attr_vals
    assert exclusive == struct.pack(">III", 2, 1 << 4, 1 << 33 - 32 | 1 << 36 - 32 | 1 << 37 - 32)


@pytest.mark.req("NF4-18")
def test_unknown_attributes_are_left_out() -> None:
    found = fattr_of(OBJECT, bits(4, 12, 14, 58, 255))
    assert (found.attrmask, found.attr_vals) == ([1 << 4], VALUES[4])


def test_an_object_that_covers_no_directory_is_mounted_on_itself() -> None:
    found = fattr_of(Described(replace(FILE, shown=None), b"", 90), bits(55))
    assert found.attr_vals == struct.pack(">Q", 12)


@each_case("bitmap", ([], [0], [1], [0, 0, 5], [0xFFFFFFFF] * 8, [7, 0, 0]))
def test_a_bitmap_stands_for_a_set(bitmap: list[int]) -> None:
    found = words(bits_of(bitmap))
    assert found == bitmap[: len(found)]
    assert not any(bitmap[len(found) :])
    assert not found or found[-1]


def refusal(call: Any, *args: Any, **options: Any) -> nfsstat4:
    with pytest.raises(Refused) as refused:
        call(*args, **options)
    return refused.value.status


@pytest.mark.req("NF4-19")
@each_case("number", (48, 54))
def test_an_attribute_that_can_only_be_set_is_not_read(number: int) -> None:
    assert refusal(fattr_of, OBJECT, bits(1, number)) is nfsstat4.NFS4ERR_INVAL


def test_attributes_are_compared_whole() -> None:
    given = fattr4(words(bits(1, 4)), VALUES[1] + VALUES[4])
    assert equal_to(OBJECT, given)
    assert not equal_to(OBJECT, fattr4(given.attrmask, VALUES[1] + struct.pack(">Q", 5)))
    assert not equal_to(OBJECT, fattr4(given.attrmask, VALUES[1]))


@pytest.mark.req("NF4-20")
@each_case("number, status", ((11, "INVAL"), (48, "INVAL"), (12, "ATTRNOTSUPP"), (255, "ATTRNOTSUPP")))
def test_attributes_that_cannot_be_compared_are_refused(number: int, status: str) -> None:
    assert refusal(equal_to, OBJECT, fattr4(words(bits(number)), bytes(4))).name == f"NFS4ERR_{status}"


def given(values: dict[int, bytes]) -> fattr4:
    return fattr4(words(bits(*values)), b"".join(values[number] for number in sorted(values)))


NOW = struct.pack(">I", 0)


def test_all_attributes_are_set_that_can_be() -> None:
    then = struct.pack(">IqI", 1, -2, 500_000_000)
    values = {
        4: struct.pack(">Q", 5),
        33: struct.pack(">I", 0o644),
        36: opaque(b"1"),
        37: opaque(b"2"),
        48: NOW,
        54: then,
    }
    expected = Wanted(mode=0o644, uid=1, gid=2, size=5, atime=SERVER_TIME, mtime=-1_500_000_000)
    assert wanted_of(given(values)) == expected
    assert wanted_of(given({})) == Wanted()


@pytest.mark.req("NF4-21")
@each_case(
    "values, status",
    (
        ({12: b""}, "ATTRNOTSUPP"),
        ({3: bytes(8)}, "INVAL"),
        ({53: bytes(12)}, "INVAL"),
        ({33: struct.pack(">I", 0o10000)}, "INVAL"),
        ({54: struct.pack(">IqI", 1, 0, 1_000_000_000)}, "INVAL"),
        ({54: struct.pack(">I", 2)}, "BADXDR"),
        ({4: bytes(7)}, "BADXDR"),
        ({4: bytes(9)}, "BADXDR"),
        ({4: struct.pack(">Q", 1 << 63)}, "FBIG"),
        ({36: opaque(b"4294967295")}, "BADOWNER"),
        ({36: opaque(b"root")}, "BADOWNER"),
        ({36: opaque(b"@example.org")}, "BADOWNER"),
        ({36: opaque(b"")}, "BADOWNER"),
        ({36: opaque(b"no such user@example.org")}, "BADOWNER"),
        ({37: opaque(b"a\0b@example.org")}, "BADOWNER"),
        ({37: opaque(b"\xff")}, "INVAL"),
        ({36: opaque("٣".encode())}, "BADOWNER"),
    ),
)
def test_what_cannot_be_set_is_refused(values: dict[int, bytes], status: str) -> None:
    assert refusal(wanted_of, given(values)).name == f"NFS4ERR_{status}"


def test_an_exclusive_create_keeps_the_times_for_itself() -> None:
    assert wanted_of(given({33: bytes(4)}), exclusive=True) == Wanted(mode=0)
    assert refusal(wanted_of, given({48: NOW}), exclusive=True) is nfsstat4.NFS4ERR_INVAL


def test_a_name_with_a_domain_is_an_account_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    account = pwd.getpwuid(os.getuid())
    assert wanted_of(given({36: opaque(f"{account.pw_name}@example.org".encode())})).uid == account.pw_uid


def test_every_kind_of_object_has_its_type() -> None:
    assert {int(kind): int(number) for kind, number in attributes.KINDS.items()} == {
        stat.S_IFREG: 1, stat.S_IFDIR: 2, stat.S_IFBLK: 3, stat.S_IFCHR: 4, stat.S_IFLNK: 5, stat.S_IFSOCK: 6,
        stat.S_IFIFO: 7,
    }  # fmt: skip
