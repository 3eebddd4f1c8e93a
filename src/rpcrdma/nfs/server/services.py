"""The services of a server over directories and file systems of fsspec: NFS version 3 with MOUNT, and version 4."""

from __future__ import annotations

import hashlib
import resource
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rpcrdma.nfs.export.access_terms import Export
from rpcrdma.nfs.export.server_exports import ServerExports
from rpcrdma.nfs.export.server_state import ServerState
from rpcrdma.nfs.v3.server.mount_service import MountService
from rpcrdma.nfs.v3.server.service import NfsService

if TYPE_CHECKING:
    from rpcrdma.nfs.v4.server.service import Nfs4Service

__all__ = ["NfsServices", "ServedNfs", "build_nfs4", "build_services"]

_CLIENTS_FILE = "clients.sqlite3"


class ServedNfs(NfsService):
    """The service of NFS version 3 that `build_services` makes; `exports` has the exported trees."""

    exports: ServerExports


class NfsServices(NamedTuple):
    """The services of NFS version 3 and of MOUNT that `build_services` makes, to be offered by `rpcrdma.serve`.

    After the last call the owner closes `nfs`, then the `ServerState`.
    """

    nfs: ServedNfs
    mount: MountService


def build_services(exports: Sequence[Export], *, state: ServerState) -> NfsServices:
    """Makes the services of NFS version 3 and MOUNT for `rpcrdma.serve`.

    Args:
        exports: the exported directories and fsspec file systems, with their terms.
        state: the key of the file handles, the directories and names at which objects were last seen, and the write
            verifier; `open_state` makes it.

    Returns:
        `nfs` and `mount`, a pair of services. Close `nfs`, then the state, when the server has ended.

    Raises:
        ValueError: `exports` is empty, or two exports have one name.
        OSError: a directory or a URL cannot be exported, or the system lacks a feature that a server needs; the text
            names a missing package.
    """
    if not exports:
        raise ValueError("no exports: name at least one directory")
    served = ServerExports(exports, state)
    return NfsServices(ServedNfs(served), MountService(served))


def build_nfs4(
    version_3: ServedNfs,
    state: ServerState,
    directory: Path | None,
    random_bytes: Callable[[int], bytes],
    clock: Callable[[], float],
    wall_clock_ns: Callable[[], int],
    *,
    addresses: Sequence[str] = (),
    exports: Sequence[str] = (),
) -> Nfs4Service:
    """Makes the service of NFS version 4 over the exports of `build_services`.

    Close it after its last use, before the state.

    Args:
        version_3: the service of version 3, also if it is not offered: both obey the locks and share reservations of
            clients of either version.
        state: the state of the server, whose key makes the server owner of EXCHANGE_ID.
        directory: holds the database of clients that may reclaim their state after a restart; None keeps it in memory.
        random_bytes: takes a number, and returns as many random octets, for ids of sessions and of the server.
        clock: returns the time of a monotonic clock in seconds, for leases.
        wall_clock_ns: returns the time in nanoseconds since 1970, once, for the times of directories above exports.
        addresses: the URLs at which the server listens and clients find it again, such as "tcp://192.0.2.1:2049". They
            tell this server from others that share `state` and `directory`: a run of a server that has ended was an
            earlier run of this server if both have an address in common, with a port other than 0, or if neither has
            any address. Clients of earlier runs may reclaim their state.
        exports: a text for each export, such as name and directory, which is recorded in `directory`. Only clients of
            an earlier run that had one of the texts may reclaim their state; empty: clients of all earlier runs.

    Raises:
        OSError: the database cannot be used.
    """
    # Imported where it is served: the definition takes a tenth of a second.
    from rpcrdma.nfs.v4.server.pseudo_root import PseudoRoot  # noqa: PLC0415
    from rpcrdma.nfs.v4.server.recovery import RecoveryDatabase  # noqa: PLC0415
    from rpcrdma.nfs.v4.server.service import Nfs4Service  # noqa: PLC0415
    from rpcrdma.nfs.v4.server.state import State  # noqa: PLC0415
    from rpcrdma.nfs.v4.state_limits import NFS4_HELD_TOTAL_MAX  # noqa: PLC0415

    path = directory / _CLIENTS_FILE if directory is not None else None
    database = RecoveryDatabase(path, random_bytes, addresses=addresses, exports=exports)
    # Clients take servers with one owner for one server, and would look for their sessions at any of them; to a server
    # with another one than before they reclaim nothing.
    own = database.name.encode() if directory is not None else random_bytes(16)
    owner = b"server owner " + own
    identity = hashlib.blake2b(owner, key=state.key, digest_size=16).digest()
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    unlimited = descriptors == resource.RLIM_INFINITY
    held_max = NFS4_HELD_TOTAL_MAX if unlimited else min(NFS4_HELD_TOTAL_MAX, descriptors // 8)
    clients = State(version_3.claims, database, random_bytes, clock(), identity=identity, held_max=held_max)
    return Nfs4Service(PseudoRoot(version_3.exports, wall_clock_ns()), clients, clock=clock)
