"""Headers with fields at fixed places as tables, and the annotated fields that a table reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rpcrdma_lab.dissect.fields import Field, FieldFault, octets_shown

__all__ = ["Row", "Table", "hex8", "hex16"]


def hex8(value: int) -> str:
    """Formats a number of 32 bits as "0x" and 8 hexadecimal digits."""
    return f"{value:#010x}"


def hex16(value: int) -> str:
    """Formats a number of 64 bits as "0x" and 16 hexadecimal digits."""
    return f"{value:#018x}"


class Row(NamedTuple):
    """The description of a field at a fixed place of a header: `size` octets at octet `offset` of the header.

    `mask` selects the bits of the field in these octets; 0 selects all. `shown` formats the field's number as text,
    `meaning` explains the field to readers, and `section` cites its definition.
    """

    name: str
    offset: int
    size: int
    meaning: str
    section: str
    mask: int = 0
    shown: Callable[[int], str] = str

    def read(self, data: bytes, at: int) -> Field:
        """Decodes this field of the header that starts at octet `at` of `data`; `data` must contain the whole field.

        Returns a `Field` whose offset counts from the start of the header. Its value is a number, shifted down to bit 0
        if there is a mask; the value of a field of more than 8 octets is these octets.
        """
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
    """A header at fixed offsets, with a `Row` for each field; `title` is its name and `size` its length in octets."""

    def __init__(self, title: str, rows: Sequence[Row]) -> None:
        self.title = title
        self.rows = rows
        self.size = max(row.offset + row.size for row in rows)

    def read(self, data: bytes, at: int = 0) -> tuple[Field, list[FieldFault]]:
        """Decodes the header that starts at octet `at` of `data`; returns a `Field` with its fields, and its faults.

        If `data` ends before or within one of the fields, this field is the last one returned, without a value, and its
        truncation is the only fault. Otherwise there is no fault. Offsets count from the start of the header.
        """
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
        """Decodes the header that starts at octet `at` of `data` as `read` does.

        `offset` is added to the offsets of all returned fields and faults.
        """
        group, faults = self.read(data, at)
        for one in group.walk():
            one.offset += offset
        return group, [fault._replace(offset=fault.offset + offset) for fault in faults]
