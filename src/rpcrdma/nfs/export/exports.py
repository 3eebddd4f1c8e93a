"""The interface between versions of NFS and all trees of a server, with the rules that `tree` has for methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rpcrdma.nfs.export.grant import Grant
from rpcrdma.nfs.export.tree import Node, Tree
from rpcrdma.rpc.service import CallContext

__all__ = ["Exports"]


class Exports(Protocol):
    """All exports of a server, by which a version of NFS finds the object of a file handle. Thread-safe.

    `context` is the call that is being answered, and `version` the version of NFS, 3 or 4. If `locate` returns None, it
    is called again in a worker thread, where it may block.
    """

    @property
    def trees(self) -> Sequence[Tree]:
        """The tree of each export, in the order of the exports."""

    def locate(
        self, handle: bytes, context: CallContext, version: int = 3, *, any_flavor: bool = False
    ) -> tuple[Node, Grant] | None:
        """Returns the object of a handle and the caller's rights, if the call may use its export by `version` of NFS.

        `any_flavor`: whether the call may have any security flavor, transport and port, as one of SECINFO may. Returns
        None in the event loop if finding the object or the rights may block, or any use of the object, as in FUSE: the
        caller then calls again in a worker thread.

        Raises:
            Refused: BAD_HANDLE: this server did not make the handle; ESTALE: its export or the object is gone; EACCES:
                the export is closed to this call; EAGAIN: a search of the tree or of the caller's groups has to wait;
                and others of a remote store.
            CredentialTooWeak: the export asks for another security flavor.
            OSError: the server is not permitted to reach the object, or the system fails.
        """

    def file_of(self, handle: bytes) -> bytes:
        """Returns the key of a handle's object in `claims.Claims`; a local object has one key in all its exports.

        `handle` may have any octets; if this server did not make it the result is of no use, but nothing is raised.
        """

    def waits_for(self, handle: bytes) -> bytes | None:
        """Returns octets that identify the file system on which a call with this handle may block.

        They are only good for comparison: a server bounds the threads that one file system can block. Returns None if
        that bound is not needed, as with one local file system alone, or if the handle belongs to no export.
        """

    def close_idle(self) -> None:
        """Drops objects and closes files that were not used since the last call of this method; may block.

        Files with unstable data stay open while they have a name.
        """

    def close(self) -> list[OSError]:
        """Puts unstable data on the disk and drops all cached objects and open files; may block, and be called again.

        Returns the errors by which data was lost; empty if there were none.
        """
