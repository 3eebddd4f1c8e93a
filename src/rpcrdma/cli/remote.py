"""The servers that a command talks to, and what becomes of failures on single files."""

from __future__ import annotations

import argparse
import contextlib
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING

from rpcrdma.cli import console
from rpcrdma.cli.exit_status import ExitStatus
from rpcrdma.cli.failures import describe
from rpcrdma.cli.options import connect_options

if TYPE_CHECKING:
    from rpcrdma.aio.connect import Connection
    from rpcrdma.aio.files import NfsFilesystem
    from rpcrdma.aio.urls import Url

__all__ = ["Failures", "Servers"]


class Failures:
    """A context for each of several files: what goes wrong with one is told and does not stop the others.

    Whatever is not about a file (a lost connection, a protocol violation) goes on its way.
    """

    def __init__(self) -> None:
        self.status = ExitStatus.DONE

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not isinstance(error, OSError) or isinstance(error, BrokenPipeError):
            return False
        self.tell(error)
        return True

    def tell(self, error: OSError) -> None:
        """Tells what went wrong, and keeps the exit status of it."""
        message, hint, self.status = describe(error)
        console.error(message, hint)


class Servers:
    """File systems by URL, with one connection to each server; an asynchronous context manager that ends them all."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._options = connect_options(args)
        self._stack = contextlib.AsyncExitStack()
        self._connections: dict[Url, Connection] = {}
        self._filesystems: dict[tuple[Url, str], NfsFilesystem] = {}

    async def __aenter__(self) -> Servers:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def locate(self, url: Url) -> tuple[NfsFilesystem, str]:
        """The file system that `url` is in, and the path in it; the same object for each URL of an export.

        Raises:
            ConnectFailed: NFS or MOUNT cannot be reached.
            NfsError: the server refuses to mount.
        """
        from rpcrdma.aio.connect import connect  # noqa: PLC0415
        from rpcrdma.aio.files import NfsFilesystem  # noqa: PLC0415
        from rpcrdma.aio.files.mount_client import mount_export, unmount  # noqa: PLC0415
        from rpcrdma.errors import ConnectFailed  # noqa: PLC0415
        from rpcrdma.nfs import v3  # noqa: PLC0415

        options = self._options
        server = replace(url, path="")
        if server not in self._connections:
            connecting = connect(str(server), v3.PROGRAM, options=options)
            self._connections[server] = await self._stack.enter_async_context(connecting)
        try:
            mounted = await mount_export(
                url,
                options.credential,
                mount_port=self._args.mount_port,
                timeout_s=options.connect_timeout_s,
                reserved_port=options.reserved_port,
            )
        except ConnectFailed as error:
            cause = str(error).rpartition("; ")[0] or str(error)
            raise ConnectFailed(f"{cause}; name its TCP port with --mount-port") from None
        key = (server, mounted.export)
        if key not in self._filesystems:
            filesystem = NfsFilesystem(self._connections[server], mounted.handle)
            self._stack.push_async_callback(
                unmount, url, mounted, options.credential, reserved_port=options.reserved_port
            )
            self._filesystems[key] = await self._stack.enter_async_context(filesystem)
        return self._filesystems[key], mounted.directory
