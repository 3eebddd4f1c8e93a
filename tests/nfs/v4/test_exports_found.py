"""The exports of a server by NFS version 4: a session, and READDIR from the root down."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from ipaddress import ip_network
from typing import Any

import pytest

from conversation import Conversation, FakeConnection
from jumping_sockets import jumping, now_s
from rpcrdma.errors import ConnectFailed, DecodeError, ProgramMismatch, ProgramUnavailable
from rpcrdma.limits import NFS4_DEFERRED_TRIES_MAX, NFS4_PSEUDO_CALLS_MAX
from rpcrdma.nfs import mount
from rpcrdma.nfs.client import mount_client
from rpcrdma.nfs.client.mount_client import Exported, list_exports
from rpcrdma.nfs.v4 import nfs4
from rpcrdma.nfs.v4.client.pseudo_root import find_exports
from rpcrdma.nfs.v4.client.session import OperationRefused, session_with
from rpcrdma.nfs.v4.compounds import COMPOUND, CompoundReply, Result
from rpcrdma.nfs.v4.nfs4 import GETATTR4resok, READDIR4resok, dirlist4, entry4, fattr4, nfs_opnum4
from rpcrdma.rpc.auth import AuthSys
from rpcrdma.rpc.gss.flavors import SecurityFlavor
from rpcrdma.xdr.codec import Decoder, Encoder
from served_exports import Served, u32, u64
from support.nfs4_client import opaque

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="the server acts as its callers")


SYS = (1, 0)
"""The flavors of an export by default: AUTH_SYS and AUTH_NONE."""


class Calling:
    """Implements `Caller`: calls COMPOUND of a server in memory."""

    lost = False
    program: Any = None
    limit_s = 5

    def __init__(self, server: Conversation) -> None:
        self.server = server
        self.connection = FakeConnection()
        self.calls = 0

    async def call(self, procedure: Any, args: Any, *, timeout_s: float) -> Any:
        assert 0 < timeout_s <= self.limit_s
        if procedure is not COMPOUND:
            raise ProgramUnavailable
        self.calls += 1
        enc = Encoder()
        procedure.encode_args(enc, args)
        answer = self.server.answer(b"".join(enc.gather()), self.connection, AuthSys(uid=1000, gid=1000))
        dec = Decoder(answer)
        reply = procedure.decode_result(dec)
        dec.done("COMPOUND")
        return reply

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


def found_by(caller: Calling) -> list[tuple[bytes, Any]]:
    async def main() -> list[tuple[bytes, Any]]:
        async with session_with(caller, 5) as session:
            return [(each.path, each.flavors) for each in await find_exports(session)]

    return asyncio.run(main())


@needs_root
def test_exports_are_found_below_the_directories_above_them(serve: Callable[..., Served]) -> None:
    served = serve({"name": "/one"}, {"name": "/data/two"}, {"name": "/data/deep/three"}, {"name": "/data/two/inner"})
    caller = Calling(served.server)
    assert found_by(caller) == [(b"/data/deep/three", SYS), (b"/data/two", SYS), (b"/one", SYS)]
    # A session takes four calls, the root two, each directory above exports one, and the flavors of each export one.
    assert caller.calls == 4 + 2 + 2 + 3


@needs_root
def test_the_session_and_its_client_end(serve: Callable[..., Served]) -> None:
    served = serve({"name": "/one"})
    before = len(served.server.state.clients.by_id)
    found_by(Calling(served.server))
    assert len(served.server.state.clients.by_id) == before


@needs_root
def test_a_root_that_is_an_export_is_not_walked(serve: Callable[..., Served]) -> None:
    caller = Calling(serve().server)
    assert found_by(caller) == [(b"/", SYS)]
    assert caller.calls == 4 + 2 + 1


@needs_root
def test_an_export_that_is_closed_to_the_caller_is_found_all_the_same(serve: Callable[..., Served]) -> None:
    served = serve({"name": "/closed", "hosts": (ip_network("198.51.100.0/24"),)}, {"name": "/open"})
    assert found_by(Calling(served.server)) == [(b"/closed", None), (b"/open", SYS)]


@needs_root
def test_exports_are_found_with_their_flavors_whichever_these_are(serve: Callable[..., Served]) -> None:
    for flavors in (("krb5p", "krb5"), ("sys", "krb5i"), ("none",)):
        security = tuple(SecurityFlavor[name.upper()] for name in flavors)
        expected = tuple(int(flavor) for flavor in security)
        assert found_by(Calling(serve({"name": "/a", "security": security}).server)) == [(b"/a", expected)]
        assert found_by(Calling(serve({"name": "/", "security": security}).server)) == [(b"/", expected)]


@needs_root
def test_flavors_of_other_mechanisms_than_kerberos_are_left_out(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rpcrdma.nfs.v4.server.security.KERBEROS_OID", b"\x2b\x06\x01")
    served = serve({"name": "/a", "security": (SecurityFlavor.KRB5, SecurityFlavor.SYS)})
    assert found_by(Calling(served.server)) == [(b"/a", (1,))]


class Refusing(Calling):
    """Refuses the first operation of the next calls with the statuses in `refusals`; None: does not refuse."""

    def __init__(self, server: Conversation) -> None:
        super().__init__(server)
        self.refusals: list[nfs4.nfsstat4 | None] = []

    async def call(self, procedure: Any, args: Any, *, timeout_s: float) -> Any:
        status = self.refusals.pop(0) if self.refusals else None
        if status is None:
            return await super().call(procedure, args, timeout_s=timeout_s)
        self.calls += 1
        return CompoundReply(status, b"", [Result(args.shape.operations[0], status, None)])


DELAY, MISORDERED = nfs4.nfsstat4.NFS4ERR_DELAY, nfs4.nfsstat4.NFS4ERR_SEQ_MISORDERED


@needs_root
@jumping
async def test_a_call_whose_first_operation_is_deferred_is_tried_again_for_some_seconds(
    serve: Callable[..., Served],
) -> None:
    caller = Refusing(serve({"name": "/one"}, {"name": "/two"}).server)
    # Each call but the last two, which end session and client, is deferred once.
    caller.refusals = [DELAY, None] * 6
    async with session_with(caller, 5) as session:
        assert await find_exports(session) == [(b"/one", SYS), (b"/two", SYS)]
        assert (caller.refusals, caller.calls) == ([], 12)
    for limit_s, deferred_s, said in ((60, 12.7, "for 12.7 s"), (5, 4.525, r"for 4.5 s \(time limit: 5 s\)")):
        caller.limit_s = limit_s
        async with session_with(caller, limit_s) as session:
            before, caller.calls = now_s(), 0
            caller.refusals = [DELAY] * 4 * (1 + NFS4_DEFERRED_TRIES_MAX)
            with pytest.raises(OperationRefused, match=f"SEQUENCE of NFS version 4 with NFS4ERR_DELAY {said}"):
                await find_exports(session)
            assert now_s() - before == pytest.approx(deferred_s)
            assert caller.calls == 1 + NFS4_DEFERRED_TRIES_MAX
            before = now_s()
        assert now_s() - before < 2, "nothing depends on how session and client end"
        assert caller.refusals
        caller.refusals.clear()


@needs_root
@jumping
async def test_a_refused_sequence_fails_the_listing(serve: Callable[..., Served]) -> None:
    caller = Refusing(serve({"name": "/one"}, {"name": "/two"}).server)
    async with session_with(caller, 5) as session:
        caller.refusals = [None, None, MISORDERED]
        with pytest.raises(OperationRefused, match="SEQUENCE of NFS version 4 with NFS4ERR_SEQ_MISORDERED"):
            await find_exports(session)


@needs_root
@jumping
async def test_a_client_ends_also_if_its_session_is_not_made_or_does_not_end(serve: Callable[..., Served]) -> None:
    caller = Refusing(serve({"name": "/one"}).server)
    clients = caller.server.state.clients.by_id
    before = len(clients)
    caller.refusals = [None, MISORDERED]
    with pytest.raises(OperationRefused, match="CREATE_SESSION"):
        async with session_with(caller, 5):
            pass
    assert (caller.calls, len(clients)) == (3, before)
    caller.calls = 0
    async with session_with(caller, 5):
        caller.refusals = [nfs4.nfsstat4.NFS4ERR_BADSESSION]
    assert caller.calls == 4, "DESTROY_CLIENTID is sent as well"


class Made(Calling):
    """A server that answers GETATTR and READDIR as told; `page` makes the page behind a cookie."""

    def __init__(self, page: Callable[[int], tuple[list[entry4], bool]], refused: str = "") -> None:
        super().__init__(Conversation())
        self.page, self.refused = page, refused
        self.pages = 0

    async def call(self, procedure: Any, args: Any, *, timeout_s: float) -> Any:
        results = []
        for operation, given in zip(args.shape.operations, args.args, strict=True):
            number, value = operation.number, None
            if operation.name == self.refused:
                results.append(Result(operation, nfs4.nfsstat4.NFS4ERR_ACCESS, None))
                return CompoundReply(nfs4.nfsstat4.NFS4ERR_ACCESS, b"", results)
            if number == nfs_opnum4.OP_GETATTR:
                value = GETATTR4resok(fattr4([1 << 8], u64(0) + u64(0)))
            elif number == nfs_opnum4.OP_READDIR:
                self.pages += 1
                value = READDIR4resok(bytes(8), dirlist4(*self.page(given.cookie)))
            elif number in {nfs_opnum4.OP_EXCHANGE_ID, nfs_opnum4.OP_CREATE_SESSION}:
                value = await self._session(number, given)
            elif number in {nfs_opnum4.OP_SECINFO, nfs_opnum4.OP_SECINFO_NO_NAME}:
                results.append(Result(operation, nfs4.nfsstat4.NFS4ERR_NOTSUPP, None))
                return CompoundReply(nfs4.nfsstat4.NFS4ERR_NOTSUPP, b"", results)
            results.append(Result(operation, nfs4.nfsstat4.NFS4_OK, value))
        return CompoundReply(nfs4.nfsstat4.NFS4_OK, b"", results)

    async def _session(self, number: int, args: Any) -> Any:
        from rpcrdma.nfs.v4.compounds import CompoundCall

        call = CompoundCall.of([(number, args)], minor_version=1)
        return (await super().call(COMPOUND, call, timeout_s=5)).results[0].value


def directory(cookie: int, name: bytes = b"d", kind: int = 2, fsid: int = 0) -> entry4:
    values = u32(kind) + u64(fsid) + u64(0) + u32(0) + opaque(b"handle of %d " % cookie + name)
    return entry4(cookie, name, fattr4([1 << 1 | 1 << 8 | 1 << 11 | 1 << 19], values))


def test_a_server_without_end_is_asked_for_a_bounded_number_of_pages() -> None:
    # Directories within directories, and pages that never end.
    deep = Made(lambda _: ([directory(3), directory(4, b"e")], True))
    assert found_by(deep) == [(b"/", ())]
    assert deep.pages == NFS4_PSEUDO_CALLS_MAX
    wide = Made(lambda cookie: ([directory(cookie + 3)], False))
    assert found_by(wide) == [(b"/", ())]
    assert wide.pages == NFS4_PSEUDO_CALLS_MAX
    stuck = Made(lambda _: ([], False))
    assert found_by(stuck) == [(b"/", ())]
    assert stuck.pages == 1


def test_a_directory_goes_on_behind_its_last_cookie() -> None:
    pages = {0: ([directory(7, b"a", fsid=1)], False), 7: ([directory(9, b"b", fsid=2)], True)}
    assert found_by(Made(pages.__getitem__)) == [(b"/a", ()), (b"/b", ())]


def test_only_an_export_that_the_server_denies_is_shown_as_closed() -> None:
    errors = {b"access": 13, b"delay": 10008, b"io": 5, b"perm": 1, b"wrongsec": 10016}
    entries = [entry4(3, name, fattr4([1 << 11], u32(error))) for name, error in errors.items()]
    found = found_by(Made(lambda _: (entries, True)))
    assert found == [(b"/access", None), (b"/delay", ()), (b"/io", ()), (b"/perm", None), (b"/wrongsec", ())]


def test_a_name_that_is_listed_twice_is_shown_twice() -> None:
    twice = [directory(3), directory(4)], True
    pages = iter([twice, *[([directory(5, b"a", fsid=1)], True)] * 2])
    assert found_by(Made(lambda _: next(pages))) == [(b"/d/a", ())] * 2


def test_attributes_that_were_not_asked_for_are_a_fault_of_the_server() -> None:
    for given in (fattr4([1 << 4], u64(5)), fattr4([1 << 1], b""), fattr4([1 << 1], u32(2) + u32(0))):
        with pytest.raises(DecodeError):
            found_by(Made(lambda _, given=given: ([entry4(3, b"d", given)], True)))  # type: ignore[misc]


def test_a_refusal_names_the_operation() -> None:
    with pytest.raises(OperationRefused, match="answers READDIR of NFS version 4 with NFS4ERR_ACCESS"):
        found_by(Made(lambda _: ([], True), refused="READDIR"))


class Elsewhere(Calling):
    """MOUNT at another port."""

    def __init__(self) -> None:
        super().__init__(Conversation())

    async def call(self, procedure: Any, args: Any, *, timeout_s: float) -> Any:
        if procedure is mount.EXPORT:
            return []
        return await super().call(procedure, args, timeout_s=timeout_s)


def listed(monkeypatch: pytest.MonkeyPatch, nfs: Any) -> tuple[list[Exported], list[int]]:
    """The exports of a server to which there is the connection `nfs`, and the other ports that were asked."""
    asked: list[int] = []

    async def connect_nfs(*_: object) -> Any:
        return nfs

    async def connected(_url: object, port: int, *_: object, **__: object) -> Any:
        asked.append(port)
        return Elsewhere()

    monkeypatch.setattr(mount_client, "connect_nfs", connect_nfs)
    monkeypatch.setattr(mount_client, "_connected", connected)
    url = mount_client.Url(scheme="tcp", host="192.0.2.1", port=2049)
    options = mount_client.ConnectOptions(connect_timeout_s=5)
    return asyncio.run(list_exports(url, options)), asked


@needs_root
def test_a_server_without_mount_is_asked_by_version_4_and_no_other_port(
    monkeypatch: pytest.MonkeyPatch, serve: Callable[..., Served], caplog: pytest.LogCaptureFixture
) -> None:
    served = serve({"name": "/closed", "hosts": (ip_network("198.51.100.0/24"),)}, {"name": "/open"})
    found, asked = listed(monkeypatch, Calling(served.server))
    assert found == [Exported("/closed", None, None), Exported("/open", None, SYS)]
    assert asked == []
    assert not any("MOUNT" in message for message in caplog.messages)


@needs_root
def test_a_server_of_which_no_export_is_open_to_this_host_says_so(
    monkeypatch: pytest.MonkeyPatch, serve: Callable[..., Served]
) -> None:
    served = serve({"name": "/closed"})
    exports = served.local
    exports.install(exports.plan([replace(exports.trees[0].export, hosts=(ip_network("198.51.100.0/24"),))]))
    served.server.service.exports.renew(1)
    with pytest.raises(PermissionError) as refused:
        listed(monkeypatch, Calling(served.server))
    assert refused.value.__notes__ == ["the server admits this host to no export"]


def test_mount_at_another_port_comes_last_and_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Version3(Calling):
        async def call(self, procedure: Any, args: Any, *, timeout_s: float) -> Any:
            raise ProgramMismatch(3, 3) if procedure is COMPOUND else ProgramUnavailable

    found, asked = listed(monkeypatch, Version3(Conversation()))
    assert (found, asked) == ([], [mount_client.MOUNT_PORT])
    (message,) = caplog.messages
    assert "tcp://192.0.2.1:2049 lists no exports itself" in message
    assert "192.0.2.1:20048, which may belong to another server" in message
    assert "?mountport=PORT" in message


def test_a_server_that_lists_nothing_at_all_is_refused_with_all_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    async def _ports(*_: object) -> Any:
        return
        yield

    monkeypatch.setattr(mount_client, "_ports", _ports)
    with pytest.raises(ConnectFailed, match=r"does not offer the program.*NFS version 4 there: .*READDIR.*ACCESS"):
        listed(monkeypatch, Nothing(lambda _: ([], True), refused="READDIR"))


class Nothing(Made):
    async def call(self, procedure: Any, args: Any, *, timeout_s: float) -> Any:
        if procedure is not COMPOUND:
            raise ProgramUnavailable
        return await super().call(procedure, args, timeout_s=timeout_s)
