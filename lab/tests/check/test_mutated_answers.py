"""Each check notices each kind of mistake in the answers of a server that conforms, and each reading occurs."""

from __future__ import annotations

import fnmatch
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import local_streams
import pytest
from fake_servers import FakeServer, demanding_markers, obliging, serving, without_crc
from mutated_answers import mutated_events, mutated_memory
from recorded_runs import Event, Run, judged_again, recording, replaying
from test_broken_servers import NO_CRC
from test_broken_servers import chosen as found_by
from test_servers_unlike_ours import OTHERS

from rpcrdma.testing.virtual import run as in_virtual_time
from rpcrdma_lab.check import CATALOGUE, Result, Verdict, run_checks
from rpcrdma_lab.scripted import conversation

pytestmark = pytest.mark.thorough

if TYPE_CHECKING:
    from conftest import Recorded

NOTICED = frozenset({Verdict.VIOLATES, Verdict.IGNORES})
EMPTY_CALLS = "an empty call"
"""Stands for the checks in misses of the pattern that goes before and after most mistakes: it notices each kind."""
READ = frozenset(
    {
        *("silence", "ends", "answers", "another error", "another fault", "another ird", "another ord"),
        *("refuses", "refuses in place of a report", "another report", "another rejected"),
        *("terminates with swapped codes", "terminates with an unspecified error"),
    }
)
"""Kinds that another reading may permit."""


class Unnoticed(NamedTuple):
    """Checks that need not notice mistakes of these kinds in each answer; those of `though` do in one or more."""

    kinds: str
    checks: str
    reason: str
    though: str = ""


