"""Many names, each with two numbers, in little memory: 24 octets and the name, where objects would take 200."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["NameTable", "Row"]

_ROW_OCTETS = 8 + 8 + 4 + 4


class Row(NamedTuple):
    """A name in a `NameTable`, with `key`, the number that it is sorted by, and `value`, a number for the user."""

    key: int
    value: int
    name: bytes


class NameTable:
    """A compact table of names, each with two unsigned 64-bit numbers, `key` and `value`; keys may repeat.

    One thread fills it and calls `sort`. Then any number of threads may read it.
    """

    __slots__ = ("_keys", "_names", "_order", "_starts", "_values")

    def __init__(self) -> None:
        self._keys = array("Q")
        self._values = array("Q")
        self._starts = array("I", [0])
        self._names = bytearray()
        self._order = array("I")

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def octets(self) -> int:
        """The memory that the rows take, in octets: the name of each, and 24 octets more."""
        return len(self._names) + _ROW_OCTETS * len(self._keys)

    def add(self, key: int, value: int, name: bytes) -> None:
        """Adds a row, with `key` and `value` from 0 to 2^64 - 1; `sort` has to be called before the table is read."""
        self._keys.append(key)
        self._values.append(value)
        self._names += name
        self._starts.append(len(self._names))

    def sort(self) -> None:
        """Sorts the rows by their keys; rows of one key keep the order in which they were added."""
        self._order = array("I", sorted(range(len(self._keys)), key=self._keys.__getitem__))

    def rows(self, key: int = 0) -> Iterator[Row]:
        """Returns an iterator over the rows whose keys are `key` or larger, by default all, in the order of keys."""
        order = self._order
        first = bisect_left(order, key, key=self._keys.__getitem__)
        # Not `islice`, which steps through all rows before the first.
        return map(self._row, map(order.__getitem__, range(first, len(order))))

    def last_key(self) -> int:
        """Returns the largest key of the sorted rows; raises IndexError if the table is empty."""
        return self._keys[self._order[-1]]

    def least(self, octets: int, key: int = 0) -> NameTable:
        """Returns a new, sorted table of the rows with keys from `key` on, cut behind the last row that fits `octets`.

        `octets` is the most memory of the new table (see the property). Rows with the same key are taken or left out
        together. Those of the smallest key from `key` on are always taken.
        """
        kept = NameTable()
        for row in self.rows(key):
            if kept.octets + _ROW_OCTETS + len(row.name) > octets and kept._keys and row.key != kept._keys[0]:
                kept._drop(row.key)
                break
            kept.add(*row)
        kept.sort()
        return kept

    def _drop(self, key: int) -> None:
        """Removes the rows with this key from the end of the table; the first row must have another key."""
        while self._keys[-1] == key:
            self._keys.pop()
            self._values.pop()
            self._starts.pop()
        del self._names[self._starts[-1] :]

    def _row(self, at: int) -> Row:
        name = bytes(self._names[self._starts[at] : self._starts[at + 1]])
        return Row(self._keys[at], self._values[at], name)
