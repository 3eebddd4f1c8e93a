"""Tells the service manager of this machine, such as systemd, the state of a server: the protocol of sd_notify(3)."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Mapping

__all__ = ["ServiceManager"]

_LOGGER = logging.getLogger("rpcrdma.server")


class ServiceManager:
    """The service manager that has started this process, such as systemd (sd_notify(3)).

    Without such a manager, every method does nothing.

    Args:
        environment: has the manager's variables NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        # An address that begins with @ is in the abstract name space.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        interval = environment.get("WATCHDOG_USEC", "")
        is_for_us = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self._lives = False
        self._watchdog_s = int(interval) / 1e6 / 2 if is_for_us and interval.isascii() and interval.isdigit() else 0.0
        """Seconds between two signs of life: the manager ends a process that sends none for twice as long."""

    def tell(self, *assignments: str) -> None:
        """Sends assignments such as "READY=1" to the manager in one datagram; never waits. A failure is logged."""
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
                sock.setblocking(False)
                sock.sendto("\n".join(assignments).encode(errors="replace"), self._address)
        except OSError as error:
            _LOGGER.warning("the service manager does not take %s: %s", assignments[0], error.strerror or error)

    def ready(self, status: str) -> None:
        """Reports that the server takes calls, with `status`, a text for people.

        The first call also starts regular WATCHDOG=1 messages in the running event loop, if the manager wants them.
        """
        self.tell("READY=1", f"STATUS={' '.join(status.splitlines())}")
        if self._address and self._watchdog_s and not self._lives:
            self._lives = True
            self._live(asyncio.get_running_loop())

    def reloading(self) -> None:
        """Reports that a reload begins, with a time stamp; `ready` is to be called at the end of the reload."""
        self.tell("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def _live(self, loop: asyncio.AbstractEventLoop) -> None:
        # Not from a worker thread: a disk that hangs is no reason to end the server, an event loop that does is one.
        self.tell("WATCHDOG=1")
        loop.call_later(self._watchdog_s, self._live, loop)
