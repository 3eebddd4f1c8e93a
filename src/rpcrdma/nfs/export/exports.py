"""The interface between versions of NFS and all trees of a server, with the rules that `tree` has for methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rpcrdma.nfs.export.grant import Grant
from rpcrdma.nfs.export.tree import Node, Tree
from rpcrdma.rpc.gss.flavors import SecurityFlavor
from rpcrdma.rpc.service import CallContext

__all__ = ["Exports"]


class Exports(Protocol):
    """The trees of a server, and the objects of their handles."""

    @property
    def trees(self) -> Sequence[Tree]:
        """All trees, in the order of the exports."""

    def locate(self, handle: bytes, context: CallContext, version: int = 3) -> tuple[Node, Grant] | None:
        """Returns the object of a handle, in a tree open to this call by `version` of NFS, and the caller's rights.

        None in the event loop where that may block: the call continues in a worker thread and asks again.

        Raises:
            Refused: BAD_HANDLE: the handle is not ours; ESTALE: its export or the object is gone; EACCES: the export is
                closed to this call; EAGAIN: a search of the tree has to wait.
            CredentialTooWeak: the export asks for another security flavor.
            OSError: the server may not reach the object.
        """

    def admit(self, tree: Tree, context: CallContext, version: int = 3) -> Grant | None:
        """Lets a call pass that a tree is open to by `version` of NFS; returns the caller's rights.

        None in the event loop where that may block: the call goes on in a worker thread and asks again.

        Raises:
            Refused: EACCES: the export is closed to this host or caller, or to connections like this one.
            CredentialTooWeak: the export asks for another security flavor.
        """

    def admit_mount(self, tree: Tree, context: CallContext, version: int = 3) -> Grant | None:
        """Does as `admit` for MOUNT and SECINFO, which take every security flavor; None as `admit`.

        Raises:
            Refused: EACCES: no rule fits the host.
        """

    def flavors(self, tree: Tree, context: CallContext) -> Sequence[SecurityFlavor]:
        """Returns the security flavors of a tree for callers of the call's host, the preferred one first.

        Raises:
            Refused: EACCES: the tree is closed to all of them.
        """

    def file_of(self, handle: bytes) -> bytes:
        """Returns the name of a handle's object for claims, the same for its handles in all exports.

        `handle` may have any octets.
        """

    def waits_for(self, handle: bytes) -> bytes | None:
        """Returns the file system that a call for a handle may have to wait for; None where all trees are on one."""

    def close_idle(self) -> None:
        """Drops objects and files that were not used since the last call; may block."""

    def close(self) -> list[OSError]:
        """Puts unstable data on the disk and drops all objects and files; returns the errors. May be called again."""
