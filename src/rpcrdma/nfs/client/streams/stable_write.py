"""Writes that survive a restart of the server: which stability to ask for, and how its answer is judged.

Data written UNSTABLE is safe when a COMMIT answers with the write verifier of its WRITE. Another verifier means that
the server has restarted in between and may have lost the data, which is then written again (RFC 1813 section 3.3.21).
"""

from __future__ import annotations

from rpcrdma.limits import NFS_COMMITS_IN_VAIN_MAX
from rpcrdma.nfs.client.procedures import NfsProcedures
from rpcrdma.nfs.v3 import nfs_fh3, stable_how

__all__ = ["stability", "write_whole"]

_NO_VERIFIER = b""
"""No COMMIT can answer with this: a verifier has eight octets."""


def stability(commits_in_vain: int) -> stable_how:
    """The stability to ask of the next WRITE after so many COMMITs that found data lost.

    FILE_SYNC needs no COMMIT, so the rounds end: a server that answers it with less breaks the protocol.
    """
    return stable_how.UNSTABLE if commits_in_vain <= NFS_COMMITS_IN_VAIN_MAX else stable_how.FILE_SYNC


async def write_whole(
    procedures: NfsProcedures, handle: nfs_fh3, offset: int, data: memoryview, stable: stable_how, path: str
) -> bytes | None:
    """Writes all of `data`, however little of it the server takes at a time.

    Returns the verifier that COMMIT has to answer with for the data to be safe; None if the data is safe already.

    Raises:
        NfsError: the server refuses.
        RemoteProtocolError: the server's answer fits no WRITE; see `NfsProcedures.write`.
    """
    verifiers: set[bytes] = set()
    while data:
        reply = await procedures.write(handle, offset, data, stable, path)
        if reply.committed < stable_how.FILE_SYNC:
            verifiers.add(reply.verf)
        offset += reply.count
        data = data[reply.count :]
    if len(verifiers) > 1:
        # The server has restarted in between.
        return _NO_VERIFIER
    return verifiers.pop() if verifiers else None
