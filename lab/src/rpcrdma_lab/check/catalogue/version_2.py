"""Checks of calls, credits, continued messages and chunks of version 2.

Sections are those of draft-ietf-nfsv4-rpcrdma-version-two-00. Each conversation begins with the properties of both
sides, unless it tests the first message itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rpcrdma_lab.check.answers import NULL_OCTETS, hear, say
from rpcrdma_lab.check.catalogue.files import content, getattr_call, made_old, read_call, segment, shown, write_call
from rpcrdma_lab.check.entry import Check, Step, check

__all__ = ["CHECKS", "CODES", "CONNPROP", "FIRST_LIST_AT", "V2", "Family"]

_XID = {"given": "xid"}
_NEXT = {"given": "xid", "plus": 1}
_SINK_HANDLE = {"given": "sink.handle"}
_RECEIVE_SIZE = [2, {"words": [4096]}]
_SMALL_OCTETS = 1024
"""The receive size of a client to which a long reply is sent in several messages."""
_PAUSE = {"milliseconds": 50}
_CALLS_MAX = 256
"""The most calls that a check sends without waiting, even if more are granted."""
_MANY = 100
"""The number of chunks in a list that exceeds those of NFS, and fits into a message of 4,096 octets."""
_WRITTEN = 64
"""Octets of a WRITE's data in its Read chunk."""
_LONG_RESULT, _LONG_REPLY_OCTETS = 5001, {"any": [5132, 5048]}
"""A READ beyond the threshold, and the octets of its padded reply, with and without attributes (RFC 1813 3.3.6)."""


CONNPROP = 5
"""The header type of properties."""
FIRST_LIST_AT = 24
"""Octets of a header before its chunk lists."""
CODES: Mapping[str, int] = {
    "BAD_XDR": 2,
    "INVAL_HTYPE": 3,
    "INVAL_FLAG": 4,
    "READ_CHUNKS": 5,
    "WRITE_CHUNKS": 6,
    "SEGMENTS": 7,
    "WRITE_RESOURCE": 8,
    "REPLY_RESOURCE": 9,
    "SYSTEM": 10,
}
"""Codes of RDMA2_ERROR by name."""


