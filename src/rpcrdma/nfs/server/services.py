"""The services of a server: NFS version 3 (RFC 1813) over local directories, and MOUNT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rpcrdma.nfs import v3
from rpcrdma.nfs.server.backend import Backend
from rpcrdma.nfs.server.creation import CreationProcedures
from rpcrdma.nfs.server.data import DataProcedures
from rpcrdma.nfs.server.export import Export
from rpcrdma.nfs.server.information import InformationProcedures
from rpcrdma.nfs.server.listing import ListingProcedures
from rpcrdma.nfs.server.mount_service import MountService
from rpcrdma.nfs.server.rename_remove_link import RenameRemoveLinkProcedures
from rpcrdma.nfs.server.state import ServerState

__all__ = ["NfsService", "NfsServices", "build_services"]


class NfsService(
    InformationProcedures,
    DataProcedures,
    CreationProcedures,
    RenameRemoveLinkProcedures,
    ListingProcedures,
    v3.NFS_V3_Service,
):
    """All 22 procedures.

    Of two WRITEs to one place the first must not run again after the second, and CREATE, REMOVE and the like fail when
    they run again: these run at most once, and their replies, small ones, are kept. The others change nothing, or
    (v3.COMMIT) may be repeated.
    """

    OWN_LIMITS = True
    IDEMPOTENT = frozenset(
        procedure.number
        for procedure in (
            v3.GETATTR,
            v3.LOOKUP,
            v3.ACCESS,
            v3.READLINK,
            v3.READ,
            v3.READDIR,
            v3.READDIRPLUS,
            v3.FSSTAT,
            v3.FSINFO,
            v3.PATHCONF,
            v3.COMMIT,
        )
    )

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.WAITS_FOR = backend.waits_for

    def close_idle(self) -> None:
        """Closes objects and files that have not been used since the last call; may block.

        To be called every few seconds: an open file that another process deletes keeps its space.
        """
        self.backend.close_idle()

    def close(self) -> list[OSError]:
        """Puts data written UNSTABLE on the disk and closes all objects and files; returns the errors. May block."""
        return self.backend.close()


class NfsServices(NamedTuple):
    """The services to offer; close `nfs`, then the state, when they are offered no longer."""

    nfs: NfsService
    mount: MountService


def build_services(exports: Sequence[Export], *, state: ServerState) -> NfsServices:
    """Makes the services of an NFS server, for `rpcrdma.serve`.

    Args:
        exports: the exported directories.
        state: the state that file handles depend on; see `open_state`.

    Returns:
        `nfs` and `mount`, a pair of services. Close `nfs`, then the state, when the server has ended.

    Raises:
        ValueError: `exports` is empty, or two exports have one name.
        OSError: a directory cannot be exported, or the system lacks a feature that a server needs.
    """
    if not exports:
        raise ValueError("no exports: name at least one directory")
    backend = Backend(exports, state)
    return NfsServices(NfsService(backend), MountService(backend))
