"""NFS version 3 and MOUNT version 3 servers over local directories and file systems of fsspec; Linux only."""

from rpcrdma.nfs.export.access_terms import ANONYMOUS, AccessTerms, Export, Network, parse_network
from rpcrdma.nfs.export.server_state import ServerState, open_state
from rpcrdma.nfs.server.services import NfsServices, build_services
from rpcrdma.nfs.v3.server.mount_service import MountService
from rpcrdma.nfs.v3.server.service import NfsService

__all__ = [
    "ANONYMOUS",
    "AccessTerms",
    "Export",
    "MountService",
    "Network",
    "NfsService",
    "NfsServices",
    "ServerState",
    "build_services",
    "open_state",
    "parse_network",
]
