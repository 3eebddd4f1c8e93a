"""Checks of clients of version 2.

Sections are those of draft-ietf-nfsv4-rpcrdma-version-two-00. Each conversation begins with the properties of both
sides; the client makes two calls or more of any kind, or those with chunks that a check waits for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rpcrdma_lab.check.answers import hear, say
from rpcrdma_lab.check.catalogue.clients import terminates
from rpcrdma_lab.check.catalogue.version_2 import CODES, CONNPROP, V2
from rpcrdma_lab.check.entry import Check, Step, check

__all__ = ["CLIENT_CHECKS", "Version2Client"]

_XID = {"heard": "header.xid"}
_SINK = {each: {"heard": f"header.writes.0.0.{each}"} for each in ("handle", "length", "offset")}
_NO_RESULTS = {"words": [0, 0, 0]}
_THRESHOLD = 4096
_SILENCE = {"quiet": {"milliseconds": {"given": "pause_ms"}}}
_QUIET: Step = _SILENCE
_READ, _WRITE = 6, 7


_SEGMENT_OCTETS, _SEGMENTS = 4096, 4
_FITTING = {"item": {"any": [None, {"spare": {"min": 0}}]}}
"""The pattern of calls whose chunk has room for the data of the READ or WRITE."""
_NEEDED = 1 << 16
"""A number of octets that exceeds any reply to a call of a check."""
_RPC = {"direction": 0, "rpc_version": 2, "status": None, "same_xid": 1}
_SOME_AT_ZERO = {"not": {"all": {"position": {"min": 1}}}}
_INLINE: dict[str, Any] = {"type": 0, "flags": 0}
_LONG: dict[str, Any] = {"type": 1, "flags": 0, "reads": _SOME_AT_ZERO}
_CONTINUED: dict[str, Any] = {"type": 0, "flags": 2}
"""`_INLINE`, `_LONG` and `_CONTINUED` are header patterns of calls: inline, Long, and continued in further messages."""


class Version2Client:
    """Makes patterns, steps and checks for clients of version 2.

    Args:
        octets: the most octets of a client's message.

    Shared by the methods:
        name: the check's identifier after "client.v2.".
        title: the expected behaviour as text.
        statements: the identifiers of the tested statements, separated by spaces; a wrong answer breaks the first.
        needs: the conditions without which the check is not run, separated by spaces.
    """

    one_call: Mapping[str, Any] = {"give": 1}
    """Header fields that grant credits for one call."""
    no_more: Mapping[str, Any] = {"give": 0}
    """Header fields that grant no credits."""
    continued = _CONTINUED
    """The header pattern of a call that further messages continue."""

    def __init__(self, octets: int = _THRESHOLD) -> None:
        self._octets = octets
        self.calls = [self._call(_INLINE, rpc=_RPC), self._call(_LONG), self._call(_CONTINUED, rpc=_RPC)]
        self.other = [self._call({**each, "xid": {"not": _XID}}) for each in (_INLINE, _LONG, _CONTINUED)]
        self.any: Step = {"serve": {"each": self.calls}}
        self.next = hear(*self.calls)

    def up_to_segments(self, most: int, *, again: bool = False) -> list[dict[str, Any]]:
        """Returns patterns (docs/send.md) of inline, Long and continued calls with at most `most` segments.

        The segments of all chunks count. With `again`, the calls must have the last call's XID.
        """
        header = {"xid": _XID} if again else {}
        return [{"message": {**each["message"], "header": {**each["message"]["header"], **header},
                             "segments": {"max": most}}} for each in self.calls]  # fmt: skip

    @property
    def fitting(self) -> list[dict[str, Any]]:
        """Patterns of calls; a READ or WRITE with a chunk must have room for its data in the chunk."""
        return [{"message": {**each["message"], **_FITTING}} for each in self.calls]

    @property
    def as_long_as_told(self) -> list[dict[str, Any]]:
        """Patterns of calls that exceed neither `octets` nor the Maximum Send Size that the client has announced.

        An earlier step has named the client's properties message "client".
        """
        own = {"min": {"heard": "send_octets", "of": "client", "plus": 1}}
        octets = {"not": {"any": [{"min": self._octets + 1}, own]}}
        return [{"message": {**each["message"], "octets": octets}} for each in self.calls]

    @property
    def with_few_segments(self) -> Step:
        """The step that answers calls until a READ with a Write chunk; that READ stays unanswered.

        A call with more than 4 segments in all its chunks fails the check.
        """
        until = {"header": {"writes": {"not": []}}, "rpc": {"procedure": _READ}}
        return {"serve": {"each": self.up_to_segments(_SEGMENTS), "until": until}}

    @property
    def with_short_segments(self) -> Step:
        """The step that answers calls until a WRITE with a Read chunk; that WRITE stays unanswered.

        An inline or Long call with a Read segment of more than 4096 octets fails the check.
        """
        short = {"all": {"length": {"max": _SEGMENT_OCTETS}}}
        calls = [{"message": {**each["message"], "header": {**each["message"]["header"], "reads": short}}}
                 for each in self.calls[:2]]  # fmt: skip
        until = {"header": {"reads": {"not": []}}, "rpc": {"procedure": _WRITE}}
        return {"serve": {"each": [*calls, self.calls[2]], "until": until}}

    def _call(self, header: dict[str, Any], **fields: Any) -> dict[str, Any]:
        expected = {
            "header": {"version": 2, **header},
            "broken": None,
            "octets": {"max": self._octets},
            "invalidates": None,
        }
        return {"message": {**expected, **fields}}

    @property
    def properties(self) -> dict[str, Any]:
        """The pattern of the client's RDMA2_CONNPROP, of at most 1024 octets, the bound of a first message."""
        told = {"version": 2, "type": CONNPROP}
        return {"message": {"header": told, "octets": {"max": 1024}, "invalidates": None}}

    def told(self, *properties: Any, **header: Any) -> Step:
        """Returns a step that sends the scripted server's transport properties, each as [NUMBER, VALUE].

        VALUE is octets in a form of docs/send.md, such as hex digits. Without properties it sends the Receive Buffer
        Size alone, 4096 octets. `header` replaces fields of the header.
        """
        told = properties or ([2, {"words": [_THRESHOLD]}],)
        return V2.told(*told, **{"xid": _XID, **header})

    def reply(self, *, message: dict[str, Any] | None = None, **header: Any) -> Step:
        """Returns a step that answers the last call; `header` and `message` have the unusual fields of the reply.

        `header` has those of the transport header, and `message` others, such as "body" and "ddp" (docs/send.md).
        """
        return {"answer": {**(message or {}), "header": header}}

    def wrong(self, *, message: dict[str, Any] | None = None, **header: Any) -> Step:
        """Returns a step that answers the last call with a wrong reply, which the client has to discard.

        The reply grants no credits. `header` has the fields of its transport header that differ from a usual reply, and
        `message` other fields of the message that differ, such as "cut" (docs/send.md).
        """
        return self.reply(message=message, **{**self.no_more, **header})

    def until(self, *, each: list[dict[str, Any]] | None = None, **header: Any) -> Step:
        """Returns a step that answers calls until one matches the header fields `header`; that call stays unanswered.

        "procedure" in `header` is that of the RPC call. `each` are the patterns of which each call has to match one;
        None: those of well-formed calls.
        """
        rpc = {"rpc": {"procedure": header.pop("procedure")}} if "procedure" in header else {}
        return {"serve": {"each": each or self.calls, "until": {"header": header, **rpc}}}

    def first(self, name: str, title: str, statements: str, *steps: Step, needs: str = "") -> Check:
        """Returns a check whose `steps` follow the client's first message, which has its transport properties."""
        right = {"message": {**self.properties["message"], "broken": None}}
        properties = hear(right, {**self.properties, "breaks": "V2-35"})
        return self.whole(name, title, statements, properties, *steps, needs=needs)

    def whole(self, name: str, title: str, statements: str, *steps: Step, **conversation: Any) -> Check:
        """Returns a check of exactly these `steps`, without steps for transport properties before them."""
        return check(
            f"client.{V2.family}.{name}", f"{title} (version 2)", statements, *steps, version="2", **conversation
        )

    def check(self, name: str, title: str, statements: str, *steps: Step, needs: str = "") -> Check:
        """Returns a check whose `steps` follow the messages with the transport properties of both sides."""
        return self.first(name, title, statements, self.told(), *steps, needs=needs)

    def taken(self, name: str, title: str, statements: str, *told: Any) -> Check:
        """Returns a check that the client makes further calls after the server has announced the properties `told`.

        Each property is [NUMBER, VALUE], with the value as octets in a form of docs/send.md, such as hex digits.
        `name` is the check's identifier after "client.v2.properties.".
        """
        return self.first(f"properties.{name}", title, statements, self.told(*told), self.any, self.reply(), self.next)

    def alone(self, name: str, title: str, statements: str, *steps: Step) -> Check:
        """Returns a check whose `steps` follow a first call; the server has granted credits for this call only."""
        return self.first(name, title, statements, self.told(**self.one_call), self.any, *steps)

    def discarded(self, name: str, title: str, statements: str, wrong: Step) -> Check:
        """Returns a check of the step `wrong`, a wrong answer: the client must send nothing until the right answer."""
        return self.alone(name, title, statements, wrong, _QUIET, self.reply(), self.next)

    def no_reply(self, name: str, title: str, statements: str, wrong: Step) -> Check:
        """Returns a check of the step `wrong`, a malformed reply: the client discards it, ends the call, or leaves."""
        after = hear(*self.calls, {"end": {}})
        return self.alone(name, title, statements, wrong, _QUIET, self.reply(), after)

    def error(self, code: int, *numbers: int) -> Step:
        """Returns a step that answers the last call with RDMA2_ERROR: the number `code`, and the `numbers` after it."""
        return say(header={"xid": _XID, "type": 4, "error": code, "numbers": list(numbers), "flags": 1})

    def part(self, body: Any) -> Step:
        """Returns a step that sends a part of a reply with MORE set; `body`, its payload, is octets (docs/send.md)."""
        return say(header={"xid": _XID, "flags": 3}, body=body)

    def last_part(self, body: Any) -> Step:
        """Returns a step that sends the last part of a reply; `body`, its payload, is octets (docs/send.md)."""
        return say(header={"xid": _XID, "flags": 1}, body=body)


