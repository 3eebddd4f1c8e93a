"""NFS version 3 and MOUNT version 3 servers over local directories and file systems of fsspec; Linux only."""

from rpcrdma.nfs.export.access_terms import AccessTerms, Export
from rpcrdma.nfs.export.server_state import ServerState, open_state
from rpcrdma.nfs.server.services import NfsServices, build_services

__all__ = [
    "AccessTerms",
    "Export",
    "NfsServices",
    "ServerState",
    "build_services",
    "open_state",
]
