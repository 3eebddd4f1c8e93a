"""A server over a scratch directory whose procedures tests call as the dispatcher does."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rpcrdma.aio.answering.worker_pool import Worker
from rpcrdma.nfs import v3
from rpcrdma.nfs.export import object_tree
from rpcrdma.nfs.server import Export, NfsServices, build_services, open_state
from rpcrdma.rpc.auth import AuthNone, AuthSys, Credential
from rpcrdma.rpc.host_identity import CallOrigin
from rpcrdma.rpc.service import Execution, Steps, execution_of
from rpcrdma.xdr.codec import Decoder, Encoder

__all__ = ["Server"]

ROOT = AuthSys(uid=0, gid=0)


class FakeContext:
    def __init__(self, credential: Credential, origin: CallOrigin) -> None:
        self.credential = credential
        self.peer = origin.host
        self.client = SimpleNamespace(origin=origin)
        self.xid = 1
        self.may_block = False
        self.buffers: list[int] = []

    def buffer(self, length: int) -> memoryview:
        self.buffers.append(length)
        return memoryview(bytearray(b"\xaa" * length))


def not_permitted(*_: object) -> int:
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


class Server:
    """Calls procedures inline, and goes on as a worker, through the encoders and decoders of both directions.

    `open_by_handle` False: the kernel denies the server `open_by_handle_at`, as it does an unprivileged one.
    """

    def __init__(self, exports: list[Export], state: Path, *, open_by_handle: bool = True) -> None:
        self.state = open_state(state, os.urandom)
        with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as undo:
            undo.callback(self.state.close)
            if not open_by_handle:
                patch.setattr(object_tree, "open_by_handle", not_permitted)
            self.services: NfsServices = build_services(exports, state=self.state)
            undo.pop_all()
        self.credential: Credential = ROOT if os.geteuid() == 0 else AuthNone()
        self.peer = "127.0.0.1"
        self.contexts: list[FakeContext] = []

    def call(
        self, name: str, args: Any = None, *, as_: Credential | None = None, peer: str | None = None, **origin: Any
    ) -> Any:
        service = self.services.nfs if hasattr(v3.NFS_V3_Service, name) else self.services.mount
        procedure = next(p for p in service.PROGRAM.procedures.values() if p.method == name)
        enc = Encoder()
        procedure.encode_args(enc, args)
        decoded = procedure.decode_args(Decoder(b"".join(enc.gather())))
        handler = getattr(service, name)
        context = FakeContext(as_ or self.credential, CallOrigin(peer or self.peer, **{"transport": "tcp", **origin}))
        self.contexts.append(context)
        context.may_block = execution_of(handler) is Execution.WORKER
        result = handler(decoded, context)
        if execution_of(handler) is Execution.INLINE_OR_WORKER:
            result = self._finish(result, context)
        enc = Encoder()
        procedure.encode_result(enc, result)
        octets = b"".join(enc.gather())
        self.reply_octets = len(octets)
        dec = Decoder(octets)
        reply = procedure.decode_result(dec)
        dec.done(name)
        return reply

    @staticmethod
    def _finish(handler: Steps[Any], context: FakeContext) -> Any:
        worker = Worker()
        try:
            step = next(handler)
            context.may_block = True
            return worker.finish(handler, step)
        except StopIteration as end:
            return end.value
        finally:
            worker.act_as(None)

    def mount(self, path: str = "/", **options: Any) -> bytes:
        reply = self.call("mnt", path, **options)
        assert reply.fhs_status.name == "MNT3_OK"
        return bytes(reply.value.fhandle)

    def lookup(self, directory: bytes, *names: str, **options: Any) -> bytes:
        for name in names:
            reply = self.call("lookup", v3.LOOKUP3args(self.dirop(directory, name)), **options)
            assert reply.status.name == "NFS3_OK", (name, reply.status)
            directory = reply.value.object.data
        return directory

    def status(self, name: str, args: Any, **options: Any) -> str:
        reply = self.call(name, args, **options)
        return str(reply.status.name).removeprefix("NFS3ERR_").removeprefix("NFS3_")

    def attributes(self, handle: bytes, **options: Any) -> v3.fattr3:
        reply = self.call("getattr", v3.GETATTR3args(v3.nfs_fh3(handle)), **options)
        assert reply.status == v3.nfsstat3.NFS3_OK, reply.status
        found: v3.fattr3 = reply.value.obj_attributes
        return found

    def create(self, directory: bytes, name: str, **attributes: Any) -> bytes:
        how = v3.createhow3(v3.createmode3.GUARDED, self.sattr(**{"mode": 0o644, **attributes}))
        reply = self.call("create", v3.CREATE3args(self.dirop(directory, name), how))
        assert reply.status == v3.nfsstat3.NFS3_OK, reply.status
        return bytes(reply.value.obj.value.data)

    def read(self, handle: bytes, offset: int = 0, count: int = 1 << 20, **options: Any) -> bytes:
        reply = self.call("read", v3.READ3args(v3.nfs_fh3(handle), offset, count), **options)
        assert reply.status == v3.nfsstat3.NFS3_OK, reply.status
        assert reply.value.count == len(reply.value.data)
        return bytes(reply.value.data)

    def write(
        self,
        handle: bytes,
        data: bytes,
        offset: int = 0,
        stable: v3.stable_how = v3.stable_how.UNSTABLE,
        **options: Any,
    ) -> Any:
        return self.call("write", v3.WRITE3args(v3.nfs_fh3(handle), offset, len(data), stable, data), **options)

    def list_names(self, directory: bytes, count: int = 1 << 16) -> list[str]:
        names: list[str] = []
        cookie, eof = 0, False
        while not eof:
            reply = self.call("readdir", v3.READDIR3args(v3.nfs_fh3(directory), cookie, bytes(8), count))
            assert reply.status == v3.nfsstat3.NFS3_OK, reply.status
            assert reply.value.reply.entries or reply.value.reply.eof
            names += [entry.name for entry in reply.value.reply.entries]
            cookie = reply.value.reply.entries[-1].cookie if reply.value.reply.entries else cookie
            eof = reply.value.reply.eof
        return names

    def getattr_status(self, handle: bytes, **options: Any) -> str:
        return self.status("getattr", v3.GETATTR3args(v3.nfs_fh3(handle)), **options)

    @staticmethod
    def dirop(directory: bytes, name: str) -> v3.diropargs3:
        return v3.diropargs3(v3.nfs_fh3(directory), name)

    @staticmethod
    def sattr(
        *,
        mode: int | None = None,
        uid: int | None = None,
        gid: int | None = None,
        size: int | None = None,
        atime: v3.nfstime3 | str | None = None,
        mtime: v3.nfstime3 | str | None = None,
    ) -> v3.sattr3:
        def how(time: v3.nfstime3 | str | None) -> tuple[v3.time_how, v3.nfstime3 | None]:
            if isinstance(time, v3.nfstime3):
                return v3.time_how.SET_TO_CLIENT_TIME, time
            return (v3.time_how.SET_TO_SERVER_TIME if time else v3.time_how.DONT_CHANGE), None

        return v3.sattr3(
            v3.set_mode3(mode is not None, mode),
            v3.set_uid3(uid is not None, uid),
            v3.set_gid3(gid is not None, gid),
            v3.set_size3(size is not None, size),
            v3.set_atime(*how(atime)),
            v3.set_mtime(*how(mtime)),
        )

    def close(self) -> None:
        assert self.services.nfs.close() == []
        self.state.close()
