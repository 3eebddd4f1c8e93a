"""RPC-over-RDMA for Python: the transport, a software RNIC underneath it and NFS on top of it.

`connect` calls remote programs, `serve` offers them, `nfs_open` works with the files of an NFS server; each over
rdma:// and tcp:// alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcrdma.deferred import deferred

if TYPE_CHECKING:
    from rpcrdma.aio.client.client_metrics import ClientMetrics
    from rpcrdma.aio.client.connect import Connection, ConnectOptions, connect
    from rpcrdma.aio.client.returning_client import ReturningClient
    from rpcrdma.aio.connections.negotiated import Negotiated
    from rpcrdma.aio.drivers.capture import PacketCapture
    from rpcrdma.aio.host_options import HostAuthentication
    from rpcrdma.aio.security_options import Kerberos, KerberosKeys
    from rpcrdma.aio.server.metrics import MetricsExporter
    from rpcrdma.aio.server.rdma_server import RdmaServerConfig
    from rpcrdma.aio.server.serve import ServeOptions, Server, serve
    from rpcrdma.aio.server.tcp_server import TcpServerConfig
    from rpcrdma.errors import (
        CallTimeout,
        ConnectFailed,
        DecodeError,
        HostAuthenticationFailed,
        HostNotFound,
        LocalProtocolError,
        MessageTooLong,
        NoAnswer,
        NotPermitted,
        RemoteAccessError,
        RemoteProtocolError,
        RpcError,
        RpcRdmaError,
        TransportClosed,
    )
    from rpcrdma.iwarp.config import IwarpConfig
    from rpcrdma.nfs.client import NfsFilesystem, nfs_open
    from rpcrdma.rpc.auth import AuthNone, AuthSys
    from rpcrdma.rpc.host_identity import HostIdentity
    from rpcrdma.transport.call import Call
    from rpcrdma.transport.config import TransportConfig
    from rpcrdma.verbs.device_config import VerbsConfig
    from rpcrdma.wire.bulk_memory import buffer

__all__ = [
    "AuthNone",
    "AuthSys",
    "Call",
    "CallTimeout",
    "ClientMetrics",
    "ConnectFailed",
    "ConnectOptions",
    "Connection",
    "DecodeError",
    "HostAuthentication",
    "HostAuthenticationFailed",
    "HostIdentity",
    "HostNotFound",
    "IwarpConfig",
    "Kerberos",
    "KerberosKeys",
    "LocalProtocolError",
    "MessageTooLong",
    "MetricsExporter",
    "Negotiated",
    "NfsFilesystem",
    "NoAnswer",
    "NotPermitted",
    "PacketCapture",
    "RdmaServerConfig",
    "RemoteAccessError",
    "RemoteProtocolError",
    "ReturningClient",
    "RpcError",
    "RpcRdmaError",
    "ServeOptions",
    "Server",
    "TcpServerConfig",
    "TransportClosed",
    "TransportConfig",
    "VerbsConfig",
    "buffer",
    "connect",
    "nfs_open",
    "serve",
]

__version__ = "0.1.0"
"""The version of pyproject.toml, as a constant: reading it from the installed metadata takes 40 ms."""

__getattr__, __dir__ = deferred(
    __name__,
    {
        "rpcrdma.aio.drivers.capture": ("PacketCapture",),
        "rpcrdma.aio.host_options": ("HostAuthentication",),
        "rpcrdma.aio.client.client_metrics": ("ClientMetrics",),
        "rpcrdma.aio.client.connect": ("ConnectOptions", "Connection", "connect"),
        "rpcrdma.nfs.client": ("NfsFilesystem", "nfs_open"),
        "rpcrdma.aio.connections.negotiated": ("Negotiated",),
        "rpcrdma.aio.client.returning_client": ("ReturningClient",),
        "rpcrdma.aio.server.metrics": ("MetricsExporter",),
        "rpcrdma.aio.server.serve": ("ServeOptions", "Server", "serve"),
        "rpcrdma.rpc.auth": ("AuthNone", "AuthSys"),
        "rpcrdma.rpc.host_identity": ("HostIdentity",),
        "rpcrdma.transport.call": ("Call",),
        "rpcrdma.wire.bulk_memory": ("buffer",),
        "rpcrdma.errors": (
            "CallTimeout",
            "ConnectFailed",
            "DecodeError",
            "HostAuthenticationFailed",
            "HostNotFound",
            "LocalProtocolError",
            "MessageTooLong",
            "NoAnswer",
            "NotPermitted",
            "RemoteAccessError",
            "RemoteProtocolError",
            "RpcError",
            "RpcRdmaError",
            "TransportClosed",
        ),
        "rpcrdma.aio.server.rdma_server": ("RdmaServerConfig",),
        "rpcrdma.aio.server.tcp_server": ("TcpServerConfig",),
        "rpcrdma.iwarp.config": ("IwarpConfig",),
        "rpcrdma.transport.config": ("TransportConfig",),
        "rpcrdma.verbs.device_config": ("VerbsConfig",),
        "rpcrdma.aio.security_options": ("Kerberos", "KerberosKeys"),
    },
)
