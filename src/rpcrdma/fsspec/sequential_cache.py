"""The cache of an open file that is read: it reads ahead for programs that read on, and for no others."""

from __future__ import annotations

from collections.abc import Callable

from fsspec.caching import BaseCache, register_cache

from rpcrdma.nfs.client.streams.read_ahead import LEAST_AHEAD_OCTETS

__all__ = ["SequentialCache"]


class SequentialCache(BaseCache):
    """Keeps the octets that were fetched last.

    A read fetches the octets that it asks for. Reads that go on where the read before them ended also fetch as many
    octets beyond as all of them together have asked for, up to `blocksize`. So at most twice the octets are fetched
    that are asked for, and a page.
    """

    name = "rpcrdma"

    def __init__(self, blocksize: int, fetcher: Callable[[int, int], bytes], size: int) -> None:
        super().__init__(blocksize, fetcher, size)
        self.start = self.end = 0
        """The range of the file that is kept."""
        self._kept = b""
        self._run_start = 0
        self._read_to = 0

    def hold(self, start: int, data: bytes) -> None:
        """Keeps `data`, which is the file's from `start` on."""
        self._kept, self.start, self.end = data, start, start + len(data)

    def _fetch(self, start: int | None, stop: int | None) -> bytes:
        start = start or 0
        stop = self.size if stop is None else min(stop, self.size)
        if start >= stop:
            return b""
        if start != self._read_to:
            self._run_start = start
        goes_on, self._read_to = start != self._run_start, stop
        found = self._kept[start - self.start : stop - self.start] if self.start <= start < self.end else b""
        if len(found) == stop - start:
            self.hit_count += 1
            return found
        self.miss_count += 1
        first = start + len(found)
        ahead = min(self.blocksize, max(stop - self._run_start, LEAST_AHEAD_OCTETS)) if goes_on else 0
        self.hold(first, self.fetcher(first, min(self.size, stop + ahead)))
        self.total_requested_bytes += self.end - first
        return found + self._kept[: stop - first]


register_cache(SequentialCache)
