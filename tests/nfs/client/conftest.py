"""An NFSv3 server in memory, called directly, whose habits the tests of the client choose."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from rpcrdma.nfs import v3
from rpcrdma.nfs.client import FileOptions, volume
from rpcrdma.nfs.client.filesystem import NfsFilesystem
from rpcrdma.nfs.client.streams import file_stream
from rpcrdma.nfs.client.trees import file_transfer
from rpcrdma.nfs.v3 import (
    createmode3,
    fattr3,
    ftype3,
    nfs_fh3,
    nfsstat3,
    nfstime3,
    post_op_attr,
    post_op_fh3,
    sattr3,
    specdata3,
    stable_how,
    time_how,
    wcc_data,
)
from rpcrdma.xdr.codec import Decoder, Encoder

NO_ATTRIBUTES = post_op_attr(False, None)


class Refused(Exception):
    def __init__(self, name: str) -> None:
        self.status = nfsstat3[f"NFS3ERR_{name}"]


@dataclass(eq=False)
class Thing:
    number: int
    type: ftype3
    mode: int
    data: bytearray = field(default_factory=bytearray)
    children: dict[str, Thing] = field(default_factory=dict)
    target: str = ""
    links: int = 1
    uid: int = field(default_factory=os.geteuid)
    gid: int = field(default_factory=os.getegid)
    atime: nfstime3 = field(default_factory=lambda: nfstime3(1, 0))
    mtime: nfstime3 = field(default_factory=lambda: nfstime3(2, 0))
    ctime: nfstime3 = field(default_factory=lambda: nfstime3(3, 0))
    verifier: bytes = b""
    sparse_size: int | None = None
    uncommitted: list[tuple[int, bytes]] = field(default_factory=list)


class MemoryServer:
    """Implements `Caller`: arguments and results go through their codecs, handlers through `await asyncio.sleep(0)`.

    The public attributes are its habits; `calls` counts procedures by name.
    """

    def __init__(self) -> None:
        self.things: dict[int, Thing] = {}
        self.root = self.make(ftype3.NF3DIR, 0o755)
        self.calls: Counter[str] = Counter()
        self.read_max = 1 << 16
        self.write_max = 1 << 16
        self.read_at_most: int | None = None
        self.write_at_most: int | None = None
        self.page_entries = 50
        self.verifier = b"verifier"
        self.restarts = 0
        self.give_attributes = True
        self.give_handles = True
        self.with_attributes = True
        self.exclusive = True
        self.answers: dict[str, list[nfsstat3]] = {}
        self.granted = 0x3F
        self.shut: set[str] = set()
        self.cookie_verifier = b"\0" * 8
        self.names_shown: Callable[[list[str]], list[str]] = list
        self.in_flight = 0
        self.in_flight_most = 0
        self.hold: dict[str, asyncio.Event] = {}
        self.cancelled = 0
        self.before: Callable[[str, Any], None] = lambda name, args: None
        self.eof_exact = True

    def make(self, kind: ftype3, mode: int) -> Thing:
        thing = Thing(len(self.things) + 1, kind, mode)
        self.things[thing.number] = thing
        return thing

    def put(self, path: str, data: bytes = b"", mode: int = 0o644) -> Thing:
        *above, name = path.strip("/").split("/")
        thing = self.make(ftype3.NF3REG, mode)
        thing.data += data
        self.folder("/".join(above)).children[name] = thing
        return thing

    def folder(self, path: str) -> Thing:
        at = self.root
        for name in path.strip("/").split("/") if path.strip("/") else ():
            at = at.children.setdefault(name, self.make(ftype3.NF3DIR, 0o755))
        return at

    def link(self, path: str, target: str) -> Thing:
        *above, name = path.strip("/").split("/")
        thing = self.make(ftype3.NF3LNK, 0o777)
        thing.target = target
        self.folder("/".join(above)).children[name] = thing
        return thing

    def at(self, path: str) -> Thing:
        at = self.root
        for name in path.strip("/").split("/") if path.strip("/") else ():
            at = at.children[name]
        return at

    def restart(self) -> None:
        """Loses uncommitted data, and shows that by another verifier."""
        self.restarts += 1
        self.verifier = self.restarts.to_bytes(8, "big")
        for thing in self.things.values():
            for offset, old in reversed(thing.uncommitted):
                thing.data[offset : offset + len(old)] = old
            thing.uncommitted.clear()

    def handle(self, thing: Thing) -> nfs_fh3:
        return nfs_fh3(thing.number.to_bytes(8, "big"))

    async def call(self, procedure: Any, args: Any, *, into: Any = None, timeout_s: float | None = None) -> Any:
        name = procedure.name.removeprefix("NFSPROC3_")
        self.calls[name] += 1
        self.in_flight += 1
        self.in_flight_most = max(self.in_flight, self.in_flight_most)
        try:
            if name not in {"READ", "WRITE"}:
                args = through(procedure.encode_args, procedure.decode_args, args)
            await asyncio.sleep(0)
            if (event := self.hold.get(name)) is not None:
                await event.wait()
            self.before(name, args)
            result = self.answer(name, args)
            if name == "READ" and into is not None and result.status == 0:
                data = result.value.data
                into[: len(data)] = data
                result.value.data = into[: len(data)]
                return result
            return through(procedure.encode_result, procedure.decode_result, result)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.in_flight -= 1

    def answer(self, name: str, args: Any) -> Any:
        result: type[Any] = getattr(v3, f"{name}3res")
        queued = self.answers.get(name)
        try:
            self.refuse(queued)
            return result(nfsstat3.NFS3_OK, self.handler(name.lower())(args))
        except Refused as refused:
            failed = getattr(v3, f"{name}3resfail", None)
            if failed is None:
                return result(refused.status, None)
            wcc = wcc_data(v3.pre_op_attr(False, None), NO_ATTRIBUTES)
            fills = [wcc if "wcc" in slot else NO_ATTRIBUTES for slot in failed.__slots__]
            return result(refused.status, failed(*fills))

    def refuse(self, queued: list[nfsstat3] | None) -> None:
        if queued and (status := queued.pop(0)) != 0:
            raise Refused(status.name.removeprefix("NFS3ERR_"))

    def handler(self, name: str) -> Callable[[Any], Any]:
        if name == "readdirplus" and not self.with_attributes:
            raise Refused("NOTSUPP")
        return getattr(self, f"answer_{name}", None) or getattr(self, name)

    def find(self, handle: nfs_fh3) -> Thing:
        thing = self.things.get(int.from_bytes(handle.data, "big"))
        if thing is None:
            raise Refused("STALE")
        return thing

    def directory(self, handle: nfs_fh3) -> Thing:
        thing = self.find(handle)
        if thing.type != ftype3.NF3DIR:
            raise Refused("NOTDIR")
        return thing

    def child(self, where: Any) -> Thing:
        found = self.directory(where.dir).children.get(where.name)
        if found is None:
            raise Refused("NOENT")
        return found

    def fattr(self, thing: Thing) -> fattr3:
        size = len(thing.data) if thing.sparse_size is None else thing.sparse_size
        if thing.type == ftype3.NF3LNK:
            size = len(thing.target)
        return fattr3(
            thing.type,
            thing.mode,
            thing.links,
            thing.uid,
            thing.gid,
            size,
            size,
            specdata3(0, 0),
            99,
            thing.number,
            thing.atime,
            thing.mtime,
            thing.ctime,
        )

    def attributes(self, thing: Thing) -> post_op_attr:
        return post_op_attr(True, self.fattr(thing)) if self.give_attributes else NO_ATTRIBUTES

    def wcc(self, thing: Thing) -> wcc_data:
        return wcc_data(v3.pre_op_attr(False, None), self.attributes(thing))

    def apply(self, thing: Thing, new: sattr3) -> None:
        if new.mode.set_it:
            thing.mode = new.mode.value
        if new.uid.set_it:
            thing.uid = new.uid.value
        if new.gid.set_it:
            thing.gid = new.gid.value
        if new.size.set_it:
            size = new.size.value
            del thing.data[size:]
            thing.data.extend(bytes(size - len(thing.data)))
        for which in ("atime", "mtime"):
            change = getattr(new, which)
            if change.set_it == time_how.SET_TO_CLIENT_TIME:
                setattr(thing, which, change.value)
            elif change.set_it == time_how.SET_TO_SERVER_TIME:
                setattr(thing, which, nfstime3(1000, 0))

    def answer_getattr(self, args: Any) -> Any:
        return v3.GETATTR3resok(self.fattr(self.find(args.object)))

    def answer_setattr(self, args: Any) -> Any:
        thing = self.find(args.object)
        self.apply(thing, args.new_attributes)
        return v3.SETATTR3resok(self.wcc(thing))

    def lookup(self, args: Any) -> Any:
        if args.what.name in self.shut:
            raise Refused("ACCES")
        thing = self.child(args.what)
        return v3.LOOKUP3resok(self.handle(thing), self.attributes(thing), NO_ATTRIBUTES)

    def access(self, args: Any) -> Any:
        return v3.ACCESS3resok(self.attributes(self.find(args.object)), args.access & self.granted)

    def readlink(self, args: Any) -> Any:
        thing = self.find(args.symlink)
        if thing.type != ftype3.NF3LNK:
            raise Refused("INVAL")
        return v3.READLINK3resok(NO_ATTRIBUTES, thing.target)

    def read(self, args: Any) -> Any:
        thing = self.find(args.file)
        if thing.type != ftype3.NF3REG:
            raise Refused("INVAL")
        count = min(args.count, self.read_max, self.read_at_most or args.count)
        data: Any
        if thing.sparse_size is not None:
            data = ZEROS[: max(0, min(count, thing.sparse_size - args.offset))]
            eof = args.offset + len(data) >= thing.sparse_size
        else:
            data = bytes(thing.data[args.offset : args.offset + count])
            eof = args.offset + len(data) >= len(thing.data)
        if eof and not self.eof_exact and data:
            eof = False
        return v3.READ3resok(self.attributes(thing), len(data), eof, data)

    def write(self, args: Any) -> Any:
        thing = self.find(args.file)
        data = bytes(args.data[: self.write_at_most or args.count])
        if args.offset > len(thing.data):
            thing.data.extend(bytes(args.offset - len(thing.data)))
        old = bytes(thing.data[args.offset : args.offset + len(data)])
        if args.stable == stable_how.UNSTABLE:
            thing.uncommitted.append((args.offset, old.ljust(len(data), b"\0")))
        thing.data[args.offset : args.offset + len(data)] = data
        return v3.WRITE3resok(self.wcc(thing), len(data), args.stable, self.verifier)

    def commit(self, args: Any) -> Any:
        thing = self.find(args.file)
        thing.uncommitted.clear()
        return v3.COMMIT3resok(self.wcc(thing), self.verifier)

    def created(self, thing: Thing, kind: type[Any]) -> Any:
        handle = post_op_fh3(True, self.handle(thing)) if self.give_handles else post_op_fh3(False, None)
        return kind(handle, self.attributes(thing), self.wcc(thing))

    def create(self, args: Any) -> Any:
        folder, name, how = self.directory(args.where.dir), args.where.name, args.how
        thing = folder.children.get(name)
        if how.mode == createmode3.EXCLUSIVE and not self.exclusive:
            raise Refused("NOTSUPP")
        if thing is not None and how.mode != createmode3.UNCHECKED:
            raise Refused("EXIST")
        if thing is None:
            thing = folder.children[name] = self.make(ftype3.NF3REG, 0)
        if how.mode == createmode3.EXCLUSIVE:
            thing.verifier = how.value
        else:
            self.apply(thing, how.value)
        return self.created(thing, v3.CREATE3resok)

    def new(self, where: Any, kind: ftype3) -> Thing:
        folder = self.directory(where.dir)
        if where.name in folder.children:
            raise Refused("EXIST")
        thing = folder.children[where.name] = self.make(kind, 0)
        return thing

    def mkdir(self, args: Any) -> Any:
        thing = self.new(args.where, ftype3.NF3DIR)
        self.apply(thing, args.attributes)
        return self.created(thing, v3.MKDIR3resok)

    def symlink(self, args: Any) -> Any:
        thing = self.new(args.where, ftype3.NF3LNK)
        self.apply(thing, args.symlink.symlink_attributes)
        thing.target = args.symlink.symlink_data
        return self.created(thing, v3.SYMLINK3resok)

    def remove(self, args: Any) -> Any:
        if self.child(args.object).type == ftype3.NF3DIR:
            raise Refused("ISDIR")
        folder = self.directory(args.object.dir)
        self.drop(folder.children.pop(args.object.name))
        return v3.REMOVE3resok(self.wcc(folder))

    def rmdir(self, args: Any) -> Any:
        thing = self.child(args.object)
        if thing.type != ftype3.NF3DIR:
            raise Refused("NOTDIR")
        if thing.children:
            raise Refused("NOTEMPTY")
        folder = self.directory(args.object.dir)
        self.drop(folder.children.pop(args.object.name))
        return v3.RMDIR3resok(self.wcc(folder))

    def drop(self, thing: Thing) -> None:
        thing.links -= 1
        if thing.links == 0:
            self.things[thing.number] = None  # type: ignore[assignment] - numbers are not used again

    def rename(self, args: Any) -> Any:
        source = args.from_
        thing = self.child(source)
        old, new = self.directory(source.dir), self.directory(args.to.dir)
        there = new.children.get(args.to.name)
        if there is not None and there.type == ftype3.NF3DIR and thing.type != ftype3.NF3DIR:
            raise Refused("ISDIR")
        if there is thing:  # RFC 1813 section 3.3.14
            return v3.RENAME3resok(self.wcc(old), self.wcc(new))
        del old.children[source.name]
        new.children[args.to.name] = thing
        return v3.RENAME3resok(self.wcc(old), self.wcc(new))

    def answer_link(self, args: Any) -> Any:
        folder = self.directory(args.link.dir)
        if args.link.name in folder.children:
            raise Refused("EXIST")
        thing = self.find(args.file)
        thing.links += 1
        folder.children[args.link.name] = thing
        return v3.LINK3resok(self.attributes(thing), self.wcc(folder))

    def page(self, args: Any) -> tuple[list[tuple[int, str]], bool]:
        names = self.names_shown([".", "..", *self.directory(args.dir).children])
        if args.cookie and args.cookieverf != self.cookie_verifier:
            raise Refused("BAD_COOKIE")
        cookies = list(enumerate(names, 1))[args.cookie : args.cookie + self.page_entries]
        return cookies, args.cookie + self.page_entries >= len(names)

    def readdir(self, args: Any) -> Any:
        page, eof = self.page(args)
        entries = [v3.entry3(5, name, cookie) for cookie, name in page]
        return v3.READDIR3resok(NO_ATTRIBUTES, self.cookie_verifier, v3.dirlist3(entries, eof))

    def readdirplus(self, args: Any) -> Any:
        page, eof = self.page(args)
        children = self.directory(args.dir).children
        entries = []
        for cookie, name in page:
            thing = children.get(name)
            shown = thing is not None and self.give_attributes
            entries.append(
                v3.entryplus3(
                    5,
                    name,
                    cookie,
                    post_op_attr(True, self.fattr(thing)) if shown else NO_ATTRIBUTES,
                    post_op_fh3(True, self.handle(thing)) if shown else post_op_fh3(False, None),
                )
            )
        return v3.READDIRPLUS3resok(NO_ATTRIBUTES, self.cookie_verifier, v3.dirlistplus3(entries, eof))

    def fsstat(self, args: Any) -> Any:
        self.find(args.fsroot)
        return v3.FSSTAT3resok(NO_ATTRIBUTES, 8 << 20, 4 << 20, 2 << 20, 100, 50, 25, 0)

    def fsinfo(self, args: Any) -> Any:
        self.find(args.fsroot)
        read, write = self.read_max, self.write_max
        time = nfstime3(0, 1)
        return v3.FSINFO3resok(NO_ATTRIBUTES, read, read, 1, write, write, 1, 8192, 1 << 62, time, 0x1B)

    def pathconf(self, args: Any) -> Any:
        self.find(args.object)
        return v3.PATHCONF3resok(NO_ATTRIBUTES, 1000, 255, True, True, False, True)


ZEROS = memoryview(bytes(1 << 20))


def through(encode: Any, decode: Any, value: Any) -> Any:
    enc = Encoder()
    encode(enc, value)
    dec = Decoder(b"".join(enc.gather()))
    result = decode(dec)
    dec.done("value")
    return result


CONSTANTS = {
    "read_ahead_blocks": (file_stream, "_READ_AHEAD_BLOCKS"),
    "write_behind_blocks": (file_stream, "_WRITE_BEHIND_BLOCKS"),
    "uncommitted_octets_max": (file_stream, "_UNCOMMITTED_OCTETS_MAX"),
    "commit_octets": (file_transfer, "_COMMIT_OCTETS"),
    "transfer_octets_max": (volume, "_TRANSFER_OCTETS_MAX"),
}


def mounting(server: MemoryServer, monkeypatch: pytest.MonkeyPatch) -> Callable[..., NfsFilesystem]:
    """Mounts the server: options of `FileOptions`, of `NfsFilesystem` with a leading "fs_", and values of CONSTANTS."""

    def mount(**options: Any) -> NfsFilesystem:
        for name in options.keys() & CONSTANTS.keys():
            monkeypatch.setattr(*CONSTANTS[name], options.pop(name))
        own = {name.removeprefix("fs_"): options.pop(name) for name in list(options) if name.startswith("fs_")}
        # What has been looked up is believed for a time: here it does not pass unless a test lets it.
        own.setdefault("clock", lambda: 0.0)
        return NfsFilesystem(server, server.handle(server.root), options=FileOptions(**options), **own)

    return mount


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    """`os.umask`, undone afterwards."""
    before = os.umask(0)
    os.umask(before)
    yield os.umask
    os.umask(before)


@pytest.fixture
def server() -> MemoryServer:
    return MemoryServer()


@pytest.fixture
def mounted(server: MemoryServer, monkeypatch: pytest.MonkeyPatch) -> Callable[..., NfsFilesystem]:
    return mounting(server, monkeypatch)


@pytest.fixture
def new_server(monkeypatch: pytest.MonkeyPatch) -> Callable[[], tuple[MemoryServer, Callable[..., NfsFilesystem]]]:
    """For tests that need a server for each example."""

    def make() -> tuple[MemoryServer, Callable[..., NfsFilesystem]]:
        fresh = MemoryServer()
        return fresh, mounting(fresh, monkeypatch)

    return make
