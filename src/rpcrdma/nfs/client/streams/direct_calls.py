"""Data placed in its final memory, or sent from the caller's: many calls in flight, and nothing copied by the client.

Data written UNSTABLE is safe when a COMMIT answers with the write verifier of its WRITE. Another verifier means that
the server has restarted in between and may have lost the data, which is then written again (RFC 1813 section 3.3.21).
"""

from __future__ import annotations

import io
from collections.abc import Awaitable, Callable, Iterator

from rpcrdma.errors import OutOfMemory, RemoteProtocolError
from rpcrdma.limits import NFS_COMMITS_IN_VAIN_MAX
from rpcrdma.nfs.client.node import Node, found_at
from rpcrdma.nfs.client.procedures import NfsProcedures
from rpcrdma.nfs.client.volume import Volume
from rpcrdma.nfs.client.workers import run_each
from rpcrdma.nfs.v3 import post_op_attr, stable_how

__all__ = [
    "LentMemory",
    "beyond_end",
    "check_offset",
    "grown_size",
    "placed_bytes",
    "read_direct",
    "read_whole",
    "stability",
    "write_direct",
    "write_whole",
]

_NO_VERIFIER = b""
"""No COMMIT can answer with this: a verifier has eight octets."""


class LentMemory(io.BytesIO):
    """An `io.BytesIO` that lends its memory to a call; garbage collection does not close it while a view is in use.

    A view can outlive a failed call, in the frames of the call's exception, until garbage is collected. The collector
    would close an `io.BytesIO` before it drops the view, which fails and which Python 3.13 prints.
    """

    def __del__(self) -> None:
        """Does nothing, where `io.BytesIO` closes itself."""


async def placed_bytes(node: Node, size: int, fill: Callable[[memoryview], Awaitable[int]]) -> bytes:
    """Returns the octets that `fill` puts at the beginning of a buffer of `size` octets; `fill` returns their number.

    If `size` is 0, the result is empty, and `fill` is not called. `fill` must not use the buffer after it has returned.
    The buffer is the memory of the result, lent by an `io.BytesIO`: nothing is copied, unless fewer octets arrive and a
    failed reply still refers to the buffer. The system's zeroed pages take no memory until data arrives in them, even
    if the server overstates the size of a file. `node` is the file, for errors.

    Raises:
        OutOfMemory: the memory has no room for `size` octets.
        ValueError: `size` is negative.
        Exception: an error of `fill`.
    """
    if not size:
        return b""
    try:
        memory = LentMemory(bytes(size))
    except (MemoryError, OverflowError):
        text = f"{size} octets do not fit in memory: read the file in parts, by open()"
        raise found_at(node.place, OutOfMemory(text)) from None
    with memory.getbuffer() as buffer:
        got = await fill(buffer)
    if got < size:
        try:
            memory.truncate(got)
        except BufferError:
            # A reply that was not taken still refers to the memory: the octets that have arrived are copied out of it.
            return memory.getvalue()[:got]
    return memory.getvalue()


async def read_whole(
    procedures: NfsProcedures,
    node: Node,
    offset: int,
    buffer: memoryview,
    hear: Callable[[post_op_attr], None] | None = None,
) -> tuple[int, bool]:
    """Fills `buffer` from `offset` in the file `node`, by one READ after the other, however short the replies are.

    `hear`, unless None, gets the attributes of each reply. Returns (the number of octets read, whether the last reply
    had `eof` set); fewer octets than `len(buffer)` only at the end of the file.

    Raises:
        NfsError: the server refuses; and the errors of `Caller.call`.
        RemoteProtocolError: the server returns no data and does not say that the file ends, or a count that does not
            fit its data.
    """
    got = 0
    while True:
        reply = await procedures.read(node, offset + got, buffer[got:] if got else buffer)
        got += reply.count
        if hear is not None:
            hear(reply.file_attributes)
        if reply.eof or got == len(buffer):
            return got, reply.eof
        if not reply.count:
            text = "READ returned nothing before the end of the file"
            raise found_at(node.place, RemoteProtocolError(text, rfc="1813 3.3.6"))


def beyond_end(node: Node, size: int) -> RemoteProtocolError:
    """Returns the error for READs of `node` that have found data beyond its size, `size` octets, and no end."""
    text = f"READ returned data beyond the size of the file, {size} octets, and no end"
    return found_at(node.place, RemoteProtocolError(text, rfc="1813 3.3.6"))


