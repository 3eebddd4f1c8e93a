"""Checks of both drafts of version 2: one taxonomy, with the types and codes of each draft.

Sections are those of draft-ietf-nfsv4-rpcrdma-version-two-00. Each conversation begins with the properties of both
sides, unless it tries the first message itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rpcrdma.check.answers import hear, say
from rpcrdma.check.entry import Check, Step, check

__all__ = ["CHECKS", "DRAFTS", "Draft"]

_XID = {"given": "xid"}
_NEXT = {"given": "xid", "plus": 1}
_SINK_HANDLE = {"given": "sink.handle"}
_SEGMENT = {"handle": 0x5EED, "length": 64, "offset": 1 << 33}
_ENTRY = {"position": 40, **_SEGMENT}
_RECEIVE_SIZE = [2, {"words": [4096]}]


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
        return [say(header={"xid": {**_XID, "plus": plus}}, rpc={}), hear(self.accepted(plus))]

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


def _read(count: int, **header: Any) -> Step:
    args = [{"opaque": {"given": "file"}}, {"longs": [0]}, {"words": [count]}]
    return say(header=header, rpc={"procedure": 6, "args": args, "credential": {"given": "credential"}})


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
                    hear(draft.accepted())),
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
                    hear(draft.accepted())),
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


def _pieces(draft: Draft) -> Sequence[Check]:
    checks = [
        draft.check("pieces.two", "A call in two messages is joined", "V2-26 V2-2", draft.piece(_FIRST_WORDS, 32),
                    say(header={}, body=_OTHER_WORDS), hear(draft.accepted())),
        draft.check("pieces.other-xid", "A message of another call in the midst of one is refused", "V2-41",
                    draft.piece(_FIRST_WORDS, 32), say(header={"xid": _NEXT}, body=_OTHER_WORDS),
                    hear(draft.error("INVAL_CONT", plus=1)), *draft.afterwards(2)),
    ]  # fmt: skip
    if draft.nomsg is not None:
        checks += [
            draft.refused("flags.reserved", "Reserved flags are refused", "V2-51", "INVAL_CONT",
                          **_call(flags=0x80000000)),
            draft.refused("flags.more-on-nomsg", "MORE on RDMA2_NOMSG is refused", "V2-42", "INVAL_CONT",
                          header={"type": 1, "flags": 2, "reads": [{**_ENTRY, "position": 0}]}),
            draft.refused("flags.more-with-chunks", "MORE with chunks is refused", "V2-43", "INVAL_CONT",
                          **_call(flags=2, reads=[_ENTRY])),
        ]  # fmt: skip
    return checks


def _reads(draft: Draft) -> Sequence[Check]:
    checks = []
    for count, room in ((1, 1), (3, 8), (5, 5), (5001, 8192)):
        answer = draft.accepted(writes=[[_segment(count)]])
        steps = [_read(count, writes=[[_segment(room)]]), hear(answer)]
        data = [{"given": "content", "first": count}, "a5" * min(8, room - count)]
        checks.append(
            draft.check(f"read.{count}-into-{room}", f"READ writes {count} octets to a Write chunk of {room}, unpadded",
                        "V2-24 V2-25 V2-45", *steps, {"memory": {"sink": {"written": count, "data": data}}},
                        *draft.afterwards(), needs="nfs file", memory={"sink": {"octets": room, "may": "write"}})
        )  # fmt: skip
    more = {"flags": 3, "type": 0} if draft.version == "2" else {"type": 12}
    sink = {"sink": {"octets": 64, "may": "write"}}
    placed = draft.accepted(writes=[[_segment(64)]])["message"]
    return [
        *checks,
        draft.check("read.continued", "A reply beyond the threshold without a Reply chunk is continued", "V2-46 V2-73",
                    _read(5001), hear({"message": {"header": {"xid": _XID, **more}, "octets": {"max": 4096}}}),
                    hear({"message": {"header": draft.reply(), "octets": {"max": 4096}}}), *draft.afterwards(),
                    needs="nfs file"),
        draft.check("invalidation.named", "A reply invalidates the handle that its call named, or none", "V2-79 V2-A5",
                    _read(64, writes=[[_segment(64)]], invalidate=_SINK_HANDLE),
                    hear({"message": {**placed, "invalidates": {"any": [None, _SINK_HANDLE]}}}), needs="nfs file",
                    memory=sink),
        draft.check("invalidation.none-named", "A reply to a call that names no handle is a plain Send", "V2-79",
                    _read(64, writes=[[_segment(64)]]), hear({"message": {**placed, "invalidates": None}}),
                    needs="nfs file", memory=sink),
    ]  # fmt: skip


CHECKS: tuple[Check, ...] = tuple(
    each for draft in DRAFTS for part in (_properties, _mistakes, _cuts, _pieces, _reads) for each in part(draft)
)
"""Checks of version 2."""
