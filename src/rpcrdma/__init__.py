"""RPC-over-RDMA for Python: the transport, a software RNIC underneath it and NFS on top of it.

`connect` calls remote programs, `serve` offers them, `nfs_open` works with the files of an NFS server; each over
rdma:// and tcp:// alike.
"""

from rpcrdma.aio.capture import PacketCapture
from rpcrdma.aio.connect import Connection, ConnectOptions, connect
from rpcrdma.aio.files import NfsFilesystem, nfs_open
from rpcrdma.aio.rdma_connection import Negotiated
from rpcrdma.aio.serve import ServeOptions, Server, serve
from rpcrdma.errors import (
    CallTimeout,
    ConnectFailed,
    DecodeError,
    LocalProtocolError,
    RemoteAccessError,
    RemoteProtocolError,
    RpcError,
    RpcRdmaError,
    TransportClosed,
)
from rpcrdma.rpc.auth import AuthNone, AuthSys

__all__ = [
    "AuthNone",
    "AuthSys",
    "CallTimeout",
    "ConnectFailed",
    "ConnectOptions",
    "Connection",
    "DecodeError",
    "LocalProtocolError",
    "Negotiated",
    "NfsFilesystem",
    "PacketCapture",
    "RemoteAccessError",
    "RemoteProtocolError",
    "RpcError",
    "RpcRdmaError",
    "ServeOptions",
    "Server",
    "TransportClosed",
    "connect",
    "nfs_open",
    "serve",
]
