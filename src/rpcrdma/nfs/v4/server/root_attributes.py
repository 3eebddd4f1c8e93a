"""Attributes of exports' roots for listings of the directories above, which wait for no silent file system for long."""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait
from typing import Final

from rpcrdma.nfs.export.tree import Attributes, Node

__all__ = ["RootAttributes"]

_ANSWER_S: Final = 5.0
"""How long a listing waits for one file system, and only the first one for a silent one: far longer than a slow one."""


class RootAttributes:
    """Looks at the roots of exports on FUSE and network file systems in threads, one for each root at a time."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._asked: dict[bytes, Future[Attributes]] = {}
        """The answers that are waited for, by the filehandle of the root."""
        self._silent: set[bytes] = set()
        """The roots among them that have been waited for in vain."""

    def of(self, root: Node) -> Attributes | None:
        """Returns the attributes of a root; None if its file system does not answer within 5 s. Blocks meanwhile.

        While a file system is silent, further calls return None at once.

        Raises:
            OSError: the file system refuses.
        """
        if not root.tree.always_waits:
            return root.attributes()
        with self._guard:
            asked = self._asked.get(root.handle)
            if asked is None:
                asked = Future()
                threading.Thread(target=self._ask, args=(root, asked), name="rpcrdma-roots", daemon=True).start()
                self._asked[root.handle] = asked
            answer_s = 0.0 if root.handle in self._silent else _ANSWER_S
        if wait((asked,), answer_s).done:
            return asked.result()
        with self._guard:
            if self._asked.get(root.handle) is asked:
                self._silent.add(root.handle)
        return None

    def _ask(self, root: Node, asked: Future[Attributes]) -> None:
        try:
            asked.set_result(root.attributes())
        except Exception as error:  # noqa: BLE001 - raised where it is awaited
            asked.set_exception(error)
        with self._guard:
            del self._asked[root.handle]
            self._silent.discard(root.handle)
