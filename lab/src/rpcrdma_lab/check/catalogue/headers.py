"""Checks of transport headers of version 1: mistakes, each with the outcome that RFC 8166 requires.

A row of `MISTAKES` has a field, a kind of mistake, the wrong message, its outcome and the tested statements; version 2
and the round-trip extension have rows of the same form. `CUTS` ends a header at each of its words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from rpcrdma_lab.check.answers import NULL_OCTETS, accepted, afterwards, answered, either, error, hear, refused, say
from rpcrdma_lab.check.catalogue.files import OLD, made_old, read_call, segment, shown, write_call
from rpcrdma_lab.check.entry import Check, Step, check

__all__ = ["CHECKS", "CUTS", "MISTAKES", "Mistake", "broken_lists"]

_SEGMENT = {"handle": 0x5EED, "length": 64, "offset": 1 << 33}
_ENTRY = {"position": 40, **_SEGMENT}
_VERSIONS = ({"max": 1}, {"min": 1})
"""Patterns of the lowest and highest version that a server states: version 1 is among them."""

OUTCOMES: Mapping[str, Callable[[], list[Step]]] = MappingProxyType(
    {
        "ERR_CHUNK": refused,
        "discarded": afterwards,
        "discarded-or-refused": lambda: [
            say(header={"xid": {"given": "xid", "plus": 1}}, rpc={}),
            _first_or_second("short-message-refused"),
        ],
        "ERR_CHUNK-or-discarded": lambda: [
            say(header={"xid": {"given": "xid", "plus": 1}}, rpc={}),
            hear(error(2), {**answered(1), "reading": "long-message-without-payload-discarded", "last": True}),
            hear(answered(1), {"end": {}, "reading": "ended-after-error"}),
        ],
    }
)
"""By name of an outcome, a function that returns the steps after the wrong message."""


class Mistake(NamedTuple):
    """A mistake in one field of a transport header, from which a check is made.

    `field` and `kind` name the field and the mistake, and `message` has the wrong message. `outcome` is a list of
    patterns of the answer, or a name: in version 1 one of `OUTCOMES`, otherwise that of an error. The steps `before`
    precede the message, `behind` stand between message and answer, and `then` follow the answer; an empty `then` stands
    for a NULL call that is answered, except after wrong properties. Version 1 ignores `behind`; version 2 without
    extensions ignores `behind` and `then` if `outcome` is a name. `statements` and `needs` are words separated by
    spaces, and `conversation` has further keys of the conversation. `name` is the check's identifier without the prefix
    of its family, such as "v1."; if it is empty, the identifier is made of `field` and `kind`.
    """

    field: str
    kind: str
    title: str
    message: Mapping[str, Any]
    outcome: str | list[dict[str, Any]]
    statements: str
    needs: str = ""
    conversation: Mapping[str, Any] = MappingProxyType({})
    before: tuple[Step, ...] = ()
    behind: tuple[Step, ...] = ()
    then: tuple[Step, ...] = ()
    name: str = ""

    @property
    def id(self) -> str:
        """The identifier of the check without the prefix of its family, as "reads.end-2" for "v1.reads.end-2"."""
        return self.name or f"{self.field}.{self.kind}".replace("_", "-")


def _first_or_second(reading: str) -> Step:
    return hear(answered(1), {"message": {"header": {"type": 4}}, "reading": reading})


def _call(**header: Any) -> dict[str, Any]:
    """Returns the fields of a NULL call for a step "say", which sends a message (docs/send.md).

    `header` has the header fields that differ from the usual ones, such as `credit=0`.
    """
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


_PRESENT_2 = {"present": 2, "segments": [_SEGMENT]}
_BROKEN_LISTS: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    ("reads", "end-2", "A Read list whose last word is 2 is refused", {"reads_end": 2}),
    ("reads", "present-2", "A Read segment behind a word of 2 is refused", {"reads": [{**_ENTRY, "present": 2}]}),
    ("writes", "end-2", "A Write list whose last word is 2 is refused", {"writes_end": 2}),
    ("writes", "present-2", "A Write chunk behind a word of 2 is refused", {"writes": [_PRESENT_2]}),
    ("reply", "present-2", "A Reply chunk behind a word of 2 is refused", {"reply": _PRESENT_2}),
    ("reply", "absent-2", "A word of 2 in place of the Reply chunk is refused", {"reply_end": 2}),
)


def broken_lists(field: str, outcome: str, statements: str) -> list[Mistake]:
    """Returns a `Mistake` for each way in which the chunk list `field` ("reads", "writes", "reply") is no list of XDR.

    The calls are right for either protocol version otherwise. `outcome` names the expected answer, and `statements` has
    identifiers of the tested statements, separated by spaces.
    """
    return [
        Mistake(field, kind, title, _call(**header), outcome, statements)
        for of, kind, title, header in _BROKEN_LISTS
        if of == field
    ]


_COUNTS = {"1000": 1000, "largest": 0xFFFFFFFF}
_COUNT, _RESULT_MAX = 64, 4096
"""Octets of a READ or WRITE of data, and of the Reply chunk for a reply that does not fit inline."""
_FAR = {"handle": 0xDEADBEEF, "offset": 1 << 33}
_UNREACHABLE: list[dict[str, Any]] = [{"refused": {}, "last": True}, {"end": {}, "last": True}, error(2)]
"""Patterns of answers to unreachable memory: a refused access, the connection's end, or ERR_CHUNK."""
_UNUSED = {**accepted(), "reading": "unused-chunk-ignored"}
_DONE = accepted(rpc={"result_status": 0})


