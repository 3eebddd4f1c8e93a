"""The exports that a running server serves, and their change to others."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from rpcrdma.cli.daemon_threads import in_time
from rpcrdma.cli.export_options import Exported
from rpcrdma.cli.host_names import HostNames
from rpcrdma.cli.waiting_exports import WaitingExports, warn_not_served
from rpcrdma.commands import describe
from rpcrdma.limits import EXPORTS_CHANGE_S

if TYPE_CHECKING:
    from rpcrdma.nfs.server import Export, NfsServices
    from rpcrdma.nfs.server.exports_change import ExportsChange
    from rpcrdma.nfs.v4.server.service import Nfs4Service

__all__ = ["ServedExports"]

_LOGGER = logging.getLogger("rpcrdma.server")
_RETIRE_S: Final = 10.0
"""Seconds for calls that run in an export when it is removed, before the reload counts as done without their end."""


class ServedExports:
    """The exports that a running server serves, and their changes, which are made one after the other.

    Args:
        services: the services of NFS version 3 and MOUNT.
        nfs4: the service of version 4; None: it is not offered.
        waiting: the exports of the configuration.
        ready: those exports that the services serve already.
        settle: waits, at most the given seconds, for the end of running calls, and returns whether they have ended.
    """

    def __init__(
        self,
        services: NfsServices,
        nfs4: Nfs4Service | None,
        waiting: WaitingExports,
        ready: Sequence[Export],
        settle: Callable[[float], Awaitable[bool]],
    ) -> None:
        self.waiting = waiting
        self._services = services
        self._nfs4 = nfs4
        self._served = list(ready)
        self._settle = settle
        self._failures: dict[str, str] = {}
        """The error of each export that the last `look` could not begin to serve, by name."""
        self._turn = asyncio.Lock()
        self._ending: set[asyncio.Task[None]] = set()

    @property
    def names(self) -> list[str]:
        """The names of the exports that are served now."""
        return [export.name for export in self._served]

    @property
    def absent(self) -> list[Exported]:
        """The exports of the configuration that are not served yet."""
        served = set(self.names)
        return [export for export in self.waiting.exports if export.name not in served]

    async def look(self) -> list[Exported]:
        """Begins to serve waiting exports that have become ready, and admits named hosts by their present addresses.

        One that cannot be served keeps no other waiting; its error is logged, and again only when it has changed.

        Returns:
            The exports that are served from now on and were not before. While `replace` runs: [], and nothing changes.

        Raises:
            TimeoutError: a file system does not answer.
            OSError: an export that is served cannot be served any more; the served exports stay the same.
        """
        if self._turn.locked():
            # A reload makes all exports anew, and may have to wait for a disk.
            return []
        async with self._turn:
            absent, failures = self.absent, dict[str, str]()
            ready = await asyncio.to_thread(self.waiting.ready)
            try:
                await self._serve(ready)
            except TimeoutError:
                raise
            except OSError:
                failures = await self._serve_each(ready)
            self._failures = failures
            served = set(self.names)
            return [export for export in absent if export.name in served]

    async def _serve(self, ready: list[Export]) -> None:
        """Serves the exports `ready`, which include all that are served now.

        Raises ValueError if two exports have one name, OSError if an export cannot be served or a file system does not
        answer.
        """
        if ready != self._served:
            change = self._change(ready, stay=True)
            await self._plan(change)
            self._install(change, ready)

    async def _serve_each(self, ready: list[Export]) -> dict[str, str]:
        """Serves those of the exports `ready` that can be served, and logs the new errors of the others.

        Returns:
            The error of each of the others, by the export's name.

        Raises:
            OSError: an export that is served now cannot be served on its new terms.
        """
        failures: dict[str, str] = {}
        served = set(self.names)
        await self._serve([export for export in ready if export.name in served])
        for name in [export.name for export in ready if export.name not in served]:
            served.add(name)
            try:
                await self._serve([export for export in ready if export.name in served])
            except OSError as error:
                served.remove(name)
                failures[name] = str(error)
                if self._failures.get(name) != failures[name]:
                    warn_not_served(name, error)
        return failures

    async def replace(
        self, exports: Sequence[Exported], names: HostNames, step: Callable[[], None]
    ) -> Callable[[], Awaitable[None]]:
        """Serves other exports, in one step of the event loop, and begins to close those that are gone.

        Args:
            exports: all exports from then on.
            names: looks up names of hosts.
            step: called in that step, before the exports change; its exception propagates, and nothing changes.

        Returns:
            A function that waits, 10 s at most, until removed exports are closed, after the end of all running calls,
            those in other exports, too; later it happens in the background. Nothing is awaited between the change and
            the return: a cancellation comes before both.

        Raises:
            ValueError, OSError: an export cannot be served, data of a removed export is lost, or a file system does not
                answer; nothing has changed.
        """
        async with self._turn:
            waiting = WaitingExports(exports, names, self.waiting.sources, served=self._served)
            ready = await asyncio.to_thread(waiting.ready)
            change = self._change(ready)
            await self._plan(change)
            try:
                step()
            except BaseException:
                change.discard()
                raise
            self._install(change, ready)
            self.waiting = waiting
            ending: set[asyncio.Task[None]] = set()
            if change.gone or change.closed:
                task = asyncio.create_task(self._retire(change))
                ending.add(task)
                self._ending.add(task)
                task.add_done_callback(self._ending.discard)

        async def left() -> None:
            # A call, or a file system that does not answer, holds up no later reload.
            late = ending and (await asyncio.wait(ending, timeout=_RETIRE_S))[1]
            if late and change.gone:
                _LOGGER.warning(
                    "removed exports are not closed yet: calls of the server, perhaps in other exports, have not ended "
                    "within %g s, or disks do not answer; the file systems can be unmounted after that",
                    _RETIRE_S,
                )

        return left

    async def _plan(self, change: ExportsChange) -> None:
        """Calls `change.plan` in a thread, and waits EXPORTS_CHANGE_S (60) seconds at most.

        The served exports have not changed, also after an error.

        Raises:
            ValueError: two exports have one name.
            OSError: an export cannot be served, or written data of an export that will end cannot be put on its disk.
            TimeoutError: a file system has not answered by then; a plan that ends later is discarded.
        """
        late = (
            f"opening new exports, and writing data of those that end, has not come to its end within "
            f"{EXPORTS_CHANGE_S:g} s; reload again when their file systems answer, and that of the state directory "
            f"{self._services.nfs.exports.parts.state.directory}"
        )
        await asyncio.to_thread(in_time, change.plan, EXPORTS_CHANGE_S, late, lambda _: change.discard())

    def _change(self, ready: list[Export], *, stay: bool = False) -> ExportsChange:
        from rpcrdma.nfs.server.exports_change import ExportsChange  # noqa: PLC0415

        return ExportsChange(self._services, self._nfs4, ready, stay=stay)

    def _install(self, change: ExportsChange, ready: list[Export]) -> None:
        change.install(time.time_ns())
        self._served = ready

    async def _retire(self, change: ExportsChange) -> None:
        try:
            # State of version 4 ends at once; what running calls open is closed after them.
            _report(await asyncio.to_thread(change.retire, close=False))
            while not await self._settle(_RETIRE_S):
                _report(await asyncio.to_thread(change.retire, close=False))
            _report(await asyncio.to_thread(change.retire, close=True))
        except OSError as error:
            _LOGGER.error("removed exports are not closed before the server ends: %s", error)  # noqa: TRY400 - says all
        except Exception:  # the other exports are served already
            _LOGGER.exception("cannot close removed exports")

    async def close(self) -> None:
        """Gives up closing removed exports, whose files then stay open until the server closes."""
        for task in self._ending:
            task.cancel()
        await asyncio.gather(*self._ending, return_exceptions=True)


def _report(failures: list[OSError]) -> None:
    for failure in failures:
        _LOGGER.error("written data of a removed export may be lost: %s", describe(failure)[0])
