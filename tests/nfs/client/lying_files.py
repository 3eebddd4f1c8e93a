"""An NFS server whose directories break the rules of directories, and the command run against it."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from rpcrdma.aio.server.serve import serve
from rpcrdma.nfs import v3
from rpcrdma.nfs.mount import MOUNT_V3_Service, exportnode, mountres3, mountres3_ok, mountstat3
from rpcrdma.nfs.v3 import ftype3, nfs_fh3, nfsstat3, nfstime3, post_op_attr, post_op_fh3, specdata3
from rpcrdma.rpc.service import CallContext

NONE = post_op_attr(False, None)
WCC = v3.wcc_data(v3.pre_op_attr(False, None), NONE)
OK = nfsstat3.NFS3_OK
PAGE_ENTRIES = 100
PAGE_OCTETS = 48_000
LONG_NAME = "n" * 200
VERIFIER = bytes(8)
SHUT = b"d-shut"
"""The handle of an entry that a listing does not describe, and whose look-up is refused."""

_TYPES = {ord("d"): ftype3.NF3DIR, ord("f"): ftype3.NF3REG, ord("l"): ftype3.NF3LNK}

Entry = tuple[str, bytes]


def attributes(handle: bytes) -> v3.fattr3:
    time = nfstime3(1, 0)
    number = zlib.crc32(handle) | len(handle) << 32
    device = specdata3(0, 0)
    return v3.fattr3(_TYPES[handle[0]], 0o755, 1, 0, 0, 0, 0, device, 1, number, time, time, time)


DIRECTORY = attributes(b"d")


class LyingFiles(v3.NFS_V3_Service):
    """A handle is the letter of its type and its name; see `listed`."""

    IDEMPOTENT = frozenset(range(22))

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.odd: list[Entry] = []

    def listed(self, handle: bytes, start: int = 0) -> Iterator[Entry]:
        """The entries of a directory, from `start` on."""
        match handle[1:].partition(b":"):
            case (b"root", _, _):
                names = ("self", "ever", "names", "cookies", "wide", "odd")
                yield from [(name, b"d" + name.encode()) for name in names][start:]
            case (b"self", _, _):
                # Every directory of this kind is one and the same.
                yield from [("kept", b"fkept"), ("again", b"dself")][start:]
            case (b"ever", _, depth):
                yield from [(LONG_NAME, b"dever:%d" % (int(depth or 0) + 1))][start:]
            case (b"names" | b"cookies", _, _):
                for number in itertools.count(start):
                    yield f"name-{number}", b"f%d" % number
            case (b"wide", _, _):
                for number in itertools.count(start):
                    yield f"directory-{number}", b"dempty:%d" % number
            case (b"odd", _, _):
                yield from [*self.odd, ("good", b"fgood")][start:]

    def getattr(self, args: v3.GETATTR3args, context: CallContext) -> v3.GETATTR3res:
        return v3.GETATTR3res(OK, v3.GETATTR3resok(attributes(args.object.data)))

    def lookup(self, args: v3.LOOKUP3args, context: CallContext) -> v3.LOOKUP3res:
        for name, handle in itertools.islice(self.listed(args.what.dir.data), 10):
            if name == args.what.name:
                if handle == SHUT:
                    return v3.LOOKUP3res(nfsstat3.NFS3ERR_ACCES, v3.LOOKUP3resfail(post_op_attr(True, DIRECTORY)))
                found = post_op_attr(True, attributes(handle))
                return v3.LOOKUP3res(OK, v3.LOOKUP3resok(nfs_fh3(handle), found, NONE))
        return v3.LOOKUP3res(nfsstat3.NFS3ERR_NOENT, v3.LOOKUP3resfail(NONE))

    def fsinfo(self, args: v3.FSINFO3args, context: CallContext) -> v3.FSINFO3res:
        sizes = (1 << 16, 1 << 16, 1)
        return v3.FSINFO3res(OK, v3.FSINFO3resok(NONE, *sizes, *sizes, 1 << 16, 1 << 40, nfstime3(0, 1), 0x1B))

    def readdirplus(self, args: v3.READDIRPLUS3args, context: CallContext) -> v3.READDIRPLUS3res:
        self.calls["READDIRPLUS"] += 1
        handle, entries, octets = args.dir.data, [], 0
        kinds_cookies = handle == b"dcookies"
        # Names go on where the last page ended; cookies of that one directory go round.
        start = self.calls["READDIRPLUS"] * PAGE_ENTRIES if kinds_cookies else args.cookie
        found: Iterator[Entry] = itertools.islice(self.listed(handle, start), PAGE_ENTRIES)
        for cookie, (name, inner) in enumerate(found, args.cookie + 1):
            shown = NONE if inner == SHUT else post_op_attr(True, attributes(inner))
            number = cookie % (PAGE_ENTRIES * 5) if kinds_cookies else cookie
            entries.append(v3.entryplus3(1, name, number or 1, shown, post_op_fh3(True, nfs_fh3(inner))))
            octets += len(name) + 160
            if octets > PAGE_OCTETS:
                break
        page = v3.dirlistplus3(entries, len(entries) < PAGE_ENTRIES and octets <= PAGE_OCTETS)
        return v3.READDIRPLUS3res(OK, v3.READDIRPLUS3resok(NONE, VERIFIER, page))

    def readdir(self, args: v3.READDIR3args, context: CallContext) -> v3.READDIR3res:
        """The same without attributes, and counted as the same."""
        plus = self.readdirplus(v3.READDIRPLUS3args(args.dir, args.cookie, args.cookieverf, args.count, 0), context)
        page = plus.value.reply
        entries = [v3.entry3(entry.fileid, entry.name, entry.cookie) for entry in page.entries]
        return v3.READDIR3res(OK, v3.READDIR3resok(NONE, VERIFIER, v3.dirlist3(entries, page.eof)))

    def readlink(self, args: v3.READLINK3args, context: CallContext) -> v3.READLINK3res:
        target = args.symlink.data[1:].decode("utf-8", "surrogateescape")
        return v3.READLINK3res(OK, v3.READLINK3resok(NONE, target))

    def read(self, args: v3.READ3args, context: CallContext) -> v3.READ3res:
        return v3.READ3res(OK, v3.READ3resok(NONE, 0, True, b""))

    def remove(self, args: v3.REMOVE3args, context: CallContext) -> v3.REMOVE3res:
        self.calls["REMOVE"] += 1
        return v3.REMOVE3res(OK, v3.REMOVE3resok(WCC))

    def rmdir(self, args: v3.RMDIR3args, context: CallContext) -> v3.RMDIR3res:
        self.calls["RMDIR"] += 1
        return v3.RMDIR3res(OK, v3.RMDIR3resok(WCC))


class _Mounts(MOUNT_V3_Service):
    def mnt(self, args: str, context: CallContext) -> mountres3:
        if args != "/":
            return mountres3(mountstat3.MNT3ERR_NOENT, None)
        return mountres3(mountstat3.MNT3_OK, mountres3_ok(b"droot", [1]))

    def export(self, args: None, context: CallContext) -> list[exportnode]:
        return [exportnode("/", [])]

    def umnt(self, args: str, context: CallContext) -> None:
        return None


_CLIENT = """
import json, os, resource, sys, threading
settings = json.loads(sys.argv[1])
from rpcrdma import limits
sorted_max = settings.pop("sorted_max")
for name, value in settings.items():
    assert hasattr(limits, name)
    setattr(limits, name, value)
