"""A client's call and its reply, without chunks and with them: the octets that a responder reads, joins and places.

Everything here is arithmetic over the fields of `read_message`; `answering` moves the octets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rpcrdma.errors import RemoteProtocolError
from rpcrdma_lab.limits import RAW_CALL_OCTETS_MAX

__all__ = [
    "CONTINUE",
    "REQUEST",
    "PlannedReply",
    "Segment",
    "joined_call",
    "placed_items",
    "planned_reply",
    "read_segments",
    "segments_of_items",
]

Segment = Mapping[str, int]
"""A segment with "handle", "length" and "offset"; a segment of a Read list has "position", too."""

REQUEST, CONTINUE = 0x101, 0x103
"""The header types that begin and continue a call of the round-trip extension."""
_IN_SEGMENTS = 2
_READLINK, _READ = (100003, 3, 5), (100003, 3, 6)
_ATTRIBUTES_OCTETS = 84
_LONG_REPLY = 1
"""The header type of replies whose RPC message is in the Reply chunk."""
_NO_ROOM = {"1": {"type": 4, "error": 2}, "2": {"type": 4, "flags": 1, "error": 9}}
"""By version, the fields of the error header for a reply without room; version 2 also states the reply's length."""
_REPLY_HEADER_OCTETS = {"1": 28, "2": 36}
"""Octets of the header of an inline reply without chunks, by version."""
_REPLY = {"1": {"type": 0}, "2": {"type": 0, "flags": 1}}


def read_segments(header: Mapping[str, Any]) -> list[Segment]:
    """Returns the segments of a header's Read list, each with "position", in the order of Positions; [] for none.

    `header` has the fields of the transport header by name, as `read_message` returns them in "header".

    Raises:
        RemoteProtocolError: a Position is not a multiple of four.
    """
    segments = sorted(header.get("reads") or [], key=lambda each: each["position"])
    wrong = [each["position"] for each in segments if each["position"] % 4]
    if wrong:
        raise RemoteProtocolError(f"a Read chunk has the Position {wrong[0]}, which is not a multiple of four")
    return segments


def segments_of_items(header: Mapping[str, Any]) -> list[Segment]:
    """Returns the segments in the requester's memory that hold items of a Transmit Request, each with its "position".

    `header` has the fields of the request's transport header, as `read_message` returns them in "header".
    """
    return [
        {**segment, "position": item["position"]} for item in header["items"] for segment in item.get("segments", [])
    ]


def placed_items(transmissions: Sequence[Mapping[str, Any]], buffer: Mapping[str, int]) -> list[tuple[int, bytes]]:
    """Returns (Position, octets) of each item that the messages of a request carry in receive buffer segments.

    Args:
        transmissions: the fields of the request's messages, in order, as `read_message` returns them.
        buffer: the segments for bulk data in a receive buffer, if there are any: "segments" is their number,
            "segment_at" the offset of the first one in octets, "segment_octets" the length of each.

    Raises:
        RemoteProtocolError: a segment does not exist or is too short, an item names more segments than there are, the
            items exceed `RAW_CALL_OCTETS_MAX`, or octets between the payload and the first segment are not zero.
    """
    found = []
    items = [item for item in transmissions[0]["header"]["items"] if item["type"] == _IN_SEGMENTS]
    if sum(item["length"] for item in items) > RAW_CALL_OCTETS_MAX:
        raise RemoteProtocolError(f"the items have more than {RAW_CALL_OCTETS_MAX} octets")
    for item in items:
        if len(item["numbers"]) > len(transmissions) * buffer.get("segments", 0):
            raise RemoteProtocolError(f"an item has {len(item['numbers'])} segments, and there are fewer")
        data = b"".join(_segment_octets(transmissions, number, buffer) for number in item["numbers"])
        data = data[item["offset"] : item["offset"] + item["length"]]
        if len(data) < item["length"]:
            raise RemoteProtocolError(f"an item of {item['length']} octets has {len(data)} in its segments")
        found.append((item["position"], data))
    return found


def _segment_octets(transmissions: Sequence[Mapping[str, Any]], number: int, buffer: Mapping[str, int]) -> bytes:
    index, place = divmod(number, buffer.get("segments", 1))
    if "segments" not in buffer or index >= len(transmissions):
        raise RemoteProtocolError(f"the number of a segment is {number}, and there are fewer")
    message = transmissions[index]
    body, start = message["body"], buffer["segment_at"] - message["header_octets"]
    if any(body[message["header"]["payload_octets"] : start]):
        raise RemoteProtocolError("octets between the payload and the segments are not zero")
    at = start + place * buffer["segment_octets"]
    return bytes(body[at : at + buffer["segment_octets"]])


