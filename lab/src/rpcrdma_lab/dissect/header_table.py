"""Headers with fields at fixed places as tables, and the annotated fields that a table reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rpcrdma_lab.dissect.fields import Field, FieldFault, octets_shown

__all__ = ["Row", "Table", "decimal", "hex8", "hex16"]


def decimal(value: int) -> str:
    """Formats a number in decimal digits."""
    return str(value)


def hex8(value: int) -> str:
    """Formats a number of 32 bits in hex digits."""
    return f"{value:#010x}"


def hex16(value: int) -> str:
    """Formats a number of 64 bits as "0x" and 16 hexadecimal digits."""
    return f"{value:#018x}"


class Row(NamedTuple):
    """A field: `size` octets at `offset`; with a mask those bits of them, shifted down."""

    name: str
    offset: int
    size: int
    meaning: str
    section: str
    mask: int = 0
    shown: Callable[[int], str] = decimal

    def read(self, data: bytes, at: int) -> Field:
        """Reads the field from the header that starts at `at`; octets longer than a number stay octets."""
        octets = data[at + self.offset : at + self.offset + self.size]
        field = Field(self.name, self.offset, self.size, meaning=self.meaning, section=self.section)
        if self.size > 8:
            field.value, field.shown = octets, octets_shown(octets)
            return field
        value = int.from_bytes(octets)
        if self.mask:
            value = (value & self.mask) // (self.mask & -self.mask)
        field.value, field.shown = value, self.shown(value)
        return field


class Table:
    """The rows of one header, which has `size` octets."""

    def __init__(self, title: str, rows: Sequence[Row]) -> None:
        self.title = title
        self.rows = rows
        self.size = max(row.offset + row.size for row in rows)

    def read(self, data: bytes, at: int = 0) -> tuple[Field, list[FieldFault]]:
        """Reads the header that starts at `at`, with the rows that there are octets for; returns it and its faults."""
        group = Field(self.title, 0, min(self.size, max(len(data) - at, 0)))
        for row in self.rows:
            if at + row.offset + row.size > len(data):
                have = len(data) - at - row.offset
                reason = f"{row.size} octets needed, {max(have, 0)} left"
                field = Field(row.name, row.offset, meaning=row.meaning, section=row.section, faults=[reason])
                group.fields.append(field)
                return group, [FieldFault(row.name, row.offset, reason, row.section)]
            group.fields.append(row.read(data, at))
        return group, []

    def read_moved(self, data: bytes, at: int, offset: int) -> tuple[Field, list[FieldFault]]:
        """Reads the header that starts at `at` as `read` does; `offset` is added to the offsets of its fields."""
        group, faults = self.read(data, at)
        for one in group.walk():
            one.offset += offset
        return group, [fault._replace(offset=fault.offset + offset) for fault in faults]
