"""Reads the octets of a case as a script of choices."""

from __future__ import annotations

__all__ = ["Script"]


class Script:
    """Hands out octets and numbers until the case is used up; then zeros."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.pos = 0

    @property
    def more(self) -> bool:
        return self.pos < len(self.data)

    def octets(self, length: int) -> bytes:
        part = self.data[self.pos : self.pos + length]
        self.pos += length
        return part

    def number(self, octets: int = 1) -> int:
        return int.from_bytes(self.octets(octets), "big")

    def below(self, limit: int) -> int:
        """0 to `limit` - 1."""
        return self.number() % limit
