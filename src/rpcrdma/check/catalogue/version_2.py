"""Checks of both drafts of version 2: one taxonomy, with the types and codes of each draft.

Sections are those of draft-ietf-nfsv4-rpcrdma-version-two-00. Each conversation begins with the properties of both
sides, unless it tries the first message itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rpcrdma.check.answers import NULL_OCTETS, hear, say
from rpcrdma.check.entry import Check, Step, check

__all__ = ["CHECKS", "DRAFTS", "Draft"]

_XID = {"given": "xid"}
_NEXT = {"given": "xid", "plus": 1}
_SINK_HANDLE = {"given": "sink.handle"}
_SEGMENT = {"handle": 0x5EED, "length": 64, "offset": 1 << 33}
_ENTRY = {"position": 40, **_SEGMENT}
_RECEIVE_SIZE = [2, {"words": [4096]}]
_MANY = 100
"""Chunks of a list that is longer than those of NFS, and fits a message of 4,096 octets."""
_WRITTEN = 64
"""Octets that a WRITE has in its Read chunk."""
_LONG_RESULT, _LONG_REPLY_OCTETS = 5001, {"any": [5132, 5048]}
"""A READ beyond the threshold, and the octets of its padded reply, with and without attributes (RFC 1813 3.3.6)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The numbers of one draft: header types, and codes of errors by name. `first_list_at`: the octets before lists."""

    version: str
    family: str
    properties: int
    nomsg: int | None
    codes: Mapping[str, int]
    first_list_at: int

    def reply(self, plus: int = 0, **fields: Any) -> dict[str, Any]:
        """The header of an inline reply without chunks, unless `fields` has some."""
        header: dict[str, Any] = {"xid": {**_XID, "plus": plus}, "version": 2, "writes": []}
        if self.version == "2":
            header |= {"type": 0, "flags": 1, "invalidate": 0, "reads": [], "reply": None}
        else:
            header |= {"type": 13}
        return header | fields

    def accepted(self, plus: int = 0, **fields: Any) -> dict[str, Any]:
        """The pattern of a successful reply."""
        rpc = {"xid": {**_XID, "plus": plus}, "direction": 1, "accepted": 0}
        return {"message": {"header": self.reply(plus, **fields), "rpc": rpc}}

    def answered(self, plus: int = 0) -> dict[str, Any]:
        """The pattern of the reply to an empty call without chunks: no results, and nothing is invalidated."""
        message = self.accepted(plus)["message"]
        return {"message": {**message, "rpc": {**message["rpc"], "results": ""}, "invalidates": None}}

    def done(self, **fields: Any) -> dict[str, Any]:
        """The pattern of a reply of NFS whose status is 0."""
        message = self.accepted(**fields)["message"]
        return {"message": {**message, "rpc": {**message["rpc"], "result_status": 0}}}

    def error(self, name: str, *numbers: Any, plus: int = 0) -> dict[str, Any]:
        """The pattern of RDMA2_ERROR with the code of this name."""
        header = {"xid": {**_XID, "plus": plus}, "version": 2, "type": 4, "error": self.codes[name]}
        header |= {"flags": 1} if self.version == "2" else {}
        return {"message": {"header": {**header, "numbers": list(numbers)}, "invalidates": None}}

    def piece(self, payload: Any, remaining: int, **header: Any) -> Step:
        """A part of a call that is continued."""
        if self.version == "2":
            return say(header={"flags": 2, **header}, body=payload)
        return say(header={"type": 9, "remaining": remaining, **header}, body=payload)

    def afterwards(self, plus: int = 1) -> list[Step]:
        """The connection goes on: an empty call is answered next."""
        return [say(header={"xid": {**_XID, "plus": plus}}, rpc={}), hear(self.answered(plus))]

    def told(self, *properties: Any, **header: Any) -> Step:
        """The message that tells these properties."""
        return say(header={"type": self.properties, "properties": list(properties), **header})

    @property
    def introduction(self) -> list[Step]:
        """The properties of both sides."""
        return [self.told(_RECEIVE_SIZE), hear({"message": {"header": {"version": 2, "type": self.properties}}})]

    def check(self, name: str, title: str, statements: str, *steps: Step, **conversation: Any) -> Check:
        """A check behind the introduction; `conversation` has its keys and `needs`."""
        return self.first(name, title, statements, *self.introduction, *steps, **conversation)

    def first(self, name: str, title: str, statements: str, *steps: Step, **conversation: Any) -> Check:
        """A check whose steps begin with the first message."""
        title = f"{title} ({'draft -00' if self.version == '2' else 'draft -07'})"
        return check(f"{self.family}.{name}", title, statements, *steps, version=self.version, **conversation)

    def refused(self, name: str, title: str, statements: str, code: str, **message: Any) -> Check:
        """A message that is answered with an error, after which the connection goes on."""
        return self.check(name, title, statements, say(**message), hear(self.error(code)), *self.afterwards())


DRAFTS = (
    Draft(
        version="2",
        family="v2",
        properties=5,
        nomsg=1,
        codes={
            "BAD_XDR": 2,
            "BAD_PROPVAL": 2,
            "INVAL_HTYPE": 3,
            "INVAL_CONT": 4,
            "READ_CHUNKS": 5,
            "WRITE_CHUNKS": 6,
            "SEGMENTS": 7,
            "WRITE_RESOURCE": 8,
            "REPLY_RESOURCE": 9,
            "SYSTEM": 10,
        },
        first_list_at=24,
    ),
    Draft(
        version="2-07",
        family="v207",
        properties=7,
        nomsg=None,
        codes={
            "BAD_XDR": 2,
            "BAD_PROPVAL": 3,
            "INVAL_HTYPE": 4,
            "INVAL_CONT": 5,
            "READ_CHUNKS": 6,
            "WRITE_CHUNKS": 7,
            "SEGMENTS": 8,
            "WRITE_RESOURCE": 9,
            "REPLY_RESOURCE": 10,
            "SYSTEM": 100,
        },
        first_list_at=20,
    ),
)
"""The drafts that have checks."""

_FIRST_WORDS = {"words": [_XID, 0]}
_OTHER_WORDS = {"words": [2, {"given": "program"}, {"given": "program_version"}, 0, 0, 0, 0, 0]}


def _call(**header: Any) -> dict[str, Any]:
    return {"header": header, "rpc": {}}


def _call_on(file: str, procedure: int, *args: Any, **header: Any) -> Step:
    """A call of NFSv3 whose first argument is a file."""
    rpc = {"procedure": procedure, "args": [{"opaque": {"given": file}}, *args]}
    return say(header=header, rpc={**rpc, "credential": {"given": "credential"}})


def _read(count: int, **header: Any) -> Step:
    return _call_on("file", 6, {"longs": [0]}, {"words": [count]}, **header)


def _write(position_plus: int) -> Step:
    """WRITE of the memory "source", in a Read chunk so many octets behind the Position of its data."""
    read = {"position": {"given": "write_position", "plus": position_plus}, "memory": "source"}
    return _call_on("written", 7, {"longs": [0]}, {"words": [_WRITTEN, 2, _WRITTEN]}, reads=[read])


def _segment(length: int, at: int = 0) -> dict[str, Any]:
    return {"handle": _SINK_HANDLE, "length": length, "offset": {"given": "sink.offset", "plus": at}}


def _properties(draft: Draft) -> Sequence[Check]:
    answered = hear({"message": {"header": {"version": 2, "type": draft.properties}}})

    def taken(name: str, title: str, statements: str, *told: Any) -> Check:
        return draft.first(f"properties.{name}", title, statements, draft.told(*told), answered, *draft.afterwards())

    def wrong(name: str, title: str, statements: str, *told: Any) -> Check:
        error = hear(draft.error("BAD_PROPVAL"))
        return draft.first(f"properties.{name}", title, statements, draft.told(*told), error)

    return (
        taken("none", "An empty set of properties is taken", "V2-35"),
        taken("unknown", "An unknown property is passed over", "V2-34", [77, "0102"], _RECEIVE_SIZE),
        taken("default", "A value of no octets stands for the default", "V2-69", [2, ""]),
        taken("backwards", "Properties come in any order", "V2-70", [4, {"words": [16]}], _RECEIVE_SIZE,
              [1, {"words": [4096]}]),
        wrong("short", "A value that is too short for its property is refused", "V2-33 V2-32", [2, "0010"]),
        wrong("reverse-9", "A value outside its enumeration is refused", "V2-33 V2-32", [5, {"words": [9]}]),
        draft.first("first.call", "A call as the first message is answered", "V2-93", say(rpc={}),
                    hear(draft.answered())),
    )  # fmt: skip


def _cuts(draft: Draft) -> Sequence[Check]:
    header = {"reads": [_ENTRY], "writes": [[_SEGMENT]], "reply": [_SEGMENT]}
    start = draft.first_list_at
    return tuple(
        draft.refused(f"cut.{octets}", f"A header that ends after {octets} octets is refused", "V2-52", "BAD_XDR",
                      header=header, rpc={}, cut=octets)
        for octets in range(start, start + 68, 12)
    )  # fmt: skip


def _mistakes(draft: Draft) -> Sequence[Check]:
    refused = draft.refused
    too_many = hear(draft.error("BAD_XDR"), draft.error("SEGMENTS", {"min": 1}))
    long_list = {"count": 0xFFFFFFFF, "segments": [_SEGMENT]}
    return (
        draft.check("null", "An empty call is answered with a header without chunks", "V2-1 V2-38 V2-24", say(rpc={}),
                    hear(draft.answered())),
        refused("type.99", "An unknown type is refused", "V2-50", "INVAL_HTYPE", **_call(type=99)),
        refused("type.3", "The type of RDMA_DONE is refused", "V2-50", "INVAL_HTYPE", **_call(type=3)),
        refused("reads.end-2", "A Read list whose last word is 2 is refused", "V2-52", "BAD_XDR", **_call(reads_end=2)),
        refused("reads.present-2", "A Read segment behind a word of 2 is refused", "V2-52", "BAD_XDR",
                **_call(reads=[{**_ENTRY, "present": 2}])),
        refused("reads.position-unaligned", "A Read chunk at Position 42 is refused", "V2-21 V2-52", "BAD_XDR",
                **_call(reads=[{**_ENTRY, "position": 42}])),
        refused("writes.end-2", "A Write list whose last word is 2 is refused", "V2-52", "BAD_XDR",
                **_call(writes_end=2)),
        draft.check("writes.count-largest", "A Write chunk with a count of 4,294,967,295 is refused", "V2-57 V2-52",
                    say(**_call(writes=[long_list])), too_many, *draft.afterwards()),
        refused("reply.present-2", "A Reply chunk behind a word of 2 is refused", "V2-52", "BAD_XDR",
                **_call(reply={"present": 2, "segments": [_SEGMENT]})),
        draft.check("reply.count-largest", "A Reply chunk with a count of 4,294,967,295 is refused", "V2-57 V2-52",
                    say(**_call(reply=long_list)), too_many, *draft.afterwards()),
        refused("invalidate.foreign", "A handle for invalidation that is in no chunk is refused", "V2-78", "BAD_XDR",
                **_call(invalidate=0xDEADBEEF)),
        draft.check("error.of-a-requester", "RDMA2_ERROR of a requester is discarded", "V2-48",
                    say(header={"type": 4, "error": draft.codes["BAD_XDR"],
                                **({"flags": 1} if draft.version == "2" else {})}), *draft.afterwards()),
    )  # fmt: skip


def _agreed_version(draft: Draft) -> Check:
    # The first draft answers in the form of version 1, whose error is in the place of the flags.
    first = draft.version == "2"
    told = {"flags": 1, "error": 2, "numbers": [2]} if first else {"error": 11, "numbers": []}
    refused = {"message": {"header": {"xid": _XID, "type": 4, **told}, "invalidates": None}}
    return draft.check("version.1-within", "A call of version 1 on a connection of version 2 is refused",
                       "V2-A14 V2-13", say(**_call(version=1)), hear(refused), *draft.afterwards())  # fmt: skip


def _credits(draft: Draft) -> Check:
    """The calls that the server's properties permit, and a grant, before any reply is heard."""
    permitted = {"given": f"{draft.version}.granted"}
    grant = {"type": 1} if draft.version == "2" else {"type": 5}
    replied = {"header": {"version": 2}, "rpc": {"direction": 1, "accepted": 0}}
    return draft.check("credits.grant-beyond", "A message that only grants credits comes beyond all others", "V2-7",
                       {"repeat": {"times": permitted, "steps": [say(header={"xid": {"given": "index"}}, rpc={})]}},
                       say(header={"xid": 0, **grant}, body=""),
                       {"repeat": {"times": permitted, "steps": [hear({"message": replied})]}},
                       *draft.afterwards())  # fmt: skip


