"""Writes straight from the caller's memory: many WRITEs in flight, safe across a restart of the server.

Data written UNSTABLE is safe when a COMMIT answers with the write verifier of its WRITE. Another verifier means that
the server has restarted in between and may have lost the data, which is then written again (RFC 1813 section 3.3.21).
"""

from __future__ import annotations

from collections.abc import Sequence

from rpcrdma.limits import NFS_COMMITS_IN_VAIN_MAX
from rpcrdma.nfs.client.procedures import NfsProcedures
from rpcrdma.nfs.client.workers import run_workers
from rpcrdma.nfs.v3 import nfs_fh3, stable_how

__all__ = ["stability", "write_direct", "write_whole"]

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


async def write_direct(
    procedures: NfsProcedures,
    handle: nfs_fh3,
    offset: int,
    data: memoryview,
    path: str,
    *,
    call_octets: int,
    calls: int,
) -> None:
    """Writes all of `data` at `offset`, with `calls` WRITEs of at most `call_octets` in flight, and commits it.

    Data that the server loses in a restart before the COMMIT are written again. When it returns or raises, no WRITE
    reads `data` any more.

    Raises:
        NfsError: the server refuses.
        RemoteProtocolError: see `write_whole`.
    """
    starts = list(range(0, len(data), call_octets))
    in_vain = 0
    while starts:
        promised = await _write_parts(
            procedures, handle, offset, data, path, starts, stability(in_vain), call_octets=call_octets, calls=calls
        )
        if not promised:
            return
        verifier = await procedures.commit(handle, path)
        starts = sorted(start for start, expected in promised.items() if expected != verifier)
        in_vain += 1


async def _write_parts(
    procedures: NfsProcedures,
    handle: nfs_fh3,
    offset: int,
    data: memoryview,
    path: str,
    starts: Sequence[int],
    stable: stable_how,
    *,
    call_octets: int,
    calls: int,
) -> dict[int, bytes]:
    """The verifiers that a COMMIT has to answer with, by the start of the part; parts that need none are left out."""
    promised: dict[int, bytes] = {}
    todo = iter(starts)

    async def worker() -> None:
        for start in todo:
            part = data[start : start + call_octets]
            verifier = await write_whole(procedures, handle, offset + start, part, stable, path)
            if verifier is not None:
                promised[start] = verifier

    await run_workers(min(calls, len(starts)), worker)
    return promised