HEADERS = "a Read list, a Reply chunk, a Write chunk more, another XID in the RPC header"
RESULTS = "longer results, other results, shorter results"
UNNOTICED = [
    Unnoticed(
        "another depth_flags, another ird, another ord, another private",
        "mpa.startup.*",
        "a check of the start-up compares the fields that it is about",
    ),
    Unnoticed("another ird, another ord", "mpa.startup.*", "two checks compare the depths", "mpa.startup.depth-16383"),
    Unnoticed("another revision", "mpa.startup.no-flags", "the Request has revision 2 in the form of revision 1"),
    Unnoticed("another rejected", "mpa.startup.depth-0", "a rejection is right as well"),
    Unnoticed(
        "terminates with another code, terminates with another layer",
        "ddp.after-an-error rdmap.terminate.layout",
        "any Terminate is another reading",
    ),
    Unnoticed(
        "ends",
        "ddp.after-an-error v1.nomsg.unregistered v1.read*.*-beyond v1.*.offset-largest v1.*.short v1.*.handle-unknown "
        "v1.reply.*-beyond v1.writes.*-beyond v2.*.handle-unknown",
        "the end of the connection is right as well",
    ),
    Unnoticed(
        "writes uninvited",
        "v2.read.short-reply-chunk v1.reply.*-beyond v1.reply.*-largest v1.reply.*-unknown v1.writes.*-beyond "
        "v1.writes.*-largest v1.writes.*-unknown",
        "the conversation may be over by then",
    ),
    Unnoticed("writes uninvited", "v1.*.short", "the octets that fit the chunk may be written"),
    Unnoticed(
        "one octet less in memory, one octet more in memory, other data in memory",
        "v1.reply.length-beyond",
        "the octets that fit the memory may be written",
    ),
    Unnoticed(
        "terminates with swapped codes, terminates with an unspecified error",
        "ddp.after-an-error rdmap.terminate.layout",
        "the code of the Terminate is a matter of ddp.queue.3",
        "ddp.queue.3",
    ),
    # The reverse direction
    Unnoticed(
        f"{HEADERS}, {RESULTS}, another XID, another flags, another invalidate, another result status, another type, "
        "another version, grants nothing, invalidates another handle",
        "*.back-channel.*",
        "the server's call and its reply come in any order, and only results that later calls need are compared",
    ),
    Unnoticed(
        "another XID, another error, another flags, another version, grants nothing, invalidates another handle, "
        "one number more",
        "*.reverse.undirected *.reverse.xid-alone",
        "any error is right where none is demanded",
    ),
    Unnoticed(
        "invalidates another handle, longer results",
        "v1.reverse.uninvited",
        "results of an empty call are a matter of *.null",
        "v1.null v2.null",
    ),
    Unnoticed(
        "another error, one number more, another number",
        "v1.back-channel.reply.other-version",
        "it may be refused or not",
    ),
    Unnoticed("another error, one number more", "v2.back-channel.reply.without-response", "it may be refused or not"),
    # Replies in any order, and parts of replies
    Unnoticed(
        f"{HEADERS}, invalidates another handle, longer results",
        "*.credits.grant-beyond mpa.markers.[rt]* v1.credits.all-granted",
        "the replies are counted; *.null compares the header of a reply",
        "v1.null",
    ),
    Unnoticed("another version", "mpa.markers.[rt]* v1.credits.all-granted", "the replies are counted", "v1.null"),
    Unnoticed("grants nothing", "mpa.markers.[rt]*", "the replies are counted", "v1.null"),
    Unnoticed("another XID", "*.credits.grant-beyond v1.credits.all-granted", "the replies come in any order"),
    Unnoticed(
        "another flags, another invalidate, another type",
        "*.credits.grant-beyond",
        "the replies are counted; *.null compares the header of a reply",
        "v2.null",
    ),
    Unnoticed(
        "a Read list, a Reply chunk, a Write chunk more, another invalidate",
        "*.rtr.pieces.denied",
        "the reply is compared as far as its parts are judged",
    ),
    Unnoticed(
        "another XID in the RPC header, another direction, another reply status, another result status, other results, "
        "shorter results",
        "*.credits.exhausted *.read.continued *.read.maximum-send-size *.read.short-reply-chunk",
        "the reply is compared as far as its parts are judged",
    ),
    Unnoticed("another flags, another type", "*.rtr.pieces.denied", "a denied call is told by its status"),
    # Several right answers
    Unnoticed(
        "another error, another flags, another number, another version, invalidates another handle, one number more, "
        "writes uninvited",
        "*.rtr.read.no-room",
        "an error and a Report Error are both right",
    ),
    Unnoticed("another number", "v1.version.* v2.*.count-largest v2.*.many", "the server chooses the number"),
    Unnoticed(
        "answers",
        "ddp.offset.overlap v*.xid.other-than-rpc v2.writes.many v2.invalidate.foreign *.reverse.undirected "
        "*.reverse.xid-alone v2.type.nomsg-empty-with-xid",
        "a reply is right as well",
    ),
    Unnoticed("refuses", "v1.reads.*er-than-count v1.reply.count-0", "an error is right in place of a reply"),
    Unnoticed("another error", "v2.writes.many v2.flags.more-with-chunks v2.rtr.item.*", "several errors are right"),
    Unnoticed("one number more", "v2.rtr.item.*", "several errors are right"),
    Unnoticed(
        "another fault, another report, refuses in place of a report",
        "v2.rtr.place.number-twice v2.rtr.place.position-descending v2.rtr.place.position-twice",
        "the draft has no number for the fault",
    ),
    Unnoticed(
        "another type",
        "v2.properties.reverse-9 v2.properties.twice v2.type.nomsg-empty-with-xid",
        "properties are right as well, or passed over",
    ),
    Unnoticed("another version", "*.version.1-within", "it takes any answer in another version"),
    # Handles
    Unnoticed(
        "invalidates another handle",
        "rpc.* v1.read.failed v1.reads.position-descending v1.reply.offered v1.write.* v1.writes.* v2.read.* v2.rtr.*",
        "the handle is a matter of *.invalidation.* and v1.read.*",
        "v1.invalidation.* v2.invalidation.* v1.read.[1-9]* v1.null v2.null",
    ),
    Unnoticed("another invalidate", "v2.read.reply-chunk", "the handle may be named or not"),
    Unnoticed(
        "answers, another type, ends",
        "v1.invalidation.errors",
        "whether the header is refused is a matter of v1.reads.end-2",
        "v1.reads.end-2",
    ),
    # Results and memory
    Unnoticed(
        f"{RESULTS}, another result status, other data in memory, one octet less in memory",
        "v*.invalidation.*",
        "it judges the Send; *.read.* compare reply and data",
    ),
    Unnoticed(
        "another XID in the RPC header, another direction, another reply status, one octet more in memory",
        "v1.invalidation.*",
        "it judges the Send; v1.read.* compare reply and data",
    ),
    Unnoticed(
        "longer results",
        "rpc.* v1.reply.offered v1.writes.* v2.rtr.*",
        "results of an empty call are a matter of *.null",
        "v1.null v2.null",
    ),
    Unnoticed(
        RESULTS,
        "v1.getattr.* v1.read.* v1.reads.position-descending v1.write.* v2.read.short-write-chunk v2.rtr.read.* "
        "v2.rtr.write.* v2.write.* v2.writes.unused",
        "the attributes in the results are the server's own",
    ),
    Unnoticed("another result status", "v1.read.failed", "data and lengths show the success"),
    Unnoticed(
        "another result status, other results, shorter results", "rpc.program-version-99", "the server has the versions"
    ),
    Unnoticed(
        "other data in memory, one octet less in memory, one octet more in memory",
        "v*.read.reply-chunk",
        "the attributes in a long reply are the server's own",
    ),
    Unnoticed("another length returned", "v1.read.reply-chunk", "a long reply has attributes or none"),
    Unnoticed("other data in memory", "v1.read.two-write-chunks", "the second chunk is judged; v1.read.* compare data"),
    Unnoticed("one octet more in memory", "v1.read.write-and-reply-chunk", "the reply may be in the Reply chunk"),
    Unnoticed(
        "writes uninvited",
        "v2.rtr.read.choice v2.rtr.read.in-segment v2.writes.many",
        "the chunk that the server has not taken is not compared",
    ),
    Unnoticed("longer results", "v2.read.maximum-send-size", "the size of each message is judged"),
    Unnoticed("another payload_octets", "v2.rtr.direction.* v2.rtr.read.*", "it compares the placed data"),
]
"""Each row permits mistakes that other checks notice, that are right as well, or that no check can know."""
IMPOSSIBLE = {("rdmap.terminate.layout", "terminate-nibbles-swapped")}
"""A reading that does not occur: that of a right Terminate."""