def _chunk_lists(draft: Draft) -> Sequence[Check]:
    source = {"source": {"content": {"zeros": 4 * _MANY}}}
    sink = {"sink": {"octets": 4 * _MANY, "may": "write"}}
    reads = [
        {"position": 40 + at, "memory": "source", "length": 4, "offset": {"given": "source.offset", "plus": at}}
        for at in range(0, 4 * _MANY, 4)
    ]
    writes = [[_segment(4, at)] for at in range(0, 4 * _MANY, 4)]
    fewer = {"max": _MANY - 1}
    long = {"type": 1} if draft.version == "2" else {"type": 8}
    list_name = "reads" if draft.version == "2" else "call"
    at_zero = {"position": 0, "memory": "source"}
    unused = {"all": [{"handle": _SINK_HANDLE, "length": 0}]}
    checks = [
        draft.check("reads.many", f"Of {_MANY} Read chunks the number supported is told, or their Positions refused",
                    "V2-53", say(**_call(reads=reads)),
                    hear(draft.error("READ_CHUNKS", fewer), draft.error("BAD_XDR")), *draft.afterwards(),
                    memory=source),
        draft.check("writes.many", f"Of {_MANY} Write chunks all are returned unused, or the number supported is told",
                    "V2-55", say(**_call(writes=writes)),
                    hear(draft.accepted(writes=unused), draft.error("WRITE_CHUNKS", fewer),
                         draft.error("REPLY_RESOURCE", {"min": 1})), *draft.afterwards(), memory=sink),
        draft.refused("long.elsewhere", "A Long Call without a segment at Position zero is refused", "V2-28",
                      "BAD_XDR", header={**long, list_name: [_ENTRY]}),
        draft.check("long.null", "A Long Call with its segment at Position zero is answered", "V2-28",
                    say(header={**long, list_name: [at_zero]}), hear(draft.accepted()), *draft.afterwards(),
                    memory={"source": {"content": NULL_OCTETS}}),
        _agreed_version(draft),
        _credits(draft),
    ]  # fmt: skip
    if draft.nomsg is None:
        backwards = [{**_ENTRY, "position": 40}, {**_ENTRY, "position": 36}]
        checks += [
            draft.refused("reads.backwards", "A Read list whose Positions go backwards is refused", "V2-A10",
                          "BAD_XDR", **_call(reads=backwards)),
            draft.refused("reads.position-zero", "An inline call with a Read chunk at Position zero is refused",
                          "V2-A12", "BAD_XDR", **_call(reads=[{**_ENTRY, "position": 0}])),
        ]  # fmt: skip
    return checks


