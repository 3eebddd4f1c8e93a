"""The class of paths that universal-pathlib makes of our URLs; it finds it by its entry point."""

from fsspec import get_filesystem_class
from upath import UPath

from rpcrdma.fsspec.addresses import PROTOCOLS

__all__ = ["NfsUPath"]


class NfsUPath(UPath):
    """`UPath("rdma://server/data")`, with the methods of `pathlib.Path`."""

    __slots__ = ()


for _protocol in PROTOCOLS:
    # It asks the classes that fsspec has loaded how their URLs are read, and warns where it finds none.
    get_filesystem_class(_protocol)
