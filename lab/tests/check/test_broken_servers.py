"""Each check catches a broken server: one made of octets, or ours with a mistake put in."""

from __future__ import annotations

import asyncio
import fnmatch
import itertools
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import local_streams
import pytest
from fake_servers import (
    REPLY_START,
    FakeServer,
    Frame,
    Version2,
    as_properties_or_reply,
    calling,
    closing,
    demanding_markers,
    null_reply,
    obliging,
    reading,
    serving,
    with_a_read_first,
    without_crc,
)
from recalling_server import Recalling
from wrong_replies import WRONG_REPLIES

from rpcrdma.aio.answering import answering
from rpcrdma.aio.drivers.verbs_provider import VerbsProvider
from rpcrdma.iwarp import framing
from rpcrdma.iwarp.sender import Sender
from rpcrdma.nfs.export.memory_tree import MemoryOpenFile
from rpcrdma.rtr import answers, layout
from rpcrdma.transport import responder
from rpcrdma.transport.dialects.v1 import Version1
from rpcrdma.xdr.codec import BulkItem, Payload
from rpcrdma_lab.check import CATALOGUE, Check, Result, Verdict, run_checks
from rpcrdma_lab.check.catalogue.version_2 import CONNPROP
from rpcrdma_lab.scripted import Outcome, run_conversation
from support import raw_replies
from support.cases import each_case
from support.device_in_memory import DeviceInMemory
from support.raw_iwarp import fpdu, startup_frame, untagged

if TYPE_CHECKING:
    from conftest import Judge

pytestmark = pytest.mark.thorough

GIVEN: dict[str, int | bytes] = {
    "file": b"handle",
    "content": bytes(9000),
    "program": 100003,
    "program_version": 3,
    "write_position": 92,
}
GIVEN |= {"credential": bytes(8), "written": b"handle"}
GIVEN |= {"owner": b"check"}
GIVEN |= {"2.requests_max": 8, "2.receive_octets": 5120, "2.send_octets": 4096}
GIVEN |= {"2.segment_at": 1024, "2.segment_octets": 1024, "2.segments": 4}


def chosen(*patterns: str) -> list[Check]:
    return [check for check in CATALOGUE if any(fnmatch.fnmatchcase(check.id, each) for each in patterns)]


async def before(server: FakeServer, version: str, *patterns: str) -> list[Result]:
    async with serving(server) as target:
        abilities = (f"{version}.{each}" for each in ("requests", "continuation", "segments"))
        needs = {version, "nfs", "file", "write", "risky", "markers", *abilities}
        if any("back-channel" in each for each in patterns):
            # The checks wait for a call, which other servers do not make.
            needs.add("recall")
        return await run_checks(chosen(*patterns), target, GIVEN, needs, fresh_files=itertools.repeat(b"fresh"))


def caught(results: Iterable[Result]) -> set[str]:
    return {result.check.id for result in results if result.verdict in {Verdict.VIOLATES, Verdict.IGNORES}}


class Fake(NamedTuple):
    """A server made of octets, and the checks that are for it."""

    server: FakeServer
    patterns: Sequence[str] = ("*",)
    version: str = "1"


def with_cut_properties(frame: Frame, received: int) -> bytes | None:
    made = Version2(as_properties_or_reply)(frame, received)
    return made[:-2] if made and made[12:16] == struct.pack(">I", CONNPROP) else made


NO_CRC = startup_frame("Rep", 0x10, 2, REPLY_START[20:])
RESERVED_BITS = startup_frame("Rep", 0x5F, 2, REPLY_START[20:])
RESERVED_PRIVATE_BITS = startup_frame("Rep", 0x50, 2, bytes.fromhex("00100010 f6ab0e18 01ff0303"))
FAKES = {
    "sets reserved bits": Fake(
        FakeServer(obliging, any_start=True, start=RESERVED_BITS), ["mpa.startup.re[jps]*", "mpa.startup.lo*"]
    ),
    "takes TCP segments for frames": Fake(FakeServer(obliging, aligned=True), ["mpa.frame.in-pieces"]),
    "keeps ended connections": Fake(FakeServer(obliging, stays=True), ["rdmap.half-closed", "mpa.frame.cut"]),
    "keeps connections of unknown revisions": Fake(FakeServer(closing, stays=True), ["mpa.startup.revision-*"]),
    "speaks first": Fake(FakeServer(obliging, begins=True), ["mpa.startup.silence"]),
    "looks at CRCs that nobody demands": Fake(
        FakeServer(closing, any_start=True, start=NO_CRC), ["mpa.startup.crc-of-neither"]
    ),
    "makes no CRC": Fake(FakeServer(obliging, framed=without_crc), ["mpa.startup.crc-demanded"]),
    "looks at the reserved half of markers": Fake(
        demanding_markers(lambda marker: marker.found == marker.right), ["mpa.markers.reserved"]
    ),
    "looks at no marker": Fake(demanding_markers(lambda _: True), ["mpa.markers.pointer"]),
    "takes no marker within a frame": Fake(demanding_markers(lambda marker: not marker.right), ["mpa.markers.taken"]),
    "sets reserved bits of private data": Fake(
        FakeServer(obliging, start=RESERVED_PRIVATE_BITS), ["mpa.startup.private-data.reserved"]
    ),
    "takes the first TCP segment for the Request": Fake(FakeServer(closing), ["mpa.startup.in-pieces"]),
    "ends with swapped codes": Fake(FakeServer(closing, terminates=0x2106), ["ddp.version.untagged-0"]),
    "ends with other codes": Fake(FakeServer(closing, terminates=0x0207), ["ddp.version.untagged-0"]),
    "reads, and takes any Response": Fake(
        FakeServer(reading, framed=with_a_read_first), ["rdmap.response.[botw]*", "ddp.write.be*", "ddp.write.[fw]*"]
    ),
    "tells properties that do not decode": Fake(
        FakeServer(with_cut_properties), [f"v2.properties.{name}" for name in ("none", "un*", "default", "back*")], "2"
    ),
    "calls uninvited": Fake(FakeServer(calling), ["v1.reverse.uninvited"]),
    "recalls under two XIDs": Fake(FakeServer(Recalling(within=7), any_start=True), ["v1.back-channel.call"]),
    "recalls without credits": Fake(FakeServer(Recalling(at_once=True)), ["v1.back-channel.one-credit"]),
    "takes calls for replies to recalls": Fake(FakeServer(Recalling(takes_calls=True)), ["v1.back-channel.same-xid"]),
}


