"""The definition of version 4 with COMPOUND as unions of its operations, by which tools read whole messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from rpcrdma.nfs.v4.operations import OPERATIONS

__all__ = ["with_compound"]

_PROGRAMS: Final = "/* COMPOUND, procedure 1"
"""Begins the last part of nfs4.x, which declares the programs without COMPOUND."""
_COMPOUND: Final = """
struct COMPOUND4args { utf8str_cs tag; uint32 minorversion; nfs_argop4 argarray<>; };
struct COMPOUND4res { nfsstat4 status; utf8str_cs tag; nfs_resop4 resarray<>; };
program NFS4_PROGRAM {
    version NFS_V4 {
        void NFSPROC4_NULL(void) = 0;
        COMPOUND4res NFSPROC4_COMPOUND(COMPOUND4args) = 1;
    } = 4;
} = 100003;
"""
_DENIED: Final = "case NFS4ERR_DENIED: LOCK4denied denied; default: void;"
_FAILURES: Final = {
    "COPY": "case NFS4ERR_OFFLOAD_NO_REQS: copy_requirements4 requirements; default: void;",
    "LOCK": _DENIED,
    "LOCKT": _DENIED,
    "SETATTR": "default: bitmap4 attrsset;",
}
"""By operation: the arms of the union of results for failures that have a body."""


def with_compound(types: str) -> str:
    """Returns the XDR definition of NFS version 4 with COMPOUND, for tools that decode whole messages.

    Takes the declarations of types from `types`, the text of nfs4.x, and drops the programs at its end. Adds unions of
    the arguments and of the results of COMPOUND, and a program with NULL and COMPOUND, without the callback program.
    With the result a tool can decode a COMPOUND up to the first operation that this library does not support.
    """
    operations = [each for each in OPERATIONS[2].values() if each.decode_args is not None]
    arguments = [f"case OP_{each.name}: {_member(each.decode_args, 'op' + each.name.lower())};" for each in operations]
    results, cases = [], []
    for each in operations:
        union = f"{each.name}_result"
        success, failure = _member(each.decode_resok, "value"), _FAILURES.get(each.name, "default: void;")
        results.append(f"union {union} switch (nfsstat4 status) {{ case NFS4_OK: {success}; {failure} }};")
        cases.append(f"case OP_{each.name}: {union} op{each.name.lower()};")
    return "\n".join(
        (
            types.partition(_PROGRAMS)[0],
            "union nfs_argop4 switch (nfs_opnum4 argop) {",
            *arguments,
            "};",
            *results,
            "union nfs_resop4 switch (nfs_opnum4 resop) {",
            *cases,
            "default: nfsstat4 status;",
            "};",
            _COMPOUND,
        )
    )


def _member(decode: Callable[..., Any] | None, name: str) -> str:
    """Returns the XDR declaration "T name" if `decode` is the function `decode_T` of nfs4, else the text "void"."""
    kind = "" if decode is None else decode.__name__.removeprefix("_")
    return f"{kind.removeprefix('decode_')} {name}" if kind.startswith("decode_") else "void"
