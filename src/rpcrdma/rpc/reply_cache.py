"""Remembers the replies to calls that must not run twice, for requesters that lost their connection and repeat a call.

A repeated call is recognized by its client's address (a new connection comes from another port), its XID, program,
version and procedure, and by length and checksum of the call, credential and data included: another program on that
host may use the same XID, or a restarted one may use it again. Length and checksum are those of the unreduced stream,
so that they do not depend on which items travel in chunks, nor on the handles of the memory that a repeat exposes.
Under RPCSEC_GSS they are those of the unwrapped arguments, and the principal takes the place of the credential.

The checksum always covers all data: 70 us for 1 MiB, a thirtieth of the processor time that a WRITE of it takes. No
shortcut is safe for calls whose credential has a stamp (RFC 5531 appendix A): many clients take their stamp from the
time in seconds, so that two processes of one host can have the same, and a server cannot know which stamps are random.
CRC-32C finds every difference within 32 successive bits, and misses another one by chance, once in 2^32 calls that
share all other properties. A checksum that resists forgery would protect no one: a forger needs the client's address,
from which AUTH_SYS lets it act as any user anyhow.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable
from typing import Any, Generic, NamedTuple, TypeVar

from rpcrdma.limits import (
    REPLY_CACHE_AGE_S,
    REPLY_CACHE_ENTRIES_MAX,
    REPLY_CACHE_OCTETS_MAX,
    REPLY_CACHE_REFUSED_OCTETS_MAX,
    REPLY_CACHE_REPLY_OCTETS_MAX,
    REPLY_CACHE_SMALL_OCTETS,
)
from rpcrdma.rpc.program import Procedure
from rpcrdma.wire.checksum import crc32c
from rpcrdma.xdr.codec import BulkItem, Decoder, Payload, PlacedByPosition

__all__ = ["CallKey", "KnownCall", "RefusedReplies", "ReplyCache", "call_key", "detached"]

K = TypeVar("K", bound=Hashable)

_tuple = tuple.__new__
"""Makes a named tuple without the Python function that its class has for it."""


class CallKey(NamedTuple):
    """The properties by which a server recognizes a repeat of a call: two calls with equal keys are the same call.

    `length` and `checksum` (CRC-32C) are those of the unreduced message or, under RPCSEC_GSS, of its plain arguments.
    """

    client: str
    xid: int
    program: int
    version: int
    procedure: int
    length: int
    checksum: int


def call_key(client: str, xid: int, procedure: Procedure[Any, Any], stream: Decoder, skipped: int = 0) -> CallKey:
    """Returns the key by which a repeat of a decoded call is recognized.

    Args:
        client: the caller's network address without port; under RPCSEC_GSS a space and the principal follow.
        xid: the XID of the call.
        procedure: the procedure.
        stream: the decoder, after decoding: of the whole message or, under RPCSEC_GSS integrity or privacy, of the
            unwrapped arguments. The key has the length and the checksum of its octets and of items in Read chunks.
        skipped: octets at the start that do not count, since they differ in each transmission: under RPCSEC_GSS the
            header of the message or, in unwrapped arguments, the sequence number.
    """
    octets = memoryview(stream.data)[stream.start : stream.end]
    removed = checksum = 0
    at = skipped
    if isinstance(stream.placed, PlacedByPosition):
        for position, item in stream.placed.taken:
            until = position - removed
            checksum = crc32c(item, crc32c(octets[at:until], checksum))
            removed += item.nbytes
            pad = -item.nbytes & 3
            if pad:
                checksum = crc32c(bytes(pad), checksum)
                removed += pad
            at = until
    length, checksum = octets.nbytes + removed - skipped, crc32c(octets[at:], checksum)
    return _tuple(CallKey, (client, xid, procedure.program, procedure.version, procedure.number, length, checksum))


def detached(reply: Payload) -> Payload:
    """Returns the reply with copies of its bulk items, so that it stays valid when the memory of the call is reused.

    A reply without bulk items is returned itself.
    """
    if not reply.items:
        return reply
    copy = Payload(reply.reduced, [BulkItem(item.at, item.position, bytes(item.data)) for item in reply.items])
    copy.begun = reply.begun
    return copy


class KnownCall:
    """A call that runs (`running`) or has been answered, in a `ReplyCache`; `context` is for the cache's owner.

    `reply` is the reply that `ReplyCache.finish` keeps; None while the call runs, and if the reply was too long to keep
    or was dropped. It does not show a reply that `ReplyCache.hold` holds. `answered_at_s` is the time of the answer.
    """

    __slots__ = ("answered_at_s", "context", "key", "reply", "running")

    def __init__(self, key: CallKey) -> None:
        self.key = key
        self.running = True
        self.reply: Payload | None = None
        self.answered_at_s = 0.0
        self.context: Any = None

    def __repr__(self) -> str:
        state = "running" if self.running else "answered" if self.reply is not None else "reply not kept"
        return f"KnownCall(xid={self.key.xid:#010x}, {state})"


class _Client(Generic[K]):
    """The replies held for one client's address, as they exceeded the memory their calls offered; the oldest first."""

    __slots__ = ("octets", "replies")

    def __init__(self) -> None:
        self.replies: dict[K, Payload] = {}
        self.octets = 0