def test_each_of_these_servers_is_caught() -> None:
    async def main() -> list[list[Result]]:
        # All at once: most of the time passes in waiting for servers that say nothing.
        return await asyncio.gather(*(before(fake.server, fake.version, *fake.patterns) for fake in FAKES.values()))

    results = dict(zip(FAKES, local_streams.run(main()), strict=True))
    uncaught = {
        name: sorted({result.check.id for result in found if not result.readings} - caught(found))
        for name, found in results.items()
    }
    assert {name: ids for name, ids in uncaught.items() if ids} == {}


def test_a_server_that_demands_markers_gets_them() -> None:
    server = demanding_markers(lambda marker: marker.found & 0xFFFF == marker.right)
    results = local_streams.run(before(server, "1", "mpa.markers.*", "mpa.frame.*", "rpc.two-calls"))
    assert {result.verdict for result in results} == {Verdict.CONFORMS}


def test_a_server_without_crcs_looks_at_none() -> None:
    async def main() -> Outcome:
        (check,) = chosen("mpa.startup.crc-of-neither")
        async with serving(FakeServer(obliging, any_start=True, start=NO_CRC, framed=without_crc)) as target:
            return await run_conversation(check.conversation, target, GIVEN)

    assert local_streams.run(main()).failure is None


def test_silence_is_tried_twice() -> None:
    calls: list[int] = []

    def first_overlooked(frame: Frame, _received: int) -> bytes:
        if frame.segment[0] & 0x80:
            return b""  # the reminder, an RDMA Write of no octets
        if frame.xid >= 1 << 31:
            return null_reply(frame.xid)  # the other connection
        calls.append(frame.xid)
        return null_reply(frame.xid) if len(calls) > 1 else b""

    (result,) = local_streams.run(before(FakeServer(first_overlooked), "1", "v1.null"))
    assert result.verdict is Verdict.CONFORMS
    assert calls[1] == calls[0] + 32


def test_a_mistake_in_frames_is_booked_on_its_own_statement() -> None:
    def reserved_bits(payload: bytes, number: int) -> bytes:
        return fpdu(b"\x45" + raw_replies.send(payload, number)[1:])

    def backwards(payload: bytes, number: int) -> bytes:
        return b"".join(
            fpdu(untagged(3, 0, number, payload[at : at + octets], offset=at, last=last))
            for at, octets, last in ((8, 4, False), (0, 8, False), (12, len(payload) - 12, True))
        )

    for framed, statement, verdict in (
        (reserved_bits, "DDP-4", Verdict.VIOLATES),
        (backwards, "DDP-10", Verdict.IGNORES),
    ):
        (result,) = local_streams.run(before(FakeServer(obliging, framed=framed), "1", "v1.null"))
        assert (result.statements, result.verdict) == ((statement,), verdict)
        assert result.sections != result.check.sections
    for code, statement in ((0x0999, "RD-4"), (None, "RD-15")):
        (result,) = local_streams.run(before(FakeServer(closing, terminates=code), "1", "rdmap.opcode.untagged-write"))
        assert (result.statements, result.verdict) == ((statement,), Verdict.VIOLATES)


# Mistakes in our own server, which no change of a single answer makes: see test_mutated_answers.py


def other_data_stored(patch: pytest.MonkeyPatch) -> None:
    right = MemoryOpenFile.write

    def write(self: MemoryOpenFile, data: Any, *of: Any, **more: Any) -> Any:
        return right(self, bytes(data)[:-1] + b"\x77", *of, **more)

    patch.setattr(MemoryOpenFile, "write", write)