def _properties(client: Version2Client) -> list[Check]:
    return [
        client.first("first", "The properties come first, and no call before the server's", "V2-90 V2-10 V2-11",
                     _QUIET, client.told(), client.any, client.reply(), client.next),
        client.taken("none", "A server that tells a Receive Buffer Size alone gets calls", "V2-93 V2-9"),
        client.taken("unknown", "An unknown property is passed over", "V2-34", [77, "0102"]),
        client.taken("default", "A value of no octets stands for the default", "V2-69", [2, ""]),
        client.first("properties.segment-size", "No segment is longer than the server has told", "V2-74",
                     client.told([2, {"words": [_THRESHOLD]}], [3, {"words": [_SEGMENT_OCTETS]}]),
                     client.with_short_segments, client.reply(), hear(*client.other), needs="program"),
        client.first("properties.segment-count", "No header has more segments than the server has told", "V2-75",
                     client.told([2, {"words": [_THRESHOLD]}], [3, {"words": [_SEGMENT_OCTETS]}],
                                 [4, {"words": [_SEGMENTS]}]),
                     client.with_few_segments, client.reply(),
                     {"repeat": {"times": 3, "steps": [{"serve": {"each": client.up_to_segments(_SEGMENTS)}},
                                                       client.reply()]}}, needs="program"),
        client.first("properties.one-segment", "No header has a second segment where the server takes one", "V2-75",
                     client.told([2, {"words": [_THRESHOLD]}], [4, {"words": [1]}]),
                     client.until(each=client.up_to_segments(1), procedure=_WRITE), client.reply(),
                     hear(*client.other), needs="program"),
        client.taken("backwards", "Properties come in any order", "V2-70", [4, {"words": [16]}],
                     [2, {"words": [_THRESHOLD]}]),
    ]  # fmt: skip


