"""Checks of transport headers of version 2: mistakes, with the outcome of each.

Each mistake is a row of the type `Mistake` of `rpcrdma_lab.check.catalogue.headers`. Its outcome is the name of an
error, or a list of patterns if the draft states no reaction or allows more than one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rpcrdma_lab.check.answers import hear, say
from rpcrdma_lab.check.catalogue.files import read_call, write_call
from rpcrdma_lab.check.catalogue.headers import Mistake, broken_lists
from rpcrdma_lab.check.catalogue.version_2 import CODES, CONNPROP, FIRST_LIST_AT, V2
from rpcrdma_lab.check.entry import Check

__all__ = ["CHECKS", "mistakes"]

_XID = {"given": "xid"}
_SEGMENT = {"handle": 0x5EED, "length": 64, "offset": 1 << 33}
_ENTRY = {"position": 40, **_SEGMENT}
_UNKNOWN = {"handle": 0xDEADBEEF, "length": 64, "offset": 1 << 33}
_LONG_LIST = {"count": 0xFFFFFFFF, "segments": [_SEGMENT]}
_RECEIVE_SIZE = [2, {"words": [4096]}]
_LARGEST = "ffffffff"


def _call(**header: Any) -> dict[str, Any]:
    return {"header": header, "rpc": {}}


class _Rows:
    """Makes `Mistake` rows: wrong headers of RPC-over-RDMA version 2, with the answers that are expected."""

    def __init__(self) -> None:
        self._refused = [V2.error("BAD_XDR"), V2.error("SYSTEM")]
        self._next, answered = V2.afterwards()
        (self._answered,) = answered["hear"]
        self._errors = [*self._refused, V2.error("INVAL_FLAG"), V2.error("INVAL_HTYPE")]

    def _passed_over(self, *others: dict[str, Any]) -> dict[str, Any]:
        """Returns fields of a `Mistake` whose message may be discarded, or get an answer of the patterns `others`.

        The fields, "outcome", "behind" and "then", send a NULL call after the message. Its reply is expected in either
        case, except after a pattern of `others` with "last".
        """
        discarded = {**self._answered, "last": True}
        return {"outcome": [discarded, *others], "behind": (self._next,), "then": (hear(self._answered),)}

    def _undecodable(self) -> Iterator[Mistake]:
        """Yields calls whose chunk lists do not follow the XDR, each with the answers expected."""
        for field in ("reads", "writes", "reply"):
            yield from broken_lists(field, "BAD_XDR", "V2-52")
        too_many = [V2.error("BAD_XDR"), V2.error("SEGMENTS", {"min": 1})]
        for field, chunk, value in (("writes", "Write", [_LONG_LIST]), ("reply", "Reply", _LONG_LIST)):
            yield Mistake(field, "count-largest", f"A {chunk} chunk with a count of 4,294,967,295 is refused",
                          _call(**{field: value}), too_many, "V2-57 V2-52")  # fmt: skip

    def _prefix(self) -> Iterator[Mistake]:
        """Yields calls with wrong words at the start of the header (XID to flags), each with the answers expected."""
        by_header = {"message": {"header": V2.reply()}}
        yield Mistake("xid", "other-than-rpc", "A call whose header has another XID is refused, or answered under that "
                      "of the header", {"header": {}, "rpc": {"xid": 7}}, [*self._refused, by_header],
                      "V2-52")  # fmt: skip
        # RFC 8166 section 7 gives the refusal of a version one form; that of the draft has flags before it.
        forms: list[dict[str, Any]]
        forms = [{"flags": 1, "error": 2, "numbers": [2]}, {"flags": 1, "error": 1, "numbers": [{"max": 2}, 2]}]
        versions: list[dict[str, Any]]
        versions = [{"message": {"header": {"xid": _XID, "type": 4, **each}, "invalidates": None}} for each in forms]
        versions.append({"end": {}, "reading": "ended-after-error", "last": True})
        yield Mistake("version", "1-within", "A call of version 1 on a connection of version 2 is refused",
                      _call(version=1), versions, "V2-13")  # fmt: skip
        for number, title in ((99, "An unknown type"), (3, "The type of RDMA_DONE")):
            yield Mistake("type", str(number), f"{title} is refused", _call(type=number), "INVAL_HTYPE", "V2-50")
        answered = [V2.answered()]
        words = {"0": (0, "no"), "largest": (0xFFFF, "65,535")}
        for kind, (value, word) in words.items():
            yield Mistake("pool", kind, f"A call of a peer that takes at most {word} messages is answered",
                          _call(pool=value), answered, "V2-6")  # fmt: skip
            yield Mistake("give", kind, f"A call that grants {word} credits is answered", _call(give=value),
                          answered, "V2-6")  # fmt: skip
        yield from self._flags()

    def _flags(self) -> Iterator[Mistake]:
        ignored = {**V2.error("INVAL_FLAG", plus=1), "reading": "chunks-of-a-piece-ignored", "last": True}
        yield Mistake("flags", "reserved", "Reserved flags are refused", _call(flags=0x80000000),
                      [V2.error("INVAL_FLAG"), {**V2.error("INVAL_HTYPE"), "reading": "flags-refused-as-type"}],
                      "V2-51 V2-39 V2-87")  # fmt: skip
        yield Mistake("flags", "more-on-nomsg", "MORE on RDMA2_NOMSG is refused",
                      {"header": {"type": 1, "flags": 2, "reads": [{**_ENTRY, "position": 0}]}}, "INVAL_FLAG",
                      "V2-42")  # fmt: skip
        yield Mistake("flags", "more-with-chunks", "MORE with chunks is refused", _call(flags=2, reads=[_ENTRY]),
                      [V2.error("INVAL_FLAG"), *self._refused, ignored], "V2-43", behind=(self._next,),
                      then=(hear(self._answered),))  # fmt: skip
        yield Mistake("flags", "response-on-a-call", "A call with RESPONSE is discarded or refused", _call(flags=1),
                      statements="V2-38", **self._passed_over(*self._errors))  # fmt: skip

    def _chunks(self) -> Iterator[Mistake]:
        """Yields calls with wrong chunk lists that follow the XDR, each with the answers expected."""
        misplaced = [*self._refused, V2.unused()]
        yield Mistake("invalidate", "foreign", "A handle for invalidation that is in no chunk is refused or not used",
                      _call(invalidate=0xDEADBEEF), [*self._refused, V2.answered()], "V2-78")  # fmt: skip
        yield Mistake("reads", "position-unaligned", "A Read chunk at Position 42 is refused",
                      _call(reads=[{**_ENTRY, "position": 42}]), misplaced, "V2-21 V2-52")  # fmt: skip
        yield Mistake("reads", "position-zero", "An inline call with a Read chunk at Position zero is refused",
                      _call(reads=[{**_ENTRY, "position": 0}]), misplaced,
                      "V2-67")  # fmt: skip
        descending = _call(reads=[{**_ENTRY, "position": 40}, {**_ENTRY, "position": 36}])
        yield Mistake("reads", "backwards", "A Read list whose Positions stand for no items is refused", descending,
                      [*misplaced, V2.error("READ_CHUNKS", {"max": 1})], "V2-67")  # fmt: skip
        yield Mistake("reads", "elsewhere", "A Long Call without a segment at Position zero is refused",
                      {"header": {"type": 1, "reads": [_ENTRY]}}, self._refused, "V2-28",
                      name="long.elsewhere")  # fmt: skip
        unreachable = [{"refused": {}, "last": True}, {"end": {}, "last": True}, *self._refused]
        place = {"position": {"given": "write_position"}, **_UNKNOWN}
        for field, chunk, message, need in (
            ("reads", "Read", {"header": {"reads": [place]}, "rpc": write_call(64)}, "write"),
            ("writes", "Write", {"header": {"writes": [[_UNKNOWN]]}, "rpc": read_call(64)}, "file"),
        ):
            title = f"A {chunk} chunk in memory that is not registered ends the connection or is refused"
            yield Mistake(field, "handle-unknown", title, message, unreachable, "V2-64", f"nfs {need}")

    def _types(self) -> Iterator[Mistake]:
        """Yields RDMA2_ERRORs of a requester, and an RDMA2_NOMSG without chunks, each with the answers expected."""
        ended = {"end": {}, "reading": "ended-after-requester-error", "last": True}
        title = "RDMA2_NOMSG without chunks under an XID is refused, or grants credits"
        yield Mistake("type", "nomsg-empty-with-xid", title, {"header": {"type": 1}},
                      statements="V2-47", **self._passed_over(*self._refused))  # fmt: skip
        error = {"type": 4, "error": CODES["BAD_XDR"], "flags": 1}
        errors = {
            "error.of-a-requester": ("RDMA2_ERROR of a requester", error),
            "error.unknown": ("RDMA2_ERROR with the unknown code 99", {**error, "error": 99}),
            "numbers.missing": (
                "RDMA2_ERROR without the numbers of its code",
                {**error, "error": CODES["WRITE_RESOURCE"], "numbers": []},
            ),
        }
        for name, (title, header) in errors.items():
            field, kind = name.split(".")
            # The draft names no reaction to an error of a requester.
            yield Mistake(field, kind, f"{title} is discarded or refused", {"header": header},
                          statements="V2-48", **self._passed_over(ended, *self._errors))  # fmt: skip

    def _properties(self) -> Iterator[Mistake]:
        """Yields wrong RDMA2_CONNPROPs, each the first message of its connection, and the answers expected."""
        told = {"message": {"header": {"version": 2, "type": CONNPROP}}}
        undecodable = [V2.error("BAD_XDR")]
        count_at = FIRST_LIST_AT - 4
        value_length_at = count_at + 8
        rows = {
            "short": ("A value that is too short for its property is refused", [[2, "0010"]], {}, undecodable),
            "reverse-9": ("A value outside its enumeration is refused, or passed over", [[5, {"words": [9]}]], {},
                          [*undecodable, told]),
            "long": ("A value that is too long for its property is refused, or cut", [[2, {"words": [4096, 0]}]], {},
                     [*undecodable, told]),
            "twice": ("A property that comes twice is refused, or taken once", [_RECEIVE_SIZE, _RECEIVE_SIZE], {},
                      [*undecodable, told]),
            "count-largest": ("A count of 4,294,967,295 properties is refused", [_RECEIVE_SIZE],
                              {f"{count_at}": _LARGEST}, undecodable),
            "beyond": ("A value that ends beyond its message is refused", [_RECEIVE_SIZE],
                       {f"{value_length_at}": "00000040"}, undecodable),
        }  # fmt: skip
        for kind, (title, properties, put, outcome) in rows.items():
            message = {"header": {"type": CONNPROP, "properties": properties}, **({"put": put} if put else {})}
            yield Mistake("properties", kind, title, message, outcome, "V2-33 V2-32")

    def all(self) -> Iterator[Mistake]:
        """Yields all wrong headers of version 2 that the checks send, each with the answers expected."""
        yield from self._prefix()
        yield from self._undecodable()
        yield from self._chunks()
        yield from self._types()
        yield from self._properties()


def mistakes() -> tuple[Mistake, ...]:
    """Returns the faulty headers of version 2 that the checks send, each with the answers expected of a server.

    Wrong are the first words, chunk lists, header types and property sets.
    """
    return tuple(_Rows().all())


def _check(row: Mistake) -> Check:
    going_on = V2.afterwards()
    if isinstance(row.outcome, str):
        steps = [hear(V2.error(row.outcome)), *going_on]
    else:
        steps = [*row.behind, hear(*row.outcome), *(row.then or going_on)]
    first = row.field == "properties"
    if first and not row.behind:
        # A client whose properties are refused has no agreement to go on with.
        steps = steps[:1]
    made = V2.first if first else V2.check
    return made(row.id, row.title, row.statements, *row.before, say(**row.message), *steps, needs=row.needs,
                **row.conversation)  # fmt: skip


def _properties() -> Sequence[Check]:
    """Returns checks of sets of transport properties that a server accepts, and of a call as the first message."""
    theirs = {"header": {"version": 2, "type": CONNPROP}}
    answered = hear({"message": {**theirs, "broken": None}}, {"message": theirs, "breaks": "V2-35"})

    def taken(name: str, title: str, statements: str, *own: Any) -> Check:
        return V2.first(f"properties.{name}", title, statements, V2.told(*own), answered, *V2.afterwards())

    return [
        taken("none", "An empty set of properties is taken", "V2-35"),
        taken("unknown", "An unknown property is passed over", "V2-34", [77, "0102"], _RECEIVE_SIZE),
        taken("default", "A value of no octets stands for the default", "V2-69", [2, ""]),
        taken("backwards", "Properties come in any order", "V2-70", [4, {"words": [16]}], _RECEIVE_SIZE,
              [1, {"words": [4096]}]),
        V2.first("first.call", "A call as the first message is answered", "V2-93", say(rpc={}),
                    hear(V2.answered())),
    ]  # fmt: skip


def _cuts() -> Sequence[Check]:
    header = {"reads": [_ENTRY], "writes": [[_SEGMENT]], "reply": [_SEGMENT]}
    return tuple(
        V2.refused(f"cut.{octets}", f"A header that ends after {octets} octets is refused", "V2-52", "BAD_XDR",
                      header=header, rpc={}, cut=octets)
        for octets in range(FIRST_LIST_AT, FIRST_LIST_AT + 68, 12)
    )  # fmt: skip


def _all() -> Iterator[Check]:
    yield V2.check("null", "An empty call is answered with a header without chunks", "V2-1 V2-38 V2-24", say(rpc={}),
                      hear(V2.answered()))  # fmt: skip
    yield from _properties()
    yield from (_check(row) for row in mistakes())
    yield from _cuts()


CHECKS: tuple[Check, ...] = tuple(_all())
"""Checks of version 2 headers."""