def always_invalidating(patch: pytest.MonkeyPatch) -> None:
    right = Version1.agree

    def agree(self: Version1, own: Any, peer: Any) -> Any:
        return right(self, own, peer)._replace(remote_invalidation=True)

    patch.setattr(Version1, "agree", agree)


def without_continuation(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(responder, "CONTINUED_OCTETS_MAX", 0)


def directions_of_any_range(patch: pytest.MonkeyPatch) -> None:
    def directed(sets: Any, _arguments: Any, payload: Any, _begun: Any) -> list[int | None]:
        left = iter(range(len(payload.items)))
        return [next(left, None) for each in sets for _ in each.results]

    patch.setattr(answers, "directed", directed)


def padding_of_ones(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(layout, "_ZEROS", b"\1" * 4096)


def markers_that_point_elsewhere(patch: pytest.MonkeyPatch) -> None:
    right = framing._append_marker

    def append_marker(gather: list[Any], pointer: int, digest: int) -> int:
        return right(gather, pointer + 4, digest)

    patch.setattr(framing, "_append_marker", append_marker)


def reads_of_any_number(patch: pytest.MonkeyPatch) -> None:
    right = Sender.start

    def start(self: Sender, mulpdu: int, _reads: int, *, crc: bool, markers: bool) -> None:
        right(self, mulpdu, 16, crc=crc, markers=markers)

    patch.setattr(Sender, "start", start)


class Mutation(NamedTuple):
    """A mistake in our server, and checks that must catch it."""

    put_in: Callable[[pytest.MonkeyPatch], None]
    patterns: tuple[str, ...]


MUTATIONS = {
    "stores other data": Mutation(
        other_data_stored, ("v1.write.[1-5]", "v1.write.[135]-padded*", "v2.write.5", "v2.rtr.write.*t")
    ),
    "invalidates uninvited": Mutation(always_invalidating, ("v1.invalidation.n*", "v1.invalidation.other-version")),
    "reads beyond the agreed depth": Mutation(reads_of_any_number, ("rdmap.read.one-at-a-time",)),
    "makes markers that point elsewhere": Mutation(markers_that_point_elsewhere, ("mpa.startup.markers",)),
    "takes the directions of all ranges": Mutation(directions_of_any_range, ("v2.rtr.read.range-*",)),
    "pads with ones": Mutation(padding_of_ones, ("v2.rtr.read.in-segment",)),
    **{name: Mutation(*row) for name, row in WRONG_REPLIES.items()},
}


@each_case("name", MUTATIONS)
def test_a_mistake_in_our_server_is_caught(judge: Judge, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    mutation = MUTATIONS[name]
    checks = chosen(*mutation.patterns)
    assert caught(judge(checks, write=".")) == set()
    mutation.put_in(monkeypatch)
    # The first answers of a version 1 that is broken may be wrong, too.
    met = ["1"] if all(check.id.startswith("v1.") for check in checks) else []
    assert caught(judge(checks, write=".", met=met)) == {check.id for check in checks}


class _Unpadded(Payload):
    """Its item stands in the stream without padding."""

    def gather(self, leave_out: Iterable[BulkItem] = ()) -> list[Any]:
        (item,) = self.items
        at = item.at
        return super().gather(leave_out) if [*leave_out] else [self.reduced[:at], item.data, self.reduced[at:]]


def test_padding_as_of_ganesha_is_blamed_alone(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to 9.14 it has `size % 4` octets, which are not zero and also stand in the Write chunk of a READ."""
    right = answering.ServerCall.success

    def success(self: answering.ServerCall, result: Any) -> Payload:
        reply = right(self, result)
        if not reply.items:
            return reply
        (item,) = reply.items
        data = bytes(item.data)
        return _Unpadded(reply.reduced, [BulkItem(item.at, item.position, data + b"\xee" * (len(data) % 4))])

    monkeypatch.setattr(answering.ServerCall, "success", success)
    # Where the chunk has no room for its padding, ganesha leaves it out.
    padded = ["5-into-8", "7-into-64", "5001-into-8192", "10-into-segments-4-4-4-4", "10-into-segments-3-0-16"]
    ids = [f"v1.read.{name}" for name in ("inline", *padded)]
    results = judge(chosen(*ids, "v1.write.*", "v1.invalidation.*"), write=".", met=["1"])
    blamed = {r.check.id: (r.verdict, *r.statements) for r in results if r.verdict is not Verdict.CONFORMS}
    assert blamed.pop("v1.read.inline") == (Verdict.VIOLATES, "V1-86")
    assert blamed == dict.fromkeys(ids[1:], (Verdict.VIOLATES, "V1-28"))


def test_a_server_that_continues_no_reply_conforms_with_the_resources_that_it_tells(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_continuation(monkeypatch)
    results = judge(chosen("v2.read.short-*"))
    assert [(result.verdict, result.cause) for result in results] == [(Verdict.CONFORMS, "")] * 2


def test_a_mistake_is_caught_over_a_device(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation = MUTATIONS["invalidates uninvited"]
    mutation.put_in(monkeypatch)
    checks = chosen(*mutation.patterns)
    assert caught(judge(checks, met=["1"], provider=VerbsProvider(DeviceInMemory()))) == {check.id for check in checks}
