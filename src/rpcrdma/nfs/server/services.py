"""Builds the services of a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rpcrdma.nfs.server.backend import Backend
from rpcrdma.nfs.server.export import Export
from rpcrdma.nfs.server.mount_service import MountService
from rpcrdma.nfs.server.nfs_service import NfsService
from rpcrdma.nfs.server.state import ServerState

__all__ = ["NfsServices", "build_services"]


class NfsServices(NamedTuple):
    """The services to offer; close `nfs`, then the state, when they are offered no longer."""

    nfs: NfsService
    mount: MountService


def build_services(
    exports: Sequence[Export],
    *,
    state: ServerState,
    act_as_caller: bool | None = None,
    open_by_handle: bool = True,
) -> NfsServices:
    """NFS and MOUNT over `exports`.

    `act_as_caller` None: take on callers' identities if the server runs as root; False: everything happens as the
    serving user. `open_by_handle` False: do without the privilege to open objects by handle.

    Raises:
        ValueError: `exports` is empty, or has two of one name.
        OSError: a directory cannot be exported, or the system lacks a feature that a server needs.
    """
    if not exports:
        raise ValueError("nothing to export")
    backend = Backend(exports, state, act_as_caller=act_as_caller, open_by_handle=open_by_handle)
    return NfsServices(NfsService(backend), MountService(backend))
