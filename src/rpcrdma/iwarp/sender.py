"""The sending half of full operation: from work requests and RDMA Reads of the peer to FPDUs.

Segments are made when the driver asks for octets, not when work is posted: `next_gather` returns a gather list for one
`sendmsg`, in which each FPDU is a small piece with its headers, views of the payload, and a small piece with padding
and CRC. The list stays the same until `bytes_sent`.

Work is sent in the order of posting, RDMA Read Responses in the order of the requests. The two take turns, message by
message, since DDP does not mix the segments of two messages (RFC 5041 section 5.3). An RDMA Read beyond the agreed
depth stops the send queue until an earlier one is answered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from rpcrdma.errors import LocalProtocolError, RemoteAccessError
from rpcrdma.iwarp.framing import (
    CRC,
    NO_CRC,
    PADS,
    build_fpdu,
    build_marked_fpdu,
    size_fpdu,
)
from rpcrdma.iwarp.outbound import Outbound, ReadResponse, ResponseSource, build_tagged_run
from rpcrdma.iwarp.segments import (
    LAST,
    READ_HEADER_OCTETS,
    READ_RESPONSE,
    SEQUENCE_MASK,
    TAGGED,
    TAGGED_CONTROL,
    TAGGED_OCTETS,
    TERMINATE,
    UNTAGGED,
    UNTAGGED_CONTROL,
    UNTAGGED_OCTETS,
    WRITE,
)
from rpcrdma.iwarp.terminate import TerminateMessage, encode_terminate
from rpcrdma.iwarp.work import ReadWork, Work
from rpcrdma.verbs.protection_domain import Access, SoftwareProtectionDomain
from rpcrdma.verbs.queue_pair import Completion, Status
from rpcrdma.wire.buffers import Buffer
from rpcrdma.wire.checksum import crc32c

__all__ = ["Sender"]

_JOINED_OCTETS_MAX = 512
"""Payload of up to this length is copied into one piece with its headers: cheaper than a longer gather list."""

_GATHER_PIECES_MAX = 448
"""Pieces beyond which no further FPDU is begun: with those of one FPDU more, the list stays below half of IOV_MAX."""

_FPDU_PIECES_MAX = 60
"""The payload of one FPDU in more pieces than this, which are therefore small, is copied into one."""

_TERMINATE_QUEUE = 2


class Sender:
    """The sending half of an iWARP connection: turns posted work and due Read Responses into FPDUs for the driver.

    While `open` is False, no FPDU is built. `send_queue` is work that has not begun, `responses` are the Read Responses
    that are due to the peer. `current` is work of which some FPDUs are built; None without it. `reads` are RDMA Reads
    of this side that have begun and are not answered. `drained` is True once a disconnect is the first entry of
    `send_queue`, so that all work before it is built. `in_flight` is work that has begun and is not completed, in the
    order of posting. `out` holds the octets that are built and not yet sent.

    Args:
        pd: the protection domain of the connection.
        completions: the completion queue, to which completions of work are appended.
        flush_each_message: whether a gather list stops at the end of a message.
    """

    __slots__ = (
        "_completions",
        "_frame_max",
        "_message_ended",
        "_msn",
        "_one_message",
        "_pd",
        "_piece",
        "_piece_start",
        "_position",
        "_responding",
        "_response_turn",
        "_stream",
        "_tagged_max",
        "_untagged_max",
        "crc",
        "current",
        "drained",
        "in_flight",
        "markers",
        "open",
        "out",
        "outbound_reads",
        "reads",
        "responses",
        "send_queue",
    )

    def __init__(
        self, pd: SoftwareProtectionDomain, completions: deque[Completion], *, flush_each_message: bool
    ) -> None:
        self._pd = pd
        self._completions = completions
        self._one_message = flush_each_message
        self.send_queue: list[Work] = []
        self.in_flight: deque[Work] = deque()
        # Few at a time, and none on most connections: empty lists take less memory than empty deques.
        self.reads: list[ReadWork] = []
        self.responses: list[ReadResponse] = []
        self._response_turn = True
        # The message that is partly built: `current`, or (`_responding`) the first of `responses`; the octets of it
        # that are built; the buffer of its gather list that comes next, and the first octet of that buffer to be sent.
        self.current: Work | None = None
        self._responding = False
        self._position = 0
        self._piece = 0
        self._piece_start = 0
        self._message_ended = False
        self.out = Outbound(pd)
        # Position in full operation, where markers count from.
        self._stream = 0
        self._msn = [1, 1]
        self._frame_max = 0
        self._tagged_max = 0
        self._untagged_max = 0
        self.crc = True
        self.markers = False
        self.open = False
        self.drained = False
        self.outbound_reads = 0

    def start(self, mulpdu: int, outbound_reads: int, *, crc: bool, markers: bool) -> None:
        """Stores the terms of full operation, on which MPA start-up has agreed; leaves `open` unchanged.

        Args:
            mulpdu: the octets of the largest ULPDU (MULPDU).
            outbound_reads: the RDMA Reads that this side may have outstanding (ORD); 0: it may send none.
            crc: whether FPDUs have CRCs.
            markers: whether this side inserts markers into its stream.
        """
        self.crc = crc
        self.markers = markers
        self.outbound_reads = outbound_reads
        # Without padding: a full FPDU then fills a TCP segment to the last octet (RFC 5044 section 5.1).
        self._tagged_max = mulpdu - TAGGED_OCTETS & ~3
        self._untagged_max = mulpdu - UNTAGGED_OCTETS & ~3
        self._frame_max = size_fpdu(mulpdu)

    @property
    def under_way(self) -> bool:
        """Whether some, but not all, FPDUs of a message are built."""
        return self.current is not None or self._responding

    def next_gather(self, max_octets: int) -> list[Buffer]:
        """Returns the gather list of the octets to send; empty if there are none.

        Octets of an earlier call that are not all sent are returned again, whatever `max_octets` is. Otherwise further
        FPDUs are built: at most `max_octets` in all, unless the first FPDU alone is longer.

        Raises:
            TerminateFault: memory was invalidated while an RDMA Read of it was being answered.
            LocalProtocolError: an RDMA Read was posted to a peer that takes none.
        """
        out = self.out
        if out.pieces:
            source = out.renew(crc=self.crc)
            if source is not None:
                _, response, position = source
                handle, offset = response.header.source_handle, response.header.source_offset + position
                raise response.broken_off(position, RemoteAccessError("invalid handle", handle, offset))
            return out.pieces
        if not self.open:
            return out.pieces
        pieces = out.pieces
        end = out.built + max_octets - self._frame_max
        while not pieces or (out.built <= end and len(pieces) < _GATHER_PIECES_MAX):
            begun = self.current is not None or self._responding
            if not begun and (not (self.send_queue or self.responses) or not self._next_message()):
                break
            if self._responding:
                self._build_response(end)
            else:
                self._build_work(end)
            if self._message_ended and self._one_message:
                break
        return pieces

    def _next_message(self) -> bool:
        """Chooses the next message to build, by turns from work and Read Responses; returns False if none may be sent.

        Work that is chosen moves from `send_queue` to `current` and `in_flight`.

        Raises:
            LocalProtocolError: an RDMA Read was posted to a peer that takes none.
        """
        self._position = 0
        if self.responses and (self._response_turn or not self.send_queue):
            self._response_turn = False
            self._responding = True
            return True
        self._response_turn = True
        if not self.send_queue:
            return False
        work = self.send_queue[0]
        if isinstance(work, ReadWork):
            if len(self.reads) >= self.outbound_reads:
                self._wait(work)
                self._responding = bool(self.responses)
                return self._responding
            self.reads.append(work)
        elif work.verb is None:
            self._wait(work)
            return False
        self.send_queue.pop(0)
        self.in_flight.append(work)
        self.current = work
        self._piece = self._piece_start = 0
        return True

    def _wait(self, work: Work) -> None:
        """Handles work that cannot begin, which stays in `send_queue`: a disconnect sets `drained`, a Read only waits.

        `work`: the first work, which the caller found to be a disconnect or an RDMA Read beyond the agreed depth.

        Raises:
            LocalProtocolError: an RDMA Read was posted to a peer that takes none.
        """
        if work.verb is None:
            self.drained = True
        elif not self.outbound_reads:
            raise LocalProtocolError("an RDMA Read was posted, but the peer takes none")

    def _build_work(self, end: int) -> None:
        """Builds the next FPDU of the work under way (`current`), and appends it to the octets for the driver (`out`).

        Of an RDMA Write of more than 512 octets from one buffer, without markers, further FPDUs are built as well:
        those that begin at or before position `end` of the stream, unless the gather list gets too long.
        """
        work = self.current
        assert work is not None
        position = self._position
        octets = work.length - position
        # This holds for all FPDUs of such a message, also for a short last one.
        if work.control == WRITE and len(work.gather) == 1 and work.length > _JOINED_OCTETS_MAX and not self.markers:
            left = memoryview(work.gather[0])[position:]
            self.out.append_run(*self._build_run(WRITE, work.handle, work.offset + position, left, end))
            if self._message_ended:
                work.end = self.out.built
                self.current = None
            return
        if work.control == WRITE:
            last = octets <= self._tagged_max
            if not last:
                octets = self._tagged_max
            control = TAGGED_CONTROL | LAST if last else TAGGED_CONTROL
            header = TAGGED.pack(TAGGED_OCTETS + octets, control, WRITE, work.handle, work.offset + position)
        elif isinstance(work, ReadWork):
            self._build_read_request(work)
            return
        else:
            last = octets <= self._untagged_max
            if not last:
                octets = self._untagged_max
            control = UNTAGGED_CONTROL | LAST if last else UNTAGGED_CONTROL
            header = UNTAGGED.pack(
                UNTAGGED_OCTETS + octets, control, work.control, work.handle, 0, self._msn[0], position
            )
            if last:
                self._msn[0] = self._msn[0] + 1 & SEQUENCE_MASK
        if octets == work.length:
            pieces = work.gather
        else:
            pieces = self._pieces(work.gather, octets)
            self._position = position + octets
        if octets <= _JOINED_OCTETS_MAX and not self.markers:
            pad = PADS[len(header) + octets & 3]
            frame = b"".join((header, *pieces, pad))
            frame += CRC.pack(crc32c(frame)) if self.crc else NO_CRC
            self.out.append((frame,), len(frame))
        else:
            self._append(header, pieces, octets, None)
        self._message_ended = last
        if last:
            work.end = self.out.built
            self.current = None

    def _build_run(
        self, control: int, handle: int, offset: int, left: memoryview, end: int
    ) -> tuple[list[Buffer], list[int]]:
        """Builds FPDUs of the tagged message under way, at least one, and advances the position in the message.

        Returns the gather list, and the length of each FPDU in octets; the caller appends them to `out`.

        Args:
            control: the RDMAP control octet.
            handle: the STag.
            offset: the tagged offset of `left`.
            left: the rest of the message, for which no FPDUs are built yet.
            end: the last position of the stream at which a further FPDU may begin.
        """
        out = self.out
        room = end - out.built, _GATHER_PIECES_MAX - len(out.pieces)
        pieces, sizes = build_tagged_run(control, handle, offset, left, self._tagged_max, room, crc=self.crc)
        octets = min(len(left), len(sizes) * self._tagged_max)
        self._position += octets
        self._message_ended = octets == len(left)
        return pieces, sizes

    def _build_read_request(self, work: ReadWork) -> None:
        msn = self._msn[1]
        self._msn[1] = msn + 1 & SEQUENCE_MASK
        octets = UNTAGGED_OCTETS + READ_HEADER_OCTETS
        header = UNTAGGED.pack(octets, UNTAGGED_CONTROL | LAST, work.control, 0, 1, msn, 0)
        self._append(header, work.gather, READ_HEADER_OCTETS, None)
        self.current = None
        self._message_ended = True

    def _build_response(self, end: int) -> None:
        """Builds the next FPDU of the oldest due Read Response, and appends it to the octets for the driver (`out`).

        Without markers, further FPDUs of the response are built as well: those that begin at or before position `end`
        of the stream, unless the gather list gets too long. The payloads are views of the source region. The peer's
        right to read the region is checked once a call: no region can be invalidated while the FPDUs are built. Raises
        TerminateFault if the peer may not read the region any more.
        """
        response = self.responses[0]
        sink_handle, sink_offset, length, source_handle, source_offset = response.header
        position = self._position
        octets = length - position
        if not octets:
            header = TAGGED.pack(TAGGED_OCTETS, TAGGED_CONTROL | LAST, READ_RESPONSE, sink_handle, sink_offset)
            self._append(header, (), 0, None)
            self._end_response()
            return
        try:
            view = self._pd.find(source_handle, source_offset + position, octets, Access.REMOTE_READ)
        except RemoteAccessError as error:
            raise response.broken_off(position, error) from None
        region = self._pd.regions[source_handle]
        # A sink offset that wraps is the peer's, which asked for it (RFC 5040 section 4.4: copied, not interpreted).
        offset = sink_offset + position & 0xFFFFFFFFFFFFFFFF
        if not self.markers:
            pieces, sizes = self._build_run(READ_RESPONSE, sink_handle, offset, view, end)
            self.out.append_run(pieces, sizes, (region, response, position), self._tagged_max)
        else:
            self._message_ended = octets <= self._tagged_max
            octets = min(octets, self._tagged_max)
            control = TAGGED_CONTROL | LAST if self._message_ended else TAGGED_CONTROL
            header = TAGGED.pack(TAGGED_OCTETS + octets, control, READ_RESPONSE, sink_handle, offset)
            self._append(header, (view[:octets],), octets, (region, response, position))
            self._position = position + octets
        if self._message_ended:
            self._end_response()

    def _end_response(self) -> None:
        self._message_ended = True
        self._responding = False
        self.responses.pop(0)

    def _pieces(self, gather: Sequence[Buffer], octets: int) -> list[Buffer]:
        """Returns buffers with the next `octets` octets of `gather`, and advances the position in it.

        `gather` is the data of the work under way, which is not copied.
        """
        pieces: list[Buffer] = []
        index, start = self._piece, self._piece_start
        while octets:
            piece = gather[index]
            have = len(piece) - start
            if have > octets:
                pieces.append(memoryview(piece)[start : start + octets])
                start += octets
                break
            if have:
                pieces.append(memoryview(piece)[start:] if start else piece)
            octets -= have
            index += 1
            start = 0
        self._piece, self._piece_start = index, start
        return pieces

    def _append(self, header: bytes, pieces: Sequence[Buffer], octets: int, source: ResponseSource | None) -> None:
        """Appends an FPDU to the octets for the driver (`out`).

        Args:
            header: the length field and DDP header of the FPDU.
            pieces: the payload of the FPDU, as buffers in order.
            octets: the length of the payload.
            source: for an FPDU of a Read Response the region that its payload shows, the response, and the offset of
                the payload in the response; None for other FPDUs.
        """
        if len(pieces) > _FPDU_PIECES_MAX:
            pieces = (b"".join(pieces),)
        total = len(header) + octets
        if self.markers:
            fpdu, position = build_marked_fpdu((header, *pieces), total, self._stream, crc=self.crc)
            length = position - self._stream
            self._stream = position
        else:
            fpdu = build_fpdu((header, *pieces), total, crc=self.crc)
            length = (total + 3 & ~3) + 4
        self.out.append(fpdu, length, source)

    def read_answered(self) -> None:
        """Marks the oldest unanswered RDMA Read as answered, and appends the completions that are then due."""
        self.reads.pop(0).done = True
        self.report()

    def report(self, octets: int | None = None) -> None:
        """Appends a SUCCESS completion to the completion queue for each work that has ended, in the order of posting.

        Work ends once TCP has taken its last octet, an RDMA Read once it is answered; work behind work that has not
        ended waits. Unsignaled work gets no completion. `octets`: the number of octets that TCP has taken since the
        last call, counted as sent here; None if they are counted already.
        """
        out = self.out
        if octets is not None:
            out.bytes_sent(octets)
        in_flight, sent = self.in_flight, out.sent
        while in_flight:
            work = in_flight[0]
            if isinstance(work, ReadWork):
                if not work.done:
                    return
            elif not work.end or work.end > sent:
                return
            in_flight.popleft()
            if work.signaled and not work.internal:
                assert work.verb is not None
                self._completions.append(Completion(work.wr, work.verb, Status.SUCCESS, work.length))

    def refuse(self, terminate: TerminateMessage) -> None:
        """Gives the status REMOTE_ACCESS to the work that the peer's Terminate refuses, for its completion by `flush`.

        The refused work is the RDMA Write that the Terminate quotes or, if it quotes no tagged segment, the oldest RDMA
        Read. No effect if it quotes a Send or a completed Write, and unless the code is an RDMAP remote protection
        error or, for a Write, a DDP tagged buffer error.
        """
        if not 0x0100 <= terminate.code <= 0x01FF and not 0x1100 <= terminate.code <= 0x11FF:
            return
        segment = terminate.ddp_header
        if len(segment) != TAGGED_OCTETS:
            # Reads are answered in order: the refused one is the first, unless the segment was a Send with Invalidate.
            if self.reads and terminate.code < 0x1000 and segment[6:10] != bytes(4):
                self.reads[0].status = Status.REMOTE_ACCESS
            return
        handle = int.from_bytes(segment[2:6], "big")
        offset = int.from_bytes(segment[6:14], "big")
        for work in self.in_flight:
            if work.control == WRITE and work.handle == handle and 0 <= offset - work.offset <= work.length:
                work.status = Status.REMOTE_ACCESS
                return

    def flush(self) -> None:
        """Completes all unfinished work in the order of posting, as FLUSHED or with the status that `refuse` has set.

        Unsignaled work gets a completion, too. Due Read Responses are dropped. No FPDU is built afterwards (`open` is
        False), except that of `last_words`. Octets that are built stay in `out`.
        """
        for work in (*self.in_flight, *self.send_queue):
            if work.verb is not None and not work.internal:
                self._completions.append(Completion(work.wr, work.verb, work.status))
        self.in_flight.clear()
        self.send_queue.clear()
        self.reads.clear()
        self.responses.clear()
        self.current = None
        self._responding = False
        self.open = False

    def stop(self) -> None:
        """Drops all octets that are built and not sent; called after `flush`, so that nothing is sent any more."""
        self.out.built = self.out.sent
        self.out.clear()

    def last_words(self, terminate: TerminateMessage) -> None:
        """Drops the FPDUs of which no octet is sent, and appends a Terminate as the last message; called after `flush`.

        The unsent rest of an FPDU that is partly sent precedes the Terminate, as a copy, since its memory belongs to
        the upper layer again. If its payload is in an invalidated region, neither is sent: the stream ends inside the
        FPDU, which the peer will not deliver.
        """
        forgotten = self.out.cut()
        if forgotten is None:
            return
        self._stream -= forgotten
        payload = encode_terminate(terminate)
        header = UNTAGGED.pack(
            UNTAGGED_OCTETS + len(payload), UNTAGGED_CONTROL | LAST, TERMINATE, 0, _TERMINATE_QUEUE, 1, 0
        )
        self._append(header, (payload,), len(payload), None)
