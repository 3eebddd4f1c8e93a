"""The part that all procedures share: the exports."""

from __future__ import annotations

from rpcrdma.nfs.export.tree import Exports

__all__ = ["Procedures"]


class Procedures:
    """Procedures over exports."""

    def __init__(self, exports: Exports) -> None:
        self.exports = exports
