"""Opaque members of generated types: octets in objects of any format, and their lengths."""

from __future__ import annotations

import array
import ctypes
from typing import Any

import pytest

from rpcrdma.errors import LocalProtocolError
from support.cases import each_case
from support.compiled import load, octets

OPAQUE = """
struct fixed { int n; opaque a[16]; int m; };
struct several { opaque a<16>; opaque b<16>; };
union u switch (int n) { case 1: opaque a<16>; case 2: opaque b[16]; };
pragma ddp several.b;
"""


@each_case(
    "doubles", [array.array("d", [1.0, 2.0]), memoryview(array.array("d", [1.0, 2.0])), (ctypes.c_double * 2)(1.0, 2.0)]
)
def test_opaque_members_and_arms_take_octets_of_any_format(doubles: Any) -> None:
    module = load(OPAQUE)
    whole = memoryview(doubles).tobytes()
    counted = b"\0\0\0\x10" + whole
    for encode, value, expected in (
        (module.encode_fixed, module.fixed(1, doubles, 2), b"\0\0\0\1" + whole + b"\0\0\0\2"),
        (module.encode_several, module.several(doubles, doubles), counted + counted),
        (module.encode_u, module.u(1, doubles), b"\0\0\0\1" + counted),
        (module.encode_u, module.u(2, doubles), b"\0\0\0\2" + whole),
    ):
        assert octets(encode, value) == expected


def test_opaque_members_and_arms_refuse_octets_with_gaps_by_name() -> None:
    module = load(OPAQUE)
    gappy = memoryview(bytes(32))[::2]
    for encode, value, name in (
        (module.encode_fixed, module.fixed(1, gappy, 2), "fixed.a"),
        (module.encode_several, module.several(b"", gappy), "several.b"),
        (module.encode_u, module.u(1, gappy), "u.a"),
    ):
        with pytest.raises(TypeError, match=f"{name}: .*not C-contiguous"):
            octets(encode, value)


def test_a_fixed_member_of_other_octets_is_refused() -> None:
    module = load(OPAQUE)
    for value, count in ((array.array("d", [1.0]), 8), (b"x" * 17, 17)):
        with pytest.raises(LocalProtocolError, match=f"fixed.a: {count} octets given, the type has 16"):
            octets(module.encode_fixed, module.fixed(1, value, 2))
