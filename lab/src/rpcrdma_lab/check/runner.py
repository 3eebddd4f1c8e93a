"""Runs checks against a server, each on its own connection, beside another connection that must survive."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from rpcrdma.errors import LocalProtocolError, RpcError
from rpcrdma.nfs.v3 import nfsstat3
from rpcrdma_lab.check.catalogue.reverse import release, trial
from rpcrdma_lab.check.entry import Check
from rpcrdma_lab.check.verdicts import FRAMES_NOT_SEEN, PassageBudget, Result, Verdict, result_of
from rpcrdma_lab.scripted import Failure, LiveConversation, Outcome, RawTarget, open_conversation, run_conversation
from rpcrdma_lab.scripted.own_time import within

__all__ = [
    "ANSWER_S",
    "FRESH_FILES",
    "Witness",
    "recalled_delegations",
    "run_checks",
    "spoken_versions",
]

FRESH_FILES = 4
"""Files that a check of recalls needs: for two tries, and two more if another connection ended meanwhile."""

_WHY_NOT_SEEN = {
    "1": "the server does not speak version 1",
    "2": "the server does not speak version 2",
    "frames": FRAMES_NOT_SEEN,
    "nfs": "the program is not NFSv3",
    "file": "no regular file of 5,001 octets or more is known; name a path in the URL that leads to one",
    "risky": "it is known to stop a server; --risky runs it",
    "write": "nothing may be written; --write DIR names a directory",
    "markers": "the server demands no markers",
    "recall": "the server has recalled no delegation of NFSv4.1 in a trial with a file of --write DIR",
    "requests": "the server does not take Transmit Requests in this version",
    "continuation": "the server does not take requests in several transmissions in this version",
    "segments": "the server has no segments for bulk data in its receive buffers",
}
"""By need, the cause why a check without it is not run; "2.segments" stands for "segments" of version 2."""
_TRIAL_XID = 0x0BAD_F11E
_CALL = {"say": {"header": {"xid": {"given": "xid"}}, "rpc": {}}}
_REPLY = {"hear": {"message": {"header": {"xid": {"given": "xid"}}, "rpc": {"accepted": 0}}}}
_REPLY_OR_REFUSAL = {
    "hear": [
        _REPLY["hear"],
        {"message": {"rpc": {"accepted": 1}}, "unmet": "it does not offer program {}"},
        {"message": {"rpc": {"accepted": 2}}, "unmet": "it does not offer version {1} of program {0}"},
    ]
}
_PROBES: Mapping[str, Mapping[str, Any]] = {
    "1": {"steps": [_CALL, _REPLY]},
    "2": {
        "version": "2",
        "steps": [
            {"say": {"header": {"type": 5, "properties": [[2, {"words": [4096]}]]}}},
            {"hear": {"message": {"header": {"version": 2, "type": 5}}}},
        ],
    },
}
ANSWER_S = 3.0
"""Seconds that a server may take for an answer, by default."""
_REFUSED_MAX = 5
"""Consecutive connections that a server refuses or does not answer before it counts as stopped."""
_AGAIN_PLUS = 32
"""The distance of the XIDs of a second try from those of the first."""
_XIDS = 128
"""The number of XIDs of a check."""
_REPEATED_PLUS = 64
"""The distance of the XIDs of a repeated check from those of the first run."""
_RESTART_S = 10.0
"""Seconds in which a server that answers nobody may be restarted."""
_OF_FILES: Mapping[int, str] = {
    each.value: each.name.removeprefix("NFS3ERR_")
    for each in (
        *(nfsstat3.NFS3ERR_PERM, nfsstat3.NFS3ERR_IO, nfsstat3.NFS3ERR_NXIO, nfsstat3.NFS3ERR_ACCES),
        *(nfsstat3.NFS3ERR_NOTDIR, nfsstat3.NFS3ERR_ISDIR, nfsstat3.NFS3ERR_FBIG, nfsstat3.NFS3ERR_NOSPC),
        *(nfsstat3.NFS3ERR_ROFS, nfsstat3.NFS3ERR_DQUOT, nfsstat3.NFS3ERR_STALE, nfsstat3.NFS3ERR_JUKEBOX),
    )
}
"""NFS statuses that concern the file or its file system, and not how the call was received (RFC 1813, 2.6)."""
_BUSY_S = 0.5
"""Seconds between calls on the other connection while a check runs, so that no server ends it as idle."""


async def spoken_versions(target: RawTarget, given: Mapping[str, int | bytes]) -> dict[str, Outcome]:
    """Returns the protocol versions, "1" and "2", that a server speaks, each with the `Outcome` that has shown it.

    Each version is tried on connections of its own. `heard` of an outcome has the server's last message. `given` has
    values for the conversations by name, among them "program" and "program_version". The result is empty if the server
    speaks neither version.

    Raises:
        OSError: the server cannot be reached.
        RpcError: the server answers, but offers the program in this version over none of the protocol versions.
    """
    spoken, refusals = {}, []
    for name, probe in _PROBES.items():
        start = probe["steps"] if name != "1" else ()
        called = await _tried(target, {**probe, "steps": [*start, _CALL, _REPLY_OR_REFUSAL]}, given)
        begun = await _tried(target, probe, given) if start else called
        if called.failure is not None and called.failure.unmet:
            refusals.append(called.failure.unmet)
        elif begun.failure is None:
            spoken[name] = begun
    if refusals and not spoken:
        raise RpcError(refusals[0].format(given["program"], given["program_version"]))
    return spoken


async def _tried(
    target: RawTarget,
    conversation: Mapping[str, Any],
    given: Mapping[str, int | bytes],
    fresh_files: Iterator[bytes] | None = None,
) -> Outcome:
    """Runs a conversation, a second time after silence or a missing Terminate; returns log and result of the last run.

    A server may overlook a message, as siw does, and TCP may lose a Terminate. A second run for which the server cannot
    be reached does not count. `given` has values for the conversation by name. Each run takes one of `fresh_files`, at
    least two handles of empty files, as the value "fresh"; None: there is no such value.

    Raises:
        LocalProtocolError: the conversation is malformed, or refers to a message that has not arrived.
        OSError: the server cannot be reached for the first run.
    """

    def fresh() -> dict[str, bytes]:
        return {} if fresh_files is None else {"fresh": next(fresh_files)}

    outcome = await run_conversation(conversation, target, {**given, **fresh()})
    failure = outcome.failure
    if failure is not None and (failure.silent or (failure.ended and failure.statement)):
        again = {**given, "xid": int(given.get("xid", 0)) + _AGAIN_PLUS, **fresh()}
        # A server that has stopped refuses the second try.
        with contextlib.suppress(OSError):
            outcome = await run_conversation(conversation, target, again)
    return outcome


async def recalled_delegations(
    target: RawTarget, given: Mapping[str, int | bytes], fresh_file: bytes, version: str
) -> set[str]:
    """Returns {"recall"} if a server recalls a delegation on its holder's connection, and set() if it does not.

    If it does not, makes the server drop the delegation. `given` has values for the conversation by name,
    `fresh_file` is the handle of an empty file, and `version` is the protocol version, "1" or "2".

    Raises:
        OSError: the server cannot be reached.
    """
    # An answer may lack a part that a later step repeats.
    with contextlib.suppress(LocalProtocolError):
        outcome = await run_conversation(trial(version), target, {**given, "fresh": fresh_file, "xid": _TRIAL_XID})
        if outcome.failure is None:
            return {"recall"}
    await _release(target, given, _TRIAL_XID + 64, version)
    return set()


async def _release(target: RawTarget, given: Mapping[str, int | bytes], xid: int, version: str) -> None:
    """Makes the server drop delegations of earlier conversations, so that files can be removed; a failure is ignored.

    `given` has values to which the scripted messages refer by name, `xid` is the first XID of the calls, and `version`
    the RPC-over-RDMA version, "1" or "2".
    """
    with contextlib.suppress(OSError, LocalProtocolError):
        await run_conversation(release(version), target, {**given, "xid": xid & 0xFFFFFFFF})


class Witness:
    """Another client beside the checks, whose connection with an outstanding call must survive each check's mistakes.

    The methods do not raise OSError.

    Args:
        target: the server.
        version: the RPC-over-RDMA version, "1" or "2".
        given: values to which the messages refer by name, with "program" and "program_version".
        first_xid: the XID of the first call; later calls have the following XIDs.
    """

    def __init__(self, target: RawTarget, version: str, given: Mapping[str, int | bytes], first_xid: int) -> None:
        self._target = target
        self._version = version
        self._given = dict(given)
        self._xid = first_xid
        self._live: LiveConversation | None = None
        self.gone = False
        """Whether the server has answered no connection any more after a check."""
        self._failure: Failure | None = None
        """The wrong answer that ended the last connection; None if it ended otherwise or was silent."""

    async def begin(self) -> bool:
        """Waits for the reply to the outstanding call, and makes the next call; returns whether the reply arrived.

        To be called before a check. If no reply arrived, as on a connection that the server has ended as idle, tries
        once more on a new connection.
        """
        return await self.turn() or await self.turn()

    async def turn(self) -> bool:
        """Waits for the reply to the outstanding call, and makes the next call.

        If there is no connection, first connects and makes a call. Returns whether the right reply has arrived within
        the target's `timeout_s`; if not, the connection is closed.
        """
        try:
            if self._live is None:
                start = {**_PROBES[self._version], "steps": []}
                self._live = live = await open_conversation(start, self._target, self._given)
                if self._version != "1":
                    await live.run(_PROBES[self._version]["steps"], xid=self._xid)
                await live.run([_CALL], xid=self._xid)
            if await self._live.run([_REPLY], xid=self._xid):
                self._xid = (self._xid + 1) & 0xFFFFFFFF
                return await self._live.run([_CALL], xid=self._xid)
            failure = self._live.outcome.failure
            self._failure = None if failure is None or failure.silent or failure.ended else failure
        except OSError:
            self._failure = None
        await self.close()
        return False

    async def keep_busy(self) -> None:
        """Calls `turn` if there is a connection, so that no server ends it as idle; `turn` may close it."""
        if self._live is not None:
            await self.turn()

    async def fate(self) -> str:
        """Returns a description of what happened to the connection after a check; may wait 10 s for a restart.

        Returns "" if calls are still answered, or if iWARP frames of an answer break a rule: other checks report this.
        Sets `gone` of this object, which says whether the server answers no connection any more.
        """
        self.gone = False
        # The first reply may be older than the mistake.
        if self._live is not None and await self.turn() and await self.turn():
            return ""
        wrong = self._failure
        if wrong is not None:
            if wrong.statement:
                # A mistake in the frames is one of all answers, and is booked on its own statement.
                return ""
            return f"another connection is answered wrong after this: expected {wrong.expected}; found {wrong.found}"
        # A first failure may be that of the connection alone; the second is that of the server.
        if await self.begin() or self._failure is not None:
            return "another connection ended after this"
        if await self._returns():
            return "the server answered no connection after this, and does again"
        self.gone = True
        return "the server answers no connection any more after this"

    async def _returns(self) -> bool:
        """Waits up to 10 s for a restart of the server, and returns whether it answers again."""
        with contextlib.suppress(TimeoutError):
            async with within(_RESTART_S):
                while True:
                    if await self.begin():
                        return True
                    await asyncio.sleep(_BUSY_S)
        await self.close()
        return False

    async def close(self) -> None:
        """Closes the connection, if there is one."""
        live, self._live = self._live, None
        if live is not None:
            await live.close()


async def run_checks(
    checks: Iterable[Check],
    target: RawTarget,
    given: Mapping[str, int | bytes],
    met: Collection[str],
    on_result: Callable[[Result], None] = lambda _: None,
    *,
    first_xid: int = 0x10_0000,
    fresh_files: Iterable[bytes] = (),
) -> list[Result]:
    """Runs the checks one after another, each on its own connection, and returns their verdicts and logs in order.

    A check for which the server cannot be reached is INCONCLUSIVE; after 5 of them in a row the others are NOT_SEEN.

    Args:
        checks: the checks.
        target: the server.
        given: values for the conversations, by name.
        met: the needs of checks that are met, including the protocol versions of the server.
        on_result: is called with each result as soon as it is known.
        first_xid: the XID of the first call; each check has the 128 XIDs after those of the check before.
        fresh_files: handles of empty files, `FRESH_FILES` for each check that needs "recall".
    """
    results = []
    files = iter(fresh_files)
    version = next((name for name in ("1", "2") if name in met), "1")
    witness = Witness(target, version, given, first_xid ^ 1 << 31)
    refused = 0
    budget = PassageBudget()
    try:
        for number, check in enumerate(checks):
            xid = (first_xid + _XIDS * number) & 0xFFFFFFFF
            result = _unseen(check, target, met, refused)
            if result is None:
                own = {**given, "xid": xid}
                result = await _result(check, target, own, witness, files if "recall" in check.needs else None)
                refused = refused + 1 if result.refused else 0
            budget.shorten(result)
            results.append(result)
            on_result(result)
        if any("recall" in result.check.needs and result.verdict is not Verdict.NOT_SEEN for result in results):
            await _release(target, given, first_xid - _XIDS, version)
    finally:
        await witness.close()
    return results


def _unseen(check: Check, target: RawTarget, met: Collection[str], refused: int) -> Result | None:
    """Returns the result NOT_SEEN if the needs of a check are not met or the server has stopped; None: it can be run.

    `met` are the needs that are met, and `refused` is the number of checks without a connection immediately before.
    """
    needs = {check.conversation.get("version", "1"), *check.needs}
    if check.of_frames and target.provider is not None:
        needs = {"frames"}
    missing = {need.rpartition(".")[2] for need in needs if need not in met}
    causes = [cause for need, cause in _WHY_NOT_SEEN.items() if need in missing]
    if refused == _REFUSED_MAX:
        causes.append(f"the server took none of {_REFUSED_MAX} connections in a row; it may have stopped")
    return Result(check=check, verdict=Verdict.NOT_SEEN, cause=causes[0]) if causes else None


async def _result(
    check: Check,
    target: RawTarget,
    given: Mapping[str, int | bytes],
    witness: Witness,
    fresh_files: Iterator[bytes] | None,
) -> Result:
    """Runs a check, a second time if the connection of `witness`, another client, is harmed, and returns the result.

    Harm counts if the second run harms the connection, too, or cannot tell, or if the server answers no connection any
    more. Harm in the first run alone is ignored, since a connection may end for causes other than the check. `given`
    has values for the conversation by name, among them its first "xid"; `fresh_files` are handles of empty files, if
    the check needs them.
    """
    result, fate = await _run_beside(check, target, given, witness, fresh_files)
    if fate and not witness.gone:
        again = {**given, "xid": (int(given["xid"]) + _REPEATED_PLUS) & 0xFFFFFFFF}
        repeated, fate_again = await _run_beside(check, target, again, witness, fresh_files)
        if fate_again == "":
            return repeated
        if fate_again is not None:
            result, fate = repeated, f"{fate_again}, twice"
    if fate:
        result.others_ended = True
        # A server that answers nobody breaks no rule about this message.
        if result.silent or result.verdict is not Verdict.VIOLATES:
            result.verdict = Verdict.HARMS
        result.cause = "; ".join(filter(None, [fate, result.cause]))
    return result


async def _run_beside(
    check: Check,
    target: RawTarget,
    given: Mapping[str, int | bytes],
    witness: Witness,
    fresh_files: Iterator[bytes] | None,
) -> tuple[Result, str | None]:
    """Runs a check beside the witness's connection, and returns its result and the fate of that connection.

    The fate is "" if calls are still answered, else a description; None if it is unknown. A check that gets no
    connection is INCONCLUSIVE, with `refused` set. `given` has values for the conversation by name, and `fresh_files`
    handles of empty files, if the check needs them.
    """
    others_answered = await witness.begin()
    running = asyncio.ensure_future(_tried(target, check.conversation, given, fresh_files))
    try:
        while not (await asyncio.wait([running], timeout=_BUSY_S))[0]:
            await witness.keep_busy()
        result = _judged(check, running.result())
    except OSError as error:
        cause = f"no connection: {error}" if str(error) else f"no connection within {target.timeout_s:g} s"
        return Result(check=check, verdict=Verdict.INCONCLUSIVE, cause=cause, refused=True), None
    except LocalProtocolError as error:
        # A message that the conversation goes on with may not have come.
        result = Result(check=check, verdict=Verdict.INCONCLUSIVE, cause=f"the check cannot go on: {error}")
    finally:
        running.cancel()
        await asyncio.wait([running])
    return result, await witness.fate() if others_answered else None


def _judged(check: Check, outcome: Outcome) -> Result:
    result = result_of(check, outcome)
    failure = outcome.failure
    if failure is None:
        return result
    if failure.step < 0:
        result.verdict = Verdict.INCONCLUSIVE
        result.cause = f"the start-up failed: {result.cause}"
    elif failure.unmet:
        result.verdict, result.cause = Verdict.NOT_SEEN, failure.unmet
    elif failure.aside and not failure.statement:
        result.verdict = Verdict.INCONCLUSIVE
        result.cause = f"{failure.aside} was answered otherwise: {result.cause}"
    elif status := _file_status(failure.heard.get("rpc", {})):
        result.verdict = Verdict.INCONCLUSIVE
        result.cause = f"expected {failure.expected}, got its refusal {status}, which is about a file"
    return result


def _file_status(rpc: Mapping[str, Any]) -> str | None:
    """Returns the name of an NFS error that concerns a file or its file system, such as "ACCES" or "NOSPC".

    Returns None for another status, and if the accept_stat is not SUCCESS. `rpc` has the fields of the reply, as
    `read_rpc` returns them.
    """
    return _OF_FILES.get(rpc["result_status"]) if rpc.get("accepted") == 0 and "result_status" in rpc else None
