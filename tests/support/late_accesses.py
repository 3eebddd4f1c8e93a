"""A peer that uses handles of memory whose calls have ended, against a whole client and a whole server.

It runs over any RDMA device: in memory, and in a guest of `make interop-kernel CHECKS='verbs-*'`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import rpcrdma
from rpcrdma.aio.drivers.verbs_provider import VerbsProvider
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.nfs import v3
from rpcrdma.rpc.service import CallContext
from rpcrdma.verbs import Access
from support.waiting import until

__all__ = ["ATTACKS", "Files", "late_access"]

OCTETS = 1 << 16
_FILE = v3.nfs_fh3(b"file")
_NONE = v3.post_op_attr(False, None)
_SENT = b"s" * OCTETS


class Files(v3.NFS_V3_Service):
    """A file of any length that has one letter, and takes any data."""

    def read(self, args: v3.READ3args, context: CallContext) -> v3.READ3res:
        data = context.buffer(args.count)
        data[:] = b"r" * args.count
        return v3.READ3res(v3.nfsstat3.NFS3_OK, v3.READ3resok(_NONE, args.count, False, data))

    def write(self, args: v3.WRITE3args, context: CallContext) -> v3.WRITE3res:
        wcc = v3.wcc_data(v3.pre_op_attr(False, None), _NONE)
        result = v3.WRITE3resok(wcc, len(args.data), v3.stable_how.FILE_SYNC, b"verifier")
        return v3.WRITE3res(v3.nfsstat3.NFS3_OK, result)


async def _read(client: rpcrdma.Connection, into: bytearray | None = None) -> Any:
    """Memory that the client exposed for the data of a READ."""
    reply = await client.call(v3.READ, v3.READ3args(_FILE, 0, OCTETS), into=into)
    assert isinstance(reply.value, v3.READ3resok)
    assert reply.value.data == b"r" * OCTETS
    return reply.value.data if into is None else into


async def _read_into(client: rpcrdma.Connection) -> Any:
    return await _read(client, bytearray(OCTETS))


async def _write(client: rpcrdma.Connection) -> Any:
    """Memory that the client exposed for the argument of a WRITE."""
    data = bytearray(_SENT)
    reply = await client.call(v3.WRITE, v3.WRITE3args(_FILE, 0, OCTETS, v3.stable_how.FILE_SYNC, data))
    assert isinstance(reply.value, v3.WRITE3resok)
    assert reply.value.count == OCTETS
    return data


ATTACKS = [
    (call, target, verb, windows)
    for call in (_read, _read_into, _write)
    for target in ("exposed", "registered", "server")
    for verb in ("write", "read")
    for windows in (True, False)
    # Memory that a caller gives is not registered after its call, nor any without windows.
    if target != "registered" or (windows and call is _read)
]
"""A call, the memory that is attacked after it, the operation, and whether the device may use memory windows.

`exposed` is attacked by the handle that the call named, `registered` by the handle of the kept registration of its
memory, and `server` by the handle of memory that the server keeps registered for arguments and results.
"""


def _noted(queue_pair: Any) -> list[tuple[int, int]]:
    """Notes the handles and offsets that a queue pair's RDMA operations name."""
    named: list[tuple[int, int]] = []
    write, read = queue_pair.post_write, queue_pair.post_read

    def post_write(wr: object, gather: Any, handle: int, offset: int, *, signaled: bool = True) -> None:
        named.append((handle, offset))
        write(wr, gather, handle, offset, signaled=signaled)

    def post_read(wr: object, sink: Any, start: int, length: int, handle: int, offset: int) -> None:
        named.append((handle, offset))
        read(wr, sink, start, length, handle, offset)

    queue_pair.post_write, queue_pair.post_read = post_write, post_read
    return named


def _kept(connection: Any) -> list[Any]:
    """The kept registrations of an end of a connection."""
    pd = connection._driver.protection_domain
    return [kept for (domain, _), kept in pd._kept._all.items() if domain == id(pd)]


async def late_access(
    provider: VerbsProvider,
    address: str,
    call: Callable[[rpcrdma.Connection], Any],
    target: str,
    verb: str,
    *,
    windows: bool,
) -> None:
    """One of ATTACKS: asserts that the connection breaks, at both ends, and that the memory stays as it is."""
    options = rpcrdma.ConnectOptions(provider=provider, rpcrdma_version=1)
    serving = rpcrdma.ServeOptions(rdma=RdmaServerConfig(provider=provider))
    with ExitStack() as patches:
        if not windows:
            for module in ("aio.drivers.verbs_provider", "verbs.device_memory"):
                patches.enter_context(patch(f"rpcrdma.{module}.has_windows", lambda _device: False))
        async with (
            rpcrdma.serve([Files()], [f"rdma://{address}:0"], options=serving) as server,
            rpcrdma.connect(server.listening[0], v3.PROGRAM, options=options) as client,
        ):
            await client.call(v3.NULL, None)
            near: Any = client._present
            far: Any
            (far,) = server.connections
            named = _noted(far._queue_pair)
            memory = await call(client)
            attacker, attacked = (near, far) if target == "server" else (far, near)
            kept = [each._reference() for each in _kept(far)]
            before = [bytes(memory), *map(bytes, kept)]
            handles = named if target == "exposed" else [(k.region.handle, k.region.address) for k in _kept(attacked)]
            handle, offset = handles[-1]
            found = bytearray(8)
            # The attacker has no use for the end of its work.
            patches.enter_context(patch("rpcrdma.transport.endpoint.Endpoint._on_work_ended", lambda *_: None))
            if verb == "write":
                attacker._queue_pair.post_write(None, [b"too late"], handle, offset, signaled=False)
            else:
                sink = attacker._driver.protection_domain.register(found, Access.LOCAL_WRITE | Access.REMOTE_WRITE)
                attacker._queue_pair.post_read(None, sink, 0, len(found), handle, offset)
            attacker._driver.flush()
            await until(lambda: near.closed and far.closed)
            assert attacked.end_reason.protocol_error, attacked.end_reason
            assert [bytes(memory), *map(bytes, kept)] == before, "the memory has changed"
            assert found == bytes(8), "the memory was read"