@dataclass(frozen=True, slots=True)
class Family:
    """Makes messages, patterns and checks for servers of version 2; `family` is the prefix of identifiers of checks.

    Shared by the methods:
        name: the check's identifier after `family` and a dot.
        title: the expected behaviour as text.
        statements: the identifiers of the tested statements, separated by spaces; a wrong answer breaks the first.
        conversation: further keys of the conversation, such as "memory" (docs/send.md), and `needs`, the conditions
            without which the check is not run.
    """

    family: str

    def reply(self, plus: int = 0, **fields: Any) -> dict[str, Any]:
        """Returns the pattern of an inline reply's header, without chunks unless `fields` has them.

        `plus` is added to the XID of the check's first call; `fields` replace fields of the pattern.
        """
        header = {"xid": {**_XID, "plus": plus}, "version": 2, "type": 0, "flags": 1}
        return {**header, "invalidate": 0, "reads": [], "writes": [], "reply": None, **fields}

    def accepted(self, plus: int = 0, **fields: Any) -> dict[str, Any]:
        """Returns the pattern of a reply with accept_stat 0; `fields` replace those of the header's pattern.

        `plus` is added to the XID of the check's first call.
        """
        rpc = {"xid": {**_XID, "plus": plus}, "direction": 1, "accepted": 0}
        return {"message": {"header": self.reply(plus, **fields), "rpc": rpc}}

    def answered(self, plus: int = 0, *, status: int = 0) -> dict[str, Any]:
        """Returns the pattern of an accepted reply with this accept_stat and no results, in a plain Send.

        `plus` is added to the XID of the check's first call.
        """
        message = self.accepted(plus)["message"]
        return {
            "message": {**message, "rpc": {**message["rpc"], "accepted": status, "results": ""}, "invalidates": None}
        }

    def done(self, *, results: Any = None, **fields: Any) -> dict[str, Any]:
        """Returns the pattern of an NFS reply with status 0, in a plain Send; `fields` replace header fields.

        The XID is that of the check's first call. `results` are octets (docs/send.md) with which the reply's results
        must end; None permits any.
        """
        message = self.accepted(**fields)["message"]
        rpc = {**message["rpc"], "result_status": 0, **({} if results is None else {"results": {"ends": results}})}
        return {"message": {**message, "rpc": rpc, "invalidates": None}}

    def unused(self) -> dict[str, Any]:
        """Returns the pattern of a reply from a server that ignores a Read chunk at the Position of no item.

        The accept_stat is 0, or 4 (GARBAGE_ARGS) if the arguments lack the chunk's data. Such an answer is noted, and
        breaks no rule.
        """
        answer = self.accepted()["message"]
        rpc = {**answer["rpc"], "accepted": {"any": [0, 4]}}
        return {"message": {**answer, "rpc": rpc}, "reading": "unused-chunk-ignored"}

    def error(self, name: str, *numbers: Any, plus: int = 0) -> dict[str, Any]:
        """Returns the pattern of RDMA2_ERROR with the code `name`, such as "BAD_XDR", and the `numbers` after it.

        `plus` is added to the XID of the check's first call. `CODES` has the names.
        """
        header = {"xid": {**_XID, "plus": plus}, "version": 2, "type": 4, "flags": 1, "error": CODES[name]}
        return {"message": {"header": {**header, "numbers": list(numbers)}, "invalidates": None}}

    def piece(self, payload: Any) -> Step:
        """Returns a step that sends a part of a call, which other messages continue (flag MORE).

        `payload` is octets (docs/send.md).
        """
        return say(header={"flags": 2}, body=payload)

    def afterwards(self, plus: int = 1) -> list[Step]:
        """Returns steps that check that the connection continues: a NULL call and its reply.

        `plus` is added to the XID of the check's first call.
        """
        return [say(header={"xid": {**_XID, "plus": plus}}, rpc={}), hear(self.answered(plus))]

    def told(self, *properties: Any, **header: Any) -> Step:
        """Returns a step that sends transport properties, each as [NUMBER, VALUE]; `header` replaces header fields.

        VALUE is octets in a form of docs/send.md, such as hex digits.
        """
        return say(header={"type": CONNPROP, "properties": list(properties), **header})

    @property
    def introduction(self) -> list[Step]:
        """The steps that send the check's transport properties (receive size 4096), and expect those of the server."""
        return [self.told(_RECEIVE_SIZE), hear({"message": {"header": {"version": 2, "type": CONNPROP}}})]

    def check(self, name: str, title: str, statements: str, *steps: Step, **conversation: Any) -> Check:
        """Returns a check whose `steps` follow the messages with the transport properties of both sides."""
        return self.first(name, title, statements, *self.introduction, *steps, **conversation)

    def first(self, name: str, title: str, statements: str, *steps: Step, **conversation: Any) -> Check:
        """Returns a check of exactly these `steps`, without transport properties before them."""
        title = f"{title} (version 2)"
        return check(f"{self.family}.{name}", title, statements, *steps, version="2", **conversation)

    def refused(self, name: str, title: str, statements: str, code: str, **message: Any) -> Check:
        """Returns a check that a wrong message is refused with RDMA2_ERROR, and that the connection continues.

        `message` has the fields of the message. `code` is the name of the error, as "BAD_XDR".
        """
        return self.check(name, title, statements, say(**message), hear(self.error(code)), *self.afterwards())


V2 = Family("v2")
"""Makes the checks of version 2 without extensions."""

_FIRST_WORDS = {"words": [_XID, 0]}
_OTHER_WORDS = {"words": [2, {"given": "program"}, {"given": "program_version"}, 0, 0, 0, 0, 0]}


def _read(count: int, **header: Any) -> Step:
    return say(header=header, rpc=read_call(count))


def _write(count: int, position_plus: int = 0, **message: Any) -> Step:
    """Returns a step that sends a WRITE of `count` octets of the memory "source" by a Read chunk.

    `position_plus` is added to the right Position of its data, and `message` has further fields.
    """
    read = {"position": {"given": "write_position", "plus": position_plus}, "memory": "source"}
    return say(header={"reads": [read]}, rpc=write_call(count), **message)


