"""Passive decoder of MPA in a TCP stream: start-up frames, then FPDUs with their CRCs and markers (RFC 5044)."""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from crc32c import crc32c

from rpcrdma_lab.dissect.fields import Field, FieldFault
from rpcrdma_lab.dissect.iwarp_fields import STARTUP_ROWS, StartupKind, enhanced_fields
from rpcrdma_lab.dissect.private_data_fields import private_data_fields

__all__ = ["Fpdu", "MpaHalf", "MpaTerms", "StartupSeen", "Unit"]

_CRC = struct.Struct("<I")
"""The CRC field, the only little-endian one (RFC 5044 section 4.4)."""
_MARKER_SPACING_OCTETS = 512
_PRIVATE_DATA_OCTETS_MAX = 512
_KEY_OCTETS = 16
_TELLING_OCTETS = 8
_SMALLEST_ULPDU = 14
_ENHANCED_OCTETS = 4


@dataclass(slots=True)
class MpaTerms:
    """The start-up frames of both ends of a connection, which determine the use of CRCs and markers.

    `request` and `reply` are None until the frame is decoded, and if it was not captured.
    """

    request: Field | None = None
    reply: Field | None = None

    @property
    def crc(self) -> bool:
        """Whether CRCs are in use: a captured start-up frame has the flag C, or no start-up frame was captured."""
        seen = [frame for frame in (self.request, self.reply) if frame is not None]
        return not seen or any(frame.number("C") for frame in seen)

    def markers_from(self, kind: StartupKind | None) -> bool:
        """Returns whether the sender of the start-up frame `kind` inserts markers: the other end's frame has flag M.

        False if the other end's frame was not captured. `kind` None, an unknown frame, counts as the Reply.
        """
        asked = self.reply if kind is StartupKind.REQUEST else self.request
        return asked is not None and bool(asked.number("M"))


@dataclass(slots=True)
class StartupSeen:
    """A decoded start-up frame: its kind, its annotated fields and its faults."""

    kind: StartupKind
    group: Field
    faults: list[FieldFault]


class Fpdu(NamedTuple):
    """A decoded FPDU without markers.

    `ulpdu` is the length field with the DDP segment, `trailer` the annotated padding and CRC, and `faults` are the
    broken rules of MPA.
    """

    ulpdu: bytes
    trailer: list[Field]
    faults: list[FieldFault]


Unit = StartupSeen | Fpdu


class _State(enum.Enum):
    """The state of the decoder of one direction of an MPA connection."""

    STARTING = "starting"
    """The start-up frame has not been decoded."""
    RUNNING = "running"
    """FPDUs follow."""
    LOST = "lost"
    """The beginning of the next FPDU is unknown."""


