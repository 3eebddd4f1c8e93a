"""Cause and remedy of failed connections for scripted conversations."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from rpcrdma.commands import Url, authority, cannot_connect, unanswered
from rpcrdma.errors import ConnectFailed, HostNotFound
from rpcrdma_lab.scripted import RawTarget

__all__ = ["connecting", "find_host"]


async def find_host(url: Url) -> None:
    """Looks up the addresses of the host of `url`.

    Raises:
        HostNotFound: the host has no address.
    """
    try:
        await asyncio.get_running_loop().getaddrinfo(url.host, url.port)
    except (OSError, UnicodeError) as error:
        cause = (getattr(error, "strerror", None) or "not a host name").lower()
        raise HostNotFound(f"cannot connect to {url.authority}: {cause}; check the host name") from None


@contextlib.contextmanager
def connecting(target: RawTarget) -> Iterator[None]:
    """Context manager that replaces an OSError of its body by ConnectFailed with the address of `target` and a remedy.

    A TimeoutError counts as a server that does not answer. If a ConnectFailed is the cause of the OSError, that one is
    raised.

    Raises:
        ConnectFailed: the body raised an OSError.
    """
    try:
        yield
    except OSError as error:
        if isinstance(error.__cause__, ConnectFailed):
            raise error.__cause__ from error
        if isinstance(error, TimeoutError):
            raise unanswered(authority(target.host, target.port), target.timeout_s) from error
        raise cannot_connect(target.host, target.port, error) from error