def _headers(client: Version2Client) -> list[Check]:
    reply, discarded = client.reply, client.discarded
    broken = [{"count": 0xFFFFFFFF, "segments": []}]
    return [
        client.whole("calls", "A call has a right header, and its RPC header the same XID",
                     "V2-1 V2-73 V2-37 V2-14 V2-72", hear({**client.properties, "as": "client"}), client.told(),
                     {"serve": {"each": client.as_long_as_told}}, reply(), hear(*client.as_long_as_told), reply()),
        discarded("reply.other-version", "A reply of version 9 is discarded", "V2-68", client.wrong(version=9)),
        discarded("reply.other-xid", "A reply to no call is discarded", "V2-84",
                  client.wrong(xid={**_XID, "plus": 1000})),
        client.no_reply("reply.unknown-type", "A message of an unknown type is no reply", "V2-50",
                        client.wrong(type=99)),
        discarded("reply.cut-at-12", "A message of 12 octets is discarded", "V2-A1", client.wrong(message={"cut": 12})),
        client.no_reply("reply.lists-broken", "A reply whose Write list does not decode is no reply", "V2-52",
                  client.wrong(writes=broken)),
        discarded("error.undecodable", "An error with an unknown code is discarded", "V2-A2",
                  client.error(99)),
        *(client.check(f"error.{name.lower().replace('_', '-')}",
                       f"After {name} the call ends, and is not sent again as it was", statements, client.any,
                       client.error(CODES[name], *numbers), hear(*client.other, {"end": {}}))
          for name, statements, numbers in (
              ("BAD_XDR", "V2-52", ()), ("INVAL_HTYPE", "V2-36", ()), ("INVAL_FLAG", "V2-41", ()),
              ("WRITE_RESOURCE", "V2-89", (1, 1 << 30)), ("REPLY_RESOURCE", "V2-89", (1 << 30,)),
              ("SYSTEM", "V2-60", ()))),
    ]  # fmt: skip


