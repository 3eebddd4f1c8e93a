"""Attributes of exports' roots for listings of the directories above, which no silent or broken file system ends."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from time import monotonic
from typing import Final

from rpcrdma.nfs.export.tree import Attributes, Node, Refused, Tree

__all__ = ["RootAttributes"]

_ANSWER_S: Final = 5.0
"""How long listings wait for an answer after its question: far longer than a slow file system takes."""


class RootAttributes:
    """Looks at the roots of exports on FUSE and network file systems in threads, one for each root at a time.

    Args:
        trees: returns all exports of the server.
    """

    def __init__(self, trees: Callable[[], Iterable[Tree]]) -> None:
        self._trees = trees
        self._guard = threading.Lock()
        self._asked: dict[bytes, tuple[Future[Attributes], float]] = {}
        """By the filehandle of the root: the answer that is waited for, and the monotonic time until which it is."""

    def of(self, root: Node) -> Attributes | None:
        """Returns the attributes of a root; None if its file system fails, or does not answer within 5 s.

        Blocks meanwhile. While a file system is silent, further calls return None at once. After the first wait in vain
        all other roots are asked at once, so that a listing waits for all silent ones together: one host may have them
        all.

        Raises:
            Refused: the root is not there any more.
        """
        try:
            return self._awaited(root) if root.tree.always_waits else root.attributes()
        except Refused:
            raise
        except OSError:
            # Such as FUSE without its process. Calls inside the export return the error.
            return None

    def _awaited(self, root: Node) -> Attributes | None:
        """As `of`, for a root whose file system may be silent; raises OSError if that fails."""
        with self._guard:
            asked, until = self._begin(root)
        left_s = until - monotonic()
        if wait((asked,), max(left_s, 0.0)).done:
            return asked.result()
        if left_s > 0:
            # The others can be asked later as well, if no thread starts now.
            with self._guard, contextlib.suppress(RuntimeError):
                for tree in self._trees():
                    if tree.always_waits:
                        self._begin(tree.root)
        return None

    def _begin(self, root: Node) -> tuple[Future[Attributes], float]:
        """Asks for attributes, unless they are waited for; returns the entry in `_asked`. The caller holds `_guard`.

        Raises RuntimeError if no thread starts.
        """
        found = self._asked.get(root.handle)
        if found is None:
            found = Future(), monotonic() + _ANSWER_S
            threading.Thread(target=self._ask, args=(root, found[0]), name="rpcrdma-roots", daemon=True).start()
            self._asked[root.handle] = found
        return found

    def _ask(self, root: Node, asked: Future[Attributes]) -> None:
        try:
            asked.set_result(root.attributes())
        except Exception as error:  # noqa: BLE001 - raised where it is awaited
            asked.set_exception(error)
        with self._guard:
            del self._asked[root.handle]
