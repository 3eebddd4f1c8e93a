"""Checks of transport headers of version 1: the taxonomy of mistakes, each with the outcome that RFC 8166 requires.

A row of `MISTAKES` names a field, a kind of mistake, the message that has it, its outcome and the statements. `CUTS`
ends a header at each of its words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from rpcrdma.check.answers import accepted, answered, discarded, either, error, refused, say
from rpcrdma.check.entry import Check, Step, check

__all__ = ["CHECKS", "CUTS", "MISTAKES", "Mistake"]

_SEGMENT = {"handle": 0x5EED, "length": 64, "offset": 1 << 33}
_ENTRY = {"position": 40, **_SEGMENT}
_VERSIONS = ({"max": 1}, {"min": 1})
"""Lowest and highest version that a server speaks: version 1 is among them."""

OUTCOMES: Mapping[str, Callable[[], list[Step]]] = MappingProxyType(
    {
        "ERR_CHUNK": refused,
        "discarded": discarded,
        "discarded-or-refused": lambda: [
            say(header={"xid": {"given": "xid", "plus": 1}}, rpc={}),
            _first_or_second(),
        ],
    }
)
"""The steps behind the message, by outcome."""


class Mistake(NamedTuple):
    """A row of the taxonomy: `outcome` is a name of `OUTCOMES`, or a list of patterns of which one is the answer."""

    field: str
    kind: str
    title: str
    message: Mapping[str, Any]
    outcome: str | list[dict[str, Any]]
    statements: str


def _first_or_second() -> Step:
    return {"hear": [answered(1), {"message": {"header": {"type": 4}}, "reading": "short-message-refused"}]}


def _call(**header: Any) -> dict[str, Any]:
    """An empty call with these fields in its header."""
    return {"header": header, "rpc": {}}


def _version(number: int) -> Mistake:
    patterns = [error(1, *_VERSIONS, version=number)]
    return Mistake(
        "version",
        str(number),
        f"Version {number} is answered with the versions that are spoken",
        _call(version=number),
        patterns,
        "V1-59 V1-57 V1-76",
    )


_COUNTS = {"1000": 1000, "largest": 0xFFFFFFFF}

MISTAKES: tuple[Mistake, ...] = (
    *(_version(number) for number in (0, 3, 0x7FFFFFFF, 0xFFFFFFFF)),
    Mistake("version", "unknown-with-unknown-type", "A message of an unknown version and type is answered by version",
            _call(version=9, type=77, fields_of=0), [error(1, *_VERSIONS, version=9)], "V1-59 V1-76"),
    Mistake("version", "unknown-in-an-error", "RDMA_ERROR of an unknown version is discarded",
            {"header": {"version": 9, "type": 4, "error": 2, "numbers": [0, 0]}}, "discarded", "V1-43"),
    Mistake("credit", "0", "A call that asks for no credits is answered, and grants one or more", _call(credit=0),
            [answered()], "V1-3"),
    Mistake("credit", "largest", "A call that asks for all credits is answered, and grants one or more",
            _call(credit=0xFFFFFFFF), [answered()], "V1-3"),
    Mistake("xid", "other-than-rpc", "A call whose header has another XID is refused, or answered under that of the "
            "header", {"header": {}, "rpc": {"xid": 7}},
            [error(2), {"message": {"header": {"xid": {"given": "xid"}, "version": 1, "type": 0}}}], "V1-38 V1-55"),
    Mistake("type", "nomsg-without-chunks", "RDMA_NOMSG without chunks is refused",
            {"header": {"type": 1}}, "ERR_CHUNK", "V1-41 V1-60"),
    Mistake("type", "nomsg-with-payload-alone", "RDMA_NOMSG with its payload inline is refused",
            _call(type=1), "ERR_CHUNK", "V1-41 V1-60"),
    Mistake("type", "msgp", "RDMA_MSGP is refused", _call(type=2, align=0, threshold=0), "ERR_CHUNK", "V1-69"),
    Mistake("type", "done", "RDMA_DONE of 16 octets is discarded", {"header": {"type": 3}}, "discarded", "V1-72"),
    Mistake("type", "done-with-payload", "RDMA_DONE with a call behind it is discarded", _call(type=3), "discarded",
            "V1-72"),
    Mistake("type", "error-chunk", "RDMA_ERROR with ERR_CHUNK is discarded",
            {"header": {"type": 4, "error": 2}}, "discarded", "V1-43"),
    Mistake("type", "error-version", "RDMA_ERROR with ERR_VERS is discarded",
            {"header": {"type": 4, "error": 1, "numbers": [1, 1]}}, "discarded", "V1-43"),
    Mistake("type", "error-unknown", "RDMA_ERROR with an unknown code is discarded",
            {"header": {"type": 4, "error": 99, "numbers": [0, 0]}}, "discarded", "V1-43"),
    Mistake("type", "5", "An unknown type is refused", _call(type=5), "ERR_CHUNK", "V1-60"),
    Mistake("type", "largest", "The type 0xFFFFFFFF is refused", _call(type=0xFFFFFFFF), "ERR_CHUNK", "V1-60"),
    Mistake("reads", "end-2", "A Read list whose last word is 2 is refused", _call(reads_end=2), "ERR_CHUNK",
            "V1-60 V1-36"),
    Mistake("reads", "present-2", "A Read segment behind a word of 2 is refused",
            _call(reads=[{**_ENTRY, "present": 2}]), "ERR_CHUNK", "V1-60 V1-36"),
    Mistake("reads", "position-unaligned", "A Read chunk at Position 42 is refused",
            _call(reads=[{**_ENTRY, "position": 42}]), "ERR_CHUNK", "V1-21 V1-60"),
    Mistake("reads", "position-beyond", "A Read chunk beyond the payload is refused",
            _call(reads=[{**_ENTRY, "position": 1 << 20}]),
            [error(2), {**accepted(), "reading": "unused-chunk-ignored"}],
            "V1-62"),
    Mistake("reads", "end-cut-off", "A Read list without an end is refused",
            {"header": {"reads": [_ENTRY]}, "cut": 40}, "ERR_CHUNK", "V1-60"),
    Mistake("writes", "end-2", "A Write list whose last word is 2 is refused", _call(writes_end=2), "ERR_CHUNK",
            "V1-60 V1-36"),
    Mistake("writes", "present-2", "A Write chunk behind a word of 2 is refused",
            _call(writes=[{"present": 2, "segments": [_SEGMENT]}]), "ERR_CHUNK", "V1-60 V1-36"),
    *(Mistake("writes", f"count-{name}", f"A Write chunk with one segment and a count of {count} is refused",
              _call(writes=[{"count": count, "segments": [_SEGMENT]}]), "ERR_CHUNK", "V1-60")
      for name, count in _COUNTS.items()),
    Mistake("reply", "present-2", "A Reply chunk behind a word of 2 is refused",
            _call(reply={"present": 2, "segments": [_SEGMENT]}), "ERR_CHUNK", "V1-60 V1-36"),
    Mistake("reply", "absent-2", "A word of 2 in place of the Reply chunk is refused", _call(reply_end=2), "ERR_CHUNK",
            "V1-60 V1-36"),
    *(Mistake("reply", f"count-{name}", f"A Reply chunk with one segment and a count of {count} is refused",
              _call(reply={"count": count, "segments": [_SEGMENT]}), "ERR_CHUNK", "V1-60")
      for name, count in _COUNTS.items()),
)  # fmt: skip
"""Each field of the header with each kind of mistake."""


class _Cut(NamedTuple):
    octets: int
    outcome: str
    statements: str


CUTS: tuple[_Cut, ...] = (
    *(_Cut(octets, "discarded-or-refused", "V1-54") for octets in (0, 1, 4, 8, 12, 16, 20, 24, 27)),
    *(_Cut(octets, "ERR_CHUNK", "V1-60 V1-55") for octets in range(28, 100, 8)),
)
"""A call with a Read segment, a Write chunk and a Reply chunk, whose header is as long as 104 octets, ends there."""

_ALL_CHUNKS: dict[str, Any] = {"reads": [_ENTRY], "writes": [[_SEGMENT]], "reply": [_SEGMENT]}


def _check(row: Mistake) -> Check:
    then = OUTCOMES[row.outcome]() if isinstance(row.outcome, str) else either(*row.outcome)
    return check(f"v1.{row.field}.{row.kind}", row.title, row.statements, say(**row.message), *then)


def _cut(row: _Cut) -> Check:
    title = f"A header that ends after {row.octets} octets is " + ("refused" if row.octets >= 28 else "discarded")
    said = say(header=_ALL_CHUNKS, rpc={}, cut=row.octets)
    return check(f"v1.cut.{row.octets}", title, row.statements, said, *OUTCOMES[row.outcome]())


CHECKS: tuple[Check, ...] = (
    check("v1.null", "An empty call is answered with a header without chunks", "V1-36 V1-38 V1-40 V1-44 V1-85",
          say(rpc={}), *either(answered())),
    *map(_check, MISTAKES),
    *map(_cut, CUTS),
)  # fmt: skip
"""Checks of headers."""