def _credits() -> Sequence[Check]:
    """Returns checks of credits: a client without any may still grant, and a server without any waits for a grant."""
    permitted = {"heard": "header.give", "most": _CALLS_MAX}
    replied = {"header": {"version": 2}, "rpc": {"direction": 1, "accepted": 0}}
    return [
        V2.check("credits.grant-beyond", "A message that only grants credits comes beyond all others", "V2-7 V2-47",
                    {"repeat": {"times": permitted, "steps": [say(header={"xid": {"given": "index"}}, rpc={})]}},
                    _grant(),
                    {"repeat": {"times": permitted, "steps": [hear({"message": replied})]}},
                    *V2.afterwards()),
        _exhausted(),
    ]  # fmt: skip


def _grant(**credits_: int) -> Step:
    """Returns a step that sends a message that only grants credits.

    `credits_` replaces header fields: "give", the messages granted, and "pool", the most that the client takes.
    """
    return say(header={"xid": 0, "type": 1, **credits_}, body="")


def _exhausted() -> Check:
    """Returns a check that a server without credits waits for a grant before it sends the rest of a long reply.

    The check expects one or two messages of the reply before the grant, since the draft does not say whether a server
    has a credit at the start, and one more after it.
    """
    piece = _piece({"max": _SMALL_OCTETS})
    steps = [hear(piece), hear(piece, {"quiet": {"milliseconds": 1000}}), {"quiet": _PAUSE}]
    begin = [V2.told([2, {"words": [_SMALL_OCTETS]}], give=1), V2.introduction[1], _read(_LONG_RESULT, give=1)]
    after = [_grant(give=1), hear(piece), {"quiet": _PAUSE}]
    return V2.first("credits.exhausted", "Without credits a reply in pieces goes on after a grant alone",
                    "V2-4 V2-44 V2-47", *begin, *steps, *after, needs="nfs file")  # fmt: skip


def _piece(octets: Any) -> dict[str, Any]:
    """Returns the pattern of a part of a reply that other messages continue; `octets` is the pattern of its length."""
    return {"message": {"header": V2.reply(flags=3), "octets": octets, "invalidates": None}}


def _chunk_lists() -> Sequence[Check]:
    source = {"source": {"content": {"zeros": 4 * _MANY}}}
    sink = {"sink": {"octets": 4 * _MANY, "may": "write"}}
    reads = [
        {"position": 40 + at, "memory": "source", "length": 4, "offset": {"given": "source.offset", "plus": at}}
        for at in range(0, 4 * _MANY, 4)
    ]
    writes = [[segment(4, at)] for at in range(0, 4 * _MANY, 4)]
    fewer = {"max": _MANY - 1}
    at_zero = {"position": 0, "memory": "source"}
    unused = {"all": [{"handle": _SINK_HANDLE, "length": 0}]}
    return [
        V2.check("reads.many", f"Of {_MANY} Read chunks the number supported is told, or their Positions refused",
                    "V2-53", say(header={"reads": reads}, rpc={}),
                    hear(V2.error("READ_CHUNKS", fewer), V2.error("BAD_XDR"), V2.error("SYSTEM"),
                         V2.unused()), *V2.afterwards(), memory=source),
        V2.check("writes.many", f"Of {_MANY} Write chunks all are returned unused, or the number supported is told",
                    "V2-55", say(header={"writes": writes}, rpc={}),
                    hear(V2.accepted(writes=unused), V2.error("WRITE_CHUNKS", fewer),
                         V2.error("REPLY_RESOURCE", {"min": 1})), *V2.afterwards(), memory=sink),
        V2.check("long.null", "A Long Call with its segment at Position zero is answered", "V2-28",
                    say(header={"type": 1, "reads": [at_zero]}), hear(V2.answered()), *V2.afterwards(),
                    memory={"source": {"content": NULL_OCTETS}}),
        *_credits(),
    ]  # fmt: skip


