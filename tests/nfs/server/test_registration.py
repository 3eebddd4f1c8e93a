"""Programs at rpcbind: registered, kept and removed there, beside those of others, also where it is slow or lies."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest

from jumping_sockets import jumping, now_s
from rpcrdma.aio.answering.answering import Answering, HandlerRunner
from rpcrdma.aio.answering.buffer_pool import BufferPool
from rpcrdma.aio.connections.tcp_connection import TcpConnection
from rpcrdma.errors import ConnectFailed
from rpcrdma.limits import RPCBIND_ANSWERS_S, RPCBIND_LOOK_S
from rpcrdma.nfs import mount, port_mapper, v3
from rpcrdma.nfs.port_mapper import binding, binding_entry
from rpcrdma.nfs.server import registration
from rpcrdma.nfs.server.registration import ProgramNetid, RegisteredPrograms, places_of
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.rpc.program import Program
from support.cases import each_case
from support.waiting import time_passes, until

NFS, NFS4, MOUNT, OTHER = v3.NFS_V3, Program(100003, 4, "NFS4", {}), mount.MOUNT_V3, Program(0x20000C20, 1, "WATCH", {})
LISTENING = ["tcp://[::]:2049", "tcp://[::]:20048", "rdma://[::]:20049"]
WANTED = {
    (100003, 3, "tcp"): "0.0.0.0.8.1",
    (100003, 3, "tcp6"): "::.8.1",
    (100003, 3, "rdma"): "0.0.0.0.78.81",
    (100003, 3, "rdma6"): "::.78.81",
    (100005, 3, "tcp"): "0.0.0.0.78.80",
    (100005, 3, "tcp6"): "::.78.80",
}
OF_OTHERS = {(100000, 4, "local"): ("/run/rpcbind.sock", "superuser"), (100024, 1, "tcp"): ("0.0.0.0.200.1", "106")}
NFS_OVER_TCP = (100003, 3, "tcp")
ELSEWHERE = "0.0.0.0.48.57"


class Rpcbind(port_mapper.RPCBIND_V4_Service):
    """Obeys the rules of rpcbind 1.2.6 for owners; `connect` takes the place of `local_socket`."""

    def __init__(self, user: str = "superuser") -> None:
        self.user = user
        self.entries: dict[tuple[int, int, str], tuple[str, str]] = dict(OF_OTHERS)
        self.connect: Callable[[str], socket.socket] = self.answered
        self.calls: list[str] = []

    def set(self, args: binding, context: object) -> bool:
        self.calls.append("SET")
        key = (args.prog, args.vers, args.netid)
        return self.entries.setdefault(key, (args.addr, self.user)) == (args.addr, self.user)

    def unset(self, args: binding, context: object) -> bool:
        self.calls.append("UNSET")
        key = (args.prog, args.vers, args.netid)
        if key in self.entries and self.user not in {"superuser", self.entries[key][1]}:
            return False
        self.entries.pop(key, None)
        return True

    def dump(self, args: None, context: object) -> list[binding_entry]:
        self.calls.append("DUMP")
        return [binding_entry(binding(*place, *entry)) for place, entry in self.entries.items()]

    def answered(self, _path: str) -> socket.socket:
        answering = Answering(Dispatcher([self]), HandlerRunner(workers=1))
        near, far = socket.socketpair()
        TcpConnection(far, active=False, results=BufferPool(), arguments=BufferPool(), answering=answering)
        near.setblocking(False)
        return near

    def gone(self, path: str) -> socket.socket:
        raise ConnectFailed(f"cannot connect to {path}: no such file or directory", refused=True)


@pytest.fixture
def rpcbind(monkeypatch: pytest.MonkeyPatch) -> Rpcbind:
    """The machine's rpcbind; a test may have it changed between looks."""
    made = Rpcbind()
    # The attribute changes during a test.
    monkeypatch.setattr(registration, "local_socket", lambda path: made.connect(path))  # noqa: PLW0108
    monkeypatch.setattr(registration, "connected_socket", nobody_listens)
    return made


async def nobody_listens(host: str, port: int) -> socket.socket:
    raise ConnectFailed(f"cannot connect to {host}:{port}: connection refused")


