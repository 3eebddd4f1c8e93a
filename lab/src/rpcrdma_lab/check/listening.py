"""Checks foreign clients: a scripted server over TCP or a provider runs a check on each of their connections."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from rpcrdma import PacketCapture
from rpcrdma.errors import ConnectFailed, LocalProtocolError
from rpcrdma.provider import LimitedLog, Link, LinkListener, Provider
from rpcrdma_lab.check.entry import Check
from rpcrdma_lab.check.verdicts import FRAMES_NOT_SEEN, PassageBudget, Result, Verdict, result_of
from rpcrdma_lab.limits import CHECK_CONNECTIONS_MAX
from rpcrdma_lab.scripted import (
    Outcome,
    PeerMaker,
    ProgramOverTcp,
    QueuePairPeer,
    RawPeer,
    ServingConversation,
)
from rpcrdma_lab.scripted.recorded_stream import serve_recorded

__all__ = ["ClientTrial", "TrialOptions", "listening"]

_LOGGER = logging.getLogger("rpcrdma_lab.check")
_NOT_MET = "no connection of the client was left for it"
_NO_VERSION = "the client began no connection with version {}"
_UNMET = "{} on {} connections"
_NO_PROGRAM = "the calls are answered without a program; --behind names one"
_RISKY = "it is known to stop a client; --risky runs it"
_NO_CRC = "the CRC is off"
_TRIES = 3
"""Connections on which a check waits for a call of its kind, and those in a row without one before the trial ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOptions:
    """Settings for running checks of clients: times, CRCs, the program that answers, the provider."""

    timeout_s: float = 30.0
    """Seconds that a client may leave its connection without a call."""
    pause_s: float = 0.5
    """Seconds in which a client must not answer a message that it has to discard."""
    crc: bool = True
    """Whether this end demands MPA CRCs; False: the client decides, and checks that need CRCs do not run."""
    behind: tuple[str, int] | None = None
    """Host and port of a server over TCP that answers the calls; None answers them without results."""
    risky: bool = False
    """Whether checks run that are known to stop a client."""
    capture: PacketCapture | None = None
    """Records the connections over TCP; None records nothing."""
    provider: Provider | None = None
    """The RDMA provider of the connections; then frames cannot be sent by hand. None: iWARP made by hand over TCP."""


