"""Finds the objects whose paths match a pattern: each directory is listed once, with its places in the pattern.

A place is an index into the names of the pattern: the name that entries of the directory have to match. An entry that
matches has the next place, and at `**` a directory keeps the place. So no path is found twice, and the work does not
grow with the number of `**`.
"""

from __future__ import annotations

import errno
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from fnmatch import translate
from typing import TypeAlias

from rpcrdma.limits import NFS_TREE_PENDING_MAX
from rpcrdma.nfs.client.node import Node
from rpcrdma.nfs.client.resolver import LEADS_NOWHERE
from rpcrdma.nfs.client.trees.tree_walk import OnError, entries_below, too_many_pending
from rpcrdma.nfs.client.volume import Volume

__all__ = ["glob_tree"]

_MAGIC = re.compile("[*?[]")
"""Matches a wildcard character of patterns."""

_ANY_DEPTH = "**"

_Shown: TypeAlias = "str | tuple[_Shown, str]"
"""A path as it is yielded: "/" or "", or (path above, name), which costs constant memory at any depth."""


def _text(shown: _Shown) -> str:
    names: list[str] = []
    while not isinstance(shown, str):
        shown, name = shown
        names.append(name)
    return shown + "/".join(reversed(names))


class _Pattern:
    """The names of a glob pattern, compiled; a place is the index of the name that the next entry has to match.

    `include_hidden`: whether wildcards match names that begin with a dot as well.
    """

    def __init__(self, names: list[str], *, include_hidden: bool) -> None:
        self.end = len(names)
        self._names = names
        self._matches = [re.compile(translate(name)).match for name in names]
        self._shows_hidden = [include_hidden or name.startswith(".") for name in names]

    def past_any_depth(self, places: set[int]) -> set[int]:
        """Returns `places`, indexes of the pattern's names, and the indexes behind each `**` there.

        A `**` may match no directory, so that the names behind it are possible as well.
        """
        found = set(places)
        for place in places:
            while place < self.end and self._names[place] == _ANY_DEPTH:
                place += 1  # noqa: PLW2901 - a walk from there
                found.add(place)
        return found

    def literal(self, places: set[int]) -> str | None:
        """Returns the only name that can match at `places`, indexes of the pattern's names; None if several names can.

        Also None if an index in `places` is the end of the pattern.
        """
        if len(places) != 1 or self.end in places:
            return None
        name = self._names[min(places)]
        return None if _MAGIC.search(name) else name

    def places_of(self, places: set[int], name: str) -> tuple[set[int], set[int]]:
        """Matches an entry's `name` with the pattern's names at the indexes `places`.

        Returns (the indexes behind names that match; the indexes of `**`, which entries below may match, too). A name
        that begins with a dot matches only if the pattern's name does so too, or hidden names are included.
        """
        behind, kept = set(), set()
        for place in places - {self.end}:
            if name.startswith(".") and not self._shows_hidden[place]:
                continue
            if self._names[place] == _ANY_DEPTH:
                kept.add(place)
            elif self._matches[place](name):
                behind.add(place + 1)
        return behind, kept


@dataclass(slots=True)
class _Pending:
    """An object to be examined.

    Attributes:
        shown: its path as it is yielded.
        node: the object; None for a name that must be looked up, and may be missing.
        places: the places in the pattern that its entries, or at the end the object itself, may match.
        yielded: whether its path has been yielded.
    """

    shown: _Shown
    node: Node | None
    places: set[int]
    yielded: bool = False


async def glob_tree(
    volume: Volume, pattern: str, *, include_hidden: bool, onerror: Callable[[OSError], None] | None
) -> AsyncIterator[str]:
    """Yields each path that matches `pattern` once, directory by directory; relative if `pattern` is.

    `**` follows no symbolic links. `include_hidden`: whether wildcards match names that begin with a dot. `onerror` is
    called with each OSError, except those that only show that nothing is at a path.

    Raises:
        ValueError: the pattern is empty.
        OSError: without `onerror`, the first such error.
        RpcRdmaError: an error of `Caller.call`, or the server lists the same entries without end, or, without
            `onerror`, an invalid name.
    """
    if not pattern:
        raise ValueError("the pattern is empty")
    tell = OnError(onerror or _raise)
    wanted = _Pattern([name for name in pattern.split("/") if name not in {"", "."}], include_hidden=include_hidden)
    only_directories = pattern.endswith("/")
    pending = [_Pending("/" if pattern.startswith("/") else "", None, {0})]
    while pending:
        at = pending.pop()
        while (name := wanted.literal(at.places)) is not None:
            at = _Pending((at.shown, name), None, {min(at.places) + 1})
        places = wanted.past_any_depth(at.places)
        lists = places != {wanted.end}
        try:
            node = at.node or await volume.resolver.find(_text(at.shown), follow=lists or only_directories)
        except OSError as error:
            if error.errno not in LEADS_NOWHERE:
                tell(error)
            continue
        if wanted.end in places and not at.yielded and at.shown and (node.is_dir or not (lists or only_directories)):
            yield _text(at.shown)
        if not lists or not node.is_dir:
            continue
        try:
            names_max = volume.options.listed_names_max
            async for entry in entries_below(volume, node, names_max=names_max, refused=onerror and tell):
                behind, kept = wanted.places_of(places, entry.name)
                inner = _Pending((at.shown, entry.name), None, behind | kept)
                if not only_directories and wanted.end in behind | wanted.past_any_depth(kept):
                    yield _text(inner.shown)
                    inner.yielded = True
                    inner.places.discard(wanted.end)
                if not inner.places:
                    continue
                if entry.refusal is not None:
                    tell(entry.refusal)
                    continue
                if entry.is_dir():
                    inner.node = entry.node
                elif entry.is_symlink():
                    inner.places -= kept  # `**` follows no links
                else:
                    continue
                if inner.places and len(pending) == NFS_TREE_PENDING_MAX:
                    tell(too_many_pending((node, entry.name)))
                elif inner.places:
                    pending.append(inner)
        except OSError as error:
            # A directory that was listed above may have been removed since.
            if tell.raised:
                raise
            if error.errno != errno.ENOENT and (at.node is None or error.errno != errno.ESTALE):
                tell(error)


def _raise(error: OSError) -> None:
    raise error