def registered(user: str = "superuser", programs: tuple[Program, ...] = (NFS, MOUNT)) -> RegisteredPrograms:
    return RegisteredPrograms(programs, list(LISTENING), owner=user)


def all_ours(user: str = "superuser") -> dict[tuple[int, int, str], tuple[str, str]]:
    return OF_OTHERS | {place: (address, user) for place, address in WANTED.items()}


@pytest.mark.req("V1-84", "NF-2")
@each_case(
    ("programs", "listening", "loopback", "expected"),
    [
        ([NFS, MOUNT, OTHER], LISTENING, False, WANTED),
        # One port has all of them, and version 4 is a version of NFS.
        ([NFS4, MOUNT], ["tcp://192.0.2.1:20048"], False,
         {(100003, 4, "tcp"): "192.0.2.1.78.80", (100005, 3, "tcp"): "192.0.2.1.78.80"}),
        ([NFS], ["rdma://[2001:db8::1]:20049"], False, {(100003, 3, "rdma6"): "2001:db8::1.78.81"}),
        ([MOUNT], ["rdma://0.0.0.0:20049"], True, {}),
        # A wildcard goes before the usual port, which goes before others.
        ([NFS], ["tcp://192.0.2.1:2049", "tcp://0.0.0.0:5000"], True, {NFS_OVER_TCP: "0.0.0.0.19.136"}),
        ([NFS], ["tcp://0.0.0.0:5000", "tcp://0.0.0.0:2049"], True, {NFS_OVER_TCP: "0.0.0.0.8.1"}),
        ([NFS], ["tcp://0.0.0.0:5000", "tcp://[::]:2049"], True,
         {NFS_OVER_TCP: "0.0.0.0.8.1", (100003, 3, "tcp6"): "::.8.1"}),
        # Nobody else reaches these.
        ([NFS], ["tcp://127.0.0.1:2049", "rdma://[::1]:20049", "tcp://[fe80::1%2]:2049"], False, {}),
        ([NFS], ["tcp://127.0.0.1:2049", "tcp://192.0.2.1:5000"], True, {NFS_OVER_TCP: "192.0.2.1.19.136"}),
        ([NFS], ["tcp://127.0.0.1:2049", "rdma://[::1]:20049"], True,
         {NFS_OVER_TCP: "127.0.0.1.8.1", (100003, 3, "rdma6"): "::1.78.81"}),
    ],
)  # fmt: skip
def test_each_transport_has_the_address_that_most_clients_reach(
    programs: list[Program], listening: list[str], loopback: bool, expected: dict[ProgramNetid, str]
) -> None:
    assert places_of(programs, listening, loopback=loopback) == expected


@pytest.mark.req("OR-7", "NF-2")
@jumping
async def test_programs_are_registered_while_the_server_runs(rpcbind: Rpcbind) -> None:
    ours = registered()
    await ours.start(required=True)
    assert rpcbind.entries == all_ours()
    assert ours.held == WANTED
    await ours.close()
    assert rpcbind.entries == OF_OTHERS