@dataclass(slots=True)
class MpaHalf:
    """The decoder of the octets of one direction of an MPA connection.

    `terms` are shared by both directions. `kind` says which start-up frame this direction had; None: none was decoded.
    """

    terms: MpaTerms
    kind: StartupKind | None = None
    _state: _State = _State.STARTING
    _pending: bytearray = field(default_factory=bytearray)
    _position: int = 0
    """The octets after the start-up and before `_pending`, modulo 512, which determine the places of markers."""

    @property
    def lost(self) -> bool:
        """Whether the beginning of the next FPDU is unknown: octets are missing, or the start-up frame is wrong.

        Also if the stream begins with neither a start-up frame nor an FPDU, and so may not be MPA at all.
        """
        return self._state is _State.LOST

    @property
    def unread(self) -> int:
        """The number of octets that `feed` holds of a frame that is not whole yet."""
        return len(self._pending)

    def expect_fpdus_unless_startup(self, start: bytes) -> None:
        """Makes `feed` expect FPDUs at once, unless the stream begins with a start-up key.

        `start` has the first 8 octets of the stream or more; it is not decoded here, and must be fed afterwards.
        """
        if not start.startswith(tuple(kind.value[:_TELLING_OCTETS] for kind in StartupKind)):
            self._state = _State.RUNNING

    def lose(self) -> None:
        """Notes that octets are missing: drops an unfinished frame, and makes `feed` skip octets.

        `feed` skips up to the next TCP segment that begins with a whole FPDU whose CRC is right. In a stream with
        markers it skips all further octets.
        """
        self._state = _State.LOST
        self._pending.clear()

    def feed(self, data: bytes) -> Iterator[Unit]:
        """Yields the decoded start-up frames and FPDUs that `data`, the octets of one TCP segment, complete."""
        if self._state is _State.LOST:
            # Without markers, FPDUs mostly begin where TCP segments do.
            self._pending.clear()
            if not self._starts_here(data):
                return
            self._state = _State.RUNNING
        self._pending += data
        if self._state is _State.STARTING:
            yield from self._startup()
        while self._state is _State.RUNNING:
            fpdu = self._next_fpdu()
            if fpdu is None:
                return
            yield fpdu

    def _starts_here(self, data: bytes) -> bool:
        if self.terms.markers_from(self.kind) or len(data) < 2 + _SMALLEST_ULPDU:
            return False
        octets = _padded(data)
        if len(data) < octets + _CRC.size:
            return False
        return bool(_CRC.unpack_from(data, octets)[0] == crc32c(data[:octets]))

    def _startup(self) -> Iterator[StartupSeen]:
        pending = self._pending
        key = bytes(pending[:_KEY_OCTETS])
        kinds = [kind for kind in StartupKind if kind.value.startswith(key)]
        if not kinds:
            if self._starts_here(bytes(pending)):
                self._state = _State.RUNNING
            else:
                self.lose()
            return
        if len(pending) < STARTUP_ROWS.size:
            return
        kind = kinds[0]
        length = int.from_bytes(pending[18:20])
        if length <= _PRIVATE_DATA_OCTETS_MAX and len(pending) < STARTUP_ROWS.size + length:
            return
        seen = _startup_fields(kind, bytes(pending[: STARTUP_ROWS.size + length]))
        self.kind = kind
        if kind is StartupKind.REQUEST:
            self.terms.request = seen.group
        else:
            self.terms.reply = seen.group
        del pending[: STARTUP_ROWS.size + length]
        harmless = all(fault.field == "Res" for fault in seen.faults)
        self._state = _State.RUNNING if harmless else _State.LOST
        yield seen

    def _next_fpdu(self) -> Fpdu | None:
        if self.terms.markers_from(self.kind):
            return self._next_marked_fpdu()
        pending = self._pending
        if len(pending) < 2:
            return None
        octets = _padded(pending)
        if len(pending) < octets + _CRC.size:
            return None
        digest = _CRC.unpack_from(pending, octets)[0]
        fpdu = self._checked(bytes(pending[:octets]), crc32c(pending[:octets]), digest, [])
        self._consume(octets + _CRC.size)
        return fpdu

    def _next_marked_fpdu(self) -> Fpdu | None:
        """Returns the next FPDU without its markers (one at each 512th octet), or None if it is incomplete."""
        pending = self._pending
        plain = bytearray()
        faults: list[FieldFault] = []
        start = at = 0
        need = 2
        covered = 0
        while True:
            if (self._position + at) % _MARKER_SPACING_OCTETS == 0:
                if len(pending) < at + 4:
                    return None
                if at == start:
                    start += 4
                pointer = int.from_bytes(pending[at + 2 : at + 4]) & ~3
                if pointer != (at - start if at > start else 0):
                    reason = f"it points back {pointer} octets, the FPDU began {max(at - start, 0)} before it"
                    faults.append(FieldFault("marker", at, reason, "RFC 5044 4.3", "MPA-13"))
                if pending[at] or pending[at + 1] or pending[at + 3] & 3:
                    reason = f"reserved bits are set: {pending[at : at + 4].hex()}"
                    faults.append(FieldFault("marker", at, reason, "RFC 5044 4.2", "MPA-10"))
                at += 4
            if len(plain) == need and need > 2:
                covered = at
                break
            room = _MARKER_SPACING_OCTETS - (self._position + at) % _MARKER_SPACING_OCTETS
            part = pending[at : at + min(room, need - len(plain))]
            if not part:
                return None
            plain += part
            at += len(part)
            if len(plain) == 2 and need == 2:
                need = _padded(plain)
                if len(pending) < need + _CRC.size:
                    return None
        if len(pending) < covered + _CRC.size:
            return None
        digest = _CRC.unpack_from(pending, covered)[0]
        fpdu = self._checked(bytes(plain), crc32c(pending[:covered]), digest, faults)
        self._consume(covered + _CRC.size)
        return fpdu

    def _consume(self, octets: int) -> None:
        del self._pending[:octets]
        self._position = (self._position + octets) % _MARKER_SPACING_OCTETS

    def _checked(self, octets: bytes, own: int, digest: int, faults: list[FieldFault]) -> Fpdu:
        crc = Field("CRC", len(octets), _CRC.size, digest, f"{digest:#010x}", "CRC-32C of the FPDU", "RFC 5044 4.4")
        length = int.from_bytes(octets[:2])
        pad = octets[2 + length :]
        trailer = [_padding(pad, 2 + length, faults), crc] if pad else [crc]
        if not self.terms.crc:
            crc.shown += " (CRCs are off)"
        elif digest != own:
            crc.faults.append(f"the octets have {own:#010x}")
            faults.append(FieldFault("CRC", crc.offset, crc.faults[0], crc.section, "MPA-24"))
        else:
            crc.shown += " (good)"
        if length < _SMALLEST_ULPDU:
            reason = f"{length} octets hold no DDP header"
            faults.append(FieldFault("ULPDU_Length", 0, reason, "RFC 5041 4"))
        return Fpdu(octets[: 2 + length], trailer, faults)


