"""How much one READ, WRITE or READDIR asks for, given the server's FSINFO (RFC 1813 section 3.3.19)."""

from __future__ import annotations

from dataclasses import dataclass

from rpcrdma.nfs.v3 import FSINFO3resok

__all__ = ["TransferSizes"]

_LEAST = 4096
"""The least that is asked for, also of a server that states less or nothing: it may return fewer octets."""
_MOST = 1 << 20
"""More than 1 MiB a call gains nothing; it is the most that Linux asks for."""
_LISTING_LEAST = 1 << 13
_LISTING_MOST = 1 << 16
"""A reply of 64 KiB holds some 300 entries with attributes and handles."""
_NAMES = 1 << 18
"""Of names alone some 6,000, whatever the server prefers: it may return fewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferSizes:
    """Octets of one call: reads and writes at most, and preferred in a sequence of them; pages of listings."""

    read_max: int
    read: int
    write_max: int
    write: int
    listing: int
    names: int

    @classmethod
    def of(cls, info: FSINFO3resok) -> TransferSizes:
        """Sensible sizes for a server that states `info`, even if its own are not."""
        read_max = _within(info.rtmax, _LEAST, _MOST)
        write_max = _within(info.wtmax, _LEAST, _MOST)
        listing = _within(info.dtpref, _LISTING_LEAST, _LISTING_MOST)
        return cls(
            read_max=read_max,
            read=_within(info.rtpref or read_max, _LEAST, read_max),
            write_max=write_max,
            write=_within(info.wtpref or write_max, _LEAST, write_max),
            listing=listing,
            names=_within(read_max, listing, _NAMES),
        )


def _within(value: int, least: int, most: int) -> int:
    return max(least, min(value, most))