class RefusedReplies(Generic[K]):
    """Replies that exceeded the memory that their calls offered, held until the repeated calls offer more.

    A reply longer than the bound is not held. Beyond the bound, the oldest reply of the client that holds most octets
    is dropped, so that one client rarely displaces the replies of another. That client is sought in the network
    (`network_of`) whose clients together hold most octets.

    Args:
        octets_max: the most octets of all held replies.
    """

    __slots__ = ("_clients", "_octets_max", "octets")

    def __init__(self, octets_max: int) -> None:
        self._octets_max = octets_max
        self._clients: dict[str, _Client[K]] = {}
        self.octets = 0
        """Octets of all that are held."""

    def hold(self, address: str, key: K, reply: Payload) -> None:
        """Holds a reply for the call `key` of the client at `address`, in place of an earlier reply to that call.

        `address` may end in a space and the principal of the client. The reply's memory must not change afterwards. A
        reply over `octets_max` is not held, but the earlier one is dropped. If all replies together exceed
        `octets_max`, the oldest ones of the client that holds most octets are dropped.
        """
        self.drop(address, key)
        if reply.length > self._octets_max:
            return
        own = self._clients.setdefault(address, _Client())
        own.replies[key] = reply
        own.octets += reply.length
        self.octets += reply.length
        if self.octets <= self._octets_max:
            return
        # Imported where it is needed: short commands import this module.
        from rpcrdma.rpc.host_shares import network_of  # noqa: PLC0415

        while self.octets > self._octets_max:
            # The reply that has just come does not count: of equals it is the one that stays.
            others = {name: each.octets - reply.length * (each is own) for name, each in self._clients.items()}
            networks = {name: network_of(name.partition(" ")[0]) for name in others}
            octets = Counter[str]()
            for name, held in others.items():
                octets[networks[name]] += held
            fullest = max(others, key=lambda name: (octets[networks[name]], others[name]))
            self.drop(fullest, next(iter(self._clients[fullest].replies)))

    def find(self, address: str, key: K) -> Payload | None:
        """Returns the reply that `hold` holds for the call `key` of the client at `address`; None if there is none."""
        client = self._clients.get(address)
        return None if client is None else client.replies.get(key)

    def drop(self, address: str, key: K) -> None:
        """Drops the held reply for the call `key` of the client at `address`; has no effect if there is none."""
        client = self._clients.get(address)
        reply = None if client is None else client.replies.pop(key, None)
        if client is None or reply is None:
            return
        client.octets -= reply.length
        self.octets -= reply.length
        if not client.replies:
            del self._clients[address]