@dataclass(slots=True)
class Notices:
    """The mistakes that were made in the runs of all checks, and the readings of the results."""

    missed: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Kinds with the checks that have not noticed one."""
    noticed: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    blamed: set[tuple[str, str]] = field(default_factory=set)
    """Checks that blame their own statement for a mistake in a message that only shows a result, with its kind."""
    readings: set[tuple[str, str]] = field(default_factory=set)

    def add(self, check: str, kind: str, result: Result, *, of_empty_call: bool = False) -> None:
        """Adds the result of a mistake of this kind."""
        if result.verdict in NOTICED or (result.verdict is Verdict.DIFFERS and kind in READ):
            self.noticed[kind].add(check)
        else:
            self.missed[kind].add(EMPTY_CALLS if of_empty_call else check)
        self.readings |= {(check, name) for name in result.readings}

    def add_aside(self, check: str, kind: str, result: Result) -> None:
        """Adds the result of a mistake in a message that only shows a result."""
        if result.verdict in NOTICED and not result.broken:
            self.blamed.add((check, kind))
        self.readings |= {(check, name) for name in result.readings}


@pytest.fixture(scope="module")
def notices(recorded: Callable[[str], Recorded]) -> Notices:
    """The notices of each mistake in each answer."""
    runs = dict(recorded("auto").runs)
    found = Notices()
    with recording(runs):
        local_streams.run(_before_others())
    assert runs.keys() == {check.id for check in CATALOGUE}, "record a run of each check"
    with replaying():
        in_virtual_time(lambda: _notice_all(found, runs.values()))
    return found


async def _before_others() -> None:
    """The checks whose question our server does not reach, before servers that demand markers and have no CRCs."""
    of_markers = [check for check in CATALOGUE if "markers" in check.needs]
    given = {"program": 100003, "program_version": 3, "credential": bytes(8)}
    for server, checks in (
        (demanding_markers(lambda marker: marker.found & 0xFFFF == marker.right), of_markers),
        (FakeServer(obliging, any_start=True, start=NO_CRC, framed=without_crc), found_by("mpa.startup.crc-of-*")),
    ):
        async with serving(server) as target:
            results = await run_checks(checks, target, given, {"1", "markers"})
        assert {result.verdict for result in results} == {Verdict.CONFORMS}


async def _notice_all(found: Notices, runs: Iterable[Run]) -> None:
    # An empty call afterwards is heard by hundreds of checks: equal patterns notice equal mistakes at once, or do not.
    known: dict[str, Result] = {}
    for run in runs:
        right, _ = await judged_again(run)
        assert (right.check.id, right.verdict, right.cause) == (run.check.id, Verdict.CONFORMS, "")
        for at, event in enumerate(run.events):
            if is_aside(run, event):
                for kind, heard in mutated_events(run, at):
                    found.add_aside(run.check.id, kind, (await judged_again(run.changed(at, heard)))[0])
            if not is_judged(run, at):
                continue
            header = event.heard.fields.get("header", {})
            of_empty_call = is_reply_to_an_empty_call(event)
            similar = json.dumps([event.patterns, run.check.recommended, event.heard.kind, sorted(header)])
            for number, (kind, heard) in enumerate(mutated_events(run, at)):
                result = known.get(f"{number} {kind} {similar}")
                if result is None:
                    result, told = await judged_again(run.changed(at, heard))
                    if result.verdict in NOTICED and told <= at + 1:
                        known[f"{number} {kind} {similar}"] = result
                found.add(run.check.id, kind, result, of_empty_call=of_empty_call)
        for kind, mutated in mutated_memory(run):
            found.add(run.check.id, kind, (await judged_again(mutated))[0])


def is_reply_to_an_empty_call(event: Event) -> bool:
    """Whether the event is compared with the usual pattern for it alone."""
    if not event.patterns or any("end" not in each for each in event.patterns[1:]):
        return False
    return event.patterns[0].get("message", {}).get("rpc", {}).get("results") == ""


def is_aside(run: Run, event: Event) -> bool:
    """Whether the event only shows the result of another step."""
    return event.patterns in [step["hear"] for step in run.check.conversation["steps"] if "aside" in step]


def is_judged(run: Run, at: int) -> bool:
    """Whether the event is compared: not the usual start-up, no message that is passed over, no mere repetition.

    Nor is one that only shows the result of another step.
    """
    event = run.events[at]
    if is_aside(run, event):
        return False
    if at and all(each.patterns == event.patterns for each in run.events[at - 1 : at + 2]):
        return False
    if event.heard.kind == "startup":
        return run.check.conversation.get("startup", {}) is None
    wanted = [each.get("message", {}).get("header", {}).get("type") for each in event.patterns]
    version = run.check.conversation.get("version", "1")
    header = event.heard.fields.get("header", {})
    idle = event.heard.kind == "message" and conversation._is_passed_over(version, header, idle=False)
    return not idle or header["type"] in wanted


def chosen(patterns: str) -> set[str]:
    return {check.id for each in patterns.split() for check in CATALOGUE if fnmatch.fnmatchcase(check.id, each)}


def test_each_check_notices_each_kind_of_mistake(notices: Notices) -> None:
    permitted = {(kind, check) for row in UNNOTICED for kind in row.kinds.split(", ") for check in chosen(row.checks)}
    lines = [
        f"{kind}: {' '.join(sorted(left))}"
        for kind, checks in sorted(notices.missed.items())
        if (left := {check for check in checks if (kind, check) not in permitted})
    ]
    assert lines == [], "\n".join(["compare these mistakes in the patterns of the checks, or say why not:", *lines])


def test_a_mistake_of_a_message_that_only_shows_a_result_breaks_no_statement_of_the_check(notices: Notices) -> None:
    """Such as the padding of a READ behind the WRITE that is judged."""
    assert notices.blamed == set()


def test_no_exception_is_left_over(notices: Notices) -> None:
    idle = [
        f"{kind}: {pattern}"
        for row in UNNOTICED
        for kind in row.kinds.split(", ")
        for pattern in row.checks.split()
        if not notices.missed[kind] & chosen(pattern)
    ]
    assert idle == [], "\n".join(["these checks notice the mistake, delete the exception:", *idle])
    for row in UNNOTICED:
        for kind in row.kinds.split(", "):
            for pattern in row.though.split():
                assert chosen(pattern), pattern
                assert chosen(pattern) - notices.noticed[kind] == set(), (kind, row.reason)


def test_each_reading_of_each_check_occurs(notices: Notices) -> None:
    named = {
        (check.id, name)
        for check in CATALOGUE
        for name in re.findall(r"'reading': '([a-z-]+)'", repr(check.conversation))
    }
    of_others = {(check.id, other.reading) for other in OTHERS for check in found_by(*other.patterns)}
    wrong = named - notices.readings - of_others ^ IMPOSSIBLE
    assert wrong == set(), f"a reading that never occurs is no reading, and one that does is possible: {sorted(wrong)}"
