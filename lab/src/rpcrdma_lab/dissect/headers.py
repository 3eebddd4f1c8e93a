"""The transport headers of RPC-over-RDMA messages, of every version, as annotated fields."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from rpcrdma_lab.dissect.definitions import Definition, Note, definition
from rpcrdma_lab.dissect.fields import Field, FieldFault
from rpcrdma_lab.dissect.xdr_walk import Walk

if TYPE_CHECKING:
    from rpcrdma.extension import Extension, HeaderRow, PropertyRow

__all__ = ["Header", "HeaderVersion", "MemorySegment", "header_versions", "walk_header", "walk_message_header"]

_VERSION_RANGE = struct.Struct(">IIIIIII")
_FIXED_OCTETS = 16
_EXTENSION = "rpcrdma_rtr"
_TRANSMISSIONS = frozenset({"ROPT_XMTREQ", "ROPT_XMTRESP", "ROPT_XMTCONT"})
_RESPONSE = 1


class MemorySegment(NamedTuple):
    """A segment of a chunk: handle, length in octets, and offset of memory of the requester."""

    handle: int
    length: int
    offset: int


@dataclass(frozen=True, slots=True)
class HeaderVersion:
    """A version of RPC-over-RDMA for the decoder: name ("1" or "2"), number on the wire, and XDR definition.

    `type_field` is the XDR name of the field with the header type. `with_payload` are the names of the header types
    after which octets of an RPC message may follow.
    """

    name: str
    number: int
    definition: Definition
    type_field: str
    with_payload: frozenset[str]
    extensions: tuple[Extension, ...] = ()
    """The extensions whose header types, properties and errors are known beside the definition."""

    @property
    def title(self) -> str:
        """The name of the version's headers for readers, such as "RPC-over-RDMA version 1"."""
        return f"RPC-over-RDMA version {self.name}"

    def row(self, code: int | None) -> HeaderRow | None:
        """Returns the row of header type `code` in an extension; None if no extension defines it, or `code` is None."""
        return next((row for one in self.extensions for row in one.headers if row.code == code), None)

    def property_row(self, number: int) -> PropertyRow | None:
        """Returns the row that describes transport property `number` in an extension; None if no extension has it."""
        return next((row for one in self.extensions for row in one.properties if row.number == number), None)


def header_versions(extensions: Sequence[Extension] = ()) -> dict[str, HeaderVersion]:
    """Returns the two protocol versions that the decoder knows, by name, "1" and "2".

    Args:
        extensions: extensions whose header types, properties and error codes are added to version 2.
    """
    added = {
        "header_type": {row.code: row.name for one in extensions for row in one.headers},
        "property_id": {row.number: row.name for one in extensions for row in one.properties},
        "error_code": {row.code: row.name for one in extensions for row in one.errors},
    }
    versions = _versions()
    for version in versions.values() if extensions else ():
        if version.number == 2:
            codes = {name: {**codes, **added.get(name, {})} for name, codes in version.definition.codes.items()}
            extended = replace(version.definition, codes=codes)
            versions[version.name] = replace(version, definition=extended, extensions=tuple(extensions))
    return versions


def _versions() -> dict[str, HeaderVersion]:
    return {
        "1": HeaderVersion("1", 1, definition("rpcrdma1"), "rdma_proc", frozenset({"RDMA_MSG", "RDMA_MSGP"})),
        "2": HeaderVersion(
            "2",
            2,
            definition("rpcrdma2", _EXTENSION),
            "rdma_htype",
            frozenset({"RDMA2_MSG"}) | _TRANSMISSIONS,
        ),
    }


