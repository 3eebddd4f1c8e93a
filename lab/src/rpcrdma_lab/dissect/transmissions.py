"""Joins and checks groups: requests and responses of the round-trip extension in several transmissions.

The checks: the transmissions of a group follow each other, the receiver accepts them, and the response follows the
directions of its request. `placement` finds the bulk data.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from rpcrdma_lab import limits
from rpcrdma_lab.dissect.fields import Field, FieldFault
from rpcrdma_lab.dissect.headers import Header, MemorySegment
from rpcrdma_lab.dissect.placement import Part, PlacedItem, Structure, check_places, find_parts, lay_out, structure_of
from rpcrdma_lab.dissect.sequences import Piece, is_grant

__all__ = ["REPORT", "TRANSMISSIONS", "Transmissions"]

_REQUEST, _RESPONSE, _CONTINUE = "ROPT_XMTREQ", "ROPT_XMTRESP", "ROPT_XMTCONT"
TRANSMISSIONS = {_REQUEST: "optxrq", _RESPONSE: "optxrs", _CONTINUE: "optxc"}
"""The header types that carry a part of an RPC message, with the prefix of their field names."""
REPORT = "ROPT_REPTERR"
_RESPONSE_CODE = 0x102
_REQUIREMENTS = {
    "rtrext 6.2": "RT-5",
    "rtrext 8.4": "RT-11",
    "rtrext 8.5": "RT-11",
    "rtrext 9.1": "RT-30",
    "rtrext 9.3": "RT-18",
    "rtrext 9.4": "RT-13",
}
"""Identifiers in the conformance ledger of the rules that are checked here, by section."""
_SECTIONS = {_REQUEST: "rtrext 9.2", _RESPONSE: "rtrext 9.3", _CONTINUE: "rtrext 9.4"}
_SUPPORT = {_REQUEST: 1, _RESPONSE: 2, _CONTINUE: 4}
"""The bit of the property RTRSUPP by header type."""

_EXPLICIT, _SEGMENTS, _TOO_SHORT, _NO_ITEM = 1, 2, 5, 6
_RESULTS = {
    1: {_EXPLICIT, _TOO_SHORT, _NO_ITEM},
    2: {_SEGMENTS, _TOO_SHORT, _NO_ITEM},
    3: {_EXPLICIT, _SEGMENTS, _TOO_SHORT, _NO_ITEM},
    4: {_EXPLICIT, _SEGMENTS, _TOO_SHORT, _NO_ITEM},
}
"""The allowed types of result items by type of direction (the table in rtrext 7.4)."""


class _Direction(NamedTuple):
    least: int
    kind: int


class _Asked(NamedTuple):
    """The terms of a request for its response: the place of each result item, and the number of its messages.

    `directions` has one direction for each item. The response may take `extra` messages (transmissions) beside the
    first one.
    """

    directions: list[_Direction]
    extra: int


@dataclass(slots=True)
class _Told:
    """The round-trip properties that an end has announced, or their defaults.

    The end accepts requests of up to `request_limit` messages (transmissions), and sends responses of up to
    `response_limit`.
    """

    structure: Structure | None = None
    support: int = 0
    request_limit: int = 1
    response_limit: int = 1


@dataclass(slots=True)
class _Group:
    xid: int | None
    kind: str
    code: int
    count: int
    parts: dict[int, list[Part]] | None
    reads: list[tuple[int, MemorySegment]]
    writes: list[list[MemorySegment]]
    response: bool | None
    number: int = 0
    octets: int = 0
    start: bytearray = field(default_factory=bytearray)


class Transmissions:
    """The state of the round-trip extension on one connection, by which its transmissions are joined and checked.

    For each end it has the unfinished group (the transmissions that carry one RPC message), the properties of the
    extension that the end has announced, and what the end's unanswered requests prescribe for their responses.
    `Sequences` joins the continued messages of RPC-over-RDMA version 2.
    """

    def __init__(self) -> None:
        self._told: dict[int, _Told] = {}
        self._groups: dict[int, _Group] = {}
        self._asked: dict[tuple[int, int | None], _Asked] = {}
        self._unsure: set[int] = set()

    def lose(self) -> None:
        """Notes that octets are missing in the capture: drops the unfinished RPC messages in several transmissions."""
        self._groups.clear()

    def take_properties(self, end: int, header: Header) -> None:
        """Stores the round-trip properties of `end` (0 or 1) from an RDMA2_CONNPROP whose values are decoded.

        Headers of other types are ignored. Faults of a receive buffer structure are added to `header`.
        """
        if not header.kind.startswith("RDMA2_CONNPROP") or header.find("rdma_props") is None:
            return
        told = self._told.setdefault(end, _Told())
        for one in header.group.walk():
            if one.name == "rtr_structure":
                told.structure, wrong = structure_of(one)
                one.faults += wrong
                header.faults += [FieldFault("rtr_structure", one.offset, why, "rtrext 8.3") for why in wrong]
            elif isinstance(one.value, int) and one.name in {
                "rtr_support",
                "rtr_request_limit",
                "rtr_response_limit",
            }:
                setattr(told, one.name.removeprefix("rtr_"), one.value)

    def add(self, end: int, header: Header, data: bytes, piece: Piece, *, late: bool) -> Piece:
        """Joins a message to its group, the transmissions that carry one RPC message; changes and returns `piece`.

        `piece` gets the counts and the joined payload of the group, and faults. Messages that are no transmissions of
        the round-trip extension belong to no group. Of these, a report (ROPT_REPTERR) ends the unfinished group of the
        report's receiver, errors, mere grants of credits and messages with faults end none, and all others end the
        unfinished group of their sender, which is a fault. A transmission with faults in its header ends that group
        without a further fault.

        Args:
            end: the sender, 0 or 1.
            header: the decoded header; the last transmission gets the chunks of the first one.
            data: the whole message.
            piece: the result of `Sequences.add` for the message.
            late: whether groups may have begun before the capture.
        """
        prefix = TRANSMISSIONS.get(header.kind)
        if prefix is None or header.faults:
            return self._other(end, header, piece)
        number = header.number(f"{prefix}_xnum")
        if header.kind == _CONTINUE:
            group = self._continued(end, header, number, piece, late=late)
        else:
            group = self._begun(end, header, prefix, piece)
        self._check_receiver(end, header, piece)
        octets = min(header.number(f"{prefix}_pslen"), len(data) - header.size)
        payload = data[header.size : header.size + octets]
        _show(header, data, octets, group, piece)
        if group is None:
            piece.complete = piece.begins_rpc = False
            return piece
        if group.number and octets and not group.octets:
            _fault(header, piece, f"{prefix}_pslen", "the payload begins in the first transmission", "rtrext 9.1")
        group.octets += octets
        group.start += payload[: limits.DISSECTED_MESSAGE_OCTETS_MAX - len(group.start)]
        group.number += 1
        piece.complete = group.number >= group.count
        piece.pieces, piece.octets, piece.start = group.number, group.octets, b""
        piece.begins_rpc = bool(group.octets) and (piece.complete or group.number == 1)
        if piece.begins_rpc:
            piece.start = bytes(group.start)
        if group.count > 1:
            piece.note = f"transmission {group.number - 1} of {group.count}: {group.octets} octets of payload so far"
        if piece.complete:
            header.reads, header.writes = group.reads, group.writes
            del self._groups[end]
        return piece

    def _other(self, end: int, header: Header, piece: Piece) -> Piece:
        if header.kind == REPORT and not header.faults:
            self._groups.pop(1 - end, None)
            self._unsure.add(1 - end)
        elif header.faults or header.kind.endswith("_ERROR") or is_grant(header):
            # A grant or an error is no message within a group. An unreadable message may be one.
            if header.kind in TRANSMISSIONS and self._groups.pop(end, None) is not None:
                self._unsure.add(end)
        else:
            self._end_unfinished(end, piece, "rtrext 4.2")
        return piece

    def _end_unfinished(self, end: int, piece: Piece, section: str) -> None:
        group = self._groups.pop(end, None)
        if group is not None:
            reason = f"the group with XID {group.xid or 0:#010x} has not ended"
            piece.faults.append(FieldFault("rdma_htype", 12, reason, section, "RT-2"))

    def _begun(self, end: int, header: Header, prefix: str, piece: Piece) -> _Group:
        self._end_unfinished(end, piece, "rtrext 9.5")
        self._unsure.discard(end)
        count = header.number(f"{prefix}_count")
        entries = header.entries(f"{prefix}_ddp")
        items = [item for entry in entries if (item := _placed(entry)) is not None]
        structure = self._structure(end)
        group = self._groups[end] = _Group(
            header.xid,
            header.kind,
            header.number("rdma_htype"),
            count,
            None if structure is None and items else find_parts(items, structure or ()),
            header.reads,
            header.writes,
            header.response,
        )
        if structure is not None and count:
            by_name = {entry.name: entry for entry in entries}
            for item, name, reason in check_places(items, structure, count):
                section = "rtrext 6.2" if name == "xmdl_bsnum" else "rtrext 7.3"
                _fault(header, piece, name, reason, section, by_name[item.name])
        if header.kind == _REQUEST:
            self._check_request(end, header, count, piece)
        else:
            self._check_response(end, header, count, entries, piece)
        return group

    def _continued(self, end: int, header: Header, number: int, piece: Piece, *, late: bool) -> _Group | None:
        group = self._groups.get(end)
        begun_by = header.number("optxc_itype")
        if group is None:
            if end not in self._unsure and not late:
                _fault(header, piece, "rdma_htype", "there is no group to be continued", "rtrext 9.4")
            if header.response is not None and header.response != (begun_by == _RESPONSE_CODE):
                reason = "RESPONSE does not fit to what is continued"
                _fault(header, piece, "rdma_flags", reason, "version-two-00 6.3.2")
            return None
        wrong = [
            ("rdma_xid", header.xid != group.xid, f"the group has XID {group.xid or 0:#010x}"),
            ("optxc_xnum", number != group.number, f"transmission {group.number} is next"),
            ("optxc_itype", begun_by != group.code, f"the group has begun with {group.kind}"),
            ("rdma_flags", header.response != group.response, "RESPONSE does not fit to the group"),
        ]
        broken = [(name, reason) for name, is_wrong, reason in wrong if is_wrong]
        for name, reason in broken:
            _fault(header, piece, name, reason, "rtrext 9.4")
        if not broken:
            return group
        del self._groups[end]
        self._unsure.add(end)
        return None

    def _structure(self, sender: int) -> Structure | None:
        told = self._told.get(1 - sender)
        return told.structure if told is not None else None

    def _check_receiver(self, end: int, header: Header, piece: Piece) -> None:
        told = self._told.get(1 - end)
        if told is not None and not told.support & _SUPPORT[header.kind]:
            _fault(header, piece, "rdma_htype", f"the receiver does not take {header.kind}", "rtrext 8.2")

    def _check_request(self, end: int, header: Header, count: int, piece: Piece) -> None:
        told = self._told.get(1 - end)
        if told is not None and count > told.request_limit:
            reason = f"{count} transmissions, the receiver takes {told.request_limit}"
            _fault(header, piece, "optxrq_count", reason, "rtrext 8.4")
        directions = []
        for entry in header.entries("optxrq_rsd"):
            for one in entry.entries("xmdrsds_items"):
                kind = one.number("xmdrsdi_loc", "xmdrsdl_type")
                directions.append(_Direction(one.number("xmdrsdi_minlen") or 0, kind or 0))
        self._asked[end, header.xid] = _Asked(directions, header.number("optxrq_rsbuf"))
        while len(self._asked) > limits.CAPTURE_CALLS_MAX:
            del self._asked[next(iter(self._asked))]

    def _check_response(self, end: int, header: Header, count: int, entries: list[Field], piece: Piece) -> None:
        told = self._told.get(end)
        if told is not None and count > told.response_limit:
            reason = f"{count} transmissions, the sender has said {told.response_limit}"
            _fault(header, piece, "optxrs_count", reason, "rtrext 8.5")
        asked = self._asked.pop((1 - end, header.xid), None)
        if asked is None:
            return
        if count > asked.extra + 1:
            reason = f"{count} transmissions, the request allows {asked.extra + 1}"
            _fault(header, piece, "optxrs_count", reason, "rtrext 9.3")
        if len(entries) != len(asked.directions):
            reason = f"{len(entries)} items, the request has {len(asked.directions)} directions"
            _fault(header, piece, "optxrs_ddp", reason, "rtrext 7.4")
            return
        for number, (entry, direction) in enumerate(zip(entries, asked.directions, strict=True), 1):
            kind, length = entry.number("xmdmi_where", "xmdl_type"), entry.number("xmdmi_length") or 0
            if kind not in _RESULTS.get(direction.kind, set()):
                reason = f"item {number}: the request's direction does not allow this"
                _fault(header, piece, "xmdl_type", reason, "rtrext 7.4", entry)
            elif kind in {_EXPLICIT, _SEGMENTS} and length < direction.least:
                reason = f"item {number}: {length} octets, the request places {direction.least} or more"
                _fault(header, piece, "xmdmi_length", reason, "rtrext 7.4", entry)
            elif kind == _TOO_SHORT and length >= direction.least:
                reason = f"item {number}: {length} octets are not too short, the request places {direction.least}"
                _fault(header, piece, "xmdmi_length", reason, "rtrext 7.4", entry)


def _placed(entry: Field) -> PlacedItem | None:
    """Returns the item that the field `entry` describes if its data are in receive buffer segments; otherwise None."""
    placed, length = entry.member("xmdmi_where", "xmdl_placed"), entry.number("xmdmi_length")
    if placed is None or length is None:
        return None
    numbers = [one.value for one in placed.entries("xmdl_bsnum") if isinstance(one.value, int)]
    return PlacedItem(entry.name, length, placed.number("xmdl_offset") or 0, tuple(numbers))


def _show(header: Header, data: bytes, octets: int, group: _Group | None, piece: Piece) -> None:
    """Adds annotated fields for the octets after the header, and facts about them, to `piece`.

    `data` is the whole message, and `octets` the length of its payload. `group` is the state of the RPC message that
    the transmission belongs to; None: unknown.
    """
    if octets:
        payload = Field("payload", header.size, octets, shown=f"{octets} octets", meaning="of the RPC message")
        payload.section = _SECTIONS[header.kind]
        piece.behind.append(payload)
    parts = None
    if group is not None and group.parts is not None:
        parts = group.parts.get(group.number, ())
    fields, faults = lay_out(parts, data, header.size + octets)
    piece.behind += fields
    piece.faults += faults
    piece.facts["payload_octets"] = octets
    if group is not None:
        piece.facts["transmission"] = {"number": group.number, "count": group.count}
        piece.facts["placed_octets"] = sum(one.size for one in fields if one.name.startswith("item"))
        piece.facts["padding_octets"] = sum(one.size for one in fields if one.name == "padding")


def _fault(header: Header, piece: Piece, name: str, reason: str, section: str, within: Field | None = None) -> None:
    """Adds a fault to `piece`, and its reason to the first field `name` in `within` (None: in the whole header).

    Without such a field the fault's offset is 0. `section` states the broken rule.
    """
    found = next((one for one in (within or header.group).walk() if one.name == name), None)
    if found is not None:
        found.faults.append(reason)
    offset = found.offset if found is not None else 0
    piece.faults.append(FieldFault(name, offset, reason, section, _REQUIREMENTS.get(section, "")))