def _read_segment(position: Any, length: int, at: int = 0) -> dict[str, Any]:
    return {"position": position, **segment(length, at, "source")}


_DATA_AT = {"given": "write_position"}


def _unreachable(
    field: str, chunk: str, octets: int, message: Callable[[dict[str, Any]], dict[str, Any]], needs: str, **more: Any
) -> Iterator[Mistake]:
    """Yields a `Mistake` (a wrong call, and the answers expected) for each way to name memory that cannot be accessed.

    Args:
        field: the field of the header with the chunk: "reads", "writes" or "reply".
        chunk: the name of the chunk for titles.
        octets: the length of the segment.
        message: takes the fields of the chunk's segment, and returns the fields of a call whose chunk it is.
        needs: the conditions of the checks, separated by spaces.
        more: further keys of the conversation (docs/send.md) beside "memory".
    """
    beyond = {"offset": {"given": "place.offset", "plus": octets}}
    kinds: dict[str, tuple[str, dict[str, Any], int]] = {
        "handle-unknown": ("in memory that is not registered", _FAR, octets),
        "length-beyond": ("that is longer than its memory", {}, octets // 2),
        "offset-beyond": ("that begins behind its memory", beyond, octets),
        "offset-largest": ("that ends beyond the largest offset", {"offset": (1 << 64) - 1}, octets),
    }
    for kind, (words, fields, registered) in kinds.items():
        memory = {"place": {"octets": registered, "may": "read" if field == "reads" else "write"}}
        said = message({**segment(octets, memory="place"), **fields})
        yield Mistake(field, kind, f"A {chunk} {words} ends the connection or is refused", said, _UNREACHABLE,
                      "V1-67 V1-77", needs, {"memory": memory, **more})  # fmt: skip


def _of_memory() -> tuple[Mistake, ...]:
    """Returns `Mistake` rows: calls with wrong chunks of data (memory, length, Position), and their answers."""

    def write(*reads: dict[str, Any]) -> dict[str, Any]:
        return {"header": {"reads": list(reads)}, "rpc": write_call(_COUNT)}

    def read(count: int, **header: Any) -> dict[str, Any]:
        return {"header": header, "rpc": read_call(count)}

    source = {"source": {"content": {"pattern": 2 * _COUNT}}}
    sink = {"sink": {"octets": _RESULT_MAX, "may": "write"}}
    small_peer = {"startup": {"data": ""}}
    call = {"words": [{"given": "xid"}, 0, 2, {"given": "program"}, {"given": "program_version"}, 7]}
    args = [{"zeros": 8}, {"opaque": {"given": "written"}}, {"longs": [0]}, {"words": [_COUNT, 2, _COUNT]}]
    long = {"long": {"content": [call, {"given": "credential"}, *args]}, **source}
    not_written = tuple(shown(_COUNT, "V1-24", data=OLD))
    garbage = [error(2), answered(status=4, invalidates={"any": [None, {"given": "source.handle"}]})]
    cut = {**_DONE, "reading": "long-read-chunk-cut", "last": True}
    system_error = answered(status=5, invalidates={"any": [None, {"given": "sink.handle"}]})["message"]
    # The chunk is returned as far as it is filled, and Linux leaves the data behind the status.
    header = {name: value for name, value in system_error["header"].items() if name not in {"writes", "reply"}}
    rpc = {name: value for name, value in system_error["rpc"].items() if name != "results"}
    too_long = [
        error(2),
        {"end": {}},
        {"message": {**system_error, "header": header, "rpc": rpc}, "reading": "short-chunk-answered"},
    ]
    none_beyond = {"memory": {"sink": {"written": {"max": 8}}}}
    return (
        *_unreachable("reads", "Read chunk", _COUNT, lambda made: write({"position": _DATA_AT, **made}), "nfs write"),
        *_unreachable("writes", "Write chunk", _COUNT, lambda made: read(_COUNT, writes=[[made]]), "nfs file"),
        *_unreachable("reply", "Reply chunk", _RESULT_MAX, lambda made: read(2000, reply=[made]), "nfs file",
                      **small_peer),
        Mistake("reads", "position-descending", "A Position-Zero chunk behind another Read chunk is taken in its place",
                {"header": {"type": 1, "reads": [_read_segment(_DATA_AT, _COUNT),
                                                 {"position": 0, "memory": "long"}]}},
                [_DONE, {**error(2), "reading": "descending-positions-refused"}], "V1-92 V1-32", needs="nfs write",
                conversation={"memory": long}),
        Mistake("reads", "positions-overlapping", "A Read chunk within the data of another one is refused",
                write(_read_segment(_DATA_AT, _COUNT), _read_segment({**_DATA_AT, "plus": 8}, 8, _COUNT)),
                [error(2), {**_DONE, "reading": "unused-chunk-ignored"}], "V1-62 V1-92", needs="nfs write",
                conversation={"memory": source}),
        Mistake("reads", "shorter-than-count", "A Read chunk shorter than its count is refused, and nothing written",
                write(_read_segment(_DATA_AT, _COUNT - 4)), garbage, "V1-24 V1-61", needs="nfs write",
                conversation={"memory": source}, before=tuple(made_old()), then=not_written),
        Mistake("reads", "longer-than-count", "A Read chunk longer than its count is refused",
                write(_read_segment(_DATA_AT, _COUNT + 8)), [*garbage, cut], "V1-24 V1-61", needs="nfs write",
                conversation={"memory": source}),
        Mistake("writes", "short", "Data beyond its Write chunk is refused, or ends the connection",
                read(_COUNT, writes=[[segment(8)]]), too_long, "V1-67 V1-77",
                needs="nfs file", conversation={"memory": sink}, then=(none_beyond,)),
        Mistake("reply", "short", "A reply beyond its chunk is refused, or ends the connection",
                read(2000, reply=[segment(8)]), too_long, "V1-67 V1-77", needs="nfs file",
                conversation={"memory": sink, **small_peer}, then=(none_beyond,)),
    )  # fmt: skip


_ALONE = {"memory": {"sink": {"octets": 1024, "may": "write"}}}
_UNTOUCHED: Step = {"memory": {"sink": {"written": 0}}}

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
    Mistake("type", "nomsg-with-reply-chunk-alone", "RDMA_NOMSG with a Reply chunk alone is refused",
            {"header": {"type": 1, "reply": [segment(1024)]}}, "ERR_CHUNK-or-discarded", "V1-41 V1-60",
            conversation=_ALONE, then=(_UNTOUCHED,)),
    Mistake("type", "nomsg-with-write-list-alone", "RDMA_NOMSG with a Write list alone is refused",
            {"header": {"type": 1, "writes": [[segment(1024)]]}}, "ERR_CHUNK-or-discarded", "V1-41 V1-60",
            conversation=_ALONE, then=(_UNTOUCHED,)),
    Mistake("type", "nomsg-with-position-40-alone", "RDMA_NOMSG with a Read chunk at Position 40 alone is refused",
            {"header": {"type": 1, "reads": [_read_segment(40, 64)]}}, "ERR_CHUNK", "V1-41 V1-60",
            conversation={"memory": {"source": {"octets": 64}}}),
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
    *broken_lists("reads", "ERR_CHUNK", "V1-60 V1-36"),
    Mistake("reads", "position-unaligned", "A Read chunk at Position 42 is refused",
            _call(reads=[{**_ENTRY, "position": 42}]), "ERR_CHUNK", "V1-21 V1-60"),
    Mistake("reads", "position-beyond", "A Read chunk beyond the payload is refused",
            _call(reads=[{**_ENTRY, "position": 1 << 20}]),
            [error(2), _UNUSED],
            "V1-62"),
    Mistake("reads", "position-zero", "A Position-Zero chunk beside an inline call is refused",
            _call(reads=[{"position": 0, "memory": "source"}]), [error(2), _UNUSED], "V1-32 V1-62",
            conversation={"memory": {"source": {"content": NULL_OCTETS}}}),
    Mistake("reads", "end-cut-off", "A Read list without an end is refused",
            {"header": {"reads": [_ENTRY]}, "cut": 40}, "ERR_CHUNK", "V1-60"),
    *broken_lists("writes", "ERR_CHUNK", "V1-60 V1-36"),
    *(Mistake("writes", f"count-{name}", f"A Write chunk with one segment and a count of {count} is refused",
              _call(writes=[{"count": count, "segments": [_SEGMENT]}]), "ERR_CHUNK", "V1-60",
              # nfs-ganesha does not check the count, and ends.
              needs="risky" if name == "largest" else "")
      for name, count in _COUNTS.items()),
    *broken_lists("reply", "ERR_CHUNK", "V1-60 V1-36"),
    *(Mistake("reply", f"count-{name}", f"A Reply chunk with one segment and a count of {count} is refused",
              _call(reply={"count": count, "segments": [_SEGMENT]}), "ERR_CHUNK", "V1-60")
      for name, count in _COUNTS.items()),
    Mistake("reply", "count-0", "A Reply chunk without segments is returned, or refused", _call(reply=[]),
            [answered(reply=[]), error(2)], "V1-53"),
    *_of_memory(),
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
"""The octets after which a call's header with all kinds of chunks (104 octets) is cut off, with the outcomes."""

_ALL_CHUNKS: dict[str, Any] = {"reads": [_ENTRY], "writes": [[_SEGMENT]], "reply": [_SEGMENT]}


def _check(row: Mistake) -> Check:
    if isinstance(row.outcome, str):
        steps = [*OUTCOMES[row.outcome](), *row.then]
    else:
        steps = [hear(*row.outcome), *row.then] if row.then else either(*row.outcome)
    return check(f"v1.{row.id}", row.title, row.statements, *row.before, say(**row.message), *steps, needs=row.needs,
                 **row.conversation)  # fmt: skip


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
"""Checks of version 1 headers."""
