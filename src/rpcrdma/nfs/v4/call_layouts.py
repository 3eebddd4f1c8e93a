"""The layouts of usual calls: COMPOUNDs that differ in the values of fixed-size fields alone are decoded in one step.

A client sends few sequences of operations, with filehandles of one length and few bitmaps. The arguments of such a call
are one `struct`: the numbers of the operations and the lengths of their items are compared with those of an earlier
call, and all others are taken as they are.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Final, TypeAlias

from rpcrdma.limits import NFS4_CALL_LAYOUT_OCTETS_MAX
from rpcrdma.nfs.v4.nfs4 import (
    ACCESS4args,
    GETATTR4args,
    LOOKUP4args,
    PUTFH4args,
    READ4args,
    SEQUENCE4args,
    nfs_opnum4,
    stateid4,
)
from rpcrdma.xdr.codec import Decoder

__all__ = ["CallLayout", "CallLayouts"]

_Values: TypeAlias = tuple[Any, ...]
_HEAD: Final = ">4I16s4I"
"""The `struct` format of an empty tag, the minor version, the number of operations, and SEQUENCE."""
_HEAD_VALUES, _SEQUENCE_AT, _CACHED = 9, 12, 8
"""The number of values in the head of a call, the offset of SEQUENCE, and the index of `sa_cachethis` in the values."""
_MISSES = 16
"""Calls of other layouts after which such a layout takes the place of the present one: two may be in use by turns."""


class CallLayout:
    """Decodes in one step COMPOUND calls with the same operations, and filehandles, names and bitmaps of same lengths.

    These calls have no tag, and their first operation is SEQUENCE. A layout is made from one such call, whose decoded
    arguments are `args`, one for each operation.

    Attributes:
        minor_version, shape: the minor version and the `Shape` (sequence of operations) of these calls.
        misses: the number of calls of the same length for which `args_of` has returned None.
    """

    __slots__ = ("_begun", "_expected", "_fixed", "_make", "_offsets", "_unpack", "minor_version", "misses", "shape")

    def __init__(self, minor_version: int, shape: Any, args: Sequence[Any]) -> None:
        kinds = shape.kinds
        expected = {0: 0, 1: minor_version, 2: len(kinds), 3: kinds[0]}
        form, at, make, offsets = _HEAD, _HEAD_VALUES, [], [_SEQUENCE_AT]
        for kind, given in zip(kinds[1:], args[1:], strict=True):
            offsets.append(struct.calcsize(form))
            fields, values, length, maker = _FORMS[kind](given, at + 1)
            expected[at] = kind
            if length is not None:
                expected[at + 1] = length
            form, at = f"{form}I{fields}", at + 1 + values
            make.append(maker)
        layout = struct.Struct(form)
        self._unpack = layout.unpack_from
        self._fixed = itemgetter(*expected)
        self._expected = tuple(expected.values())
        self._make = make
        self._offsets = offsets
        self._begun = 0, offsets
        self.minor_version = minor_version
        self.shape = shape
        self.misses = 0

    def args_of(self, dec: Decoder) -> list[Any] | None:
        """Returns the decoded arguments of each operation of a call of this layout, and moves `dec` to its end.

        `dec` stands at the beginning of COMPOUND4args, and has as many octets left as a call of this layout. Sets
        `dec.begun` to the offsets of the operations in the RPC message, in a list that later calls share. If the call
        has another layout, or sa_cachethis is not 0 or 1, returns None, adds 1 to `misses`, and leaves `dec` as it is.
        """
        at = dec.pos
        values = self._unpack(dec.data, at)
        cached = values[_CACHED]
        if cached > 1 or self._fixed(values) != self._expected:
            self.misses += 1
            return None
        dec.pos = dec.end
        at += dec.removed - dec.start
        begins, dec.begun = self._begun
        if at != begins:
            # The header is longer or shorter than that of the last call.
            dec.begun = [at + offset for offset in self._offsets]
            self._begun = at, dec.begun
        args: list[Any] = [SEQUENCE4args(values[4], values[5], values[6], values[7], cached == 1)]
        for make in self._make:
            args.append(make(values))  # noqa: PERF401 - a comprehension is a function more
        return args


class CallLayouts:
    """The layouts of recent calls, at most one for each length of COMPOUND4args in octets."""

    def __init__(self) -> None:
        self.by_length: dict[int, CallLayout] = {}
        self.find: Final = self.by_length.get
        """Returns the layout of calls whose arguments have a length in octets; None if there is none."""

    def note(self, length: int, minor_version: int, shape: Any, args: Sequence[Any]) -> None:
        """Remembers the layout of a decoded call, which has no tag and begins with SEQUENCE.

        `length` is that of COMPOUND4args in octets, `shape` the call's `Shape` (sequence of operations), and `args` are
        the decoded arguments of each operation. No effect if `length` exceeds `NFS4_CALL_LAYOUT_OCTETS_MAX`, if an
        operation after SEQUENCE is not in `_FORMS`, such as WRITE, or while another layout of this length has fewer
        than `_MISSES` (16) misses.
        """
        known = self.by_length.get(length)
        if (
            length <= NFS4_CALL_LAYOUT_OCTETS_MAX
            and (known is None or known.misses >= _MISSES)
            and all(kind in _FORMS for kind in shape.kinds[1:])
        ):
            self.by_length[length] = CallLayout(minor_version, shape, args)


_Form: TypeAlias = tuple[str, int, int | None, Callable[[_Values], Any]]
"""The arguments of an operation in a layout: their format for `struct`, the number of their values, the value that the
first one must have (None: any), and a function that makes them of all values of the call."""


def _octets(octets: bytes) -> str:
    """Returns the `struct` format of variable-length opaque data as long as `octets`: length, data and padding."""
    return f"I{len(octets)}s{-len(octets) & 3}x"


def _void(_args: None, _at: int) -> _Form:
    return "", 0, None, lambda _values: None


def _access(_args: ACCESS4args, at: int) -> _Form:
    return "I", 1, None, lambda values: ACCESS4args(values[at])


def _getattr(args: GETATTR4args, at: int) -> _Form:
    count = len(args.attr_request)
    words = slice(at + 1, at + 1 + count)
    return f"{1 + count}I", 1 + count, count, lambda values: GETATTR4args(list(values[words]))


def _lookup(args: LOOKUP4args, at: int) -> _Form:
    return _octets(args.objname), 2, len(args.objname), lambda values: LOOKUP4args(values[at + 1])


def _putfh(args: PUTFH4args, at: int) -> _Form:
    return _octets(args.object), 2, len(args.object), lambda values: PUTFH4args(values[at + 1])


def _read(_args: READ4args, at: int) -> _Form:
    return "I12sQI", 4, None, lambda v: READ4args(stateid4(v[at], v[at + 1]), v[at + 2], v[at + 3])


_O = nfs_opnum4
_FORMS: Final[dict[int, Callable[[Any, int], _Form]]] = {
    _O.OP_ACCESS: _access,
    _O.OP_GETATTR: _getattr,
    _O.OP_GETFH: _void,
    _O.OP_LOOKUP: _lookup,
    _O.OP_LOOKUPP: _void,
    _O.OP_PUTFH: _putfh,
    _O.OP_PUTROOTFH: _void,
    _O.OP_READ: _read,
    _O.OP_READLINK: _void,
    _O.OP_RESTOREFH: _void,
    _O.OP_SAVEFH: _void,
}
"""Makes the form of an operation's arguments, by its number, from them and the index of their first value."""
