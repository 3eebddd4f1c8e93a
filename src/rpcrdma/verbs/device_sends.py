"""The send queue of an RDMA device's queue pair: the memory of posted work, its division, and its order of completion.

Short data is copied into registered slots; other data is pinned until its work request has completed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from rpcrdma.verbs.binding import Binding, Entry, MemoryWindow, SendWork
from rpcrdma.verbs.device_memory import DeviceProtectionDomain, MemorySlot, MemorySlots, Pinned
from rpcrdma.verbs.queue_pair import Completion, Status, Verb
from rpcrdma.wire.buffers import Buffer

__all__ = ["OWN", "SENDS_MAX", "SEND_ENTRIES_MAX", "SLOT_OCTETS", "DeviceSend", "DeviceSends"]

SENDS_MAX = 128
"""Work requests in the device's send queue; further ones wait here."""
SEND_ENTRIES_MAX = 16
"""Pieces of memory that one Send or RDMA Write gathers; a longer Write is divided."""
SLOT_OCTETS = 4096 + 512
"""Up to this length, 4 KiB of data and its headers, a copy costs less than a registration."""
OWN = object()
"""The identifier of work requests that the owner of the queue pair has not posted; it gets no completion of them."""


class DeviceSend:
    """Work of the send queue, posted as one or more work requests of the device, of which `left` have not completed.

    `wr` is the identifier that the completion repeats, `status` the outcome: FLUSHED until it is known. `verb` None
    stands for the binding of a memory window. `length` counts octets. Work that is not `signaled` completes only if it
    fails. Short data is copied into `slot` (registered memory of SLOT_OCTETS), None for other work; `pinned` has the
    registrations of longer data.
    """

    __slots__ = ("left", "length", "pinned", "signaled", "slot", "status", "verb", "wr")

    def __init__(self, wr: object, verb: Verb | None, length: int, *, signaled: bool) -> None:
        self.wr = wr
        self.verb = verb
        self.length = length
        self.signaled = signaled
        self.pinned: list[Pinned] = []
        self.slot: MemorySlot | None = None
        self.left = 0
        self.status = Status.FLUSHED