def _padding(pad: bytes, offset: int, faults: list[FieldFault]) -> Field:
    found = Field("PAD", offset, len(pad), pad, pad.hex(), "fills the FPDU up to a multiple of four", "RFC 5044 4.1")
    if any(pad):
        found.faults.append("the padding is not zero")
        faults.append(FieldFault("PAD", offset, found.faults[0], found.section, "MPA-8"))
    return found


def _padded(octets: bytes | bytearray) -> int:
    """Returns the octets of an FPDU before its CRC: length field, DDP segment and padding, without markers.

    `octets` begins with the FPDU's length field, which determines the result.
    """
    return int.from_bytes(octets[:2]) + 5 & ~3


def _startup_fields(kind: StartupKind, frame: bytes) -> StartupSeen:
    group, faults = STARTUP_ROWS.read(frame)
    group.name = "MPA Request" if kind is StartupKind.REQUEST else "MPA Reply"
    group.size = len(frame)
    group.fields[0].shown = kind.value.decode()
    _judge(group, faults, "Rev", lambda value: value in {1, 2}, "1 or 2 is needed", "MPA-35")
    short = "at most 512 are allowed"
    _judge(group, faults, "PD_Length", lambda value: value <= _PRIVATE_DATA_OCTETS_MAX, short, "MPA-36")
    start = STARTUP_ROWS.size
    if group.number("S") and (group.number("Rev") or 0) >= 2 and not faults:
        words, more = enhanced_fields(frame[start:])
        group.fields += words.fields
        faults += more
        start += _ENHANCED_OCTETS
    data = frame[start:]
    if data and not faults:
        group.fields.append(private_data_fields(data, start, "RFC 5044 7.1.1"))
    _judge(group, faults, "Res", lambda value: value == 0, "reserved bits are zero", "MPA-35")
    return StartupSeen(kind, group, faults)


def _judge(
    group: Field, faults: list[FieldFault], name: str, right: Callable[[int], bool], reason: str, requirement: str
) -> None:
    field_ = group.member(name)
    if field_ is not None and isinstance(field_.value, int) and not right(field_.value):
        field_.faults.append(f"{field_.value}, {reason}")
        faults.append(FieldFault(name, field_.offset, field_.faults[-1], field_.section, requirement))
