"""A bounded cursor over received octets.

Everything that decodes peer bytes below the XDR layer, and the XDR decoder itself, reads through `Reader`:
it cannot leave its bounds, and a field that does not fit raises a `DecodeError` naming field, offset, need and have.
"""

from __future__ import annotations

import struct
from typing import Any

from rpcrdma.errors import DecodeError
from rpcrdma.wire.buffers import Buffer

__all__ = ["Reader"]

_U32 = struct.Struct(">I")
_U64 = struct.Struct(">Q")


class Reader:
    """Reads big-endian fields from `data[start:end]`; `pos` is the offset of the next octet in `data`."""

    __slots__ = ("data", "end", "pos", "start")

    def __init__(self, data: Buffer, start: int = 0, end: int | None = None) -> None:
        self.data = data
        self.start = start
        self.pos = start
        self.end = len(data) if end is None else end

    @property
    def remaining(self) -> int:
        """Octets not yet read."""
        return self.end - self.pos

    def short(self, field: str, need: int) -> DecodeError:
        """The error of a field that needs `need` octets where fewer are left at the cursor."""
        return DecodeError(field, self.pos - self.start, f"{need} octets", f"{self.end - self.pos}")

    def take(self, layout: struct.Struct, field: str) -> tuple[Any, ...]:
        """A run of fixed-size fields in one step."""
        pos = self.pos
        after = pos + layout.size
        if after > self.end:
            raise self.short(field, layout.size)
        self.pos = after
        return layout.unpack_from(self.data, pos)

    def u32(self, field: str) -> int:
        """An unsigned 32-bit integer."""
        pos = self.pos
        if pos + 4 > self.end:
            raise self.short(field, 4)
        self.pos = pos + 4
        value: int = _U32.unpack_from(self.data, pos)[0]
        return value

    def u64(self, field: str) -> int:
        """An unsigned 64-bit integer."""
        pos = self.pos
        if pos + 8 > self.end:
            raise self.short(field, 8)
        self.pos = pos + 8
        value: int = _U64.unpack_from(self.data, pos)[0]
        return value

    def view(self, length: int, field: str) -> memoryview:
        """The next `length` octets, not copied."""
        pos = self.pos
        if length > self.end - pos:
            raise self.short(field, length)
        self.pos = pos + length
        return memoryview(self.data)[pos : pos + length]

    def octets(self, length: int, field: str) -> bytes:
        """The next `length` octets as a copy that outlives the received buffer."""
        pos = self.pos
        if length > self.end - pos:
            raise self.short(field, length)
        self.pos = pos + length
        return bytes(self.data[pos : pos + length])

    def done(self, what: str) -> None:
        """Checks that nothing is left over.

        Raises:
            DecodeError: octets follow the last field.
        """
        if self.pos != self.end:
            raise DecodeError(what, self.pos - self.start, "end of data", f"{self.end - self.pos} more octets")