def joined_call(body: bytes, parts: Sequence[tuple[int, bytes]]) -> bytes:
    """Returns the whole RPC call: `body` with the octets of Read chunks inserted at their Positions and padded.

    `parts` has (Position, octets) of each segment; segments of the same Position are joined in the order of `parts`. A
    part at Position 0 is the call itself without its items, and takes the place of `body`.

    Raises:
        RemoteProtocolError: a Position is within another chunk or beyond the end.
    """
    chunks: dict[int, bytes] = {}
    for position, data in parts:
        chunks[position] = chunks.get(position, b"") + data
    stream = chunks.pop(0, body)
    joined = b""
    for position, data in sorted(chunks.items()):
        if not len(joined) <= position <= len(joined) + len(stream):
            raise RemoteProtocolError(f"a Read chunk has the Position {position}, which no item can have")
        ahead = position - len(joined)
        joined += stream[:ahead] + data + bytes(-len(data) % 4)
        stream = stream[ahead:]
    return joined + stream


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedReply:
    """A reply to a call, as it is to be sent.

    Attributes:
        header: the fields of the transport header, without the XID.
        body: the part that is sent inline.
        writes: (segment, octets) of each RDMA Write that has to precede the reply.
        refused_octets: the length of the RPC reply if an error is sent instead of it; otherwise 0.
    """

    header: Mapping[str, Any]
    body: bytes = b""
    writes: Sequence[tuple[Segment, bytes]] = field(default=())
    refused_octets: int = 0


def planned_reply(version: str, call: Mapping[str, Any], reply: bytes, inline_octets: int) -> PlannedReply:
    """Returns header, inline part and RDMA Writes of the reply to a call, with the chunks that the call offers.

    The data of NFSv3 READ and READLINK are placed in the first Write chunk (RFC 8267 section 6.1) if they fit there;
    the reply returns other Write chunks unused. The result is an error message if the rest fits neither inline nor into
    the Reply chunk. It is also an error message for a request of the round-trip extension that directs where results
    are placed: the client may repeat such a request in plain messages.

    Args:
        version: the protocol version, "1" or "2".
        call: the fields of the call, as `read_message` returns them, with those of the whole RPC message in "rpc".
        reply: the octets of the RPC reply message.
        inline_octets: the length of the largest message that the client receives.
    """
    header = call["header"]
    if header.get("directions"):
        return _without_room(version, reply)
    chunks = [list(chunk) for chunk in header.get("writes", [])]
    item = _bulk_item(call["rpc"], reply) if chunks else None
    writes: list[tuple[Segment, bytes]] = []
    if item is not None and item[1] <= sum(segment["length"] for segment in chunks[0]):
        start, length = item
        writes = _spread(reply[start : start + length], chunks[0])
        reply = reply[:start] + reply[start + length + (-length % 4) :]
    used = {id(segment): len(data) for segment, data in writes}
    told: dict[str, Any] = {**_REPLY[version]}
    told["writes"] = [[{**segment, "length": used.get(id(segment), 0)} for segment in chunk] for chunk in chunks]
    segments = sum(len(chunk) for chunk in chunks)
    if _REPLY_HEADER_OCTETS[version] + 16 * segments + 8 * len(chunks) + len(reply) <= inline_octets:
        return PlannedReply(header=told, body=reply, writes=writes)
    room = header.get("reply")
    if room is None or sum(segment["length"] for segment in room) < len(reply):
        return _without_room(version, reply)
    pieces = _spread(reply, room)
    long = {id(segment): len(data) for segment, data in pieces}
    told["type"] = _LONG_REPLY
    told["reply"] = [{**segment, "length": long.get(id(segment), 0)} for segment in room]
    return PlannedReply(header=told, writes=[*writes, *pieces])


def _without_room(version: str, reply: bytes) -> PlannedReply:
    header = {**_NO_ROOM[version], "numbers": [] if version == "1" else [len(reply)]}
    return PlannedReply(header=header, refused_octets=len(reply))


def _spread(data: bytes, segments: Sequence[Segment]) -> list[tuple[Segment, bytes]]:
    """Divides `data` among the segments in their order (RFC 8166 section 3.4.6).

    Returns (segment, octets) of each segment that gets octets. Octets for which there is no room are dropped.
    """
    pieces = []
    for segment in segments:
        piece, data = data[: segment["length"]], data[segment["length"] :]
        if piece:
            pieces.append((segment, piece))
    return pieces


def _bulk_item(call: Mapping[str, Any], reply: bytes) -> tuple[int, int] | None:
    """Returns start and length, in octets, of the data in a successful reply to NFSv3 READ or READLINK.

    Returns None for other replies. `call` has the fields of the RPC call, as `read_rpc` returns them. `reply` is the
    RPC reply message, from whose first octet the start counts.
    """
    procedure = call.get("program"), call.get("version"), call.get("procedure")
    # Verifier and accept status; then the status of the procedure, and whether attributes follow it.
    start = 24 + int.from_bytes(reply[16:20])
    if procedure not in {_READ, _READLINK} or any(reply[start - 4 : start + 4]):
        return None
    at = start + 8 + (_ATTRIBUTES_OCTETS if any(reply[start + 4 : start + 8]) else 0)
    at += 8 if procedure == _READ else 0
    length = int.from_bytes(reply[at : at + 4])
    return (at + 4, length) if at + 4 + length <= len(reply) else None