@dataclass(slots=True)
class Header:
    """A decoded transport header, as far as it could be decoded.

    `group` has its annotated fields, `size` is its length in octets, and `kind` the name of its type, "" if unknown.
    `faults` are the reason why the decoding ended early, and the rules that the header breaks. `reads` has (Position,
    segment) of each entry of the Read list, `writes` the segments of each Write chunk, and `reply` the segments of the
    Reply chunk; None if the header has no Reply chunk. Segments of the requester's memory in headers of the
    round-trip extension are in `reads` and `writes`, too.
    """

    version: HeaderVersion
    group: Field
    faults: list[FieldFault]
    size: int
    kind: str = ""
    reads: list[tuple[int, MemorySegment]] = field(default_factory=list)
    writes: list[list[MemorySegment]] = field(default_factory=list)
    reply: list[MemorySegment] | None = None
    row: HeaderRow | None = None
    """The row of the header type, if an extension of `version.extensions` defines it; otherwise None."""

    @property
    def xid(self) -> int | None:
        """The XID of the transport header; None if the message ends before the XID does."""
        return self.group.number("rdma_xid")

    @property
    def segments(self) -> list[MemorySegment]:
        """The segments of all chunks: Read list, Write list and Reply chunk."""
        return [
            *(segment for _, segment in self.reads),
            *(segment for chunk in self.writes for segment in chunk),
            *(self.reply or ()),
        ]

    @property
    def response(self) -> bool | None:
        """Whether the flag RESPONSE of version 2 is set; None if the header has no flags, as in version 1."""
        flags = self.find("rdma_flags")
        return None if flags is None else bool(self.number("rdma_flags") & _RESPONSE)

    def find(self, *names: str) -> Field | None:
        """Returns the first field at any level of the header whose name is one of `names`; None if there is none."""
        return next((one for one in self.group.walk() if one.name in names), None)

    def entries(self, *names: str) -> list[Field]:
        """Returns the fields of the list that `find` finds; [] if there is none."""
        found = self.find(*names)
        return found.fields if found is not None else []

    def number(self, name: str) -> int:
        """Returns the number in the first field named `name` at any level; 0 if there is none, or it has no number."""
        found = self.find(name)
        return found.value if found is not None and isinstance(found.value, int) else 0

    def fault(self, name: str, reason: str, section: str, requirement: str = "") -> None:
        """Adds a fault to `faults` of the header, and `reason` to the first field of this name, if there is one.

        Without such a field the fault's offset is 0. `section` states the broken rule, and `requirement` is its
        identifier in the conformance ledger or "".
        """
        found = self.find(name)
        if found is not None:
            self.fault_at(found, reason, section, requirement)
        else:
            self.faults.append(FieldFault(name, 0, reason, section, requirement))

    def fault_at(self, where: Field, reason: str, section: str, requirement: str = "") -> None:
        """Adds a fault to `faults` of the header, and `reason` to its field `where`.

        `section` states the broken rule, and `requirement` is its identifier in the conformance ledger or "".
        """
        where.faults.append(reason)
        self.faults.append(FieldFault(where.name, where.offset, reason, section, requirement))


def walk_header(version: HeaderVersion, data: bytes) -> Header:
    """Decodes the transport header at the start of `data` by the XDR definition of `version`.

    `faults` of the result say why the decoding ended early, and which single values are wrong. Another version number
    in the header, or an unknown header type, is a fault, and only the fixed fields are decoded then. An RDMA_ERROR of
    version 1 may have any version number, since it may repeat the number of the refused message. The properties of an
    RDMA2_CONNPROP with the flag MORE are not decoded.
    """
    walk = Walk(version.definition, data)
    group = walk.structure("prefix", version.title)
    header = Header(version, group, walk.faults, walk.pos)
    if walk.faults:
        return header
    code = group.number(version.type_field)
    assert code is not None
    header.kind = version.definition.codes["header_type"].get(code, "")
    if group.number("rdma_vers") != version.number and not (version.number == 1 and header.kind == "RDMA_ERROR"):
        section = version.definition.note("prefix", "rdma_vers").section
        requirement = "V1-40" if version.number == 1 else ""
        header.fault("rdma_vers", f"{version.number} is needed", section, requirement)
        return header
    if not header.kind:
        section = version.definition.note("prefix", version.type_field).section
        header.fault(version.type_field, f"{code} is no type of header", section)
        return header
    if header.number("rdma_flags") & 2 and header.kind == "RDMA2_CONNPROP":
        # A part of a property set, cut anywhere: it is read when it is whole.
        return header
    return _with_body(header, walk)