@jumping
async def test_what_is_cancelled_while_it_registers_programs_leaves_none_at_rpcbind(
    rpcbind: Rpcbind, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, ours, register = asyncio.get_running_loop(), registered(), rpcbind.set
    cancels: list[Callable[[], object]] = []

    def cancelled(args: binding, context: object) -> bool:
        done = register(args, context)
        if cancels and rpcbind.calls.count("SET") == 2:
            loop.call_soon_threadsafe(cancels.pop())
        return done

    monkeypatch.setattr(rpcbind, "set", cancelled)
    starting = asyncio.create_task(ours.start(required=False))
    cancels.append(starting.cancel)
    await asyncio.wait([starting])
    assert (starting.cancelled(), rpcbind.entries) == (True, OF_OTHERS)
    await ours.start(required=True)
    rpcbind.entries = dict(OF_OTHERS)
    rpcbind.calls.clear()
    keeping = ours._task
    assert keeping is not None
    cancels.append(keeping.cancel)
    ours.look_soon()
    await asyncio.wait([keeping])
    await ours.close()
    assert (keeping.cancelled(), rpcbind.entries) == (True, OF_OTHERS)


@jumping
async def test_programs_are_registered_again_when_rpcbind_has_forgotten_them(
    rpcbind: Rpcbind, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rpcrdma.server")
    ours = registered()
    await ours.start(required=False)
    rpcbind.entries = dict(OF_OTHERS)
    await time_passes(RPCBIND_LOOK_S + 1)
    assert rpcbind.entries == all_ours()
    assert [record.message.partition(":")[0] for record in caplog.records] == ["registered at rpcbind"] * 2
    rpcbind.calls.clear()
    await time_passes(5 * RPCBIND_LOOK_S)
    assert rpcbind.calls == ["DUMP"] * 5, "a look that finds all in order changes nothing"
    assert len(caplog.records) == 2
    await ours.close()


@jumping
async def test_rpcbind_follows_a_change_of_addresses_at_once(rpcbind: Rpcbind) -> None:
    listening = list(LISTENING)
    ours = RegisteredPrograms((NFS, MOUNT), listening, owner="superuser")
    await ours.start(required=True)
    listening.clear()
    ours.look_soon()
    await until(lambda: rpcbind.entries == OF_OTHERS)
    await ours.close()


@jumping
async def test_an_rpcbind_that_is_gone_is_reported_once_until_it_is_back(
    rpcbind: Rpcbind, caplog: pytest.LogCaptureFixture
) -> None:
    rpcbind.connect = rpcbind.gone
    ours = registered()
    await ours.start(required=False)
    await time_passes(5 * RPCBIND_LOOK_S)
    (told,) = (record.message for record in caplog.records)
    assert told == (
        "there is no rpcbind: cannot connect to /run/rpcbind.sock: no such file or directory; start rpcbind"
    )
    assert not ours.complete
    rpcbind.connect = rpcbind.answered
    await time_passes(RPCBIND_LOOK_S)
    assert rpcbind.entries == all_ours()
    assert ours.complete
    rpcbind.connect = rpcbind.gone
    await time_passes(RPCBIND_LOOK_S)
    assert [record.message for record in caplog.records] == [told, told]
    await ours.close()
    assert "registrations stay at rpcbind" in caplog.records[-1].message


@jumping
async def test_the_server_waits_for_a_slow_rpcbind_for_some_seconds_alone(rpcbind: Rpcbind) -> None:
    quiet: list[socket.socket] = []

    def never_answers(_path: str) -> socket.socket:
        near, far = socket.socketpair()
        near.setblocking(False)
        quiet.append(far)
        return near

    ours = registered()
    await ours.start(required=True)
    rpcbind.connect = never_answers
    before = now_s()
    await ours.close()
    assert now_s() - before == pytest.approx(RPCBIND_ANSWERS_S)
    other, before = registered(), now_s()
    await other.start(required=False)
    assert now_s() - before == pytest.approx(RPCBIND_ANSWERS_S)
    with pytest.raises(ConnectFailed, match=r"no answer within 3 s; restart rpcbind$"):
        await registered().start(required=True)
    await other.close()
    for end in quiet:
        assert end.recv(4)
        end.close()


@jumping
async def test_registrations_of_another_user_stay_where_an_ordinary_user_serves(
    rpcbind: Rpcbind, caplog: pytest.LogCaptureFixture
) -> None:
    rpcbind.user = "1000"
    rpcbind.entries[NFS_OVER_TCP] = foreign = (f"{ELSEWHERE}\x1b[2J", "1001")
    ours = registered("1000")
    await ours.start(required=False)
    (told,) = (record.message for record in caplog.records)
    assert told == (
        f"rpcbind has NFS 3 over tcp at {ELSEWHERE}\\x1b[2J, registered by user 1001, and leads clients there; remove "
        "that registration as root (rpcinfo -d 100003 3)"
    )
    assert rpcbind.entries == all_ours("1000") | {NFS_OVER_TCP: foreign}
    await ours.close()
    assert rpcbind.entries == OF_OTHERS | {NFS_OVER_TCP: foreign}
    with pytest.raises(ConnectFailed, match=r"registered by user 1001, .* as root "):
        await registered("1000").start(required=True)
    assert rpcbind.entries == OF_OTHERS | {NFS_OVER_TCP: foreign}, "a server that does not start leaves nothing"


@jumping
async def test_root_takes_the_place_of_another_users_registration(
    rpcbind: Rpcbind, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def listens(host: str, port: int) -> socket.socket:
        return socket.socket(socket.AF_UNIX)

    # Its server answers: an ordinary user keeps nobody from serving.
    monkeypatch.setattr(registration, "connected_socket", listens)
    rpcbind.entries[NFS_OVER_TCP] = (ELSEWHERE, "1001")
    ours = registered()
    await ours.start(required=True)
    (told,) = (record.message for record in caplog.records)
    assert told == (
        f"rpcbind had NFS 3 over tcp at {ELSEWHERE}, registered by user 1001; this server of root has taken its place"
    )
    assert rpcbind.entries == all_ours()
    await ours.close()


@each_case("silent", [False, True])
@jumping
async def test_a_stale_registration_of_the_same_user_is_replaced(
    silent: bool, rpcbind: Rpcbind, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answers_nobody(host: str, port: int) -> socket.socket:
        await time_passes(60)
        raise AssertionError(host)

    rpcbind.entries = dict(OF_OTHERS)
    if silent:
        monkeypatch.setattr(registration, "connected_socket", answers_nobody)
    for netid, address in (("tcp", ELSEWHERE), ("tcp6", "::.48.57"), ("rdma", "no address"), ("rdma6", "")):
        rpcbind.entries[100003, 3, netid] = (address, "superuser")
    for netid, address in (("tcp", ELSEWHERE), ("tcp6", "::.48.57")):
        rpcbind.entries[100005, 3, netid] = (address, "superuser")
    ours = registered()
    await ours.start(required=True)
    assert rpcbind.entries == all_ours()
    assert caplog.records == []
    await ours.close()


@jumping
async def test_another_server_of_the_same_user_that_answers_keeps_its_registrations(
    rpcbind: Rpcbind, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int]] = []

    async def listens(host: str, port: int) -> socket.socket:
        asked.append((host, port))
        return socket.socket(socket.AF_UNIX)

    monkeypatch.setattr(registration, "connected_socket", listens)
    theirs = {NFS_OVER_TCP: (ELSEWHERE, "superuser"), (100003, 3, "rdma"): ("0.0.0.0.48.58", "superuser")}
    rpcbind.entries |= theirs
    ours = registered()
    await ours.start(required=False)
    assert asked == [("127.0.0.1", 12345)]
    of_mount = {place: entry for place, entry in all_ours().items() if place[0] != 100003}
    assert rpcbind.entries == of_mount | theirs, "MOUNT has no other server"
    assert all(f"to another server of this user, at {ELSEWHERE}" in record.message for record in caplog.records)
    assert len(caplog.records) == 4
    await ours.close()
    assert rpcbind.entries == OF_OTHERS | theirs


@jumping
async def test_the_server_asks_none_of_its_own_listeners_whether_another_server_answers(
    rpcbind: Rpcbind, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def listens(host: str, port: int) -> socket.socket:
        raise AssertionError(port)

    monkeypatch.setattr(registration, "connected_socket", listens)
    # A former server had all programs at one of the ports.
    rpcbind.entries[NFS_OVER_TCP] = ("192.0.2.1.78.80", "superuser")
    ours = registered()
    await ours.start(required=True)
    assert rpcbind.entries == all_ours()
    await ours.close()


@jumping
async def test_a_server_removes_at_its_end_what_leads_to_it_alone(rpcbind: Rpcbind) -> None:
    ours = registered()
    await ours.start(required=True)
    rpcbind.entries[NFS_OVER_TCP] = later = (ELSEWHERE, "superuser")
    rpcbind.entries[100005, 3, "tcp"] = (WANTED[100005, 3, "tcp"], "1001")
    await ours.close()
    assert rpcbind.entries == OF_OTHERS | {NFS_OVER_TCP: later, (100005, 3, "tcp"): (WANTED[100005, 3, "tcp"], "1001")}


@jumping
async def test_registrations_follow_the_listeners(rpcbind: Rpcbind) -> None:
    listening = list(LISTENING)
    ours = RegisteredPrograms([NFS, MOUNT], listening, owner="superuser")
    await ours.start(required=True)
    listening[2:] = ["tcp://[::]:3049"]
    await time_passes(RPCBIND_LOOK_S + 1)
    over_tcp = {place: entry for place, entry in all_ours().items() if not place[2].startswith("rdma")}
    assert rpcbind.entries == over_tcp
    await ours.close()
    assert rpcbind.entries == OF_OTHERS


@each_case(("url", "cause"), [("tcp://nfs.example:2049", "'nfs.example' does not"), ("tcp://", "names no host")])
@jumping
async def test_a_listener_without_an_address_is_no_failure_of_rpcbind_and_ends_nothing(
    url: str, cause: str, rpcbind: Rpcbind, caplog: pytest.LogCaptureFixture
) -> None:
    listening = [url]
    ours = RegisteredPrograms([NFS, MOUNT], listening, owner="superuser")
    with pytest.raises(ConnectFailed, match=f"^no program can be registered: .*{cause}"):
        await ours.start(required=True)
    await ours.start(required=False)
    for urls in (LISTENING, [url], LISTENING):
        rpcbind.entries = dict(OF_OTHERS)
        listening[:] = urls
        await time_passes(RPCBIND_LOOK_S + 1)
        assert rpcbind.entries == (all_ours() if urls is LISTENING else OF_OTHERS)
    assert [record.message.partition(":")[0] for record in caplog.records] == ["no program can be registered"] * 2
    await ours.close()


def reply(results: bytes, *, accepted: int = 0, xid_change: int = 0) -> Callable[[bytes], bytes]:
    def made(xid: bytes) -> bytes:
        xid = bytes([xid[0] ^ xid_change]) + xid[1:]
        message = xid + struct.pack(">IIIII", 1, 0, 0, 0, accepted) + results
        return struct.pack(">I", 1 << 31 | len(message)) + message

    return made


_ENTRY = struct.pack(">III", 1, 100003, 3) + b"\0\0\0\x03tcp\0" + bytes(8)


@each_case(
    ("octets", "cause"),
    [
        (lambda _: b"", "closed"),
        (lambda _: b"HTTP/1.1 400 Bad Request\r\n\r\n" * 4, ""),
        (reply(b""), "binding_list"),
        (reply(b"\0\0\0\2"), "2"),
        (reply(_ENTRY), ""),
        (reply(_ENTRY + bytes(4) + b"more"), "octets"),
        (reply(_ENTRY * 4097 + bytes(4)), "4096"),
        (reply(struct.pack(">IIII", 1, 1, 1, 0xFFFFFFF0) + bytes(64)), ""),
        (reply(b"\0\0\0\2\0\0\0\3", accepted=2), "version"),
        (reply(b"", accepted=3), "procedure"),
        (reply(_ENTRY + bytes(4), xid_change=1), "no answer within 3 s"),
    ],
)
@each_case("user", ["superuser", "1000"])
def test_hostile_answers_of_rpcbind_are_reported_and_end_nothing(
    octets: Callable[[bytes], bytes], cause: str, user: str, rpcbind: Rpcbind, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()

    async def talk() -> None:
        loop = asyncio.get_running_loop()
        tasks = []

        def hostile(_path: str) -> socket.socket:
            near, far = socket.socketpair()
            near.setblocking(False)
            far.setblocking(False)

            async def answer() -> None:
                call = await loop.sock_recv(far, 4096)
                data = octets(call[4:8])
                await loop.sock_sendall(far, data)
                if not data:
                    far.close()
                else:
                    await time_passes(60)
                    far.close()

            tasks.append(asyncio.create_task(answer()))
            return near

        rpcbind.connect = hostile
        ours = registered(user)
        await ours.start(required=False)
        (told,) = (record.message for record in caplog.records)
        assert told.startswith("rpcbind at /run/rpcbind.sock fails: ")
        assert told.endswith("; restart rpcbind")
        assert cause in told.lower()
        assert ours.held == {}
        rpcbind.connect = rpcbind.answered
        rpcbind.user = user
        await time_passes(RPCBIND_LOOK_S + 1)
        assert ours.held == WANTED, "the server goes on asking"
        await ours.close()
        await asyncio.gather(*tasks)

    jumping(talk)()


@jumping
async def test_an_rpcbind_that_refuses_every_registration_is_reported(
    rpcbind: Rpcbind, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(self: Rpcbind, args: Any, context: object) -> bool:
        return False

    monkeypatch.setattr(Rpcbind, "set", refuses)
    with pytest.raises(ConnectFailed, match=r"^rpcbind refuses to register NFS 3 over tcp6 at ::\.8\.1; "):
        await registered().start(required=True)