class ReplyCache:
    """Running and answered calls by `CallKey`, and their replies; times are seconds of a clock that never runs back.

    `finish` keeps the reply to a call; `hold` holds one for which the call offered too little memory. Answered calls
    over `entries_max` are forgotten with their replies, the oldest first. Kept replies over `octets_max` are dropped,
    the oldest of those over REPLY_CACHE_SMALL_OCTETS first, since a few large ones take the room of many small ones;
    their calls are still known as answered. Running calls do not count: the server bounds them itself.

    Args:
        entries_max: the most answered calls.
        octets_max: the most octets of kept replies.
        reply_octets_max: the most octets of one kept reply; a longer one is not kept, unless `hold` holds it.
        refused_octets_max: the most octets of held replies, which exceeded the memory that their calls offered.
        age_s: seconds for which answered calls are known.
    """

    __slots__ = (
        "_age_s", "_answered", "_entries_max", "_expires_at_s", "_large", "_octets_max", "_refused",
        "_reply_octets_max", "_running", "_small", "octets",
    )  # fmt: skip

    def __init__(
        self,
        *,
        entries_max: int = REPLY_CACHE_ENTRIES_MAX,
        octets_max: int = REPLY_CACHE_OCTETS_MAX,
        reply_octets_max: int = REPLY_CACHE_REPLY_OCTETS_MAX,
        refused_octets_max: int = REPLY_CACHE_REFUSED_OCTETS_MAX,
        age_s: float = REPLY_CACHE_AGE_S,
    ) -> None:
        self._entries_max = entries_max
        self._octets_max = octets_max
        self._reply_octets_max = min(reply_octets_max, octets_max)
        self._age_s = age_s
        self._running: dict[CallKey, KnownCall] = {}
        # All three in the order in which the calls were answered, the oldest first.
        self._answered: dict[CallKey, KnownCall] = {}
        self._small: deque[KnownCall] = deque()
        self._large: deque[KnownCall] = deque()
        self._expires_at_s = 0.0
        """No answered call is forgotten for its age before this time."""
        self._refused: RefusedReplies[CallKey] = RefusedReplies(refused_octets_max)
        self.octets = 0
        """Octets of the replies that are kept."""

    def __len__(self) -> int:
        """Returns the number of known calls, running ones included."""
        return len(self._running) + len(self._answered)

    def find(self, key: CallKey, now_s: float) -> KnownCall | None:
        """Returns the record of the call `key`, if it runs or was answered at most `age_s` before `now_s`; else None.

        None also stands for an answered call that was dropped because of `entries_max`.
        """
        if key in self._running:
            return self._running[key]
        if now_s > self._expires_at_s:
            self._expire(now_s)
        return self._answered.get(key)

    def begin(self, key: CallKey) -> KnownCall:
        """Registers the call `key`, which is about to run, and returns its record; `find` must have returned None."""
        assert key not in self._running
        call = self._running[key] = KnownCall(key)
        return call

    def forget(self, call: KnownCall) -> None:
        """Removes a call that `begin` has registered but that does not run after all."""
        del self._running[call.key]

    def finish(self, call: KnownCall, reply: Payload, now_s: float) -> None:
        """Makes a running call an answered one at the time `now_s`, and keeps the reply.

        A reply over `reply_octets_max` is not kept. A kept reply's memory must not change afterwards. The oldest
        answered calls and kept replies beyond the bounds of the cache are dropped.
        """
        del self._running[call.key]
        call.running = False
        call.answered_at_s = now_s
        if not self._answered:
            self._expires_at_s = now_s + self._age_s
        self._answered[call.key] = call
        length = reply.length
        if length <= self._reply_octets_max:
            call.reply = reply
            kept = self._small if length <= REPLY_CACHE_SMALL_OCTETS else self._large
            kept.append(call)
            self.octets += length
        if now_s > self._expires_at_s:
            self._expire(now_s)
        while len(self._answered) > self._entries_max:
            self._forget(next(iter(self._answered.values())))
        while self.octets > self._octets_max:
            self._let_go((self._large or self._small).popleft())

    def hold(self, call: KnownCall, reply: Payload) -> None:
        """Holds the reply to an answered call that offered too little memory, until `sent` or the call is forgotten.

        Has no effect if the cache no longer knows the call. A reply over `refused_octets_max` is not held. While all
        held replies together exceed this bound, the client whose replies have most octets loses its oldest one.
        """
        if call.key in self._answered:
            self._refused.hold(call.key.client, call.key, reply)

    def held(self, call: KnownCall) -> Payload | None:
        """Returns the reply to an answered call, kept by `finish` or held by `hold`; None if it is in neither place."""
        return self._refused.find(call.key.client, call.key) if call.reply is None else call.reply

    def sent(self, call: KnownCall) -> None:
        """Drops the reply that `hold` holds for a call, as the reply has been sent; no effect if there is none."""
        self._refused.drop(call.key.client, call.key)

    def _expire(self, now_s: float) -> None:
        answered = self._answered
        oldest_s = now_s - self._age_s
        while answered:
            call = next(iter(answered.values()))
            if call.answered_at_s >= oldest_s:
                self._expires_at_s = call.answered_at_s + self._age_s
                break
            self._forget(call)

    def _forget(self, call: KnownCall) -> None:
        """Removes an answered call, which must be the one that was answered first, with its reply."""
        del self._answered[call.key]
        self._refused.drop(call.key.client, call.key)
        if call.reply is not None:
            kept = self._small if self._small and self._small[0] is call else self._large
            assert kept[0] is call
            self._let_go(kept.popleft())

    def _let_go(self, call: KnownCall) -> None:
        assert call.reply is not None
        self.octets -= call.reply.length
        call.reply = None