class ClientTrial:
    """Runs checks on the connections that a client makes, one check on each.

    The event `done` of this object is set when every check has a result, and after three connections in a row that no
    waiting check fits while no check runs. A check runs on a connection that began with its protocol version; checks of
    version 1 run on all. Checks with a wrong start-up run last, since they may keep a client from connecting again.

    Args:
        checks: the checks, in order.
        options: the settings.
        on_result: is called with the result of each check that has run.
    """

    def __init__(
        self, checks: Sequence[Check], options: TrialOptions, on_result: Callable[[Result], None] = lambda _: None
    ) -> None:
        self.done = asyncio.Event()
        self._checks = list(checks)
        self.options = options
        self.log = LimitedLog(_LOGGER)
        self._on_result = on_result
        self._met: dict[str, Result] = {}
        needs = (
            ("frames", options.provider is None, FRAMES_NOT_SEEN),
            ("program", options.behind, _NO_PROGRAM),
            ("risky", options.risky, _RISKY),
            ("crc", options.crc, _NO_CRC),
        )
        for check in checks:
            needed = check.needs | ({"frames"} if check.of_frames else set())
            causes = [cause for need, met, cause in needs if need in needed and not met]
            if causes:
                self._met[check.id] = Result(check=check, verdict=Verdict.NOT_SEEN, cause=causes[0])
        self._left = [check for check in checks if check.id not in self._met]
        if not self._left:
            self.done.set()
        self.versions: set[str] = set()
        """The protocol versions with which the client has begun connections."""
        self._tried: Counter[str] = Counter()
        self._without_check = 0
        self._held: set[asyncio.Task[None]] = set()
        self._budget = PassageBudget()

    @property
    def left(self) -> int:
        """The number of checks that still need a connection, without those that run now."""
        return len(self._left)

    def serve(self, make_peer: PeerMaker) -> None:
        """Starts a task that runs one check on a new connection of a client, and then closes the connection.

        `make_peer` makes this end of the connection; its arguments are the log and the values by name that the peer
        uses. A check waits for a later connection if the start-up fails or, up to twice, if the client does not do what
        the check needs. A connection beyond `CHECK_CONNECTIONS_MAX` at once, or that no waiting check fits, is closed.
        Must be called while an event loop runs. An exception makes the check INCONCLUSIVE. It is logged as well, unless
        a message of the client lacks a field to which a later step of the check refers.
        """
        held = asyncio.ensure_future(self._meet(make_peer))
        self._held.add(held)
        held.add_done_callback(self._held.discard)

    async def end(self) -> None:
        """Cancels the checks that run, which closes their connections, and waits until they have ended."""
        for held in self._held:
            held.cancel()
        if self._held:
            await asyncio.wait(self._held)

    async def _meet(self, make_peer: PeerMaker) -> None:
        options = self.options
        program = None if options.behind is None else ProgramOverTcp(*options.behind)
        given = {"pause_ms": round(options.pause_s * 1000), "long_pause_ms": round(options.pause_s * 10_000)}
        try:
            live = ServingConversation(make_peer, timeout_s=options.timeout_s, program=program, given=given)
        except ConnectFailed as error:
            self.log.log(logging.ERROR, "accept", "cannot accept a connection: %s", error)
            return
        if len(self._held) > CHECK_CONNECTIONS_MAX:
            self.log.log(logging.WARNING, "many", "ended a connection beyond %d at once", CHECK_CONNECTIONS_MAX)
            await live.close()
            return
        ordinary = not self._without_check and any(_kind(check) in {"1", *self.versions} for check in self._left)
        check = None if ordinary else self._taken({"startup"})
        try:
            await live.start({} if check is None else check.conversation["startup"])
            failure = live.outcome.failure
            if failure is not None:
                text = "a connection met no check, as its start-up failed: %s"
                self.log.log(logging.WARNING, "startup", text, failure.found)
            else:
                if check is None:
                    version = await live.spoken_version()
                    if version is not None:
                        self.versions.add(version)
                        check = self._taken({"1", version}, first=version)
                        self._without_check = 0 if check is not None else self._without_check + 1
                        # A check that another connection meets meanwhile has no result yet.
                        none_under_way = len(self._met) + len(self._left) == len(self._checks)
                        if self._without_check >= _TRIES and none_under_way:
                            self.done.set()
                if check is not None:
                    await live.answer(check.conversation)
                    self._tell(check, live)
                    check = None
        except Exception as error:
            if check is None:
                raise
            # The check would meet it on each further connection: a field to which a step refers may be missing.
            cause = f"the check cannot go on: {error}"
            if not isinstance(error, LocalProtocolError):
                self.log.log(logging.ERROR, "check", "the check %s failed: %r", check.id, error)
                cause = f"the check itself failed: {error!r}"
            passages = live.outcome.passages
            self._settle(Result(check=check, verdict=Verdict.INCONCLUSIVE, cause=cause, passages=passages))
            check = None
        finally:
            if check is not None:
                self._left.insert(0, check)
            await live.close()
            if program is not None:
                program.close()

    def _taken(self, kinds: set[str], *, first: str = "") -> Check | None:
        """Removes and returns the next check that waits, of kind `first` if possible; None if there is none of `kinds`.

        A kind is a protocol version, "1" or "2", or "startup" for a check with a wrong start-up.
        """
        fitting = [check for check in self._left if _kind(check) in kinds]
        fitting.sort(key=lambda check: _kind(check) != first)
        if not fitting:
            return None
        self._left.remove(fitting[0])
        return fitting[0]

    def _tell(self, check: Check, live: ServingConversation) -> None:
        result = _judged(check, live.outcome)
        failure = live.outcome.failure
        if failure is not None and failure.unmet:
            self._tried[check.id] += 1
            if self._tried[check.id] < _TRIES:
                self._left.append(check)
                return
            result.verdict, result.cause = Verdict.NOT_SEEN, _UNMET.format(failure.unmet, _TRIES)
        self._settle(result)

    def _settle(self, result: Result) -> None:
        self._budget.shorten(result)
        self._met[result.check.id] = result
        self._on_result(result)
        # Without a check that waits, others may still run, and wait again.
        if len(self._met) == len(self._checks):
            self.done.set()

    def results(self) -> list[Result]:
        """Returns the results of all checks, in their order; those without a result so far are NOT_SEEN."""
        return [self._met.get(check.id) or self._unmet(check) for check in self._checks]

    def _unmet(self, check: Check) -> Result:
        version = check.conversation.get("version", "1")
        cause = _NOT_MET if version in {"1", *self.versions} else _NO_VERSION.format(version)
        return Result(check=check, verdict=Verdict.NOT_SEEN, cause=cause)


def _kind(check: Check) -> str:
    """Returns the protocol version of a check, or "startup" if it is about a wrong start-up."""
    return "startup" if "startup" in check.conversation else str(check.conversation.get("version", "1"))


def _judged(check: Check, outcome: Outcome) -> Result:
    result = result_of(check, outcome)
    failure = outcome.failure
    if failure is not None and (failure.silent or failure.ended):
        result.verdict = Verdict.INCONCLUSIVE
        if "startup" not in check.conversation:
            result.cause += "; the client has to make two calls or more on each connection"
    return result


@asynccontextmanager
async def listening(trial: ClientTrial, host: str, port: int) -> AsyncIterator[tuple[str, int]]:
    """Context manager that accepts the connections of clients for a trial, and yields the address, (host, port).

    `host` and `port` are the address to listen at; port 0 takes a free one. At exit, listening and all connections end.

    Raises:
        OSError: the address cannot be used.
    """
    options = trial.options

    def over_tcp(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        trial.serve(lambda log, names: RawPeer(reader, writer, "1", log, names, crc=options.crc))

    def over_link(link: Link) -> None:
        trial.serve(lambda log, names: QueuePairPeer(link, "1", log, names))

    listener: asyncio.Server | LinkListener
    if options.provider is None:
        listener = await serve_recorded(over_tcp, host, port, options.capture)
        address = listener.sockets[0].getsockname()
    else:
        listener = options.provider.listener(over_link, trial.log)
        address = (await listener.listen(host, port))[0]
    try:
        yield address[0], address[1]
    finally:
        listener.close()
        await trial.end()
