"""Writes straight from the caller's memory: many WRITEs in flight, nothing copied on this side."""

from __future__ import annotations

from collections.abc import Sequence

from rpcrdma.nfs.client.procedures import NfsProcedures
from rpcrdma.nfs.client.streams.stable_write import stability, write_whole
from rpcrdma.nfs.client.workers import run_workers
from rpcrdma.nfs.v3 import nfs_fh3, stable_how

__all__ = ["write_direct"]


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