def _pieces() -> Sequence[Check]:
    # The draft is silent about the rest.
    refused = {**V2.error("BAD_XDR"), "reading": "rest-of-a-broken-call-refused", "last": True}
    call, answer = V2.afterwards(2)
    return [
        V2.check("pieces.two", "A call in two messages is joined", "V2-26 V2-2", V2.piece(_FIRST_WORDS),
                    say(header={}, body=_OTHER_WORDS), hear(V2.answered())),
        V2.check("pieces.other-xid", "A message of another call in the midst of one is refused", "V2-41",
                    V2.piece(_FIRST_WORDS), say(header={"xid": _NEXT}, body=_OTHER_WORDS),
                    hear(V2.error("INVAL_FLAG", plus=1)), *V2.afterwards(2)),
        V2.check("pieces.rest", "The rest of a call that another message has broken is dropped", "V2-A3",
                    V2.piece(_FIRST_WORDS), say(header={"xid": _NEXT}, body=_OTHER_WORDS),
                    hear(V2.error("INVAL_FLAG", plus=1)), say(header={}, body=_OTHER_WORDS), call,
                    hear(*answer["hear"], refused)),
    ]  # fmt: skip


def _sizes() -> Sequence[Check]:
    """Returns checks of messages of the size that every receiver accepts, and of the server's Maximum Send Size."""
    sent = {"given": "2.send_octets"}
    large = [V2.told([2, {"words": [1 << 16]}]), V2.introduction[1]]
    octets = {"octets": {"max": sent}}
    return [
        V2.check("message.4096", "A message of 4,096 octets is taken", "V2-8",
                    say(rpc={}, append={"zeros": 4096 - 36 - 40}), hear(V2.answered(), V2.answered(status=4)),
                    *V2.afterwards()),
        V2.first("read.maximum-send-size", "No message of a reply is longer than the server has told", "V2-72",
                    *large, _read(_LONG_RESULT),
                    hear({"message": {"header": V2.reply(), **octets}, "last": True},
                         _piece(octets["octets"])),
                    hear({"message": {"header": {"xid": _XID, "version": 2}, **octets}}), needs="nfs file"),
    ]  # fmt: skip


def _inline(count: int) -> Check:
    """Returns a check that a READ without chunks gets a reply of one message, with `count` octets inline and padded."""
    return V2.check(f"read.{count}-inline", f"READ without chunks has its {count} octets inline, padded with zeros",
                       "V2-46", _read(count), hear(V2.done(results={"opaque": content(count)})),
                       *V2.afterwards(), needs="nfs file")  # fmt: skip


def _written(count: int) -> Check:
    """Returns a check with a WRITE of `count` octets by an unpadded Read chunk; a READ compares the file."""
    memory = {"source": {"content": {"pattern": count}}}
    return V2.check(f"write.{count}", f"WRITE of {count} octets is read from a chunk without padding",
                       "V2-22 V2-21 V2-16", *made_old(), _write(count), hear(V2.done()),
                       *shown(count, "V2-22"), needs="nfs write", memory=memory)  # fmt: skip


