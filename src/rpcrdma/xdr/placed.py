"""The padding of items, and items outside of the decoded stream, in Read or Write chunks: a `Decoder` asks for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from rpcrdma.errors import DecodeError

__all__ = [
    "PADDING_MAX",
    "Placed",
    "PlacedByPosition",
    "PlacedInOrder",
    "ReducedIneligibleItem",
    "padded_octets",
    "padding",
]

PADDING_MAX = 3
"""Octets of padding behind an item (RFC 4506 section 3)."""


def padding(length: int) -> int:
    """Returns the number of zero octets after `length` octets, up to a multiple of four."""
    return -length & 3


def padded_octets(lengths: Iterable[int]) -> int:
    """Returns the octets of items of variable length in the stream, padding included, without their length words."""
    octets = 0
    for length in lengths:
        octets += (length + 3) & ~3
    return octets


class ReducedIneligibleItem(DecodeError):
    """The peer removed an item from the stream that the binding does not permit to be placed (RFC 8166 section 6.1)."""


class Placed(Protocol):
    """Items that arrived outside of the decoded stream."""

    padded: bool
    """Whether a taken item arrived with padding, which is not to be placed."""

    def take(self, position: int, length: int, field: str) -> memoryview | None:
        """Returns the item of `length` octets at `position` of the unreduced stream; None if the stream itself has it.

        Raises:
            DecodeError: an item was placed for this position, but not of this length.
        """

    def done(self) -> None:
        """Checks that the decoder has taken all placed items.

        Raises:
            ReducedIneligibleItem: an item is left: it is not DDP-eligible.
        """


class PlacedByPosition:
    """The Read chunks of a call by Position; a chunk may include its item's padding (RFC 8166 section 3.4.5.2)."""

    __slots__ = ("_chunks", "taken")

    padded = False

    def __init__(self, chunks: Mapping[int, memoryview]) -> None:
        self._chunks = dict(chunks)
        self.taken: list[tuple[int, memoryview]] = []
        """The Position and the octets, without padding, of each item that has been taken, in stream order."""

    def take(self, position: int, length: int, field: str) -> memoryview | None:
        chunk = self._chunks.pop(position, None)
        if chunk is None:
            return None
        if len(chunk) != length and len(chunk) != length + padding(length):
            raise DecodeError(field, position, f"a Read chunk of {length} octets", f"{len(chunk)}", rfc="8166 3.4.5.2")
        item = chunk[:length]
        self.taken.append((position, item))
        return item

    def done(self) -> None:
        self.passed(1 << 64)

    def passed(self, position: int) -> None:
        """Checks that no chunk is left whose Position is at most `position`, which decoding has reached.

        Raises:
            ReducedIneligibleItem: such a chunk is left: its item is not DDP-eligible.
        """
        for at, chunk in self._chunks.items():
            if at <= position:
                raise ReducedIneligibleItem(
                    "Read chunk", at, "a DDP-eligible item at this Position", f"{len(chunk)} octets", rfc="8166 6.1"
                )


class PlacedInOrder:
    """The Write chunks of a reply, one for each eligible result in stream order; None stands for an empty chunk.

    `offered` is the whole memory of each chunk: a longer result is inline, and its chunk unused. A chunk with up to
    three octets of padding behind the result, against RFC 8166 section 3.4.6.2, sets `padded`.
    """

    __slots__ = ("_chunks", "_next", "_offered", "padded")

    def __init__(self, chunks: Sequence[memoryview | None], offered: Sequence[memoryview | None] | None = None) -> None:
        self._chunks = chunks
        self._next = 0
        self._offered = offered
        self.padded = False

    def take(self, position: int, length: int, field: str) -> memoryview | None:
        index = self._next
        if index >= len(self._chunks):
            return None
        chunk = self._chunks[index]
        self._next = index + 1
        if not chunk and self._offered is not None and length > len(self._offered[index] or b""):
            return None
        if chunk is not None and len(chunk) != length:
            if length < len(chunk) <= length + PADDING_MAX:
                self.padded = True
                return chunk[:length]
            raise DecodeError(
                field, position, f"a Write chunk with {length} octets", f"{len(chunk)}", rfc="8166 3.4.6.2"
            )
        return chunk

    def done(self) -> None:
        for chunk in self._chunks[self._next :]:
            if chunk:
                raise ReducedIneligibleItem(
                    "Write chunk", 0, "a DDP-eligible result", f"{len(chunk)} octets", rfc="8166 6.1"
                )
