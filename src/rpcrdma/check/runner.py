"""Runs checks against a server: each on a connection of its own, with another connection that must go on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from rpcrdma.check.catalogue.back_channel import RELEASE, TRIAL
from rpcrdma.check.catalogue.reverse import WATCH
from rpcrdma.check.entry import Check
from rpcrdma.check.readings import READINGS
from rpcrdma.check.verdicts import FRAMES_NOT_SEEN, Result, Verdict
from rpcrdma.scripted import LiveConversation, Outcome, RawTarget, open_conversation, run_conversation

__all__ = ["FRESH_FILES", "Witness", "calling_programs", "recalled_delegations", "run_checks", "spoken_versions"]

FRESH_FILES = 2
"""A check is tried a second time after silence, then with another file."""

_WHY_NOT_SEEN = {
    "file": "no regular file of 5,001 octets or more is known; name a path in the URL that leads to one",
    "nfs": "the program is not NFSv3",
    "risky": "it is known to stop a server; --risky runs it",
    "write": "nothing may be written; --write DIR names a directory",
    "1": "the server does not speak version 1",
    "2": "the server does not speak version 2 (draft -00)",
    "2-07": "the server does not speak version 2 (draft -07)",
    "frames": FRAMES_NOT_SEEN,
    "markers": "the server demands no markers",
    "recall": "the server has recalled no delegation of NFSv4.1 in a trial with a file of --write DIR",
    "watch": "the server has no program of `rpcrdma watch`, with which it would call",
    "requests": "the server does not take Transmit Requests in this version",
    "continuation": "the server does not take requests in several transmissions in this version",
    "segments": "the server has no segments for bulk data in its receive buffers",
}
"""By need; those of one version are written as "2.segments"."""
_TRIAL_XID = 0x0BAD_F11E
_CALL = {"say": {"header": {"xid": {"given": "xid"}}, "rpc": {}}}
_REPLY = {"hear": {"message": {"header": {"xid": {"given": "xid"}}, "rpc": {"accepted": 0}}}}
_PROBES: Mapping[str, Mapping[str, Any]] = {
    "1": {"steps": [_CALL, _REPLY]},
    "2": {
        "version": "2",
        "steps": [
            {"say": {"header": {"type": 5, "properties": [[2, {"words": [4096]}]]}}},
            {"hear": {"message": {"header": {"version": 2, "type": 5}}}},
        ],
    },
    "2-07": {
        "version": "2-07",
        "steps": [
            {"say": {"header": {"type": 7, "properties": [[2, {"words": [4096]}]]}}},
            {"hear": {"message": {"header": {"version": 2, "type": 7}}}},
        ],
    },
}


async def spoken_versions(target: RawTarget, given: Mapping[str, int | bytes]) -> dict[str, Outcome]:
    """The conversation in which the server has shown each version that it speaks.

    Raises:
        OSError: the server cannot be reached.
    """
    outcomes = {name: await run_conversation(probe, target, given) for name, probe in _PROBES.items()}
    return {name: outcome for name, outcome in outcomes.items() if outcome.failure is None}


async def calling_programs(target: RawTarget, given: Mapping[str, int | bytes], version: str) -> set[str]:
    """The programs of the server that have it call its client, as needs of checks.

    Raises:
        OSError: the server cannot be reached.
    """
    if "directory" not in given:
        return set()
    steps = [*(_PROBES[version]["steps"] if version != "1" else ()), _CALL, _REPLY]
    asked = {**given, "program": WATCH[0], "program_version": WATCH[1]}
    outcome = await run_conversation({**_PROBES[version], "steps": steps}, target, asked)
    return {"watch"} if outcome.failure is None else set()


async def recalled_delegations(target: RawTarget, given: Mapping[str, int | bytes], fresh_file: bytes) -> set[str]:
    """{"recall"}, as a need of checks, if the server has recalled a delegation of this file on its holder's connection.

    Raises:
        OSError: the server cannot be reached.
    """
    outcome = await run_conversation(TRIAL, target, {**given, "fresh": fresh_file, "xid": _TRIAL_XID})
    if outcome.failure is None:
        return {"recall"}
    await _release(target, given, _TRIAL_XID + 64)
    return set()


async def _release(target: RawTarget, given: Mapping[str, int | bytes], xid: int) -> None:
    """Ends the delegations of conversations before, which would be in the way when the files are removed."""
    with contextlib.suppress(OSError):
        await run_conversation(RELEASE, target, {**given, "xid": xid & 0xFFFFFFFF})


class Witness:
    """Another client, whose connection must survive each mistake of a check."""

    def __init__(self, target: RawTarget, version: str, given: Mapping[str, int | bytes]) -> None:
        self._target = target
        self._version = version
        self._given = dict(given)
        self._live: LiveConversation | None = None

    async def answered(self, xid: int) -> bool:
        """Whether an empty call is answered, even wrongly, on the connection of the calls before, or on a new one."""
        try:
            if self._live is None:
                start = {**_PROBES[self._version], "steps": []}
                self._live = await open_conversation(start, self._target, self._given)
                if self._version != "1":
                    await self._live.run(_PROBES[self._version]["steps"], xid=xid)
            if await self._live.run([_CALL, _REPLY], xid=xid):
                return True
            failure = self._live.outcome.failure
        except OSError:
            failure = None
        await self.close()
        # An answer that is wrong, in its frames for example, is one.
        return failure is not None and not (failure.silent or failure.ended)

    async def close(self) -> None:
        """Closes the connection."""
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
    """The results of all checks, in their order; `on_result` is told of each at once.

    `met` are the needs of checks that are met, the versions that the server speaks among them. Each check has 64 XIDs
    from `first_xid` on. `fresh_files` are handles of empty files, `FRESH_FILES` for each check that needs "recall".

    Raises:
        LocalProtocolError: a conversation is not one.
    """
    results = []
    files = iter(fresh_files)
    version = next((name for name in ("1", "2", "2-07") if name in met), "1")
    witness = Witness(target, version, given)
    try:
        for number, check in enumerate(checks):
            xid = (first_xid + 64 * number) & 0xFFFFFFFF
            result = await _result(check, target, {**given, "xid": xid}, met, witness, files)
            results.append(result)
            on_result(result)
        if any("recall" in result.check.needs and result.verdict is not Verdict.NOT_SEEN for result in results):
            await _release(target, given, first_xid - 64)
    finally:
        await witness.close()
    return results


async def _result(
    check: Check,
    target: RawTarget,
    given: Mapping[str, int | bytes],
    met: Collection[str],
    witness: Witness,
    fresh_files: Iterator[bytes],
) -> Result:
    version = check.conversation.get("version", "1")
    needs = [version, *sorted(check.needs)]
    if check.of_frames and target.provider is not None:
        needs = ["frames"]
    missing = [need for need in needs if need not in met]
    if missing:
        return Result(check=check, verdict=Verdict.NOT_SEEN, cause=_WHY_NOT_SEEN[missing[0].rpartition(".")[2]])

    def fresh() -> dict[str, bytes]:
        return {"fresh": next(fresh_files)} if "recall" in check.needs else {}

    try:
        outcome = await run_conversation(check.conversation, target, {**given, **fresh()})
        if outcome.failure is not None and outcome.failure.silent:
            # A server may have overlooked a message, as siw does when it comes at a bad time. Another call is meant.
            again = {**given, "xid": int(given["xid"]) + 32, **fresh()}
            outcome = await run_conversation(check.conversation, target, again)
    except OSError as error:
        return Result(check=check, verdict=Verdict.INCONCLUSIVE, cause=f"no connection: {error}")
    result = _judged(check, outcome)
    if not await witness.answered(int(given["xid"]) + 63):
        # A first failure may be that of the connection alone; the second is that of the server.
        alive = await witness.answered(int(given["xid"]) + 62)
        result.others_ended = True
        result.verdict = Verdict.VIOLATES
        told = "another connection ended" if alive else "the server answers no other connection any more"
        result.cause = f"{told} after this{'; ' if result.cause else ''}{result.cause}"
    return result


def _judged(check: Check, outcome: Outcome) -> Result:
    result = Result(check=check, verdict=Verdict.CONFORMS, readings=outcome.readings, passages=outcome.passages)
    failure = outcome.failure
    if failure is not None:
        result.cause = f"expected {failure.expected}; found {failure.found}"
        result.broken = failure.statement
        recommended = failure.recommended if failure.statement else check.recommended
        result.verdict = Verdict.IGNORES if recommended else Verdict.VIOLATES
        if failure.step < 0:
            result.verdict = Verdict.INCONCLUSIVE
            result.cause = f"the start-up failed: {result.cause}"
        elif failure.unmet:
            result.verdict, result.cause = Verdict.NOT_SEEN, failure.unmet
    elif outcome.readings:
        result.verdict = Verdict.DIFFERS
        result.cause = "; ".join(f"{READINGS[name].text} ({READINGS[name].citation})" for name in outcome.readings)
    return result
