"""The files of a file system that are open for writing: written data arrive even if a program closes no file."""

from __future__ import annotations

import asyncio
import logging

from rpcrdma.nfs.client import NfsFile

__all__ = ["Writers"]

_LOGGER = logging.getLogger("rpcrdma.client")


class Writers:
    """Files open for writing, which are closed when they are dropped, and before their connection is.

    The coroutines run in the loop of the files; `add` and `discard` may be called from any thread.
    """

    def __init__(self) -> None:
        self._files: set[NfsFile] = set()
        self._ending: set[asyncio.Task[None]] = set()

    def add(self, file: NfsFile) -> None:
        """Has `close` close the file, if nothing else does."""
        self._files.add(file)

    def discard(self, file: NfsFile) -> None:
        """Forgets a file that is closed."""
        self._files.discard(file)

    async def finish(self, file: NfsFile) -> None:
        """Closes a file that was dropped; a failure has no caller to be raised to, and is logged."""
        task = asyncio.current_task()
        assert task is not None, "it was posted to the loop"
        self._ending.add(task)
        try:
            await file.close()
        except Exception as error:  # noqa: BLE001 - every error is logged
            _LOGGER.error("%s was not closed, and the data written to it last may be lost: %s", file.name, error)  # noqa: TRY400
        finally:
            self._files.discard(file)
            self._ending.discard(task)

    async def close_at_end(self) -> None:
        """`close` for the end of the process, which names the open files: wrappers in `io` may have held more."""
        for file in list(self._files):
            _LOGGER.warning(
                "%s was open for writing when the program ended: data written to it is sent, but data still in an "
                "io.TextIOWrapper or BufferedWriter around it is lost; use `with` to close them",
                file.name,
            )
        await self.close()

    async def close(self) -> None:
        """Closes all files, and waits for dropped ones.

        Raises:
            Exception: the first that closing one of them raised; the others are closed all the same.
        """
        files, self._files = self._files, set()
        ends = await asyncio.gather(*self._ending, *(file.close() for file in files), return_exceptions=True)
        for end in ends:
            if isinstance(end, BaseException):
                raise end
