"""The versions of RPC-over-RDMA. Nothing outside of this folder knows one by name."""

from rpcrdma.transport.dialects.dialect import Dialect, Geometry, Window
from rpcrdma.transport.dialects.v1 import Version1

__all__ = ["Dialect", "Geometry", "Window", "first_dialect"]


def first_dialect() -> Dialect:
    """The version with which a connection begins."""
    return Version1()