def _pieces(draft: Draft) -> Sequence[Check]:
    checks = [
        draft.check("pieces.two", "A call in two messages is joined", "V2-26 V2-2", draft.piece(_FIRST_WORDS, 32),
                    say(header={}, body=_OTHER_WORDS), hear(draft.answered())),
        draft.check("pieces.other-xid", "A message of another call in the midst of one is refused", "V2-41",
                    draft.piece(_FIRST_WORDS, 32), say(header={"xid": _NEXT}, body=_OTHER_WORDS),
                    hear(draft.error("INVAL_CONT", plus=1)), *draft.afterwards(2)),
        draft.check("pieces.rest", "The rest of a call that another message has broken is dropped", "V2-A3",
                    draft.piece(_FIRST_WORDS, 32), say(header={"xid": _NEXT}, body=_OTHER_WORDS),
                    hear(draft.error("INVAL_CONT", plus=1)), say(header={}, body=_OTHER_WORDS), *draft.afterwards(2)),
    ]  # fmt: skip
    if draft.nomsg is not None:
        checks += [
            draft.check("flags.reserved", "Reserved flags are refused", "V2-51 V2-39 V2-87",
                        say(**_call(flags=0x80000000)),
                        hear(draft.error("INVAL_CONT"),
                             {**draft.error("INVAL_HTYPE"), "reading": "flags-refused-as-type"}),
                        *draft.afterwards()),
            draft.refused("flags.more-on-nomsg", "MORE on RDMA2_NOMSG is refused", "V2-42", "INVAL_CONT",
                          header={"type": 1, "flags": 2, "reads": [{**_ENTRY, "position": 0}]}),
            draft.refused("flags.more-with-chunks", "MORE with chunks is refused", "V2-43", "INVAL_CONT",
                          **_call(flags=2, reads=[_ENTRY])),
        ]  # fmt: skip
    return checks


