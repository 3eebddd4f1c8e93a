"""The services of a server: NFS version 3 (RFC 1813) over directories and file systems of fsspec, and MOUNT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rpcrdma.nfs.export.export import Export
from rpcrdma.nfs.export.joint_exports import JointExports
from rpcrdma.nfs.export.local_tree import LocalExports
from rpcrdma.nfs.export.state import ServerState
from rpcrdma.nfs.v3.server.mount_service import MountService
from rpcrdma.nfs.v3.server.service import NfsService

__all__ = ["NfsServices", "ServedNfs", "build_services"]


class ServedNfs(NfsService):
    """NFS version 3 over the exports of `build_services`."""

    exports: LocalExports | JointExports

    @property
    def local(self) -> LocalExports:
        """The directories of this machine."""
        return self.exports.local if isinstance(self.exports, JointExports) else self.exports


class NfsServices(NamedTuple):
    """The services to offer; close `nfs`, then the state, when they are offered no longer."""

    nfs: ServedNfs
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
        OSError: a directory or a URL cannot be exported, or the system lacks a feature that a server needs; the text
            names a missing package.
    """
    if not exports:
        raise ValueError("no exports: name at least one directory")
    has_urls = any(export.url is not None for export in exports)
    served = JointExports(exports, state) if has_urls else LocalExports(exports, state)
    return NfsServices(ServedNfs(served), MountService(served))
