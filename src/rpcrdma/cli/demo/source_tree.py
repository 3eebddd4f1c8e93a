"""The tree of the demonstration: taken from this machine, and compared with its copies."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "ENOUGH_FILES", "ENOUGH_OCTETS", "TreeSize", "candidate_roots", "digests", "measure", "mismatches", "snapshot",
]  # fmt: skip

ENOUGH_OCTETS = 64_000_000
ENOUGH_FILES = 1500
"""With these sizes the tree exercises small files and large ones, and still moves in seconds."""

_TOP_UPS = ("/usr/lib/python3", "/usr/share", "/usr/lib")
"""Directories with files on any system, for when Python and its packages have too few."""


@dataclass(slots=True)
class TreeSize:
    """The number of regular files in a tree, and the octets in them."""

    files: int = 0
    octets: int = 0


def candidate_roots() -> list[tuple[str, Path]]:
    """Returns directories of this machine with files to copy, each as a pair (name in the tree, directory).

    They are the Python standard library, the installed packages, then directories of the system, each only if it exists
    and neither lies within an earlier one nor has one within it.
    """
    paths = sysconfig.get_paths()
    found: list[tuple[str, Path]] = []
    for name, place in [
        *((name, paths[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        *(("system", top_up) for top_up in _TOP_UPS),
    ]:
        directory = Path(place).resolve()
        # A root within another would come twice.
        related = (directory.is_relative_to(other) or other.is_relative_to(directory) for _, other in found)
        if directory.is_dir() and not any(related):
            found.append((name if name != "system" else directory.as_posix().strip("/").replace("/", "-"), directory))
    return found


def snapshot(
    roots: list[tuple[str, Path]],
    target: Path,
    *,
    octets: int,
    files: int,
    on_octets: Callable[[int], None] = lambda _count: None,
) -> TreeSize:
    """Copies files and symbolic links of `roots` to `target` until both minima are reached, or all are copied.

    The order is that of `roots`, then of names. Empty or unreadable directories, entries of other types, and those
    whose copying fails by PermissionError or FileNotFoundError are left out.

    Args:
        roots: pairs (name in the tree, directory).
        target: the directory of the copy.
        octets: the minimum of octets in the copied files.
        files: the minimum of copied files, not counting symbolic links.
        on_octets: called with the octets of each copied file.

    Returns:
        The files and octets of the copy, without symbolic links.

    Raises:
        OSError: copying an entry fails in another way, such as by a full disk.
    """
    size = TreeSize()
    for name, root in roots:
        if size.octets >= octets and size.files >= files:
            break
        for entry, relative in _walk(root, Path(name)):
            if size.octets >= octets and size.files >= files:
                break
            copied = _copy(entry, target / relative)
            if copied is not None:
                size.files += 1
                size.octets += copied
                on_octets(copied)
    return size


def measure(root: Path) -> TreeSize:
    """Returns the number of regular files in the tree at `root`, and their octets; follows no symbolic links.

    Raises:
        OSError: a directory of the tree cannot be read, or an entry vanishes.
    """
    size = TreeSize()

    def fail(error: OSError) -> None:
        raise error

    for directory, _, names in os.walk(root, onerror=fail):
        for name in names:
            status = os.lstat(os.path.join(directory, name))  # noqa: PTH118
            if stat.S_ISREG(status.st_mode):
                size.files += 1
                size.octets += status.st_size
    return size


def _walk(root: Path, relative: Path) -> Iterator[tuple[os.DirEntry[str], Path]]:
    try:
        entries = sorted(os.scandir(root), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        below = relative / entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), below)
        else:
            yield entry, below


def _copy(entry: os.DirEntry[str], target: Path) -> int | None:
    """Copies a file or symbolic link to `target`, making parent directories; returns the octets of a copied file.

    None: a symbolic link was copied; or the entry was left out, being of another type or unreadable, or because copying
    it failed by PermissionError or FileNotFoundError. Raises OSError if copying fails in another way.
    """
    try:
        if entry.is_symlink():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(Path(entry.path).readlink())
            return None
        if not entry.is_file(follow_symlinks=False) or not os.access(entry.path, os.R_OK):
            return None
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(entry.path, target)
        target.chmod(stat.S_IMODE(entry.stat(follow_symlinks=False).st_mode) & 0o777 | 0o600)
        return target.stat().st_size
    except (PermissionError, FileNotFoundError):
        return None


def digests(root: Path, on_octets: Callable[[int], None] = lambda _count: None) -> dict[str, str]:
    """Returns a description of the content of each entry below `root`, by its path relative to `root`.

    The description is the SHA-256 of a file in hexadecimal, "link to TARGET", or "directory". Entries of other types
    are left out. `on_octets` is called with the octets of each file read.

    Raises:
        OSError: an entry cannot be read.
    """
    found: dict[str, str] = {}
    waiting = [root]
    while waiting:
        directory = waiting.pop()
        with os.scandir(directory) as entries:
            for entry in entries:
                path = Path(entry.path)
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    waiting.append(path)
                    description = "directory"
                elif stat.S_ISLNK(status.st_mode):
                    description = f"link to {path.readlink()}"
                elif stat.S_ISREG(status.st_mode):
                    with path.open("rb") as file:
                        description = hashlib.file_digest(file, "sha256").hexdigest()
                    on_octets(status.st_size)
                else:
                    continue
                found[os.path.relpath(path, root)] = description
    return found


def mismatches(source: dict[str, str], copy: dict[str, str]) -> list[str]:
    """Returns the sorted paths whose descriptions (`digests`) differ between two trees, or that only one tree has."""
    return sorted(path for path in source.keys() | copy.keys() if source.get(path) != copy.get(path))
