"""Does random things to one file and to a copy of it in memory: `file_exerciser.py PATH SEED OPERATIONS`.

All data read from the file is compared with the copy. The program runs in a guest and needs only Python's standard
library. If file and copy differ, it prints the last operations and ends with exit status 1.
"""

from __future__ import annotations

import mmap
import os
import random
import sys
from collections import deque
from pathlib import Path

__all__ = ["Exerciser", "main"]

_SIZE_MAX = 400_000
_PIECE_MAX = 90_000


class Exerciser:
    """`history` names the last operations, `content` is the right content of the file."""

    def __init__(self, path: Path, seed: int) -> None:
        self._path = path
        self._random = random.Random(seed)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        self.content = bytearray()
        self.history: deque[str] = deque(maxlen=30)

    def step(self) -> None:
        """One operation; raises AssertionError if the content of the file is wrong."""
        operations = (
            (self._write, 6),
            (self._read, 6),
            (self._append, 2),
            (self._truncate, 2),
            (self._write_mapped, 4),
            (self._read_mapped, 4),
            (self._reopen, 1),
            (self._write_synchronously, 2),
            (self._forget_cache, 2),
            (self._rename, 1),
        )
        chosen = self._random.choices([do for do, _ in operations], [weight for _, weight in operations])[0]
        chosen()

    def check_all(self) -> None:
        """Compares the whole file."""
        self._compare(os.pread(self._file, _SIZE_MAX + _PIECE_MAX, 0), 0, len(self.content))

    def _note(self, what: str, at: int = 0, octets: int = 0) -> None:
        self.history.append(f"{what} {at}+{octets}, size {len(self.content)}")

    def _place(self, within: int) -> tuple[int, int]:
        start = self._random.randrange(within + 1)
        return start, self._random.randrange(min(_PIECE_MAX, max(within - start, 0)) + 1)

    def _data(self, octets: int) -> bytes:
        return self._random.randbytes(octets)

    def _compare(self, found: bytes, start: int, octets: int) -> None:
        expected = bytes(self.content[start : start + octets])
        assert len(found) == len(expected), f"{len(found)} octets at {start} instead of {len(expected)}"
        for index, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert one == other, f"octet {start + index} is {one:#x} instead of {other:#x}"

    def _put(self, start: int, data: bytes) -> None:
        if data:
            self.content.extend(bytes(max(start - len(self.content), 0)))
            self.content[start : start + len(data)] = data

    def _write(self) -> None:
        start, octets = self._place(_SIZE_MAX)
        self._note("write", start, octets)
        data = self._data(octets)
        assert os.pwrite(self._file, data, start) == octets
        self._put(start, data)

    def _append(self) -> None:
        data = self._data(self._random.randrange(5000))
        self._note("append", len(self.content), len(data))
        if len(self.content) + len(data) <= _SIZE_MAX:
            with self._path.open("ab") as file:
                file.write(data)
            self._put(len(self.content), data)

    def _read(self) -> None:
        start, octets = self._place(len(self.content))
        self._note("read", start, octets)
        self._compare(os.pread(self._file, octets, start), start, octets)

    def _truncate(self) -> None:
        size = self._random.randrange(_SIZE_MAX)
        self._note("truncate", size)
        os.ftruncate(self._file, size)
        del self.content[size:]
        self.content.extend(bytes(size - len(self.content)))

    def _write_mapped(self) -> None:
        start, octets = self._place(len(self.content))
        self._note("write mapped", start, octets)
        if octets:
            data = self._data(octets)
            with mmap.mmap(self._file, len(self.content)) as mapped:
                mapped[start : start + octets] = data
                if self._random.random() < 0.5:
                    mapped.flush()
            self._put(start, data)

    def _read_mapped(self) -> None:
        start, octets = self._place(len(self.content))
        self._note("read mapped", start, octets)
        if octets:
            with mmap.mmap(self._file, len(self.content), access=mmap.ACCESS_READ) as mapped:
                self._compare(mapped[start : start + octets], start, octets)

    def _reopen(self) -> None:
        self._note("reopen")
        os.close(self._file)
        self._file = os.open(self._path, os.O_RDWR)

    def _write_synchronously(self) -> None:
        start, octets = self._place(_SIZE_MAX)
        self._note("write synchronously", start, octets)
        data = self._data(octets)
        file = os.open(self._path, os.O_WRONLY | os.O_DSYNC)
        assert os.pwrite(file, data, start) == octets
        os.close(file)
        self._put(start, data)

    def _forget_cache(self) -> None:
        self._note("forget cache")
        os.fsync(self._file)
        os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_DONTNEED)

    def _rename(self) -> None:
        self._note("rename")
        moved = self._path.with_name(f"{self._path.name}-{self._random.randrange(1000)}")
        self._path.rename(moved)
        moved.rename(self._path)


def main() -> int:
    path, seed, operations = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    exerciser = Exerciser(path, seed)
    try:
        for _ in range(operations):
            exerciser.step()
        exerciser.check_all()
    except AssertionError as error:
        print(f"seed {seed}: {error}; the last operations were")
        print("\n".join(exerciser.history))
        return 1
    path.with_name(path.name + ".expected").write_bytes(exerciser.content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