resource.setrlimit(resource.RLIMIT_NOFILE, (700, 700))
import rpcrdma.nfs.client
from rpcrdma.aio.client.connect import connect
from rpcrdma.cli.main import main
if sorted_max:
    import rpcrdma.cli.ls
    assert hasattr(rpcrdma.cli.ls, "_SORTED_MAX")
    rpcrdma.cli.ls._SORTED_MAX = sorted_max

def peak_octets():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))

before = peak_octets()
ended = main(sys.argv[2:])
sys.stdout.flush()
print(json.dumps({"status": ended, "grown": peak_octets() - before}), file=sys.stderr)
"""


@dataclass
class Ended:
    """The command's output, its exit status, and the largest growth of its memory in octets."""

    status: int
    grown_octets: int
    out: bytes
    err: list[str]


class Liar:
    """A running server, and the command in a process of its own."""

    def __init__(self, files: LyingFiles, urls: dict[str, str]) -> None:
        self.files = files
        self._urls = urls

    def url(self, path: str, scheme: str = "tcp") -> str:
        return f"{self._urls[scheme]}/{path}"

    async def run(self, *arguments: str, deadline_s: float = 100.0, sorted_max: int = 0, **limits: int) -> Ended:
        """Runs the command with some of `rpcrdma.limits` replaced; `sorted_max` is the bound of `ls` for sorting."""
        port = self._urls["tcp"].rpartition(":")[2]
        command = [
            sys.executable,
            "-c",
            _CLIENT,
            json.dumps({**limits, "sorted_max": sorted_max}),
            "--mount-port",
            port,
            *arguments,
        ]
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        try:
            async with asyncio.timeout(deadline_s):
                out, said = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.communicate()
            raise AssertionError(
                f"rpcrdma {' '.join(arguments)} had not ended after {deadline_s} s; {self.files.calls}"
            ) from None
        *err, last = said.decode().splitlines()
        facts: dict[str, Any] = json.loads(last)
        return Ended(facts["status"], facts["grown"], out, err)


@asynccontextmanager
async def liar() -> AsyncIterator[Liar]:
    files = LyingFiles()
    async with serve([files, _Mounts()], ["rdma://127.0.0.1:0", "tcp://127.0.0.1:0"]) as server:
        yield Liar(files, {url.partition(":")[0]: url for url in server.listening})
