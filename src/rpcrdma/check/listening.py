"""Judges foreign clients: a scripted server, each connection of which is one check."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from rpcrdma.check.entry import Check
from rpcrdma.check.verdicts import Result, Verdict
from rpcrdma.scripted import Outcome, answer_conversation

__all__ = ["ClientTrial", "listening"]

_NOT_MET = "no connection of the client was left for it"


class ClientTrial:
    """The checks that connections of a client meet, one after another; `done` when all have been met."""

    def __init__(self, checks: Sequence[Check], timeout_s: float, on_result: Callable[[Result], None]) -> None:
        self.done = asyncio.Event()
        self._left = list(checks)
        self._checks = list(checks)
        self._met: dict[str, Result] = {}
        self._timeout_s = timeout_s
        self._on_result = on_result
        self._held: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, which meets the next check; one whose start-up fails leaves the check to the next one."""
        held = asyncio.ensure_future(self._meet(reader, writer))
        self._held.add(held)
        await asyncio.wait([held])
        self._held.discard(held)
        if not held.cancelled():
            held.result()

    async def end(self) -> None:
        """Ends all connections."""
        for held in self._held:
            held.cancel()
        if self._held:
            await asyncio.wait(self._held)

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._left:
            writer.transport.abort()
            return
        check = self._left.pop(0)
        try:
            outcome = await answer_conversation(check.conversation, reader, writer, timeout_s=self._timeout_s)
        except BaseException:
            self._left.insert(0, check)
            raise
        failure = outcome.failure
        if failure is not None and failure.step == -1:
            self._left.insert(0, check)
            return
        result = self._met[check.id] = _judged(check, outcome)
        self._on_result(result)
        if len(self._met) == len(self._checks):
            self.done.set()

    def results(self) -> list[Result]:
        """The results of all checks, in their order; a check that no connection has met is not seen."""
        unmet = [Result(check=check, verdict=Verdict.NOT_SEEN, cause=_NOT_MET) for check in self._checks]
        return [self._met.get(result.check.id, result) for result in unmet]


def _judged(check: Check, outcome: Outcome) -> Result:
    result = Result(check=check, verdict=Verdict.CONFORMS, passages=outcome.passages)
    failure = outcome.failure
    if failure is not None:
        result.cause = f"expected {failure.expected}; found {failure.found}"
        result.verdict = Verdict.IGNORES if check.recommended else Verdict.VIOLATES
        if failure.silent or failure.found.startswith("the connection is"):
            result.verdict = Verdict.INCONCLUSIVE
            result.cause += "; the client has to make two calls or more on each connection"
    return result


@asynccontextmanager
async def listening(trial: ClientTrial, host: str, port: int) -> AsyncIterator[tuple[str, int]]:
    """The address at which a server makes the trial.

    Raises:
        OSError: the address cannot be used.
    """
    server = await asyncio.start_server(trial.serve, host, port)
    try:
        address = server.sockets[0].getsockname()
        yield address[0], address[1]
    finally:
        server.close()
        await trial.end()
