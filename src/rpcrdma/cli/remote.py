"""The servers that a command talks to, and the handling of failures on single files."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rpcrdma.commands import ExitStatus, connect_options, console

if TYPE_CHECKING:
    from rpcrdma.aio.client.connect import Connection, ConnectOptions
    from rpcrdma.aio.urls import Url
    from rpcrdma.nfs.client import MountedFilesystem

__all__ = ["TOLD_MAX", "Failures", "Servers", "ends_in_dots"]

TOLD_MAX = 20
"""Failures of one tree that are printed; further ones are counted."""


def ends_in_dots(url: Url) -> bool:
    """Returns whether the path of a URL ends in . or .., which is no name that a directory could lose."""
    return url.path.rstrip("/").rpartition("/")[2] in {".", ".."}


class Failures:
    """A context for the work on each of several files: an OSError is printed and suppressed, so that the others follow.

    So is UserAuthenticationFailed, as of an export that demands Kerberos. Other errors (a lost connection, a protocol
    violation) and those of standard output propagate. `status` is the exit status of the last error, as `tell` and
    `tell_of_tree` set it, DONE before the first.

    Args:
        collected: the list that gets the JSON objects of failures, for the command's own report; None: with --json each
            is printed at once. The text on standard error is printed in both cases.
    """

    def __init__(self, collected: list[dict[str, Any]] | None = None) -> None:
        self.status = ExitStatus.DONE
        self.collected = collected
        self.export = ""
        """The export of the paths in the server's errors: its name precedes them in URLs."""
        self.url: Url | None = None
        """The URL of a source or target, which errors name that have none."""

    def tell(self, error: BaseException) -> None:
        """Prints an error, takes its exit status as `status`, and adds its JSON object to `collected`, if given.

        To be called once for an error, whose path gets the name of the export before it (`name_as_in_url`).
        """
        from rpcrdma.commands.failures import as_json, tell  # noqa: PLC0415

        self.name_as_in_url(error)
        if self.collected is not None:
            self.collected.append(as_json(error))
        self.status = tell(error, in_report=self.collected is not None)

    def tell_of_tree(self, errors: Sequence[Exception], total: int, kind: str) -> None:
        """Prints the failures in one tree: the first 20 of `errors` as `tell` does, and the number of the others.

        The text is printed on standard error. With --json the number of the others is also printed on standard output,
        as an error object; but with `collected`, which gets the objects of the printed errors, that number is in no
        object. `total` is the number of all failures, of which `errors` may hold only the first; `kind` follows the
        number of the others, such as "failures to remove parts of tcp://server/a". `status` becomes that of the last
        printed error, or PROTOCOL_VIOLATION if any printed error has that; empty `errors` leave `status` as it is.
        """
        violated = False
        for error in errors[:TOLD_MAX]:
            self.tell(error)
            violated = violated or self.status is ExitStatus.PROTOCOL_VIOLATION
        more = total - min(TOLD_MAX, len(errors))
        if more:
            console.error(f"{more:,} more {kind}", in_report=self.collected is not None)
        if violated:
            self.status = ExitStatus.PROTOCOL_VIOLATION

    def name_as_in_url(self, error: BaseException | None) -> None:
        """Puts the name `export` in front of the path in a server's error, or in each one in an exception group.

        To be called once for an error: each call adds the name. Groups may have groups. A server's error
        (`ServerPathError`) without a URL also gets `url`, if that is set. Other errors, and None, stay as they are.
        """
        from rpcrdma.nfs.errors import ServerPathError  # noqa: PLC0415

        if isinstance(error, ExceptionGroup):
            for single in error.exceptions:
                self.name_as_in_url(single)
        elif isinstance(error, ServerPathError):
            if self.url is not None:
                error.found_at(self.url)
            error.name_below(self.export)

    def url_of(self, path: str) -> str:
        """Returns the URL of `path` in the export of the last `Servers.locate`; `path` itself before the first one."""
        return path if self.url is None else str(replace(self.url, path=self.export + path, mount_port=None))

    def in_url(self, path: str) -> str:
        """Returns `path` as in URLs: after the name of the export that the last `Servers.locate` found, if any."""
        return self.export + path

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        from rpcrdma.errors import UserAuthenticationFailed  # noqa: PLC0415

        if not isinstance(error, (OSError, UserAuthenticationFailed)) or console.is_of_output(error):
            return False
        self.tell(error)
        return True


class Servers:
    """The file systems that a command uses, with one connection to each server for each security setting.

    An asynchronous context manager, which closes all connections and file systems at exit. An error that leaves the
    context gets the name of its export and its URL (`Failures.name_as_in_url`).

    Args:
        args: the parsed arguments, with the options of the connection.
        failures: the object whose `url` and `export` `locate` sets, for later errors; None: the command has none.
    """

    def __init__(self, args: argparse.Namespace, failures: Failures | None = None) -> None:
        self._args = args
        self._failures = failures or Failures()
        self._options = connect_options(args)
        self._stack = contextlib.AsyncExitStack()
        self._connections: dict[tuple[Url, str], Connection] = {}
        self._filesystems: dict[tuple[Url, str, str], MountedFilesystem] = {}

    async def __aenter__(self) -> Servers:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._failures.name_as_in_url(error)
        await self._stack.aclose()

    async def locate(self, url: Url) -> tuple[MountedFilesystem, str]:
        """Connects if need be, and mounts the export that contains `url`; returns its file system and the path in it.

        All URLs of one export have the same file system object.

        Raises:
            NoSuchExport: no export contains `url`.
            ConnectFailed: NFS or MOUNT cannot be reached.
            UserAuthenticationFailed: the export does not take the flavor of `--sec`, or the user has no Kerberos ticket
                for the export.
            NfsError: the server refuses to mount.
            RpcRdmaError: a server does not answer in time, or breaks the protocol.
        """
        from rpcrdma.nfs.client.connecting import mount_over  # noqa: PLC0415
        from rpcrdma.nfs.client.mount_client import connect_nfs, mount_export, unproved  # noqa: PLC0415
        from rpcrdma.nfs.client.security_choice import secured  # noqa: PLC0415

        self._failures.export, self._failures.url = "", url
        server = replace(url, path="", mount_port=None)

        async def connected(options: ConnectOptions) -> Connection:
            kind = server, str(options.security)
            if kind not in self._connections:
                self._connections[kind] = await self._stack.enter_async_context(await connect_nfs(server, options))
            return self._connections[kind]

        asking = unproved(self._options)
        mounted = await mount_export(url, asking, await connected(asking), mount_port=self._args.mount_port)
        options = await secured(self._options, url, mounted)
        connection = await connected(options)
        key = server, mounted.export, str(options.security)
        if key not in self._filesystems:
            mounting = mount_over(connection, url, mounted, options)
            self._filesystems[key] = await self._stack.enter_async_context(await mounting)
        self._failures.export = mounted.export.rstrip("/")
        return self._filesystems[key], mounted.directory
