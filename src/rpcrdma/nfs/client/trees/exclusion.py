"""Which entries of a tree are passed over, by patterns as shells have them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fnmatch import translate

__all__ = ["Exclusion"]


class Exclusion:
    """The entries that one of `patterns` matches, with all below them.

    A pattern without a slash is for names at any depth, one with a slash for paths from the top of the tree, which `./`
    may stand for; there `*` matches slashes as well.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        kinds: dict[bool, list[str]] = {False: [], True: []}
        for pattern in patterns:
            text = pattern.removeprefix("./").strip("/")
            kinds["/" in text or pattern.startswith("./")].append(translate(text))
        self._names, self._paths = (
            re.compile("|".join(kinds[of_path])) if kinds[of_path] else None for of_path in (False, True)
        )

    def covers(self, name: str, path: Callable[[], str]) -> bool:
        """Whether the entry `name` is left out; `path` tells its path from the top, if that is needed."""
        if self._names is not None and self._names.match(name):
            return True
        return self._paths is not None and self._paths.match(path()) is not None
