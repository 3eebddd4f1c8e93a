"""Turns the RDMA messages of one connection into annotated messages, and the octets of iWARP into RDMA messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rpcrdma_lab import limits
from rpcrdma_lab.dissect.conversation import Conversation
from rpcrdma_lab.dissect.fields import Field, FieldFault, Message
from rpcrdma_lab.dissect.headers import HeaderVersion, header_versions
from rpcrdma_lab.dissect.mpa_stream import Fpdu, MpaHalf, MpaTerms, StartupSeen
from rpcrdma_lab.dissect.rdmap_messages import RdmapHalf, RdmapMessage
from rpcrdma_lab.dissect.rpc_body import Interfaces

if TYPE_CHECKING:
    from rpcrdma.extension import Extension

__all__ = ["IwarpConnection", "RdmaConnection", "Settings", "cut_off", "rdma_message"]

_BULK_HEAD_OCTETS = 1024


class Settings:
    """Settings of the decoder: interface definitions, and extensions of version 2 beside the built-in definitions.

    `interfaces` None stands for none: programs and procedures are named by number. The attribute `versions` has the
    versions of RPC-over-RDMA by name, "1" and "2".
    """

    def __init__(self, interfaces: Interfaces | None = None, extensions: Sequence[Extension] = ()) -> None:
        self.versions: dict[str, HeaderVersion] = header_versions(extensions)
        self.interfaces = interfaces or Interfaces()

    def conversation(self) -> Conversation:
        """Returns a new decoder of RPC-over-RDMA messages for one connection, with these settings."""
        return Conversation(self.versions, self.interfaces)


class RdmaConnection:
    """The decoder of one connection over any RDMA transport; `end` is 0 or 1 in its methods."""

    def __init__(self, settings: Settings) -> None:
        self.conversation = settings.conversation()

    def finish(self, end: int, message: Message) -> None:
        """Decodes the RPC-over-RDMA content of a message that `end` (0 or 1) has sent, and adds it to the message.

        An RDMA Read or Write gets the chunk that it serves, if known. Also sets `message.octets`. This decoder has made
        `message`; the caller has set its number and time. Messages about start-up, connection management or gaps stay
        as they are, and a Send that was not captured whole only gets a note.
        """
        rdmap = message.facts.pop("rdmap", None)
        if not isinstance(rdmap, RdmapMessage):
            return
        # A message to named memory is bulk data, or is shown by its fields.
        message.octets = bytes(rdmap.data if rdmap.is_send else rdmap.data[:_BULK_HEAD_OCTETS])
        if rdmap.is_send and len(rdmap.data) < min(rdmap.octets, limits.DISSECTED_MESSAGE_OCTETS_MAX):
            message.notes.append("not captured whole, and not decoded")
            self.conversation.lose()
        elif rdmap.is_send and rdmap.octets and not _misplaced(rdmap):
            self.conversation.send(end, bytes(rdmap.data), message, rdmap.invalidated)
            message.summary = f"{rdmap.name}, {message.summary}"
        else:
            self.conversation.data(end, rdmap, message)


class IwarpConnection(RdmaConnection):
    """The decoder of both directions of an iWARP connection; a message is complete when its last segment is there."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        terms = MpaTerms()
        self.halves = (MpaHalf(terms), MpaHalf(terms))
        self._rdmap = (RdmapHalf(), RdmapHalf())
        self._spoke = [False, False]

    def feed(self, end: int, data: bytes) -> Iterator[Message]:
        """Yields the start-up and RDMA messages that `data`, octets of a TCP segment sent by `end` (0 or 1), complete.

        The caller sets the number and time of each, then calls `finish` with it.
        """
        for unit in self.halves[end].feed(data):
            self._spoke[end] = True
            if isinstance(unit, StartupSeen):
                yield _startup(unit)
                continue
            yield from self._fpdu(end, unit)

    def _fpdu(self, end: int, fpdu: Fpdu) -> Iterator[Message]:
        half = self.halves[end]
        if half.kind is None and not self._rdmap[end].late:
            self._rdmap[end].late = True
            self.conversation.lose()
        whole = self._rdmap[end].add(fpdu)
        if whole is None:
            return
        yield rdma_message(whole)

    def lose(self, end: int, octets: int) -> Message | None:
        """Notes that `octets` octets sent by `end` (0 or 1) are not in the capture.

        Returns a `Message` of protocol "tcp" about the gap; None if the connection is not known to be iWARP.
        """
        known = any(self._spoke) or any(one.unread for one in self.halves)
        self.halves[end].lose()
        if not known:
            return None
        self._rdmap[end].lose()
        self.conversation.lose()
        notes = ["what follows is read from the next whole FPDU on"]
        return Message("tcp", f"{octets} octets are missing in the capture", notes=notes)

    def unfinished(self, end: int) -> Iterator[Message]:
        """Yields messages about the unfinished MPA frame and RDMA messages at the end of the stream of `end` (0 or 1).

        The caller sets the number of each, and does not call `finish` with it.
        """
        half = self.halves[end]
        if half.unread:
            yield Message("mpa", f"{half.unread} octets of an unfinished frame")
        for message in self._rdmap[end].unfinished:
            told = rdma_message(message)
            told.summary = f"unfinished {told.summary}"
            del told.facts["rdmap"]
            yield told