def _files(draft: Draft) -> Sequence[Check]:
    checks = []
    for count, room in ((1, 1), (3, 8), (5, 5), (5001, 8192)):
        answer = draft.accepted(writes=[[_segment(count)]])
        steps = [_read(count, writes=[[_segment(room)]]), hear(answer)]
        data = [{"given": "content", "first": count}, "a5" * min(8, room - count)]
        checks.append(
            draft.check(f"read.{count}-into-{room}", f"READ writes {count} octets to a Write chunk of {room}, unpadded",
                        "V2-24 V2-25 V2-45 V2-18", *steps, {"memory": {"sink": {"written": count, "data": data}}},
                        *draft.afterwards(), needs="nfs file", memory={"sink": {"octets": room, "may": "write"}})
        )  # fmt: skip
    more = {"flags": 3, "type": 0} if draft.version == "2" else {"type": 12}
    continued = {"message": {"header": {"xid": _XID, **more}, "octets": {"max": 4096}}}
    long = {"flags": 1, "type": 1, "reads": []} if draft.version == "2" else {"type": 11}
    large = {"sink": {"octets": 8192, "may": "write"}}
    source = {"source": {"content": {"pattern": _WRITTEN}}}
    in_reply_chunk = {"xid": _XID, "version": 2, "writes": [],
                      "reply": [{**_segment(8192), "length": _LONG_REPLY_OCTETS}]}  # fmt: skip
    sink = {"sink": {"octets": 64, "may": "write"}}
    placed = draft.accepted(writes=[[_segment(64)]])["message"]
    return [
        *checks,
        draft.check("read.continued", "A reply beyond the threshold without a Reply chunk is continued", "V2-46 V2-73",
                    _read(_LONG_RESULT), hear(continued),
                    hear({"message": {"header": draft.reply(), "octets": {"max": 4096}}}), *draft.afterwards(),
                    needs="nfs file"),
        draft.check("invalidation.named", "A reply invalidates the handle that its call named, or none", "V2-79 V2-A5",
                    _read(64, writes=[[_segment(64)]], invalidate=_SINK_HANDLE),
                    hear({"message": {**placed, "invalidates": {"any": [None, _SINK_HANDLE]}}}), needs="nfs file",
                    memory=sink),
        draft.check("invalidation.none-named", "A reply to a call that names no handle is a plain Send", "V2-79",
                    _read(64, writes=[[_segment(64)]]), hear({"message": {**placed, "invalidates": None}}),
                    needs="nfs file", memory=sink),
        draft.check("read.reply-chunk", "A reply beyond the threshold is padded in its Reply chunk, or continued",
                    "V2-30 V2-31", _read(_LONG_RESULT, reply=[_segment(8192)]),
                    hear({"message": {"header": {**in_reply_chunk, **long}}}, {**continued, "last": True}),
                    {"memory": {"sink": {"data": {"words": [_XID, 1, 0, 0, 0, 0, 0]}}}}, *draft.afterwards(),
                    needs="nfs file", memory=large),
        draft.check("read.short-write-chunk", "Data beyond its Write chunk is inline, or the room needed is told",
                    "V2-58 V2-88", _read(64, writes=[[_segment(8)]]),
                    hear(draft.error("WRITE_RESOURCE", 1, 64), draft.done(writes=[[_segment(0)]])),
                    {"memory": {"sink": {"written": 0}}}, *draft.afterwards(), needs="nfs file", memory=sink),
        draft.check("read.short-reply-chunk", "A reply beyond its chunk is continued, or the room needed is told",
                    "V2-59 V2-62", _read(_LONG_RESULT, reply=[_segment(64)]),
                    hear(draft.error("REPLY_RESOURCE", _LONG_REPLY_OCTETS), {**continued, "last": True}),
                    {"memory": {"sink": {"written": 0}}}, *draft.afterwards(), needs="nfs file", memory=sink),
        draft.check("writes.unused", "Attributes are inline, and the Write chunk of their call is unused", "V2-15",
                    _call_on("file", 1, writes=[[_segment(64)]]), hear(draft.done(writes=[[_segment(0)]])),
                    {"memory": {"sink": {"written": 0}}}, *draft.afterwards(), needs="nfs file", memory=sink),
        draft.check("write.read-chunk", "WRITE takes its data from a Read chunk, unless a limit of none is told",
                    "V2-86", _write(0), hear(draft.done(), draft.error("READ_CHUNKS", 0)), *draft.afterwards(),
                    needs="nfs write", memory=source),
        draft.check("write.no-item", "A WRITE with a Read chunk in the place of no item is refused", "V2-67",
                    _write(-4), hear(draft.error("BAD_XDR"), draft.error("SYSTEM")), *draft.afterwards(),
                    needs="nfs write", memory=source),
    ]  # fmt: skip


CHECKS: tuple[Check, ...] = tuple(
    each
    for draft in DRAFTS
    for part in (_properties, _mistakes, _cuts, _chunk_lists, _pieces, _files)
    for each in part(draft)
)
"""Checks of version 2."""
