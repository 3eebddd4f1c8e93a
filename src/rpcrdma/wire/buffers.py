"""The buffer types of all layers, gather lists of buffers, and a bounded cursor over received octets.

All decoders of peer octets below XDR, and the XDR decoder, read through `Reader`: it cannot leave its bounds, and a
field that does not fit raises a `DecodeError` with field, offset, need and have.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, Protocol, TypeAlias

from rpcrdma.errors import DecodeError

__all__ = ["Buffer", "Memory", "Reader", "as_view", "gather_length"]

_U32 = struct.Struct(">I")
_U64 = struct.Struct(">Q")

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Octets: a `memoryview` is always one-dimensional with item size 1 (see `as_view`)."""


class _ShowsMemory(Protocol):
    """The type of objects with the buffer protocol (PEP 688)."""

    def __buffer__(self, flags: int, /) -> memoryview:
        """Returns a view of the object's memory; `flags` are those of the buffer protocol (PEP 688)."""


class _ShowsArray(Protocol):
    """The type of NumPy arrays, whose stubs name the buffer protocol only from Python 3.12 on."""

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """The description of the array's memory in NumPy's array interface."""


Memory: TypeAlias = _ShowsMemory | _ShowsArray
"""A caller's octets: any C-contiguous object with the buffer protocol, such as bytes or a NumPy array."""


def as_view(buffer: object, name: str = "data", *, writable: bool = False) -> memoryview:
    """Returns a flat view of the octets of a C-contiguous object with the buffer protocol, without a copy.

    The view shows the octets that the items occupy in memory, whatever their format, byte order and dimensions: those
    of NumPy arrays, `array`, ctypes and mmap. The library applies this function to its users' buffers, and works with
    the views. `buffer`: the object. `name`: the name of the argument in errors. `writable`: whether the memory is to be
    filled.

    Raises:
        TypeError: the object has no buffer protocol or refuses it, is not C-contiguous, or is read-only though it is to
            be filled. The message has the remedy.
    """
    try:
        view = memoryview(buffer)  # type: ignore[arg-type]
    except (BufferError, TypeError, ValueError) as error:
        raise _without_octets(buffer, name, error) from None
    if not view.c_contiguous:
        raise TypeError(
            f"{name}: the items of the {type(buffer).__name__} are not C-contiguous: copy them first, as "
            "numpy.ascontiguousarray does"
        )
    if writable and view.readonly:
        raise TypeError(f"{name}: the {type(buffer).__name__} is read-only: give a writable buffer")
    if view.ndim == 1 and view.format == "B":
        return view
    # Never a view of `view`: Python 3.11 crashes when it collects both as garbage.
    try:
        return view.cast("B")
    except (TypeError, ValueError):  # byte orders, as ctypes arrays have one, and dimensions without an item
        pass
    from pickle import PickleBuffer  # noqa: PLC0415 - seldom needed, and slow to import

    return PickleBuffer(buffer).raw()  # type: ignore[arg-type]


def _without_octets(buffer: object, name: str, error: Exception) -> Exception:
    kind = type(buffer).__name__
    if not isinstance(error, TypeError):
        return TypeError(f"{name}: the {kind} does not show its octets ({error}): copy them to bytes first")
    if hasattr(buffer, "__cuda_array_interface__"):
        return TypeError(f"{name}: the {kind} is in the memory of a device: copy it to the host first")
    return TypeError(f"{name}: {kind} has no octets: give bytes, a memoryview, or an object with the buffer protocol")


def gather_length(gather: Iterable[Buffer]) -> int:
    """Returns the number of octets in a gather list, the sum of its buffers' lengths."""
    return sum(map(len, gather))


class Reader:
    """Reads big-endian fields from `data[start:end]`; `pos` is the offset of the next octet in `data`.

    Args:
        data: the octets.
        start: the offset of the first field.
        end: the offset behind the last octet; None: the end of `data`.

    Shared by the methods:
        field: the name of the field in errors.
        length: the octets of the field.
        DecodeError: the field does not fit into the octets left.
    """

    __slots__ = ("data", "end", "pos", "start")

    def __init__(self, data: Buffer, start: int = 0, end: int | None = None) -> None:
        self.data = data
        self.start = start
        self.pos = start
        self.end = len(data) if end is None else end

    @property
    def remaining(self) -> int:
        """The number of octets that are not read yet."""
        return self.end - self.pos

    def short(self, field: str, need: int) -> DecodeError:
        """Returns, not raises, the exception for a field that does not fit into the octets left.

        Args:
            field: the name of the field.
            need: the octets that it needs.
        """
        return DecodeError(field, self.pos - self.start, f"{need} octets", f"{max(0, self.end - self.pos)}")

    def take(self, layout: struct.Struct, field: str) -> tuple[Any, ...]:
        """Returns the values of a run of fixed-size fields, and advances behind them.

        Args:
            layout: the format of the fields, also their byte order.
            field: the name of the run in errors.

        Raises:
            DecodeError: fewer octets are left.
        """
        pos = self.pos
        after = pos + layout.size
        if after > self.end:
            raise self.short(field, layout.size)
        self.pos = after
        return layout.unpack_from(self.data, pos)

    def u32(self, field: str) -> int:
        """Returns the next four octets as an unsigned integer; raises DecodeError about `field` if fewer are left."""
        pos = self.pos
        if pos + 4 > self.end:
            raise self.short(field, 4)
        self.pos = pos + 4
        value: int = _U32.unpack_from(self.data, pos)[0]
        return value

    def u64(self, field: str) -> int:
        """Returns the next eight octets as an unsigned integer; raises DecodeError about `field` if fewer are left."""
        pos = self.pos
        if pos + 8 > self.end:
            raise self.short(field, 8)
        self.pos = pos + 8
        value: int = _U64.unpack_from(self.data, pos)[0]
        return value

    def view(self, length: int, field: str) -> memoryview:
        """Returns a view of the next `length` octets; raises DecodeError about `field` if fewer are left."""
        pos = self.pos
        if length > self.end - pos:
            raise self.short(field, length)
        self.pos = pos + length
        return memoryview(self.data)[pos : pos + length]

    def octets(self, length: int, field: str) -> bytes:
        """Returns a copy of the next `length` octets; raises DecodeError about `field` if fewer are left."""
        pos = self.pos
        if length > self.end - pos:
            raise self.short(field, length)
        self.pos = pos + length
        return bytes(self.data[pos : pos + length])

    def done(self, what: str) -> None:
        """Checks that no octets are left.

        Args:
            what: the name of the decoded structure in the error.

        Raises:
            DecodeError: octets are left.
        """
        if self.pos != self.end:
            raise DecodeError(what, self.pos - self.start, "end of data", f"{self.end - self.pos} more octets")
