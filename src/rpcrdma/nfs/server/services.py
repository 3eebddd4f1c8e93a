"""The services of a server: NFS version 3 (RFC 1813) over local directories, and MOUNT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rpcrdma.nfs.export.export import Export
from rpcrdma.nfs.export.local_tree import LocalExports
from rpcrdma.nfs.export.state import ServerState
from rpcrdma.nfs.v3.server.mount_service import MountService
from rpcrdma.nfs.v3.server.service import NfsService

__all__ = ["LocalNfsService", "NfsServices", "build_services"]


class LocalNfsService(NfsService):
    """NFS version 3 over directories of this machine."""

    exports: LocalExports


class NfsServices(NamedTuple):
    """The services to offer; close `nfs`, then the state, when they are offered no longer."""

    nfs: LocalNfsService
    mount: MountService


def build_services(exports: Sequence[Export], *, state: ServerState) -> NfsServices:
    """NFS and MOUNT over `exports`.

    Raises:
        ValueError: `exports` is empty, or has two of one name.
        OSError: a directory cannot be exported, or the system lacks a feature that a server needs.
    """
    if not exports:
        raise ValueError("no exports: name at least one directory")
    local = LocalExports(exports, state)
    return NfsServices(LocalNfsService(local), MountService(local))
