"""Connections of scripted conversations that could not be made, told with their cause and remedy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rpcrdma.commands import authority, cannot_connect, unanswered
from rpcrdma.errors import ConnectFailed
from rpcrdma_lab.scripted import RawTarget

__all__ = ["connecting"]


@contextlib.contextmanager
def connecting(target: RawTarget) -> Iterator[None]:
    """Tells why a connection to the server could not be made.

    Raises:
        ConnectFailed: it could not.
    """
    try:
        yield
    except OSError as error:
        if isinstance(error.__cause__, ConnectFailed):
            raise error.__cause__ from error
        if isinstance(error, TimeoutError):
            raise unanswered(authority(target.host, target.port), target.timeout_s) from error
        raise cannot_connect(target.host, target.port, error) from error