def _pieces(client: Version2Client) -> list[Check]:
    start = {"words": [_XID, 1, 0]}
    return [
        client.check("reply.in-two-messages", "A reply in two messages is joined", "V2-46 V2-2", client.any,
                     client.part(start), client.last_part(_NO_RESULTS), hear(*client.other)),
        client.check("call.in-pieces", "The messages of a continued call have one XID and no other call between",
                     "V2-41 V2-2 V2-43", client.until(**client.continued),
                     hear({"message": {"header": {"version": 2, "xid": _XID}}}), needs="program"),
    ]  # fmt: skip


def _chunks(client: Version2Client) -> list[Check]:
    sink = client.until(procedure=_READ, writes=[[{"length": {"min": 1}}]])
    fitting_sink = client.until(each=client.fitting, procedure=_READ, writes=[[{"length": {"min": 1}}]])
    source = client.until(each=client.fitting, procedure=_WRITE,
                          reads=[{"position": {"min": 4}, "length": {"min": 1}}])  # fmt: skip
    old = {each: {"heard": f"header.writes.0.0.{each}", "of": "old"} for each in ("handle", "offset")}
    by_chunk = client.until(writes=[], reply={"not": None})
    beyond: dict[str, Any] = {each: {"heard": f"header.reply.0.{each}"} for each in ("handle", "offset")}
    beyond["length"] = {"heard": "header.reply.0.length", "plus": 4}
    again = {"writes": {"any": [None, {"not": [[{"handle": old["handle"]}]]}]}}
    anew = [{"message": {**each["message"], "header": {**each["message"]["header"], **again}}} for each in client.calls]
    named = client.until(procedure=_READ, writes=[[{"length": {"min": 1}}]], invalidate={"min": 1})
    after = hear(*client.other)
    send_invalidate = {"opcode": "send_invalidate", "invalidate": {"heard": "header.invalidate"}}
    return [
        client.check("read.write-chunk", "A READ offers one Write chunk with room for its data", "V2-23", fitting_sink,
                     client.reply(), after, needs="program"),
        client.check("write.read-chunk", "A WRITE has its data at a Position in a Read chunk", "V2-21 V2-22 V2-16",
                     source, client.reply(), after, needs="program"),
        client.check("invalidate.named", "The handle that a call names may be invalidated by its reply", "V2-79 V2-78",
                     named, client.reply(message={"ddp": send_invalidate}), after, needs="program"),
        client.alone("invalidate.unknown-handle", "A Send that invalidates unknown memory is reported", "V2-94 RD-10",
                     client.reply(message={"ddp": {"opcode": "send_invalidate", "invalidate": 0xDEADBEEF}}),
                     hear({"terminate": {"code": {"any": [0x0109, 0x0209, 0x0100]}}})),
        client.check("reply.longer-than-its-chunk", "A reply that tells more octets than its Write chunk has is broken",
                     "V2-52 V2-64", sink,
                     client.reply(writes=[[{**_SINK, "length": {**_SINK["length"], "plus": 4}}]]),
                     hear(*client.calls, {"end": {}}), needs="program"),
        client.check("reply-chunk.longer", "A long reply that tells more octets than its Reply chunk has is broken",
                     "V2-52 V2-64", by_chunk, client.reply(type=1, reply=[beyond], message={"body": ""}),
                     hear(*client.calls, {"end": {}}), needs="program"),
        client.check("write.finished-call", "A later RDMA Write to the memory of a finished READ is reported",
                     "V2-96 V2-95",
                     client.until(each=[{**each, "as": "old"} for each in client.calls], procedure=_READ,
                                  writes=[[{"length": {"min": 1}}]]),
                     client.reply(), hear(*anew), say(payload="00000000", ddp={"opcode": "write", **old}),
                     client.error(CODES["SYSTEM"]), hear(*terminates(0x1100, 0x1102)), needs="program"),
    ]  # fmt: skip


