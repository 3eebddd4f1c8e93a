"""The software RNIC as a provider: iWARP over TCP sockets."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Callable

from rpcrdma.aio.drivers.capture import PacketCapture
from rpcrdma.aio.drivers.deadline_timer import DeadlineTimer
from rpcrdma.aio.drivers.iwarp_driver import IwarpDriver
from rpcrdma.aio.drivers.limited_log import LimitedLog
from rpcrdma.aio.drivers.listener import Listener
from rpcrdma.aio.drivers.provider import Link
from rpcrdma.aio.drivers.sockets import address_of, authority, connected_socket, maximum_segment_octets
from rpcrdma.iwarp import IwarpConfig, IwarpQueuePair, MpaRole, Scratch
from rpcrdma.verbs import SoftwareProtectionDomain
from rpcrdma.wire.native import native

__all__ = ["SoftwareRnic", "TcpLink"]

_NAME = "iwarp"


class TcpLink:
    """The `Link` of the software RNIC: a connected TCP socket, over which `open` starts iWARP.

    The end that connects (`active`) is the MPA initiator. Links of one event loop may share `scratch`, the memory for
    small frames (None: memory of its own). `capture` records packets (None: no capture). The constructor raises OSError
    if the peer has left; the caller then closes the socket.
    """

    provider = _NAME
    device = None
    remote_invalidation = True

    def __init__(
        self,
        sock: socket.socket,
        config: IwarpConfig,
        *,
        active: bool,
        capture: PacketCapture | None = None,
        scratch: Scratch | None = None,
    ) -> None:
        self.local = address_of(sock.getsockname())
        self.peer = address_of(sock.getpeername())
        self.active = active
        self.settle_s = config.first_send_pause_s
        self._socket = sock
        self._config = config
        self._capture = capture
        self._scratch = scratch

    def open(
        self, private_data: bytes, timer: DeadlineTimer, on_turn: Callable[[], None], on_closed: Callable[[], None]
    ) -> IwarpDriver:
        queue_pair = IwarpQueuePair(
            MpaRole.INITIATOR if self.active else MpaRole.RESPONDER,
            SoftwareProtectionDomain(secrets.randbits),
            self._config,
            maximum_segment_octets(self._socket),
            private_data if self.active else b"",
            self._scratch,
            # A captured stream passes through Python.
            native=native if self._capture is None else None,
        )
        capture = self._capture
        return IwarpDriver(
            asyncio.get_running_loop(),
            self._socket,
            queue_pair,
            on_turn,
            on_closed,
            timer,
            peer=authority(*self.peer),
            capture=None if capture is None else capture.stream(self.local, self.peer, active=self.active),
        )

    def refuse(self) -> None:
        self._socket.close()


class SoftwareRnic:
    """The provider "iwarp", a `Provider`: RDMA in software, by iWARP over TCP sockets.

    `config` None takes the defaults. `capture` records the packets of all connections; None: no capture.
    """

    name = _NAME

    def __init__(self, config: IwarpConfig | None = None, capture: PacketCapture | None = None) -> None:
        self._config = config or IwarpConfig()
        self._capture = capture

    async def connect(self, host: str, port: int, *, reserved_port: bool = False) -> TcpLink:
        sock = await connected_socket(host, port, reserved_port=reserved_port)
        try:
            return self._link(sock, active=True)
        except OSError:
            # The peer has left already.
            sock.close()
            raise

    def listener(self, on_link: Callable[[Link], None], log: LimitedLog) -> Listener:
        # Most connections of a server with thousands of them are idle.
        scratch = Scratch()
        return Listener(lambda sock: on_link(self._link(sock, scratch, active=False)), log)

    def _link(self, sock: socket.socket, scratch: Scratch | None = None, *, active: bool) -> TcpLink:
        return TcpLink(sock, self._config, active=active, capture=self._capture, scratch=scratch)

    def explain_unmade(self, where: str, cause: str) -> str:
        return (
            f"{where} takes TCP connections but sets up no RDMA connection ({cause}); check that an NFS/RDMA server "
            f"with iWARP listens on this port: if it is its TCP port, write tcp://{where}"
        )