class DeviceSends:
    """The send queue of a device's queue pair.

    `queued` is the work that has not completed, in the order of posting; `unposted` are work requests that wait for
    room in the device, which still takes `room` of them. `message_octets` is the longest that all ports take.
    """

    __slots__ = ("_binding", "_entries", "_pd", "_reads", "_slots", "message_octets", "queued", "room", "unposted")

    def __init__(self, pd: DeviceProtectionDomain, binding: Binding) -> None:
        device = pd.device
        self._pd = pd
        self._binding = binding
        self._entries = min(SEND_ENTRIES_MAX, device["max_entries"])
        self.message_octets = min((port["max_message_octets"] for port in device["ports"]), default=1 << 30)
        self._slots = MemorySlots(pd, SLOT_OCTETS, 0)
        self._reads = 0
        self.room = min(SENDS_MAX, device["max_queue_pair_work"])
        self.queued: deque[DeviceSend] = deque()
        self.unposted: deque[SendWork] = deque()

    def pinned(self, send: DeviceSend, gather: Sequence[Buffer]) -> list[Entry]:
        """Returns the gather list of work in registered memory, as (region, start in it, octets).

        `send`: the work. `gather`: its data. Data of at most `SLOT_OCTETS` is copied into a registered slot. Longer
        data of an RDMA Write is registered where it lies, that of a Send as one copy. The memory belongs to `send`
        until `release`, also after an error.

        Raises:
            LocalProtocolError: no more memory can be registered.
            MemoryError: the system gives no more memory.
        """
        if send.length <= SLOT_OCTETS:
            send.slot = slot = self._slots.take()
            start = 0
            for piece in gather:
                slot.view[start : start + len(piece)] = piece
                start += len(piece)
            return [slot.entry(start)]
        if send.verb is Verb.SEND:
            gather = [b"".join(gather)]
        entries: list[Entry] = []
        for piece in gather:
            if piece:
                pinned = self._pd.pin(piece, 0)
                send.pinned.append(pinned)
                entries.append((pinned.region, pinned.start, len(piece)))
        return entries

    def queue(self, send: DeviceSend, opcode: int, entries: list[Entry], handle: int, offset: int) -> None:
        """Queues work requests for `send`: several if it is longer, or has more entries, than one may have.

        The caller makes sure that a Send has one entry of at most `message_octets` octets, since each work request
        would be a message. `next_works` returns the work requests that are to be posted.

        Args:
            send: the work.
            opcode: the opcode of the work requests.
            entries: the scatter or gather list, as (region, start in it, octets).
            handle: the peer's handle; for a Send the handle that it invalidates, or 0 for none.
            offset: the peer's offset of the first octet.
        """
        self.queued.append(send)
        if len(entries) <= self._entries and send.length <= self.message_octets:
            send.left = 1
            self.unposted.append((send, tuple(entries), opcode, handle, offset))
            return
        for part in _divided(entries, self._entries, self.message_octets):
            send.left += 1
            self.unposted.append((send, tuple(part), opcode, handle, offset))
            offset += sum(octets for _, _, octets in part)

    def bind(self, window: MemoryWindow, entry: Entry, handle: int, rights: int) -> None:
        """Queues the binding of a memory window.

        Args:
            window: the window.
            entry: the memory: (region, start in it, octets).
            handle: the new handle of the window.
            rights: the remote rights, from `Right`.
        """
        send = DeviceSend(OWN, None, 0, signaled=False)
        send.left = 1
        self.queued.append(send)
        self.unposted.append((send, (entry,), self._binding.BIND_WINDOW, handle, rights, window))

    def unbind(self, window: MemoryWindow) -> None:
        """Withdraws the queued binding of a memory window; no effect if it was posted to the device already."""
        for work in self.unposted:
            if work[-1] is window:
                assert isinstance(work[0], DeviceSend)
                self.unposted.remove(work)
                self.queued.remove(work[0])
                break

    def next_works(self, reads_max: int) -> list[SendWork]:
        """Removes and returns the oldest unposted work requests, at most as many as the device has room for.

        The caller passes them to `QueuePairHandle.post_sends`. Stops before an RDMA Read that would exceed `reads_max`,
        the RDMA Reads that may be outstanding; 0 counts as 1.
        """
        unposted = self.unposted
        works: list[SendWork] = []
        while unposted and self.room:
            if unposted[0][2] == self._binding.RDMA_READ:
                # Without any slot the device says that the Read is invalid.
                if self._reads >= max(1, reads_max):
                    break
                self._reads += 1
            works.append(unposted.popleft())
            self.room -= 1
        return works

    def done(self, send: DeviceSend, completions: deque[Completion]) -> None:
        """Counts a completed work request of `send`; with the last one, releases the memory of `send` and finishes it.

        Completions of finished signaled work are appended to `completions` in the order of posting: one waits until all
        earlier work has finished.
        """
        self.room += 1
        self._reads -= send.verb is Verb.RDMA_READ
        send.left -= 1
        if send.left:
            return
        self.release(send)
        send.status = Status.SUCCESS
        # Linux's siw reports a Send before an RDMA Read that was posted earlier.
        while self.queued and self.queued[0].status is Status.SUCCESS:
            first = self.queued.popleft()
            if first.signaled and first.verb is not None:
                completions.append(Completion(first.wr, first.verb, Status.SUCCESS, first.length))

    def flush(self, completions: deque[Completion]) -> None:
        """Ends all work of the send queue, in the order of posting: releases its memory, appends its completions.

        Work that has failed completes with its status, signaled work that is done and waited for earlier work with
        SUCCESS, all other work as FLUSHED, unsignaled or not. Unsignaled work that is done, bindings of memory windows
        and work with the identifier OWN get no completion.
        """
        self.unposted.clear()
        while self.queued:
            send = self.queued.popleft()
            self.release(send)
            done = send.status is Status.SUCCESS
            if send.verb is not None and send.wr is not OWN and (send.signaled or not done):
                completions.append(Completion(send.wr, send.verb, send.status, send.length if done else 0))

    def release(self, send: DeviceSend) -> None:
        """Ends the registrations that `pinned` made for `send`, and gives its slot back to the pool."""
        while send.pinned:
            self._pd.unpin(send.pinned.pop())
        if send.slot is not None:
            self._slots.give_back(send.slot)
            send.slot = None

    def close(self) -> None:
        """Drops the registered slots; to be called after `flush`."""
        self._slots = MemorySlots(self._pd, SLOT_OCTETS, 0)


def _divided(entries: Iterable[Entry], entries_max: int, octets_max: int) -> list[list[Entry]]:
    """Divides a gather or scatter list, entry by entry and within entries; returns at least one list, perhaps empty.

    Each list has at most `entries_max` entries (region, start in it, octets) with `octets_max` octets together.
    """
    lists: list[list[Entry]] = [[]]
    room = octets_max
    for region, start, octets in entries:
        left = octets
        while left:
            if len(lists[-1]) == entries_max or not room:
                lists.append([])
                room = octets_max
            part = min(left, room)
            lists[-1].append((region, start + octets - left, part))
            left -= part
            room -= part
    return lists