def _too_many_chunks(client: Version2Client) -> list[Check]:
    sink = client.until(procedure=_READ, writes=[[{"length": {"min": 1}}]])
    source = client.until(procedure=_WRITE, reads=[{"position": {"min": 4}, "length": {"min": 1}}])
    by_reply_chunk = [
        {"message": {**each["message"], "header": {**each["message"]["header"], "reply": {"not": None}}}}
        for each in client.calls[:2]
    ]
    return [
        client.check("error.read-chunks", "After READ_CHUNKS a call comes again in a Position-Zero chunk, or fails",
                     "V2-54 V2-28", source, client.error(CODES["READ_CHUNKS"], 0),
                     hear(client.calls[1], *client.other, {"end": {}}), needs="program"),
        client.first("error.segments", "After SEGMENTS a call comes again with no more segments than told, or fails",
                     "V2-A18 V2-57",
                     client.told([2, {"words": [_THRESHOLD]}], [3, {"words": [_SEGMENT_OCTETS]}]),
                     {"serve": {"each": client.calls, "until": {"segments": {"min": 3}}}},
                     client.error(CODES["SEGMENTS"], 2),
                     hear(*client.up_to_segments(2, again=True), *client.other, {"end": {}}), needs="program"),
        # A responder that takes no Write chunk at all tells the room for the whole reply.
        client.check("error.write-chunks", "After REPLY_RESOURCE a READ comes again with a Reply chunk, or fails",
                     "V2-56", sink, client.error(CODES["REPLY_RESOURCE"], _NEEDED),
                     hear(*by_reply_chunk, *client.other, {"end": {}}), needs="program"),
    ]  # fmt: skip


def _other_version(client: Version2Client) -> list[Check]:
    # A client may begin later connections with version 1.
    return [
        client.first("version-error", "After ERR_VERS the client goes on with version 1, or gives the server up",
                     "V2-82 V2-12",
                     say(payload={"words": [_XID, 2, 1, 4, 1, 1, 1]}),
                     hear({"message": {"header": {"version": 1}}}, {"end": {}})),
    ]  # fmt: skip


CLIENT_CHECKS: tuple[Check, ...] = tuple(
    each
    for part in (_properties, _headers, _pieces, _chunks, _too_many_chunks, _other_version)
    for each in part(Version2Client())
)
"""The checks of clients of version 2, in the order in which connections are used for them."""
