"""Joins the pieces of continued messages (version 2), and checks that they belong together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rpcrdma_lab import limits
from rpcrdma_lab.dissect.fields import Field, FieldFault
from rpcrdma_lab.dissect.headers import Header
from rpcrdma_lab.dissect.xdr_walk import Walk

__all__ = ["Piece", "Sequences", "is_grant"]

_MORE = 2
_SET = "RDMA2_CONNPROP"
"""The header type whose payload is part of the header: a property set, which may be cut anywhere."""
_PREFIX_OCTETS = 20
_ONGOING = "continues a message whose beginning is not in the capture"


@dataclass(slots=True)
class Piece:
    """A message's part in a sequence of messages that MORE continues; a message by itself is a complete sequence.

    `complete` says that the sequence ends with this message. `pieces` and `octets` are the number of messages and the
    length of the joined payload so far. `start` is the joined payload up to a bound, in the first message and the last
    one; it begins with an RPC header if `begins_rpc`. `note` is text about the sequence for readers, and `facts` are
    for programs. `behind` has fields for the octets after the header, if these are not payload alone.
    """

    complete: bool = True
    begins_rpc: bool = False
    start: bytes = b""
    pieces: int = 1
    octets: int = 0
    note: str = ""
    faults: list[FieldFault] = field(default_factory=list)
    behind: list[Field] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class _Sequence:
    xid: int | None
    kind: str
    pieces: int = 0
    octets: int = 0
    start: bytearray = field(default_factory=bytearray)


class Sequences:
    """The unfinished sequence of continued messages of each end of a connection.

    `late` says that a sequence may have begun before: the first payload of an end that has another XID than its header
    then continues one whose beginning is not in the capture.
    """

    def __init__(self, *, late: bool = False) -> None:
        self._unfinished: dict[int, _Sequence] = {}
        self._unsure: set[int] = {0, 1} if late else set()

    def add(self, end: int, header: Header, data: bytes, payload: bytes) -> Piece:
        """Joins a message to the sender's unfinished sequence (flag MORE); returns joined payload, its size and faults.

        The joined payload is in the results for the first and the last message of the sequence; others have only sizes.
        A message that neither continues nor is continued is a complete sequence. Error messages, messages that only
        grant credits, and messages with faults in the header belong to no sequence: `Piece()` is returned. But a faulty
        message with the XID of the sequence and without MORE drops the sequence, without a further fault. Any other
        message with another XID or header type than the sequence drops it, too, which is a fault of the result, and
        begins a sequence or is a complete one.

        Args:
            end: the sender, 0 or 1.
            header: the decoded header. The last message of a property set gets the fields of the whole set; faults in
                the header of a message that continues a set are removed, since the set may be cut anywhere.
            data: the whole message.
            payload: the octets of the message after its header.
        """
        with_rpc = header.kind in header.version.with_payload
        sequence = self._unfinished.get(end)
        more = _goes_on(header)
        if sequence is not None and (sequence.xid, sequence.kind) == (header.xid, header.kind) == (header.xid, _SET):
            # The end of a property set makes no sense by itself.
            header.faults.clear()
            header.group.fields = [one for one in header.group.fields if one.offset < _PREFIX_OCTETS]
        elif sequence is not None and header.faults and header.xid == sequence.xid and not more:
            del self._unfinished[end]
        if header.faults or header.kind.endswith(("_ERROR", "_REPTERR")) or is_grant(header):
            # These may stand between the pieces of a sequence, and are none.
            return Piece()
        piece = Piece()
        if sequence is not None and (sequence.xid, sequence.kind) != (header.xid, header.kind):
            reason = f"the sequence with XID {sequence.xid or 0:#010x} has not ended"
            piece.faults.append(FieldFault("rdma_xid", 0, reason, "version-two-00 6.3.2", "V2-41"))
            del self._unfinished[end]
            sequence = None
        if sequence is None:
            if end in self._unsure and header.kind == "RDMA2_MSG" and payload[:4] != data[:4]:
                return Piece(not more, octets=len(payload), note=_ONGOING)
            self._unsure.discard(end)
            if not more:
                begins_rpc = with_rpc and bool(payload)
                return Piece(True, begins_rpc, payload, 1, len(payload), faults=piece.faults)
            sequence = self._unfinished[end] = _Sequence(header.xid, header.kind)
        is_properties = header.kind == _SET
        part = data[_PREFIX_OCTETS:] if is_properties else payload
        sequence.pieces += 1
        sequence.octets += len(part)
        sequence.start += part[: limits.DISSECTED_MESSAGE_OCTETS_MAX - len(sequence.start)]
        if not more:
            del self._unfinished[end]
        piece.complete = not more
        piece.pieces, piece.octets = sequence.pieces, sequence.octets
        if not more or sequence.pieces == 1:
            piece.begins_rpc, piece.start = with_rpc, bytes(sequence.start)
        so_far = f"{piece.pieces} piece{'s' * (piece.pieces > 1)}, {piece.octets} octets"
        piece.note = f"ends a message of {so_far}" if piece.complete else f"goes on in another message: {so_far} so far"
        if piece.complete and is_properties:
            _read_properties(header, piece)
        return piece


def _goes_on(header: Header) -> bool:
    return header.version.number == 2 and bool(header.number("rdma_flags") & _MORE)


def is_grant(header: Header) -> bool:
    """Returns whether a message of version 2 only grants credits: RDMA2_NOMSG with XID 0."""
    return header.kind == "RDMA2_NOMSG" and not header.xid


def _read_properties(header: Header, piece: Piece) -> None:
    """Decodes the joined octets of a property set in several messages; adds the fields and faults to `header`.

    `header` is that of the last message, and `piece.start` has the octets of all messages. If the octets are several
    property sets, one behind the other, all are decoded.
    """
    walk = Walk(header.version.definition, piece.start)
    header.group.fields += walk.structure("rdma2_connprop").fields
    while walk.remaining and not walk.faults:
        header.group.fields += walk.structure("rdma2_connprop").fields
    header.faults += walk.faults
