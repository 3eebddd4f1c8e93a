"""The service of NFS version 3: all its procedures over exported trees of files."""

from __future__ import annotations

from typing import Any

from rpcrdma.nfs import v3
from rpcrdma.nfs.export.exports import Exports
from rpcrdma.nfs.v3.server.changes import ChangeProcedures
from rpcrdma.nfs.v3.server.data import DataProcedures
from rpcrdma.nfs.v3.server.information import InformationProcedures
from rpcrdma.nfs.v3.server.listing import ListingProcedures

__all__ = ["NfsService"]


class NfsService(
    InformationProcedures,
    DataProcedures,
    ChangeProcedures,
    ListingProcedures,
    v3.NFS_V3_Service,
):
    """The service of NFS version 3 over `exports`, with all 22 procedures of RFC 1813 section 3.3.

    Of two WRITEs to the same place the first must not run again after the second, and CREATE, REMOVE and the like fail
    when they run again: the server keeps their replies, which are small, to answer repeated calls. The other procedures
    (IDEMPOTENT) change nothing, or may be repeated, as COMMIT.
    """

    OWN_LIMITS = True
    IDEMPOTENT = frozenset(
        procedure.number
        for procedure in (
            v3.GETATTR,
            v3.LOOKUP,
            v3.ACCESS,
            v3.READLINK,
            v3.READ,
            v3.READDIR,
            v3.READDIRPLUS,
            v3.FSSTAT,
            v3.FSINFO,
            v3.PATHCONF,
            v3.COMMIT,
        )
    )

    def __init__(self, exports: Exports) -> None:
        super().__init__(exports)
        self.WAITS_FOR = self._file_system_of

    def _file_system_of(self, args: Any) -> bytes | None:
        """Returns octets that name the file system on which a call may block, for comparison; None: not distinguished.

        The result is None for a filehandle of no export, or of a directory of this machine if all exported ones are on
        one file system. `args` are the arguments of a procedure; the first field, perhaps of a nested structure, is the
        filehandle.
        """
        while not isinstance(args, bytes):
            args = getattr(args, args.__slots__[0])
        return self.exports.waits_for(args)

    def close_idle(self) -> None:
        """Drops cached objects and closes files of the exports that were not used since the previous call; may block.

        Files with unstable data stay open while they have a name. The server's owner calls it every few seconds: an
        open file that another process deletes keeps its space.
        """
        self.exports.close_idle()

    def close(self) -> list[OSError]:
        """Puts data written UNSTABLE on the disk and closes all objects and files of the exports; may block.

        Returns the errors that lost data; empty if there were none.
        """
        return self.exports.close()
