"""The transport headers of all versions as tables: for each type of header, its fields in the order of the wire.

Version 1 is that of RFC 8166 section 4, version 2 of draft-ietf-nfsv4-rpcrdma-version-two-00 sections 6 and 7, with the
types of the round-trip extension, from 0x101 on. Kinds of fields: `word` and `half` are numbers of 32 and 16 bits;
`reads`, `writes` and `chunk` are the lists of chunks; `properties` the transport properties; `numbers` all words up to
the end; `items`, `directions`, `transmission` and `lead` those of the extension.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

__all__ = ["LAYOUTS", "Fields", "VersionHeaders", "is_call", "is_continued", "version_of_first"]

Fields = tuple[tuple[str, str], ...]
"""The fields of a header in wire order, each as its name and its kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionHeaders:
    """The table of the transport headers of one protocol version.

    `prefix` are the fields with which all headers begin, and `bodies` the fields after these, by number of the header
    type. A header of a type that is not in `bodies` is encoded with the fields of the type `usual`, and decoded only as
    far as `prefix`. `names` are the names of types by number. `defaults` are the values of fields that a conversation
    leaves out, except "xid", for which the conversation's own XID stands, and "payload_octets", which is the length of
    the message's payload. Fields without a default are then zero or empty.
    """

    prefix: Fields
    bodies: Mapping[int, Fields]
    names: Mapping[int, str]
    usual: int
    defaults: Mapping[str, int]
    idle: frozenset[int] = field(default_factory=frozenset)
    """Types of headers that a server may send between any two answers, and that a step therefore skips."""


_CHUNKS: Fields = (("reads", "reads"), ("writes", "writes"), ("reply", "chunk"))
_ERROR: Fields = (("error", "word"), ("numbers", "numbers"))
_START: Fields = (("xid", "word"), ("version", "word"))
_PROPERTIES: Fields = (("properties", "properties"),)
_CALL: Fields = (("invalidate", "word"),)
_PAYLOAD: Fields = (("payload_octets", "word"),)
_ROUND_TRIP_BODIES: Mapping[int, Fields] = {
    0x101: (("items", "items"), ("directions", "directions"), ("count", "word"), ("extra_receives", "word"), *_PAYLOAD),
    0x102: (("items", "items"), ("count", "word"), *_PAYLOAD),
    0x103: (("number", "word"), ("begun_by", "word"), *_PAYLOAD),
    0x104: (("bad", "transmission"), ("lead", "lead"), ("fault", "word"), ("numbers", "numbers")),
}
_ROUND_TRIP_NAMES = {0x101: "ROPT_XMTREQ", 0x102: "ROPT_XMTRESP", 0x103: "ROPT_XMTCONT", 0x104: "ROPT_REPTERR"}

_VERSION_1 = VersionHeaders(
    prefix=(*_START, ("credit", "word"), ("type", "word")),
    bodies=MappingProxyType(
        {0: _CHUNKS, 1: _CHUNKS, 2: (("align", "word"), ("threshold", "word"), *_CHUNKS), 3: (), 4: _ERROR}
    ),
    names=MappingProxyType({0: "RDMA_MSG", 1: "RDMA_NOMSG", 2: "RDMA_MSGP", 3: "RDMA_DONE", 4: "RDMA_ERROR"}),
    usual=0,
    defaults=MappingProxyType({"version": 1, "credit": 32}),
)

_VERSION_2 = VersionHeaders(
    prefix=(*_START, ("pool", "half"), ("give", "half"), ("type", "word"), ("flags", "word")),
    bodies=MappingProxyType({0: _CALL + _CHUNKS, 1: _CALL + _CHUNKS, 4: _ERROR, 5: _PROPERTIES, **_ROUND_TRIP_BODIES}),
    names=MappingProxyType(
        {0: "RDMA2_MSG", 1: "RDMA2_NOMSG", 4: "RDMA2_ERROR", 5: "RDMA2_CONNPROP", **_ROUND_TRIP_NAMES}
    ),
    usual=0,
    defaults=MappingProxyType({"version": 2, "pool": 64, "give": 4}),
    idle=frozenset({5}),
)

LAYOUTS: Mapping[str, VersionHeaders] = MappingProxyType({"1": _VERSION_1, "2": _VERSION_2})
"""The headers of each protocol version, "1" or "2"."""


def version_of_first(message: bytes) -> str:
    """Returns the protocol version of a client's first message: "2" if its field rdma_vers is 2, otherwise "1"."""
    return "2" if message[4:8] == b"\0\0\0\2" else "1"


def is_continued(version: str, header: Mapping[str, Any]) -> bool:
    """Returns whether the RPC message continues in further messages: the flag MORE is set; False in version "1".

    `version` is "1" or "2", and `header` has the fields of the transport header by name.
    """
    return version == "2" and bool(header.get("flags", 0) & 2)


def is_call(version: str, message: Mapping[str, Any]) -> bool:
    """Returns whether a message carries an RPC call or the beginning of one.

    In version "1", these are RDMA_MSG without an RPC message of direction 1 (a reply), and RDMA_NOMSG with a Read list.
    In version "2", the header type has to be RDMA2_MSG, RDMA2_NOMSG or ROPT_XMTREQ, and the flag RESPONSE clear.
    `message` has the fields of a well-formed message, as `read_message` returns them.
    """
    header = message["header"]
    if version == "1":
        # A long reply has no Read list (RFC 8166 section 4.3.1).
        replies = message.get("rpc", {}).get("direction") == 1 if header.get("type") == 0 else not header.get("reads")
        return header.get("type") in {0, 1} and not replies
    return header.get("type") in {0, 1, 0x101} and not header["flags"] & 1
