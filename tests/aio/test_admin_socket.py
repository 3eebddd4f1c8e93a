"""The local socket of a server's administrator: who is answered, the bounds of requests, sockets that others left."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from jumping_sockets import jumping
from rpcrdma.aio.drivers.sockets import local_socket
from rpcrdma.aio.server import admin_socket
from rpcrdma.aio.server.admin_socket import AdminSocket, SocketInUse, reachable_path
from rpcrdma.limits import ADMIN_ANSWER_S, ADMIN_CONNECTIONS_MAX, ADMIN_REQUEST_OCTETS_MAX
from support.waiting import time_passes


async def echo(request: Mapping[str, Any]) -> dict[str, Any]:
    if request.get("fails") == "known":
        raise OSError("the disk is full; free space on it")
    if request.get("fails"):
        raise RuntimeError("a mistake")
    return {"asked": request}


def made(path: Path) -> AdminSocket:
    admin = AdminSocket(path, {"echo": echo})
    admin.start()
    return admin


async def until_closed(sock: socket.socket) -> bytes:
    loop, data = asyncio.get_running_loop(), b""
    # What was not read of a request makes the end a reset.
    with contextlib.suppress(ConnectionResetError):
        while octets := await loop.sock_recv(sock, 1 << 16):
            data += octets
    return data


async def answered(path: Path, line: bytes) -> dict[str, Any]:
    with local_socket(str(path)) as sock:
        await asyncio.get_running_loop().sock_sendall(sock, line)
        found: dict[str, Any] = json.loads(await until_closed(sock))
        return found


@jumping
async def test_a_request_is_answered_and_the_socket_is_its_owners_alone_while_it_lasts(tmp_path: Path) -> None:
    path = tmp_path / "admin.sock"
    before = os.umask(0)
    try:
        admin = made(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for more in (b"", b"more"):
        assert await answered(path, b'{"ask": "echo", "x": 1}\n' + more) == {
            "ok": True, "answer": {"asked": {"ask": "echo", "x": 1}},
        }  # fmt: skip
    await admin.close()
    assert not path.exists()
    await admin.close()


@jumping
async def test_a_path_longer_than_an_address_is_listened_at(tmp_path: Path) -> None:
    directory = tmp_path / ("d" * 200)
    directory.mkdir()
    admin = made(directory / "admin.sock")
    with reachable_path(directory / "admin.sock") as (_, address):
        assert (await answered(Path(address), b'{"ask": "echo"}\n'))["ok"]
    await admin.close()
    assert list(directory.iterdir()) == []


@jumping
async def test_users_other_than_the_owner_and_root_get_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = made(tmp_path / "s")
    own = os.geteuid()
    for user, is_answered in ((0, True), (own, True), (own + 1, False), (65534, False)):
        monkeypatch.setattr(admin_socket, "_peer", lambda _sock, user=user: (1, user))
        assert (await answered(tmp_path / "s", b'{"ask": "echo"}\n'))["ok"] is is_answered
    await admin.close()


@jumping
async def test_what_is_no_request_is_refused_and_a_failed_one_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    admin = made(tmp_path / "s")
    too_long = b'{"ask": "echo", "x": "' + b"x" * ADMIN_REQUEST_OCTETS_MAX + b'"}\n'
    for line in (
        b"\n",
        b"\xff\n",
        b"[]\n",
        b"1\n",
        b'{"ask": []}\n',
        b'{"ask": "else"}\n',
        b"[" * 4095 + b"\n",
        too_long,
    ):
        found = await answered(tmp_path / "s", line)
        assert (found["ok"], found["message"]) == (False, "this server does not know the request"), line
    assert await answered(tmp_path / "s", b'{"ask": "echo", "fails": "known"}\n') == {
        "ok": False, "message": "the disk is full", "hint": "free space on it",
    }  # fmt: skip
    assert not caplog.records
    assert (await answered(tmp_path / "s", b'{"ask": "echo", "fails": 1}\n'))["message"] == "the server has failed"
    assert caplog.records
    await admin.close()


@jumping
async def test_connections_are_bounded_and_one_that_asks_nothing_ends(tmp_path: Path) -> None:
    admin = made(tmp_path / "s")
    silent = [local_socket(str(tmp_path / "s")) for _ in range(ADMIN_CONNECTIONS_MAX)]
    await time_passes(0.1)
    with local_socket(str(tmp_path / "s")) as one_more:
        assert await until_closed(one_more) == b""
    for sock in silent:
        # After the time for a request.
        assert await until_closed(sock) == b""
        sock.close()
    assert (await answered(tmp_path / "s", b'{"ask": "echo"}\n'))["ok"]
    await admin.close()


@jumping
async def test_a_long_answer_is_encoded_in_many_turns_of_the_event_loop() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    answer = {"ok": True, "answer": {"clients": [{"id": number} for number in range(5000)]}}
    assert json.loads(await admin_socket._encoded(answer)) == answer
    counting.cancel()
    assert turns > 10


@jumping
async def test_an_answer_that_is_not_read_is_given_up(tmp_path: Path) -> None:
    async def long(_request: Mapping[str, Any]) -> dict[str, Any]:
        return {"long": "x" * (4 << 20)}

    admin = AdminSocket(tmp_path / "s", {"long": long})
    admin.start()
    with local_socket(str(tmp_path / "s")) as sock:
        await asyncio.get_running_loop().sock_sendall(sock, b'{"ask": "long"}\n')
        await time_passes(2 * ADMIN_ANSWER_S)
        assert 0 < len(await until_closed(sock)) < 4 << 20
    await admin.close()


@jumping
async def test_a_socket_that_nobody_listens_at_is_replaced_and_one_in_use_is_not(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(str(path))
    first = made(path)
    with pytest.raises(SocketInUse, match=rf"^{path} is the admin socket of the server with process {os.getpid()}$"):
        made(path)
    assert (await answered(path, b'{"ask": "echo"}\n'))["ok"]
    path.unlink()
    second = made(path)
    await first.close()
    assert (await answered(path, b'{"ask": "echo"}\n'))["ok"], "the first one leaves the second one's socket"
    await second.close()
    path.write_text("a file of somebody's")
    with pytest.raises(OSError, match=rf"cannot listen at {path}: there is a file that is no socket; remove it"):
        made(path)
    assert path.read_text()
    with pytest.raises(OSError, match=r"cannot listen at .*: No such file or directory"):
        made(tmp_path / "absent" / "s")