def _with_body(header: Header, walk: Walk) -> Header:
    version = header.version
    body = header.kind.lower()
    if body in version.definition.classes:
        header.group.fields += walk.structure(body).fields
    header.row = version.row(header.number(version.type_field)) if version.extensions else None
    if header.row is not None:
        header.group.fields.append(walk.rest("body"))
    elif header.kind not in version.with_payload:
        note = version.definition.note("header_type", header.kind)
        walk.done(header.kind, Note("", note.section))
    header.size = header.group.size = walk.pos
    if not header.faults:
        _check_values(header)
    _collect_chunks(header)
    return header


def walk_message_header(data: bytes, versions: dict[str, HeaderVersion]) -> Header:
    """Decodes the transport header at the start of `data` by the version number in the header.

    A header of an unknown version is decoded as version 1: an RDMA_ERROR whole, another header as far as its fixed
    fields, with a fault. An error that refuses a version is decoded as version 1 even if its version number is 2.
    `versions` is a result of `header_versions`.
    """
    if len(data) == _VERSION_RANGE.size:
        _, number, _, kind, code, low, high = _VERSION_RANGE.unpack(data)
        # Refusals of a version look the same in all versions. In version 2 these octets could also say something else,
        # but not with a range in them (RFC 8166 section 7).
        if number != 1 and kind == 4 and code == 1 and low in {1, 2} and low <= high:
            return walk_header(versions["1"], data)
    number = int.from_bytes(data[4:8], "big") if len(data) >= 8 else 1
    if number == 2:
        return walk_header(versions["2"], data)
    header = walk_header(versions["1"], data)
    if number != 1 and header.kind != "RDMA_ERROR" and header.faults:
        header.group.name = "RPC-over-RDMA of an unknown version"
        header.group.fields = header.group.fields[: _FIXED_OCTETS // 4]
    return header


def _check_values(header: Header) -> None:
    """Adds to `header.faults` wrong single values: Positions, error codes, directions (request or response)."""
    for one in header.group.walk():
        codes = header.version.definition.codes
        if one.name in {"position", "rdma_position"} and isinstance(one.value, int) and one.value & 3:
            requirement = "V1-21" if header.version.number == 1 else ""
            header.fault_at(one, "a Position is a multiple of 4", one.section, requirement)
        if one.name == "rdma_err" and one.value not in codes["error_code"]:
            header.fault_at(one, "this version has no such code", one.section)
        if one.name == "xmsi_dir" and one.value not in codes["transmission_direction"]:
            header.fault_at(one, "neither a request's nor a response's", one.section)


def _position(entry: Field) -> int:
    return entry.number("position") or entry.number("rdma_position") or 0


def _collect_chunks(header: Header) -> None:
    for entry in header.entries("rdma_reads"):
        segment = _segment(entry.member("target") or entry.member("rdma_target"))
        if segment is not None:
            header.reads.append((_position(entry), segment))
    header.writes = [_segments(entry) for entry in header.entries("rdma_writes", "rdma_provisional_writes")]
    _collect_explicit(header)
    reply = header.find("rdma_reply", "rdma_provisional_reply")
    if reply is not None and reply.fields:
        header.reply = _segments(reply)


def _collect_explicit(header: Header) -> None:
    """Adds the segments of the requester's memory in a header of the round-trip extension to the header's chunks.

    The segments of a request's data items are added to `header.reads`. The segments of each result, in a request or a
    response, become a chunk of `header.writes`.
    """
    for entry in header.entries("optxrq_ddp"):
        position = entry.number("xmdmi_disp") or 0
        header.reads += [(position, segment) for segment in _segments(entry)]
    results = [one for entry in header.entries("optxrq_rsd") for one in entry.entries("xmdrsds_items")]
    for entry in [*results, *header.entries("optxrs_ddp")]:
        if segments := _segments(entry):
            header.writes.append(segments)


def _segments(chunk: Field) -> list[MemorySegment]:
    names = {"target", "rdma_target", "xmdl_ex", "xmdrsdl_ex", "xmdrsdl_bsex"}
    array = next((one for one in chunk.walk() if one.name in names), None)
    found = [_segment(one) for one in array.fields] if array is not None else []
    return [segment for segment in found if segment is not None]


def _segment(target: Field | None) -> MemorySegment | None:
    numbers = [one.value for one in target.fields] if target is not None else []
    if len(numbers) != 3 or not all(isinstance(number, int) for number in numbers):
        return None
    return MemorySegment._make(numbers)
