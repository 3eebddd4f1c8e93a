"""A server of version 4 in memory, and clients that talk to it in octets."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from few_files import FewFiles
from rpcrdma.nfs.export.claims import Claims
from rpcrdma.nfs.server.services import build_nfs4
from rpcrdma.nfs.v4.compounds import COMPOUND
from rpcrdma.nfs.v4.server.recovery import RecoveryDatabase
from rpcrdma.nfs.v4.server.service import Nfs4Service
from rpcrdma.nfs.v4.server.state import State
from rpcrdma.rpc.auth import AuthSys, Credential
from rpcrdma.rpc.host_identity import CallOrigin
from rpcrdma.xdr.codec import Decoder, Encoder
from state_rig import LEASE_S, counted_octets
from support.nfs4_client import Client

__all__ = ["ROOT", "Conversation", "FakeConnection", "two_clients", "with_version_4"]

ROOT = AuthSys(uid=0, gid=0)


class FakeConnection:
    """Implements `ReverseCaller` as far as it is bound to sessions."""

    def __init__(self) -> None:
        self.closed = False
        self.is_ready = False
        self.origin = CallOrigin("192.0.2.7", "tcp")

    def ready(self, _credential: Any = None) -> None:
        self.is_ready = True


class Context:
    """Implements `CallContext`."""

    xid = 1

    def __init__(
        self, connection: FakeConnection, credential: Credential, peer: str, call_octets: int, offered: int
    ) -> None:
        self.client, self.credential, self.peer = connection, credential, peer
        self.call_octets, self._offered = call_octets, offered
        self.may_block = False

    def result_octets_max(self, items: Sequence[int] = ()) -> int:
        """Without chunks: items take their octets of the memory that the client offers."""
        return self._offered - sum((item + 3) & ~3 for item in items)

    def buffer(self, length: int) -> memoryview:
        return memoryview(bytearray(length))


class Recalled(list[Any]):
    """Takes the place of `Recalls`: the delegations that clients have been asked for."""

    def __init__(self, server: Conversation) -> None:
        self._server = server
        server.state.wake = self.take
        server.state.wake_broken = lambda: server.state.recall_broken(server.now_s)
        server.claims.wake = lambda found: server.state.recall_present(found, server.now_s)

    def take(self) -> None:
        while self._server.state.recalls:
            self.append(self._server.state.recalls.popleft())


class Conversation:
    """The server, over files in memory, with a clock that tests move."""

    def __init__(
        self,
        path: Path | None = None,
        files: FewFiles | None = None,
        now_s: float = 0.0,
        *,
        database: Any = None,
        random_bytes: Any = None,
    ) -> None:
        self.now_s = now_s
        self.files = files or FewFiles()
        if database is None:
            database = RecoveryDatabase(path, counted_octets())
            weakref.finalize(self, database.close)
        self.database = database
        self.claims: Claims[Any, Any] = Claims()
        self.state = State(
            self.claims,
            self.database,
            random_bytes or counted_octets(),
            now_s,
            identity=b"this server",
            lease_s=LEASE_S,
        )
        exports: Any = self.files
        self.service = Nfs4Service(exports, self.state, clock=lambda: self.now_s)
        self.service._recalls = self.recalled = Recalled(self)
        self.offered = 1 << 21
        """Octets of the memory that clients offer for the result."""
        self.hops = 0
        """Calls that have gone to a worker thread."""

    def answer(
        self,
        octets: bytes,
        connection: FakeConnection,
        credential: Credential = ROOT,
        peer: str = "192.0.2.7",
        *,
        lost: bool = False,
    ) -> bytes:
        """The result of COMPOUND; `lost`: the connection ends before the rest runs in a worker thread."""
        dec = Decoder(octets)
        args = COMPOUND.decode_args(dec)
        dec.done("COMPOUND")
        # An RPC header with AUTH_SYS has some 80 octets.
        context = Context(connection, credential, peer, len(octets) + 80, self.offered)
        steps: Any = self.service.compound(args, context)  # type: ignore[arg-type]
        try:
            while True:
                next(steps)
                if lost:
                    steps.close()
                    return b""
                context.may_block = True
        except StopIteration as end:
            self.hops += context.may_block
            enc = Encoder()
            COMPOUND.encode_result(enc, end.value)
            return b"".join(enc.gather())

    def client(
        self,
        name: str = "client",
        *,
        verifier: bytes = b"boot   1",
        credential: Credential = ROOT,
        connection: FakeConnection | None = None,
        **more: Any,
    ) -> Client:
        """A client that has said nothing yet."""
        own = connection or FakeConnection()
        return Client(lambda octets: self.answer(octets, own, credential, **more), name.encode(), verifier)


def with_version_4(server: Any, directory: Path | None, now_s: float = 0.0, now_ns: int = 0) -> Conversation:
    """Conversations with version 4 beside the version 3 of `server`."""
    conversation = Conversation(now_s=now_s)
    clocks = lambda: conversation.now_s, lambda: now_ns
    service = build_nfs4(server.services.nfs, server.state, directory, os.urandom, *clocks)
    weakref.finalize(conversation, service.state.database.close)
    service._recalls = conversation.recalled
    conversation.service, conversation.state = service, service.state
    return conversation


def two_clients() -> tuple[Conversation, Client, Client]:
    """A server, and clients of it at two hosts."""
    server = Conversation()
    return server, server.client("a").start(), server.client("b", peer="192.0.2.8").start()