def _files() -> Sequence[Check]:
    checks = []
    for count, room in ((1, 1), (3, 8), (5, 5), (5001, 8192)):
        answer = V2.done(results={"words": [count]}, writes=[[segment(count)]])
        steps = [_read(count, writes=[[segment(room)]]), hear(answer)]
        data = [content(count), "a5" * min(8, room - count)]
        checks.append(
            V2.check(f"read.{count}-into-{room}", f"READ writes {count} octets to a Write chunk of {room}, unpadded",
                        "V2-24 V2-25 V2-45 V2-18 V2-19 V2-20", *steps,
                        {"memory": {"sink": {"written": count, "data": data}}}, *V2.afterwards(), needs="nfs file",
                        memory={"sink": {"octets": room, "may": "write"}})
        )  # fmt: skip
    continued = _piece({"max": 4096})
    long = {"flags": 1, "type": 1, "reads": []}
    large = {"sink": {"octets": 8192, "may": "write"}}
    source = {"source": {"content": {"pattern": _WRITTEN}}}
    in_reply_chunk = {"xid": _XID, "version": 2, "writes": [],
                      "reply": [{**segment(8192), "length": _LONG_REPLY_OCTETS}]}  # fmt: skip
    sink = {"sink": {"octets": 64, "may": "write"}}
    placed = V2.accepted(writes=[[segment(64)]])["message"]
    return [
        *checks,
        *(_inline(count) for count in (1, 3, 1000)),
        *(_written(count) for count in (1, 3, 5, 5001)),
        V2.check("read.continued", "A reply beyond the threshold without a Reply chunk is continued", "V2-46 V2-73",
                    _read(_LONG_RESULT), hear(continued),
                    hear({"message": {"header": V2.reply(), "octets": {"max": 4096}}}), *V2.afterwards(),
                    needs="nfs file"),
        V2.check("invalidation.named", "A reply invalidates the handle that its call named, or none", "V2-79 V2-A5",
                    _read(64, writes=[[segment(64)]], invalidate=_SINK_HANDLE),
                    hear({"message": {**placed, "invalidates": {"any": [None, _SINK_HANDLE]}}}), needs="nfs file",
                    memory=sink),
        V2.check("invalidation.none-named", "A reply to a call that names no handle is a plain Send", "V2-79",
                    _read(64, writes=[[segment(64)]]), hear({"message": {**placed, "invalidates": None}}),
                    needs="nfs file", memory=sink),
        V2.check("read.reply-chunk", "A reply beyond the threshold is padded in its Reply chunk, or continued",
                    "V2-30 V2-31", _read(_LONG_RESULT, reply=[segment(8192)]),
                    hear({"message": {"header": {**in_reply_chunk, **long}}}, {**continued, "last": True}),
                    {"memory": {"sink": {"data": {"words": [_XID, 1, 0, 0, 0, 0, 0]}}}}, *V2.afterwards(),
                    needs="nfs file", memory=large),
        V2.check("read.short-write-chunk", "Data beyond its Write chunk is inline, or the room needed is told",
                    "V2-58 V2-88", _read(64, writes=[[segment(8)]]),
                    hear(V2.error("WRITE_RESOURCE", {"any": [0, 1]}, 64), V2.error("WRITE_RESOURCE", 0, 0),
                         V2.done(writes=[[segment(0)]])),
                    {"memory": {"sink": {"written": 0}}}, *V2.afterwards(), needs="nfs file", memory=sink),
        V2.check("read.short-reply-chunk", "A reply beyond its chunk is continued, or the room needed is told",
                    "V2-59 V2-62", _read(_LONG_RESULT, reply=[segment(64)]),
                    hear(V2.error("REPLY_RESOURCE", _LONG_REPLY_OCTETS), {**continued, "last": True}),
                    {"memory": {"sink": {"written": 0}}}, *V2.afterwards(), needs="nfs file", memory=sink),
        V2.check("writes.unused", "Attributes are inline, and the Write chunk of their call is unused", "V2-15",
                    say(header={"writes": [[segment(64)]]}, rpc=getattr_call()),
                    hear(V2.done(writes=[[segment(0)]])),
                    {"memory": {"sink": {"written": 0}}}, *V2.afterwards(), needs="nfs file", memory=sink),
        V2.check("write.read-chunk", "WRITE takes its data from a Read chunk, unless a limit of none is told",
                    "V2-86", _write(_WRITTEN), hear(V2.done(), V2.error("READ_CHUNKS", 0)),
                    *V2.afterwards(), needs="nfs write", memory=source),
        V2.check("write.no-item", "A WRITE with a Read chunk in the place of no item is refused", "V2-67",
                    _write(_WRITTEN, -4), hear(V2.error("BAD_XDR"), V2.error("SYSTEM"), V2.unused()),
                    *V2.afterwards(), needs="nfs write", memory=source),
    ]  # fmt: skip


CHECKS: tuple[Check, ...] = tuple(each for part in (_chunk_lists, _pieces, _sizes, _files) for each in part())
"""Checks of calls, credits, continued messages and chunks of version 2."""
