"""File systems for fsspec, and so for pandas, Arrow, Dask and others: `rdma://` and `nfstcp://`.

fsspec finds them by itself: `fsspec.open("rdma://server/data/x.csv")`. They take the package fsspec
(`pip install '.[fsspec]'`).
"""

try:
    import fsspec as _fsspec
except ModuleNotFoundError as error:
    if error.name != "fsspec":
        raise
    raise ImportError(
        "rpcrdma.fsspec needs the package fsspec, which is not installed: pip install fsspec", name="fsspec"
    ) from error

from rpcrdma.fsspec.buffered_file import BufferedNfsFile
from rpcrdma.fsspec.filesystem import RdmaFileSystem, TcpFileSystem
from rpcrdma.fsspec.held_file import HeldFile
from rpcrdma.fsspec.updated_file import UpdatedFile

__all__ = ["BufferedNfsFile", "HeldFile", "RdmaFileSystem", "TcpFileSystem", "UpdatedFile"]

del _fsspec
