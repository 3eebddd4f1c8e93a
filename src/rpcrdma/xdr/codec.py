"""The XDR runtime (RFC 4506): encoding that records bulk items instead of copying them, and bounded decoding.

An `Encoder` builds the *reduced* stream: everything but the data of the items that the definition marks as candidates
for direct placement. A `BulkItem` records each of these, with its Position in the unreduced stream and its place in the
reduced stream. The transport decides whether the item travels inline or in a chunk, and copies it in neither case.

A `Decoder` reads a stream from which items may have been removed: `bulk` asks its `Placed` for the item before it reads
the item inline.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from rpcrdma.errors import DecodeError, InternalError, LocalProtocolError, OutOfMemory
from rpcrdma.wire.buffers import Buffer, Reader, as_view

__all__ = [
    "PADDING_MAX",
    "BulkItem",
    "Decoder",
    "Encoder",
    "Layout",
    "Payload",
    "Placed",
    "PlacedByPosition",
    "PlacedInOrder",
    "ReducedIneligibleItem",
    "padded_octets",
    "padding",
]

T = TypeVar("T")

_U32 = struct.Struct(">I")
PADDING_MAX = 3
"""Octets of padding behind an item (RFC 4506 section 3)."""

_PAD = (b"", b"\0\0\0", b"\0\0", b"\0")
_OCTETS = {"i": 4, "I": 4, "q": 8, "Q": 8, "f": 4, "d": 8}
_UNFIT = (struct.error, OverflowError, TypeError)


def padding(length: int) -> int:
    """Returns the number of zero octets that follow `length` octets, up to a multiple of four (RFC 4506 section 3)."""
    return -length & 3


def padded_octets(lengths: Iterable[int]) -> int:
    """Returns the octets of opaque items of these lengths, each padded to a multiple of four, without length words."""
    octets = 0
    for length in lengths:
        octets += (length + 3) & ~3
    return octets


class Layout(struct.Struct):
    """A run of fixed-size fields (`struct.Struct`) with a name for each value, which errors of `Encoder.put` use."""

    __slots__ = ("fields",)
    fields: tuple[str, ...]

    @classmethod
    def of(cls, form: str, *fields: str) -> Layout:
        """Returns the layout of `form`, a format in the notation of `struct`.

        Args:
            form: the format, which begins with ">".
            fields: a name for each value.
        """
        layout = cls(form)
        layout.fields = fields
        return layout

    def complaint(self, values: Sequence[Any]) -> str:
        """Returns the reason why `pack` refuses `values`: the first field whose value does not fit, or their number.

        Args:
            values: the refused values.
        """
        good = list(self.unpack(bytes(self.size)))
        for index, field in enumerate(self.fields[: len(values)]):
            try:
                self.pack(*good[:index], values[index], *good[index + 1 :])
            except _UNFIT:
                return f"{field}: {values[index]!r} does not fit its XDR type"
        return f"{len(values)} values for {len(self.fields)} fields"


class BulkItem:
    """An item marked for direct placement, not copied.

    `at` is its offset in the reduced, `position` in the unreduced stream (RFC 8166 section 3.4.5). `data` is unpadded.
    """

    __slots__ = ("at", "data", "position")

    def __init__(self, at: int, position: int, data: Buffer) -> None:
        self.at = at
        self.position = position
        self.data = data

    def __repr__(self) -> str:
        return f"BulkItem(at={self.at}, position={self.position}, length={len(self.data)})"


class Payload:
    """An encoded RPC message: its reduced stream and the bulk items removed from it, in stream order.

    `begun` has, for each element of the array that a `pragma pairs` of the XDR definition names (`Encoder.paired`), the
    number of `items` before the element; None for a message without such an array.
    """

    __slots__ = ("begun", "items", "reduced")

    begun: list[int] | None

    def __init__(self, reduced: bytes | bytearray, items: Sequence[BulkItem] = ()) -> None:
        self.reduced = reduced
        self.items = items
        self.begun = None

    @property
    def length(self) -> int:
        """Octets of the unreduced stream, padding included."""
        length = len(self.reduced)
        for item in self.items:
            length += (len(item.data) + 3) & ~3
        return length

    def item_octets(self) -> tuple[int, ...]:
        """Returns the octets of each item, without padding.

        Raises:
            InternalError: an item is a memoryview whose elements are not octets, so that its `len` is not its octets.
        """
        found: list[int] = []
        for item in self.items:
            data = item.data
            octets = len(data)
            if type(data) is memoryview and data.nbytes != octets:
                raise InternalError(f"{data.nbytes} octets in {octets} items")
            found.append(octets)
        return tuple(found)

    def joined(self) -> bytes:
        """Returns a copy of the unreduced stream: the reduced stream with all items and their padding in place.

        Raises:
            OutOfMemory: there is no memory for the copy.
        """
        try:
            return b"".join(self.gather())
        except MemoryError:
            raise OutOfMemory(f"{self.length} octets") from None

    def gather(self, leave_out: Iterable[BulkItem] = ()) -> list[Buffer]:
        """Returns the unreduced stream, items and padding included, as a list of buffers in order, without copying.

        Args:
            leave_out: items of this payload that are omitted with their padding, each listed once.
        """
        left_out = list(leave_out)
        if left_out == self.items:
            return [self.reduced]
        items = [item for item in self.items if item not in left_out] if left_out else self.items
        view = memoryview(self.reduced)
        gather: list[Buffer] = []
        start = 0
        for item in items:
            if item.at > start:
                gather.append(view[start : item.at])
            start = item.at
            if len(item.data):
                gather.append(item.data)
                if pad := _PAD[len(item.data) & 3]:
                    gather.append(pad)
        if start < len(view):
            gather.append(view[start:])
        return gather


class Encoder(Payload):
    """Encodes XDR items by appending to its own `reduced` and `items`; `removed` is the octets of `items`, padded.

    Opaque data may be any C-contiguous object with the buffer protocol; other objects raise TypeError (`as_view`).

    Shared by the methods:
        value, data, text: the value of the item.
        length: the octets of a fixed-length type.
        limit: the most octets or elements of a variable-length type; None: no limit.
        code: the type of an array's elements in the notation of `struct`.
        values: the elements, or the values of a run of fields.
        field: the name of the item in errors.
        LocalProtocolError: a value does not fit its type, length or limit; or a text is no str, or has a surrogate that
            stands for no octet (PEP 383).
    """

    __slots__ = ("removed",)

    reduced: bytearray
    items: list[BulkItem]

    def __init__(self) -> None:
        self.reduced = bytearray()
        self.items = []
        self.begun = None
        self.removed = 0

    def put(self, layout: struct.Struct, *values: Any) -> None:
        """Appends a run of fixed-size fields in one step.

        Raises:
            LocalProtocolError: a value does not fit its field, or there are more or fewer values than fields.

        Args:
            layout: the fields; a `Layout` names the wrong one in errors.
            values: a value for each field.
        """
        try:
            self.reduced += layout.pack(*values)
        except _UNFIT as error:
            if isinstance(layout, Layout):
                raise LocalProtocolError(layout.complaint(values)) from None
            raise LocalProtocolError(f"a value does not fit its XDR type: {error}") from None

    def u32(self, value: int, field: str) -> None:
        """Appends an unsigned 32-bit integer; raises LocalProtocolError, which names `field`, for any other value."""
        try:
            self.reduced += _U32.pack(value)
        except struct.error:
            raise LocalProtocolError(f"{field}: {value!r} is not an unsigned 32-bit integer") from None

    def count(self, value: int, limit: int, field: str) -> None:
        """Appends `value`, the length word of an item; raises LocalProtocolError if it exceeds `limit`."""
        if value > limit:
            raise LocalProtocolError(f"{field}: {value} elements, the limit is {limit}")
        self.reduced += _U32.pack(value)

    def paired(self, values: Sequence[T]) -> Iterator[T]:
        """Yields the elements of an array; the caller encodes each before it asks for the next.

        `pragma pairs` names such arrays of a call and its reply, whose elements belong together by index. Of the first
        one in a message, the list `begun` has the number of bulk items before each element.
        """
        begun: list[int] = []
        if self.begun is None:
            self.begun = begun
        for value in values:
            begun.append(len(self.items))
            yield value

    def numbers(self, code: str, values: Sequence[float], field: str) -> None:
        """Appends numbers of `struct` type `code`, no length word; raises LocalProtocolError if one does not fit."""
        try:
            self.reduced += struct.pack(f">{len(values)}{code}", *values)
        except _UNFIT:
            raise LocalProtocolError(f"{field}: an element does not fit its XDR type") from None

    def linked_list(
        self,
        entries: Sequence[T],
        encode_entry: Callable[[Encoder, T], None],
        limit: int | None,
        field: str,
        *,
        filled: bool = False,
    ) -> None:
        """Appends a list of optional data: TRUE before each entry, FALSE after the last (RFC 4506 section 4.19).

        Args:
            entries: the entries.
            encode_entry: appends one entry.
            limit: the most entries; None: no limit.
            field: the name of the list in errors.
            filled: whether the type has at least one entry, whose first has no word before it.

        Raises:
            LocalProtocolError: there are too many entries, or none where `filled`.
        """
        if limit is not None and len(entries) > limit:
            raise LocalProtocolError(f"{field}: {len(entries)} entries, the limit is {limit}")
        if filled and not entries:
            raise LocalProtocolError(f"{field}: no entries, the type has at least one")
        for entry in entries:
            if not filled:
                self.reduced += b"\0\0\0\1"
            filled = False
            encode_entry(self, entry)
        self.reduced += b"\0\0\0\0"

    def fixed(self, data: Buffer, length: int, field: str) -> None:
        """Appends fixed-length opaque data and padding; raises LocalProtocolError if `data` has not `length` octets."""
        self.reduced += self.exactly(data, length, field)
        self.reduced += _PAD[length & 3]

    def exactly(self, data: Buffer, length: int, field: str) -> bytes:
        """Returns `data` as bytes, and appends nothing; raises LocalProtocolError if `data` has not `length` octets."""
        octets = data if type(data) is bytes else bytes(as_view(data, field))
        if len(octets) != length:
            raise LocalProtocolError(f"{field}: {len(octets)} octets given, the type has {length}")
        return octets

    def opaque(self, data: Buffer, limit: int, field: str) -> None:
        """Appends length word, octets and padding of opaque data; raises LocalProtocolError over `limit` octets."""
        if type(data) is not bytes:
            data = as_view(data, field)
        length = len(data)
        if length > limit:
            raise LocalProtocolError(f"{field}: {length} octets, the limit is {limit}")
        self.reduced += _U32.pack(length)
        self.reduced += data
        self.reduced += _PAD[length & 3]

    def string(self, text: str, limit: int, field: str) -> None:
        """Appends `text` as UTF-8, surrogates as octets (PEP 383); raises LocalProtocolError over `limit` octets."""
        self.opaque(_text_octets(text, field), limit, field)

    def bulk(self, data: Buffer, limit: int, field: str) -> None:
        """Appends the length word of `data` and records the data uncopied; they must not change until they are sent.

        The transport places the data directly or sends them inline. Raises LocalProtocolError over `limit` octets.
        """
        if type(data) is not bytes:
            data = memoryview(data) if type(data) is bytearray else as_view(data, field)
        length = len(data)
        if length > limit:
            raise LocalProtocolError(f"{field}: {length} octets, the limit is {limit}")
        self.reduced += _U32.pack(length)
        at = len(self.reduced)
        self.items.append(BulkItem(at, at + self.removed, data))
        self.removed += (length + 3) & ~3

    def bulk_string(self, text: str, limit: int, field: str) -> None:
        """Appends a string in UTF-8 (PEP 383) that may be placed directly; LocalProtocolError over `limit` octets."""
        self.bulk(_text_octets(text, field), limit, field)


def _text_octets(text: str, field: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except (AttributeError, UnicodeEncodeError):
        why = "has characters that have no octets" if isinstance(text, str) else "is no str"
        raise LocalProtocolError(f"{field}: {text!r} {why}") from None


class ReducedIneligibleItem(DecodeError):
    """The peer removed an item from the stream that the binding does not permit to be placed (RFC 8166 section 6.1)."""


class Placed(Protocol):
    """The items of a message that its transport placed directly, outside of the stream that a `Decoder` reads."""

    padded: bool
    """Whether a taken item in a Write chunk had padding, against RFC 8166 section 3.4.6.2; False for Read chunks."""

    def take(self, position: int, length: int, field: str) -> memoryview | None:
        """Takes the item of `length` octets at `position` of the unreduced stream; None if the stream itself has it.

        Calls follow the order of the stream. Padding behind the item is left out. Raises DecodeError, which names
        `field`, if an item of another length, padding aside, was placed there.
        """

    def done(self) -> None:
        """Checks that all items were taken; raises ReducedIneligibleItem if one is left: it is not DDP-eligible."""


class PlacedByPosition:
    """The Read chunks of a call by Position; padding in a chunk is permitted (RFC 8166 section 3.4.5.2) and cut off."""

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
        """Raises ReducedIneligibleItem if a chunk at or before `position`, the place of the decoder, was not taken."""
        for at, chunk in self._chunks.items():
            if at <= position:
                raise ReducedIneligibleItem(
                    "Read chunk", at, "a DDP-eligible item at this Position", f"{len(chunk)} octets", rfc="8166 6.1"
                )


class PlacedInOrder:
    """The results in the Write chunks of a reply: chunk `i` is for the `i`-th eligible result in stream order.

    `chunks` has the filled part of each; None is a chunk without memory, whose result is inline. `offered` has the
    whole memory of each: a result longer than that may be inline, with no octet in its chunk; None: no such result may.
    Padding in a chunk, against RFC 8166 section 3.4.6.2, sets `padded`.
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


