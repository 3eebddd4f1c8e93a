"""The HTTP server of metrics: which requests it answers, and its bounds."""

from __future__ import annotations

import contextlib
import errno
import http.client
import logging
import os
import socket
import threading
from collections.abc import Iterator
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcrdma.aio.drivers import page_server
from rpcrdma.aio.drivers.page_server import Answer, PageServer, Request, parse_request
from rpcrdma.errors import LocalProtocolError, RemoteProtocolError
from support.cases import each_case

DEADLINE_S = 60


async def page(request: Request) -> Answer:
    return Answer(HTTPStatus.OK, f"{request.method} {request.headers.get('accept', '')}".encode())


async def broken(_request: Request) -> Answer:
    raise ZeroDivisionError


@contextlib.contextmanager
def serving() -> Iterator[tuple[str, int]]:
    server = PageServer({"/page": page, "/broken": broken})
    address = server.start("127.0.0.1", 0)
    try:
        yield address
    finally:
        server.close()


def ask(address: tuple[str, int], method: str, target: str, **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(*address, timeout=DEADLINE_S)
    with contextlib.closing(connection):
        connection.request(method, target, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


def rest_of(sock: socket.socket) -> bytes:
    """All that the server still sends until it ends the connection."""
    octets = b""
    with contextlib.suppress(ConnectionResetError):
        while more := sock.recv(65536):
            octets += more
    return octets


@pytest.mark.thorough
@each_case(
    ("method", "target", "status", "body"),
    [
        ("GET", "/page", 200, b"GET text/plain"),
        ("GET", "/page?name=value", 200, b"GET text/plain"),
        ("GET", "http://any.host:80/page", 200, b"GET text/plain"),
        ("HEAD", "/page", 200, b""),
        ("POST", "/page", 404, b"not found\n"),
        ("GET", "/", 404, b"not found\n"),
        ("GET", "/page/", 404, b"not found\n"),
        ("GET", "/../page", 404, b"not found\n"),
        ("GET", "*", 404, b"not found\n"),
    ],
)
def test_known_pages_are_answered_and_all_else_is_not_found(method: str, target: str, status: int, body: bytes) -> None:
    with serving() as address:
        assert ask(address, method, target, Accept="text/plain") == (status, body)


@pytest.mark.thorough
@each_case("end", [b"\r\n\r\n", b"\n\n"])
def test_a_request_that_comes_octet_by_octet_is_answered(end: bytes) -> None:
    with serving() as address, socket.create_connection(address, DEADLINE_S) as sock:
        for octet in b"GET /page HTTP/1.0" + end:
            sock.sendall(bytes([octet]))
        assert rest_of(sock).startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.thorough
@each_case(
    ("request_octets", "status"),
    [
        (b"\r\n\r\n", b"400"),
        (b"\x80\x00\x00\x28\x00\n\n", b"400"),
        (b"GET /page\r\n\r\n", b"400"),
        (b"GET http://[ HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /page HTTP/1.1\r\nno colon\r\n\r\n", b"400"),
        (b"GET /" + bytes(page_server.METRICS_REQUEST_OCTETS_MAX), b"431"),
    ],
)
def test_octets_that_are_no_request_are_refused(request_octets: bytes, status: bytes) -> None:
    with serving() as address, socket.create_connection(address, DEADLINE_S) as sock:
        sock.sendall(request_octets[: page_server.METRICS_REQUEST_OCTETS_MAX])
        assert rest_of(sock).startswith(b"HTTP/1.1 " + status)


@given(st.binary(max_size=200) | st.text("GET /:HTP1.\r\n [", max_size=60).map(str.encode))
def test_a_head_parses_or_is_a_protocol_error(head: bytes) -> None:
    with contextlib.suppress(RemoteProtocolError):
        parse_request(head)


@pytest.mark.thorough
def test_an_unfinished_request_ends_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "METRICS_REQUEST_S", 0.05)
    with serving() as address, socket.create_connection(address, DEADLINE_S) as sock:
        sock.sendall(b"GET /page")
        assert rest_of(sock) == b""


@pytest.mark.thorough
def test_an_answer_that_is_not_read_ends_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "METRICS_ANSWER_S", 0.05)
    body = bytes(32 << 20)

    async def long_page(_request: Request) -> Answer:
        return Answer(HTTPStatus.OK, body)

    server = PageServer({"/": long_page})
    address = server.start("127.0.0.1", 0)
    try:
        with socket.create_connection(address, DEADLINE_S) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert sock.recv(1) == b"H"
            # The server ends first: its thread holds no connection when a second one is answered.
            sock.settimeout(None)
            while server._connections:
                assert ask(address, "GET", "/none")[0] == 404
            assert len(rest_of(sock)) < len(body)
    finally:
        server.close()


@pytest.mark.thorough
def test_of_connections_beyond_the_bound_the_oldest_ends_and_a_newcomer_is_answered() -> None:
    most = page_server.METRICS_CONNECTIONS_MAX
    with serving() as address, contextlib.ExitStack() as stack:
        before = set(threading.enumerate())
        socks = []
        for _ in range(most + 3):
            sock = stack.enter_context(socket.create_connection(address, DEADLINE_S))
            sock.sendall(b"GET /page HTTP/1.1\r\n")
            socks.append(sock)
        assert ask(address, "GET", "/page")[0] == 200
        for sock in socks[:3]:
            assert rest_of(sock) == b""
        assert set(threading.enumerate()) <= before
        socks[-1].sendall(b"\r\n")
        assert rest_of(socks[-1]).startswith(b"HTTP/1.1 200")


@pytest.mark.thorough
def test_a_server_that_gets_no_event_loop_or_address_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as address, pytest.raises(OSError, match="in use"):
        PageServer({}).start(*address)

    def refused() -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("asyncio.events.new_event_loop", refused)
    with pytest.raises(OSError, match="Too many open files"):
        PageServer({}).start("127.0.0.1", 0)


@pytest.mark.thorough
def test_a_server_is_started_again_only_after_its_end() -> None:
    server = PageServer({"/page": page})
    threads = set(threading.enumerate())
    for _ in range(2):
        address = server.start("127.0.0.1", 0)
        with pytest.raises(LocalProtocolError, match="runs already"):
            server.start("127.0.0.1", 0)
        assert ask(address, "GET", "/page")[0] == 200
        server.close()
    assert set(threading.enumerate()) <= threads


@pytest.mark.thorough
def test_a_page_that_fails_is_logged_and_the_server_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR), serving() as address:
        assert ask(address, "GET", "/broken") == (500, b"internal server error\n")
        assert ask(address, "GET", "/page")[0] == 200
    assert "the page /broken could not be made" in caplog.text


@pytest.mark.thorough
def test_the_end_of_the_server_ends_its_connections_and_its_thread() -> None:
    with serving() as address:
        threads = [each for each in threading.enumerate() if each.name == "rpcrdma-metrics"]
        assert threads
        sock = socket.create_connection(address, DEADLINE_S)
        sock.sendall(b"GET /")
    with sock:
        assert rest_of(sock) == b""
    assert not any(each.is_alive() for each in threads)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, DEADLINE_S)
