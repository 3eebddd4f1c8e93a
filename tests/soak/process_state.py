"""The resources of a process: registered memory, connections, and resident memory."""

from __future__ import annotations

import ctypes
import gc
import mmap
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rpcrdma.aio.answering.buffer_pool import BufferPool
from rpcrdma.iwarp import IwarpQueuePair
from rpcrdma.rpc.record import RecordReceiver
from rpcrdma.rpc.reply_cache import ReplyCache
from rpcrdma.transport.assembly import Assembly
from rpcrdma.verbs import SoftwareProtectionDomain
from rpcrdma.wire.bulk_memory import PooledMemory, ResultMemory

_libc = ctypes.CDLL(None, use_errno=True)
_malloc_trim = getattr(_libc, "malloc_trim", None)
"""Only glibc has it; None elsewhere."""
_Memory = bytearray | PooledMemory
_LEVEL = 0.03
"""By so much the number of objects goes up and down with the tasks that are at work."""
_SLACK = 0.03
_SLACK_KIB = 6 << 10
"""KiB by which the memory of a process that repeats the same work goes up and down."""


class Look(NamedTuple):
    """The resources of a process at one moment, when no call runs, without bounded ones that come and go.

    That is left out: the contents of buffer pools, memory kept for results and messages, kept replies, messages that
    are being received, and the one buffer that each connection has last received bulk data in, to which it refers until
    the next comes. How much of them there is follows the speed of the machine and the actions of misbehaving clients.
    """

    kib: int
    """Resident memory."""
    objects: int
    """Of Python, that may refer to others: while caches fill, there are more and more."""


def look() -> Look:
    """Looks at this process."""
    gc.collect()
    if _malloc_trim is not None:
        # The C library keeps freed memory for each thread, and the number of threads grows at first.
        _malloc_trim(0)
    objects = gc.get_objects()
    buffers: list[Any] = [buffer for each in objects for buffer in _buffers_of(each)]
    buffers += [each._message._room.obj for each in objects if type(each) is RecordReceiver]
    buffers += [each._octets for each in objects if type(each) is Assembly]
    buffers += filter(None, map(_last_target, objects))
    # A connection may have received into a buffer of a pool.
    octets = sum(map(_resident_octets, {id(buffer): buffer for buffer in buffers}.values()))
    count = len(objects)
    for each in objects:
        if type(each) is ReplyCache:
            replies, kept_octets = _kept(each)
            count -= replies
            octets += kept_octets
    return Look(_resident_kib() - (octets >> 10), count)


def _last_target(each: object) -> _Memory | None:
    """The buffer of a receiver's record of the payload that went straight to its place, if `each` is one."""
    # A class may have anything for its module.
    if not str(type(each).__module__).startswith("rpcrdma.iwarp."):
        return None
    target = getattr(each, "target", None)
    return target.obj if isinstance(target, memoryview) and isinstance(target.obj, _Memory) else None


def _buffers_of(owner: object) -> list[PooledMemory]:
    """Free buffers and lent buffers of a pool, and the memory that is kept for results and messages."""
    if type(owner) is ResultMemory:
        return [buffer for size in owner._buffers.values() for buffer in size]
    if type(owner) is BufferPool:
        free = [buffer for size in owner._free.values() for buffer in size]
        return free + [lent[0] for lent in list(owner._lent.values())]
    return []


def _kept(cache: ReplyCache) -> tuple[int, int]:
    """How many objects the cache has of answered calls, and the octets that they take."""
    objects: list[object] = []
    for call in cache._answered.values():
        objects += [call, call.key]
        if call.reply is not None:
            objects += [call.reply, call.reply.items, *call.reply.items]
            objects += [call.reply.reduced, *(item.data for item in call.reply.items)]
    tables = (cache._answered, cache._small, cache._large)
    return sum(map(gc.is_tracked, objects)), sum(map(sys.getsizeof, (*objects, *tables)))


def _resident_octets(memory: Any) -> int:
    """Octets of whole pages that have been touched: memory set aside for data that never came takes no room."""
    if len(memory) < mmap.PAGESIZE:
        return 0
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    first = -(-address // mmap.PAGESIZE)
    pages = (address + len(memory)) // mmap.PAGESIZE - first
    if pages <= 0:
        return 0
    touched = (ctypes.c_ubyte * pages)()
    start = ctypes.c_void_p(first * mmap.PAGESIZE)
    if _libc.mincore(start, ctypes.c_size_t(pages * mmap.PAGESIZE), touched):
        raise OSError(ctypes.get_errno(), "mincore")
    return sum(page & 1 for page in touched) * mmap.PAGESIZE


def _resident_kib() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")


def regions_registered() -> int:
    """Regions registered in all protection domains in memory, those of ended connections included."""
    gc.collect()
    return sum(len(each.regions) for each in gc.get_objects() if type(each) is SoftwareProtectionDomain)


def queue_pairs() -> int:
    """Connections that are in memory, ended ones included."""
    gc.collect()
    return sum(type(each) is IwarpQueuePair for each in gc.get_objects())


def warmed_up(looks: Sequence[Look]) -> int | None:
    """The number of the first look at which caches were full: there were hardly more objects than at the one before.

    None if that was never so.
    """
    for number in range(1, len(looks)):
        if looks[number].objects <= looks[number - 1].objects * (1 + _LEVEL):
            return number
    return None


def growth(looks: Sequence[Look]) -> tuple[int, int]:
    """The median of the second half less that of the first one, and the growth that is tolerated, in KiB."""
    half = max(1, len(looks) // 2)
    before = statistics.median(look.kib for look in looks[:half])
    after = statistics.median(look.kib for look in looks[-half:])
    return round(after - before), round(max(before * _SLACK, _SLACK_KIB))