class Decoder(Reader):
    """Decodes XDR items from `data[start:end]`; every variable-length item has a limit.

    `begun` has the Position of each element of the array that a `pragma pairs` of the XDR definition names (`paired`);
    None without such an array. `removed` is the octets, padded, of the items that were taken from `placed`.

    Args:
        data: the octets.
        start: the offset of the first item.
        end: the offset behind the last octet; None: the end of `data`.
        placed: the items that arrived outside of the stream, or None.

    Shared by the methods:
        length: the octets of a fixed-length type, or of the item before its padding.
        limit: the most octets or elements of a variable-length type.
        code: the type of an array's elements in the notation of `struct`.
        count: the number of elements of an array.
        field: the name of the item in errors.
        DecodeError: the item does not fit into the octets left, or is over its limit.
    """

    __slots__ = ("begun", "placed", "removed")

    begun: list[int] | None

    def __init__(self, data: Buffer, start: int = 0, end: int | None = None, *, placed: Placed | None = None) -> None:
        self.data = data
        self.start = self.pos = start
        self.end = len(data) if end is None else end
        self.placed = placed
        self.begun = None
        self.removed = 0

    @property
    def position(self) -> int:
        """Offset of the next item in the unreduced stream, in octets from the stream's start."""
        return self.pos - self.start + self.removed

    def boolean(self, field: str) -> bool:
        """Returns the next word as a bool; raises DecodeError for another word than 0 and 1 (RFC 4506 section 4.4)."""
        value = self.u32(field)
        if value > 1:
            raise DecodeError(field, self.pos - 4 - self.start, "0 or 1", str(value), rfc="4506 4.4")
        return value == 1

    def count(self, limit: int, field: str) -> int:
        """Returns the length word of a variable-length item; raises DecodeError about `field` if it exceeds `limit`."""
        pos = self.pos
        if pos + 4 > self.end:
            raise self.short(field, 4)
        self.pos = pos + 4
        value: int = _U32.unpack_from(self.data, pos)[0]
        if value > limit:
            raise DecodeError(field, pos - self.start, f"at most {limit}", str(value))
        return value

    def paired(self, count: int) -> Iterator[int]:
        """Yields 0 to `count` - 1; the caller decodes the array's element with that index before it asks for the next.

        `pragma pairs` names such arrays of a call and its reply, whose elements belong together by index. Of the first
        one in a message, the list `begun` has the Position of each element.
        """
        begun: list[int] = []
        if self.begun is None:
            self.begun = begun
        for index in range(count):
            begun.append(self.position)
            yield index

    def numbers(self, code: str, count: int, field: str) -> list[Any]:
        """Returns `count` numbers of `struct` type `code`; raises DecodeError about `field` if octets are missing."""
        pos, octets = self.pos, count * _OCTETS[code]
        if octets > self.end - pos:
            raise self.short(field, octets)
        self.pos = pos + octets
        return list(struct.unpack_from(f">{count}{code}", self.data, pos))

    def linked_list(
        self, decode_entry: Callable[[Decoder], T], limit: int | None, field: str, *, filled: bool = False
    ) -> list[T]:
        """Decodes a list of optional data (RFC 4506 section 4.19).

        Args:
            decode_entry: decodes one entry.
            limit: the most entries; None: as many as fit, each with at least the four octets of the word before it.
            field: the name of the list in errors.
            filled: whether the type has at least one entry, whose first has no word before it.

        Returns:
            The entries.

        Raises:
            DecodeError: there are too many entries, or an entry or the word before it does not decode.
        """
        entries: list[T] = []
        while filled or self.boolean(field):
            filled = False
            if len(entries) == limit:
                raise DecodeError(field, self.pos - self.start, f"at most {limit} entries", "more")
            entries.append(decode_entry(self))
        return entries

    def fixed(self, length: int, field: str) -> bytes:
        """Returns `length` octets and skips their padding; raises DecodeError about `field` if octets are missing."""
        data = self.octets(length, field)
        self.skip_padding(length, field)
        return data

    def opaque(self, limit: int, field: str) -> bytes:
        """Returns a copy of variable-length opaque data; raises DecodeError if they are cut short or over `limit`."""
        start = self.pos + 4
        if start <= self.end:
            length = _U32.unpack_from(self.data, start - 4)[0]
            after = start + (length + 3 & ~3)
            if length <= limit and after <= self.end:
                self.pos = after
                return bytes(self.data[start : start + length])
        # Malformed: the single steps raise the error for the wrong field.
        return self.fixed(self.count(limit, field), field)

    def string(self, limit: int, field: str) -> str:
        """Returns a string, surrogates for octets not in UTF-8 (PEP 383); DecodeError if cut short or over `limit`."""
        return self.opaque(limit, field).decode("utf-8", "surrogateescape")

    def bulk(self, limit: int, field: str) -> memoryview:
        """Returns a view of opaque data, placed directly or in the stream.

        Raises DecodeError if it is over `limit` octets, cut short, or was placed with another length, padding aside.
        """
        length = self.count(limit, field)
        if self.placed is not None:
            data = self.placed.take(self.pos - self.start + self.removed, length, field)
            if data is not None:
                self.removed += (length + 3) & ~3
                return data
        data = self.view(length, field)
        self.skip_padding(length, field)
        return data

    def bulk_string(self, limit: int, field: str) -> str:
        """Returns a string, placed or not, surrogates for octets not in UTF-8; DecodeError if cut or over `limit`."""
        return str(self.bulk(limit, field), "utf-8", "surrogateescape")

    def skip_padding(self, length: int, field: str) -> None:
        """Skips the padding after `length` octets, whatever its value; raises DecodeError if octets are missing."""
        pad = -length & 3
        if pad:
            if pad > self.end - self.pos:
                raise self.short(f"{field} padding", pad)
            self.pos += pad

    def done(self, what: str) -> None:
        if self.pos != self.end:
            super().done(what)
        if self.placed is not None:
            self.placed.done()
