"""NFS version 3 and MOUNT version 3 servers over local directories; Linux only."""

from rpcrdma.nfs.server.export import ANONYMOUS, Export, Network, parse_network
from rpcrdma.nfs.server.mount_service import MountService
from rpcrdma.nfs.server.services import NfsService, NfsServices, build_services
from rpcrdma.nfs.server.state import ServerState, open_state

__all__ = [
    "ANONYMOUS",
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
