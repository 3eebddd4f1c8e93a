"""A few pages over HTTP, for monitoring: one thread serves them, within bounds of connections, octets and time.

Each connection carries one request (RFC 9112) and its answer. Beyond METRICS_CONNECTIONS_MAX a newcomer takes the place
of the oldest connection, so connections that ask for nothing keep out no monitoring.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import urlsplit

from rpcrdma.aio.drivers.limited_log import LimitedLog
from rpcrdma.aio.drivers.listener import Listener
from rpcrdma.errors import LocalProtocolError, RemoteProtocolError
from rpcrdma.limits import METRICS_ANSWER_S, METRICS_CONNECTIONS_MAX, METRICS_REQUEST_OCTETS_MAX, METRICS_REQUEST_S

__all__ = ["Answer", "Page", "PageServer", "Request", "parse_request"]

_LOGGER = logging.getLogger("rpcrdma")
_METHODS = frozenset({"GET", "HEAD"})


class Request(NamedTuple):
    """The head of an HTTP request: method, path without query, and headers by their names in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]


class Answer(NamedTuple):
    """An HTTP answer; `encoding` is the Content-Encoding of `body`, "" for none."""

    status: HTTPStatus
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    encoding: str = ""


Page = Callable[[Request], Awaitable[Answer]]
"""Makes a page from the request; called in the server's thread and its event loop."""


def parse_request(head: bytes) -> Request:
    """Returns the method, path and headers in the head of an HTTP/1 request (RFC 9112).

    `head` has the octets of the request line and the headers, without the empty line at the end.

    Raises:
        RemoteProtocolError: `head` is not the head of such a request.
    """
    first, *lines = [line.removesuffix("\r") for line in head.decode("latin-1").split("\n")]
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise RemoteProtocolError("not a request line of HTTP/1", rfc="9112 3")
    try:
        path = urlsplit(words[1]).path
    except ValueError as error:
        raise RemoteProtocolError(f"not the target of a request: {error}", rfc="9112 3.2") from None
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise RemoteProtocolError("a header without a colon", rfc="9112 5")
        headers[name.lower()] = value.strip()
    return Request(words[0], path, headers)


class PageServer:
    """An HTTP server for a few pages, in a thread of its own from `start` to `close`.

    `pages` maps each path to an asynchronous function that takes the `Request` and returns the `Answer`; it runs in the
    event loop of the server's thread, and must not block. Any other path, and any method but GET and HEAD, gets status
    404; an exception of such a function is logged and becomes status 500. A request that does not parse gets status
    400, one whose head exceeds METRICS_REQUEST_OCTETS_MAX octets 431. At METRICS_CONNECTIONS_MAX connections a further
    one displaces the oldest.
    """

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self._pages = pages
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop
        self._stopping: asyncio.Event
        self._log: LimitedLog
        self._connections: dict[asyncio.Task[None], None] = {}
        """The connections, the oldest first."""

    def start(self, host: str, port: int) -> tuple[str, int]:
        """Starts the thread, waits until it listens, and returns the address and port at which it does.

        Args:
            host: the address to listen at.
            port: the port; 0 takes a free one.

        Raises:
            OSError: the address cannot be listened on, or the thread has no descriptor for its event loop.
            LocalProtocolError: the server runs.
        """
        if self._thread is not None:
            raise LocalProtocolError("the HTTP server runs already: stop it before it is started again")
        listening: concurrent.futures.Future[tuple[str, int]] = concurrent.futures.Future()

        def serve() -> None:
            try:
                with asyncio.Runner() as runner:
                    runner.run(self._serve(host, port, listening))
            except Exception as error:
                if listening.done():
                    raise
                listening.set_exception(error)

        thread = threading.Thread(target=serve, name="rpcrdma-metrics", daemon=True)
        thread.start()
        address = listening.result()
        self._thread = thread
        return address

    def close(self) -> None:
        """Ends the listener, all connections and the thread; blocks until the thread has ended.

        No effect without `start`.
        """
        if self._thread is not None:
            thread, self._thread = self._thread, None
            self._loop.call_soon_threadsafe(self._stopping.set)
            thread.join()

    async def _serve(self, host: str, port: int, listening: concurrent.futures.Future[tuple[str, int]]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._log = LimitedLog(_LOGGER)
        listener = Listener(self._connected, self._log)
        addresses = await listener.listen(host, port)
        listening.set_result(addresses[0][:2])
        await self._stopping.wait()
        listener.close()
        self._log.flush()

    def _connected(self, sock: socket.socket) -> None:
        if len(self._connections) >= METRICS_CONNECTIONS_MAX:
            oldest = next(iter(self._connections))
            del self._connections[oldest]
            oldest.cancel()
        connection = self._loop.create_task(self._visit(sock))
        self._connections[connection] = None

        def ended(task: asyncio.Task[None]) -> None:
            # Here, since a task that is cancelled before its first step does nothing.
            sock.close()
            self._connections.pop(task, None)

        connection.add_done_callback(ended)

    async def _visit(self, sock: socket.socket) -> None:
        """Receives one request on a connection and answers it; a peer that is too slow or gone gets no answer."""
        try:
            async with asyncio.timeout(METRICS_REQUEST_S):
                head = await self._receive_head(sock)
            async with asyncio.timeout(METRICS_ANSWER_S):
                await self._loop.sock_sendall(sock, await self._answer(head))
        except OSError:
            # A timeout is one as well.
            pass

    async def _receive_head(self, sock: socket.socket) -> bytes | None:
        """Returns the head of a request, without the empty line; None if it exceeds METRICS_REQUEST_OCTETS_MAX octets.

        Raises:
            ConnectionError: the peer ended the connection first.
        """
        data = bytearray()
        while len(data) < METRICS_REQUEST_OCTETS_MAX:
            octets = await self._loop.sock_recv(sock, METRICS_REQUEST_OCTETS_MAX - len(data))
            if not octets:
                raise ConnectionError
            data += octets
            # A line may end without CR (RFC 9112 section 2.2).
            for end in (b"\r\n\r\n", b"\n\n"):
                if (at := data.find(end)) >= 0:
                    return bytes(data[:at])
        return None

    async def _answer(self, head: bytes | None) -> bytes:
        method = ""
        if head is None:
            answer = _plain(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        else:
            try:
                request = parse_request(head)
            except RemoteProtocolError:
                answer = _plain(HTTPStatus.BAD_REQUEST)
            else:
                method = request.method
                answer = await self._page(request)
        lines = [
            f"HTTP/1.1 {answer.status.value} {answer.status.phrase}",
            f"Content-Type: {answer.content_type}",
            f"Content-Length: {len(answer.body)}",
            "Connection: close",
        ]
        if answer.encoding:
            lines.append(f"Content-Encoding: {answer.encoding}")
        return "\r\n".join([*lines, "", ""]).encode() + (b"" if method == "HEAD" else answer.body)

    async def _page(self, request: Request) -> Answer:
        page = self._pages.get(request.path) if request.method in _METHODS else None
        if page is None:
            return _plain(HTTPStatus.NOT_FOUND)
        try:
            return await page(request)
        except Exception as error:  # noqa: BLE001 - logged; the server goes on
            self._log.log(logging.ERROR, "page", "the page %s could not be made", request.path, error=error)
            return _plain(HTTPStatus.INTERNAL_SERVER_ERROR)


def _plain(status: HTTPStatus) -> Answer:
    return Answer(status, f"{status.phrase.lower()}\n".encode())