async def grown_size(procedures: NfsProcedures, node: Node, end: int) -> int:
    """Returns the present size of the file `node`, in which READs have found octets up to the offset `end`, and no end.

    If the size is less than `end`, a further READ at `end` finds out whether the file was cut meanwhile.

    Raises:
        RemoteProtocolError: the size is less than `end`, and the READ does not find the end of the file: such a server
            may never report it; and the other errors of `read_whole`.
        NfsError: the server refuses.
    """
    size = (await procedures.getattr(node)).size
    if size < end:
        _, ended = await read_whole(procedures, node, end, memoryview(bytearray(1)))
        if not ended:
            raise beyond_end(node, size)
    return size


def check_offset(offset: int) -> None:
    """Raises ValueError if `offset` is negative."""
    if offset < 0:
        raise ValueError(f"negative offset {offset}")


async def read_direct(
    volume: Volume,
    node: Node,
    offset: int,
    buffer: memoryview,
    hear: Callable[[post_op_attr], None] | None = None,
) -> int:
    """Fills `buffer` from `offset` in the file `node`, with at most `FileOptions.direct_calls` READs in flight.

    Returns the number of octets read, less than `len(buffer)` only where the file ends. When it returns or raises, no
    READ can write to `buffer` any more. `hear`, unless None, gets the attributes of each reply.

    Raises:
        ValueError: `offset` is negative.
        NfsError: the server refuses; and the errors of `Caller.call`.
        RemoteProtocolError: the server returns no data and does not say that the file ends, or a count that does not
            fit its data.
    """
    check_offset(offset)
    procedures, call_octets = volume.procedures, (await volume.sizes()).read_max
    length = len(buffer)
    if length <= call_octets:
        return (await read_whole(procedures, node, offset, buffer, hear))[0] if length else 0
    end = length

    def starts() -> Iterator[int]:
        # The length may be the server's claim: what the server has ends before it does.
        start = 0
        while start < end:
            yield start
            start += call_octets

    async def read(start: int) -> None:
        nonlocal end
        wanted = min(call_octets, length - start)
        got, _ = await read_whole(procedures, node, offset + start, buffer[start : start + wanted], hear)
        if got < wanted:
            end = min(end, start + got)

    await run_each(min(volume.options.direct_calls, -(-length // call_octets)), starts(), read)
    return end


def stability(commits_in_vain: int) -> stable_how:
    """Returns the stability for the next WRITE: UNSTABLE, or FILE_SYNC after more than 3 COMMITs in vain.

    `commits_in_vain` is the number of COMMITs in a row that have found data lost (`NFS_COMMITS_IN_VAIN_MAX`: 3). Data
    written FILE_SYNC needs no COMMIT, so that no server can have the same data written again without end.
    """
    return stable_how.UNSTABLE if commits_in_vain <= NFS_COMMITS_IN_VAIN_MAX else stable_how.FILE_SYNC


async def write_whole(
    procedures: NfsProcedures, node: Node, offset: int, data: memoryview, stable: stable_how
) -> bytes | None:
    """Writes all of `data` at `offset` in the file `node`, by one WRITE after the other, each with stability `stable`.

    Returns the verifier that COMMIT has to answer with for the data to be safe; b"" if the WRITEs had different
    verifiers, so that all of `data` must be written again; None if no COMMIT is needed, as all replies say FILE_SYNC or
    `data` is empty.

    Raises:
        NfsError: the server refuses; and the errors of `Caller.call`.
        RemoteProtocolError: a reply's count or stability does not fit its WRITE.
    """
    verifiers: set[bytes] = set()
    while data:
        reply = await procedures.write(node, offset, data, stable)
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
    node: Node,
    offset: int,
    data: memoryview,
    *,
    call_octets: int,
    calls: int,
) -> None:
    """Writes `data` at `offset` in the file `node` to stable storage, with up to `calls` WRITEs in flight.

    Each WRITE has `call_octets` octets, the last one the rest; a COMMIT follows if a reply asks for it. Data that the
    server loses in a restart before the COMMIT are written again. When this returns or raises, no WRITE reads `data`
    any more.

    Raises:
        NfsError: the server refuses; and the errors of `Caller.call`.
        RemoteProtocolError: a reply's count or stability does not fit its WRITE.
    """
    starts = list(range(0, len(data), call_octets))
    in_vain = 0
    promised: dict[int, bytes] = {}

    async def write(start: int) -> None:
        part = data[start : start + call_octets]
        verifier = await write_whole(procedures, node, offset + start, part, stability(in_vain))
        if verifier is not None:
            promised[start] = verifier

    while starts:
        promised.clear()
        await run_each(min(calls, len(starts)), iter(starts), write)
        if not promised:
            return
        verifier = await procedures.commit(node)
        starts = sorted(start for start, expected in promised.items() if expected != verifier)
        in_vain += 1