def _startup(seen: StartupSeen) -> Message:
    group = seen.group
    facts: dict[str, object] = {"error": "the connection is rejected"} if group.number("R") else {}
    rejects = ", rejects the connection" if facts else ""
    said = f"{group.name}, revision {group.number('Rev')}{rejects}"
    flags = [name for name in "MCS" if group.number(name)]
    return Message("mpa", f"{said}, flags {' '.join(flags) or 'none'}", groups=[group], faults=seen.faults, facts=facts)


def rdma_message(whole: RdmapMessage, protocol: str = "rdmap", unit: str = "segments") -> Message:
    """Returns an annotated message with the headers, length and opcode of `whole`; the summary names the operation.

    `RdmaConnection.finish` adds the RPC-over-RDMA content later, and deletes the fact "rdmap", in which it finds
    `whole`; without `finish`, the caller deletes it, since it is not for JSON.

    Args:
        whole: the RDMA message.
        protocol: the `protocol` of the result, "rdmap" or "roce".
        unit: the plural noun for the segments or packets of `whole` in the summary.
    """
    parts = f" in {whole.segments} {unit}" if whole.segments > 1 else ""
    said = f"{whole.name}, {whole.octets} octets{parts}"
    facts: dict[str, object] = {"opcode": whole.opcode, "octets": whole.octets, "segments": whole.segments}
    if whole.words:
        said += f": {whole.words}"
        facts["error"] = whole.words
    if whole.name == "RDMA Read Request" and len(whole.groups) > 1:
        facts |= {"handle": whole.handle, "offset": whole.offset, "asked": whole.asked}
    elif whole.name == "RDMA Write" or (whole.name == "RDMA Read Response" and whole.handle):
        facts |= {"handle": whole.handle, "offset": whole.offset}
    message = Message(protocol, said, groups=whole.groups, faults=whole.faults, facts=facts)
    message.facts["rdmap"] = whole
    return message


def _misplaced(rdmap: RdmapMessage) -> bool:
    """Returns whether a message with a Send's opcode is tagged, of a queue other than 0, or shorter than any header."""
    return any(fault.field in {"T", "QN", "ULPDU_Length"} for fault in rdmap.faults)


def cut_off(half: MpaHalf) -> Message | None:
    """Returns a message, with a fault, about the octets of an unfinished frame at the end of an MPA stream.

    Returns None if the stream ends with a whole frame, or the beginning of its next FPDU is unknown.
    """
    if not half.unread or half.lost:
        return None
    reason = f"the stream ends after {half.unread} octets of a frame"
    group = Field("MPA", 0, half.unread, faults=[reason])
    return Message("mpa", reason, groups=[group], faults=[FieldFault("FPDU", 0, reason, "RFC 5044 4.1")])
