"""libnfs, a client in C, on a server of ours over TCP: `libnfs_client.py TCP-URL EXPORT...` takes orders (`orders`).

Python calls the library's functions by ctypes and makes the next call from the callback of a reply; the library does
the rest. It divides reads and writes by the server's limit of 1 MiB.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import select
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import nfs_servers
from orders import Answer, Order

NULL_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
FILE_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


def library() -> ctypes.CDLL | None:
    """The library where it is installed, of the versions before 6, which changed the order of arguments."""
    name = ctypes.util.find_library("nfs")
    if not name or int(name.rpartition(".")[2]) >= 16:
        return None
    nfs = ctypes.CDLL(name)
    nfs.nfs_init_context.restype = nfs.nfs_get_rpc_context.restype = ctypes.c_void_p
    nfs.nfs_parse_url_full.restype = ctypes.POINTER(Url)
    nfs.nfs_get_error.restype = ctypes.c_char_p
    return nfs


class Export:
    """The file "data" of one export, mounted on a connection of its own."""

    def __init__(self, nfs: ctypes.CDLL, url: str, export: str) -> None:
        self.nfs = nfs
        self.context = ctypes.c_void_p(nfs.nfs_init_context())
        self.handle = ctypes.c_void_p()
        port = urlsplit(url).port
        words = f"nfs://127.0.0.1{export}/data?version=3&nfsport={port}&mountport={port}"
        parsed = nfs.nfs_parse_url_full(self.context, words.encode()).contents
        self._check(nfs.nfs_mount(self.context, parsed.server, parsed.path))
        self._check(nfs.nfs_open(self.context, parsed.file, os.O_RDWR, ctypes.byref(self.handle)))

    def _check(self, status: int) -> None:
        if status:
            raise OSError(-status, self.nfs.nfs_get_error(self.context).decode())

    def service(self, pending: Callable[[], bool]) -> None:
        """Sends and receives while calls are pending."""
        poll = select.poll()
        descriptor = self.nfs.nfs_get_fd(self.context)
        while pending():
            poll.register(descriptor, self.nfs.nfs_which_events(self.context))
            for _, events in poll.poll():
                self._check(self.nfs.nfs_service(self.context, events))


class Url(ctypes.Structure):
    """`struct nfs_url`."""

    _fields_ = (("server", ctypes.c_char_p), ("path", ctypes.c_char_p), ("file", ctypes.c_char_p))


def batch(export: Export, order: Order) -> Answer:
    """Makes the calls of an order."""
    nfs, clock = export.nfs, time.perf_counter
    began = [0.0] * order.in_flight
    times: list[float] = []
    failed: list[int] = []
    memory = (ctypes.c_char * max(order.octets, 1)).from_buffer(
        bytearray(nfs_servers.FILE_FILLING) * max(order.octets, 1)
    )
    under_way = 0

    def begin(slot: int) -> None:
        nonlocal under_way
        under_way += 1
        began[slot] = clock()
        mark = ctypes.c_void_p(slot)
        offset, octets = ctypes.c_uint64(slot * order.octets % nfs_servers.FILE_OCTETS), ctypes.c_uint64(order.octets)
        if order.call == "NULL":
            status = nfs.rpc_nfs3_null_async(rpc, on_null, mark)
        elif order.call == "READ":
            status = nfs.nfs_pread_async(export.context, export.handle, offset, octets, on_reply, mark)
        else:
            status = nfs.nfs_pwrite_async(export.context, export.handle, offset, octets, memory, on_reply, mark)
        assert not status

    def ended(slot: int | None, result: int) -> None:
        nonlocal under_way
        under_way -= 1
        if result != order.octets:
            failed.append(result)
        now = clock()
        times.append(now - began[slot or 0])
        if now < until:
            begin(slot or 0)

    rpc = ctypes.c_void_p(nfs.nfs_get_rpc_context(export.context))
    on_null = NULL_CALLBACK(lambda _rpc, status, _data, mark: ended(mark, status))
    on_reply = FILE_CALLBACK(lambda result, _nfs, _data, mark: ended(mark, result))
    before, start = time.process_time(), clock()
    until = start + order.seconds
    for slot in range(order.in_flight):
        begin(slot)
    export.service(lambda: under_way > 0)
    elapsed = clock() - start
    if failed:
        raise OSError(f"libnfs: {order.call} gave {failed[0]}")
    return Answer(len(times), elapsed, statistics.median(times), time.process_time() - before)


def orders() -> Iterator[Order]:
    while line := sys.stdin.readline():
        yield Order.parse(line)


def main() -> None:
    url, *names = sys.argv[1:]
    nfs = library()
    assert nfs is not None
    exports = [Export(nfs, url, name) for name in names]
    for order in orders():
        print(*batch(exports[order.place], order), flush=True)


if __name__ == "__main__":
    main()
