"""Clients before the scripted server: ours conforms, and each check catches a broken one."""

from __future__ import annotations

import asyncio
import contextlib
import fnmatch
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from rpcrdma.aio.client.connect import ConnectOptions, connect
from rpcrdma.aio.drivers.provider import Provider
from rpcrdma.aio.drivers.verbs_provider import VerbsProvider
from rpcrdma.aio.server.serve import serve
from rpcrdma.aio.urls import Url, parse_url
from rpcrdma.check import CLIENT_CATALOGUE, Check, ClientTrial, Result, TrialOptions, Verdict, listening
from rpcrdma.check.catalogue.version_2 import DRAFTS, Draft
from rpcrdma.check.entry import check
from rpcrdma.check.verdicts import FRAMES_NOT_SEEN
from rpcrdma.errors import LocalProtocolError, RpcRdmaError
from rpcrdma.nfs import v3
from rpcrdma.rpc.program import Procedure
from rpcrdma.rpc.service import CallContext, Service
from rpcrdma.scripted import Failure, RawTarget, make_message, run_conversation
from rpcrdma.scripted.values import Names
from rpcrdma.xdr.codec import Encoder
from support import raw_calls
from support.device_in_memory import DeviceInMemory
from support.raw_iwarp import fpdu, startup_frame, terminate

NONE = v3.post_op_attr(False, None)


def encode_long(enc: Encoder, data: bytes) -> None:
    enc.opaque(data, 6000, "data")


LONG = Procedure(
    100003, 3, 99, "LONG", "long", encode_long, v3.NULL.decode_args, v3.NULL.encode_result, v3.NULL.decode_result
)
"""A procedure that no program has, whose arguments fit no message."""
WITH_CHUNKS: tuple[tuple[Procedure[Any, Any], Any], ...] = (
    (v3.READ, v3.READ3args(v3.nfs_fh3(b"file"), 0, 9001)),
    (
        v3.WRITE,
        v3.WRITE3args(v3.nfs_fh3(b"file"), 0, 40_001, v3.stable_how.FILE_SYNC, bytes(range(251)) * 159 + bytes(92)),
    ),
    (v3.READDIRPLUS, v3.READDIRPLUS3args(v3.nfs_fh3(b"directory"), 0, bytes(8), 4096, 32768)),
    (LONG, bytes(6000)),
)


class Files(v3.NFS_V3_Service):
    """The program behind the scripted server."""

    def read(self, args: v3.READ3args, context: CallContext) -> v3.READ3res:
        data = context.buffer(args.count)
        data[:] = bytes(args.count)
        return v3.READ3res(v3.nfsstat3.NFS3_OK, v3.READ3resok(NONE, args.count, False, data))

    def write(self, args: v3.WRITE3args, context: CallContext) -> v3.WRITE3res:
        assert bytes(args.data) == WITH_CHUNKS[1][1].data
        nothing = v3.wcc_data(v3.pre_op_attr(False, None), NONE)
        return v3.WRITE3res(
            v3.nfsstat3.NFS3_OK, v3.WRITE3resok(nothing, len(args.data), v3.stable_how.FILE_SYNC, b"verifier")
        )


TRIALS = 6
"""Scripted servers of one run."""


def judged(
    versions: str,
    checks: Sequence[Check],
    services: Sequence[Service] = (),
    *,
    provider: Provider | None = None,
    extension: str = "auto",
) -> list[Result]:
    """The verdicts on our client, which answers reverse calls by its `services`."""

    async def calls(url: str) -> None:
        options = ConnectOptions(
            rpcrdma_version=versions,
            reconnect=False,
            call_timeout_s=5,
            services=services,
            provider=provider or "iwarp",
            extension=extension,
        )
        async with connect(url, v3.PROGRAM, options=options) as connection:
            for _ in range(2):
                together = (connection.call(v3.NULL, None) for _ in range(2))
                await asyncio.gather(*together, return_exceptions=True)
                for procedure, args in WITH_CHUNKS:
                    with contextlib.suppress(RpcRdmaError):
                        await connection.call(procedure, args)

    async def tried(part: Sequence[Check], behind: Url) -> list[Result]:
        trial_options = TrialOptions(
            timeout_s=5.0, pause_s=0.03, behind=(behind.host, behind.port), risky=True, provider=provider
        )
        trial = ClientTrial(part, trial_options)
        async with listening(trial, "127.0.0.1", 0) as (host, port):
            while not trial.done.is_set():
                with contextlib.suppress(RpcRdmaError):
                    await calls(f"rdma://{host}:{port}")
        return trial.results()

    async def main() -> list[Result]:
        async with serve([Files()], ["tcp://127.0.0.1:0"]) as server:
            behind = parse_url(server.listening[0])
            # Trials at the same time share their pauses.
            parts = [checks[index::TRIALS] for index in range(TRIALS)]
            found = await asyncio.gather(*(tried(part, behind) for part in parts if part))
        return list(itertools.chain(*found))

    return asyncio.run(main())


def needs_services(check: Check) -> bool:
    """Whether a check judges clients that take reverse calls."""
    if check.id == "client.reverse.as-many-as-granted":
        return True
    return fnmatch.fnmatchcase(check.id, "client.v2*.reverse.*") and not check.id.endswith(".without-support")


def judged_as_needed(versions: str, checks: Sequence[Check], provider: Provider | None = None) -> list[Result]:
    """The verdicts on our client, with services or the round-trip extension for the checks that need them."""
    extended = [each for each in checks if ".rtr." in each.id]
    of_services = [each for each in checks if needs_services(each)]
    others = [each for each in checks if each not in extended and each not in of_services]
    return [
        *judged(versions, others, provider=provider),
        *judged(versions, of_services, [Files()], provider=provider),
        *judged(versions, extended, provider=provider, extension="rtr"),
    ]


@pytest.mark.parametrize(("versions", "spoken"), [("auto", {"1", "2"}), ("2-07", {"2-07"})])
def test_our_client_conforms(versions: str, spoken: set[str]) -> None:
    checks = [each for each in CLIENT_CATALOGUE if each.conversation.get("version", "1") in spoken]
    again = [each for each in checks if each.id.startswith("client.reverse.")]
    results = [*judged_as_needed(versions, checks), *judged(versions, again, [Files()])]
    wrong = [result for result in results if result.verdict is not Verdict.CONFORMS]
    assert [(result.check.id, result.verdict.value, result.cause) for result in wrong] == []


def test_over_a_device_checks_above_frames_conform_and_others_are_not_seen() -> None:
    checks = [each for each in CLIENT_CATALOGUE if each.conversation.get("version", "1") != "2-07"]
    results = judged_as_needed("auto", checks, VerbsProvider(DeviceInMemory()))
    found = {result.check.id: (result.verdict, result.cause) for result in results}
    right, not_seen = (Verdict.CONFORMS, ""), (Verdict.NOT_SEEN, FRAMES_NOT_SEEN)
    assert found == {check.id: not_seen if check.of_frames else right for check in checks}


def test_a_conversation_with_a_mistake_ends_the_trial_in_words() -> None:
    mistaken = check("client.mistaken", "A mistake is told", "V1-60", {"hear": []})

    async def main() -> ClientTrial:
        trial = ClientTrial([mistaken], TrialOptions(timeout_s=5.0))
        async with listening(trial, "127.0.0.1", 0) as (host, port):
            client = asyncio.ensure_future(BrokenClient(NULL).connect(host, port))
            await trial.done.wait()
            await client
        return trial

    with pytest.raises(LocalProtocolError, match=r"client\.mistaken: steps\[0\]\.hear: expected a list"):
        asyncio.run(main()).results()


Message = dict[str, Any]
NULL: Message = {"rpc": {}}
NO_CREDITS: Message = {"header": {"credit": 0}, "rpc": {}}
SEGMENT = {"handle": 7, "length": 64, "offset": 0}
READ: Message = {"header": {"writes": [[SEGMENT]]}, "rpc": {"procedure": 6}}
ODD_READ: Message = {"header": READ["header"], "rpc": {"procedure": 6, "args": {"words": [61]}}}
ODD_WRITE: Message = {
    "header": {"reads": [{"position": 44, **SEGMENT}]},
    "rpc": {"procedure": 7, "args": {"words": [61]}},
}
WITH_CHUNK: Message = {"header": READ["header"], "rpc": {"procedure": 1}}
GRANTING: Message = {"header": {"xid": 1001, "credit": 3}, "rpc": {"accepted": 0}}
LISTING: Message = {"header": {"reply": [SEGMENT]}, "rpc": {"procedure": 17}}
UNALIGNED: Message = {"header": {"reads": [{"position": 42, **SEGMENT}]}, "rpc": {"procedure": 7}}
LONG_ELSEWHERE: Message = {"header": {"type": 1, "reads": [{"position": 2, **SEGMENT}]}}


class BrokenClient:
    """Says the messages `first`, and at each arrival the next of `then`, whose last one is repeated.

    All have one XID if `same_xid`. With `last` it sends these octets instead at the first arrival, and ends.
    """

    def __init__(
        self,
        *first: dict[str, Any],
        then: Sequence[dict[str, Any]] = (NULL,),
        version: str = "1",
        same_xid: bool = False,
        last: bytes | None = None,
    ) -> None:
        self._first = first
        self._then = then
        self._version = version
        self._same_xid = same_xid
        self._last = last
        self._sent = 0

    async def connect(self, host: str, port: int) -> None:
        """One connection, until the server ends it."""
        self._sent = 0
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(startup_frame("Req", 0x50, 2, bytes.fromhex("00100010") + raw_calls.BOTH_PRIVATE))
        with contextlib.suppress(OSError):
            if await reader.read(4096):
                for message in self._first:
                    writer.write(self._made(message))
                for message in itertools.chain(self._then, itertools.repeat(self._then[-1])):
                    if not await reader.read(4096):
                        break
                    if self._last is not None:
                        writer.write(self._last)
                        writer.close()
                        await writer.wait_closed()
                        return
                    writer.write(self._made(message))
        writer.transport.abort()

    def _made(self, message: Message) -> bytes:
        self._sent += 1
        names = Names({"xid": 7 if self._same_xid else self._sent})
        return fpdu(raw_calls.send(make_message(self._version, message, names), self._sent))


CAUGHT: tuple[tuple[str, BrokenClient, str], ...] = (
    (
        "takes everything for a reply",
        BrokenClient(NULL),
        (
            "client.reply.[omdu]* client.reply.cut* client.reply.li* client.reply.long-* client.error.u* "
            "client.[wri]*.unknown-* client.crc client.startup.[!d]* client.reverse.*"
        ),
    ),
    ("asks for no credits", BrokenClient(NO_CREDITS), "client.calls"),
    ("sends three calls at once", BrokenClient(NULL, NULL, NULL), "client.one-call-* client.one-credit"),
    ("has a Write chunk for attributes", BrokenClient(WITH_CHUNK), "client.eligible"),
    ("has room for padding", BrokenClient(ODD_READ), "client.read.no-room-*"),
    ("sends padding", BrokenClient(ODD_WRITE), "client.write.no-padding"),
    ("takes fewer reverse calls than it grants", BrokenClient(NULL, then=(GRANTING, NULL)), "client.reverse.as-many-*"),
    ("answers no RDMA Read", BrokenClient(NULL, then=(ODD_WRITE, NULL)), "client.startup.depth"),
    ("sends READs at once", BrokenClient(READ, READ), "client.one-credit.read"),
    ("sends the same call again", BrokenClient(NULL, same_xid=True), "client.error.chunk"),
    ("sends the same READ again", BrokenClient(READ, same_xid=True), "client.read.[!n]* client.invalidate.own-handle"),
    ("sends the same listing again", BrokenClient(LISTING, same_xid=True), "client.reply-chunk"),
    ("has an item at no Position", BrokenClient(UNALIGNED), "client.write.read-chunk"),
    ("has a Long Call at no Position", BrokenClient(LONG_ELSEWHERE), "client.long-call"),
    (
        "forgets its credits after a broken reply",
        BrokenClient(READ, then=(NO_CREDITS,)),
        "client.reply.longer-* client.reply.chunk-of-* client.reply.without-*",
    ),
)


def caught_in(draft: Draft) -> Iterator[tuple[str, BrokenClient, str]]:
    """The same of a draft of version 2."""
    family, version, place = f"client.{draft.family}", draft.version, {"position": 40, **SEGMENT}
    told: dict[str, Any] = {"header": {"type": draft.properties}}
    piece = {"header": {"flags": 2} if version == "2" else {"type": 9, "remaining": 8}, "body": {"words": [1, 2, 3]}}
    unknown = {"header": {"type": 99}, "rpc": {}}
    longer = {"header": {"reads": [{**place, "length": 5000}]}, "rpc": {"procedure": 7}}
    write = {"header": {"reads": [{**place, "position": 42}]}, "rpc": {"procedure": 7}}
    right_write = {"header": {"reads": [{**place, "position": 44}]}, "rpc": {"procedure": 7}}
    named = {"header": {"writes": [[SEGMENT]], "invalidate": 7}, "rpc": {"procedure": 6}}

    def client(
        *first: dict[str, Any], then: Sequence[dict[str, Any]] = (NULL,), same_xid: bool = False
    ) -> BrokenClient:
        return BrokenClient(told, *first, then=then, version=version, same_xid=same_xid)

    yield "calls before the properties", client(NULL), f"{family}.first"
    yield (
        "makes unknown messages",
        client(then=(unknown,)),
        f"{family}.properties.[!s]* {family}.calls {family}.credits.largest",
    )
    yield "has a long segment", client(then=(longer,)), f"{family}.properties.segment-size"
    replies = f"{family}.reply.[ocu]* {family}.reply.lists-* {family}.error.undecodable {family}.invalidate.unknown-*"
    yield "takes everything for a reply", client(), replies
    errors = ["bad-*", "inval-*", "write-resource", "reply-*", "system"]
    once_more = " ".join(f"{family}.error.{each}" for each in errors)
    yield "sends the same call again", client(same_xid=True), f"{once_more} {family}.reply.in-two-messages"
    yield "has another call within one", client(then=(piece,)), f"{family}.call.in-pieces"
    yield (
        "sends the same READ again",
        client(then=(READ,), same_xid=True),
        f"{family}.read.* {family}.error.write-chunks",
    )
    at_8 = {"position": 8, **SEGMENT}
    long: Message = {"header": {"type": 1, "reads": [at_8]} if version == "2" else {"type": 8, "call": [at_8]}}
    yield "has a Long Call at no Position", client(then=(right_write, long)), f"{family}.error.read-chunks"
    yield "goes on with version 1", client(then=(NULL, {**NULL, "header": {"version": 1}})), f"{family}.calls"
    yield "sends the same WRITE again", client(then=(right_write,), same_xid=True), f"{family}.error.read-chunks"
    yield "sends the same named READ again", client(then=(named,), same_xid=True), f"{family}.invalidate.named"
    few = {"handle": 7, "length": 4096, "offset": 0}
    many: Message = {"header": {"writes": [[few] * 5]}, "rpc": {"procedure": 6}}
    seen = f"{family}.properties.segment-count {family}.error.segments"
    yield "has as many segments as it likes", client(then=(many,), same_xid=True), seen
    yield "knows no credits", client(NULL, NULL, NULL), f"{family}.credits.[!il]*"
    yield "begins calls within one", client(piece, piece), f"{family}.credits.in-pieces"
    yield "has an item at no Position", client(then=(write,)), f"{family}.write.*"
    yield "is silent about its chunk", client(then=(READ, unknown)), f"{family}.reply.longer-*"
    yield "goes on with version 2", client(), f"{family}.version-error"
    yield from with_the_extension(draft, f"{family}.rtr")
    reply: Message = {"header": {"flags": 1} if version == "2" else {"type": 13}, "rpc": {"accepted": 0}}

    def replying(support: int) -> BrokenClient:
        tells = {"header": {"type": draft.properties, "properties": [[5, {"words": [support]}]]}}
        return BrokenClient(tells, NULL, then=(reply,), version=version)

    own_xid = {"given": "xid", "plus": 999}
    long_reply = {"type": 1, "flags": 1} if version == "2" else {"type": 11}
    at_length: Message = {"header": {**long_reply, "xid": own_xid, "reply": [SEGMENT]}}
    tells: Message = {"header": {"type": draft.properties, "properties": [[5, {"words": [1]}]]}}
    named_replies = BrokenClient(tells, NULL, then=(at_length,), version=version)
    yield "replies by a chunk that it has not been offered", named_replies, f"{family}.reverse.call"
    yield "replies with another XID", replying(1), " ".join(f"{family}.reverse.{each}" for each in ("[!w]*", "write-*"))
    yield "replies without support", replying(0), f"{family}.reverse.without-support"


def with_the_extension(draft: Draft, family: str) -> Iterator[tuple[str, BrokenClient, str]]:
    """Clients that tell the round-trip extension, and eight segments of a page in each receive buffer."""
    octets = 1024 + 8 * 4096
    structure = [0x102, {"words": [octets, 2, 1, 1024, 0, 0, 8, 4096, 0, 1]}]
    told = [[2, {"words": [octets]}], [0x101, {"words": [7]}], structure]
    tells: Message = {"header": {"type": draft.properties, "properties": told}}
    direction = {"begin": 0, "end": 84, "results": [{"least": 64, "type": 2}]}
    read: Message = {"header": {"type": 0x101, "count": 1, "extra_receives": 3}, "rpc": {"procedure": 6}}
    read["header"]["directions"] = [direction]
    item = {"position": 44, "length": 4, "type": 2, "offset": 0, "numbers": [99]}
    write: Message = {"header": {"type": 0x101, "count": 1, "items": [item]}, "rpc": {"procedure": 7}}
    half: Message = {"header": {"type": 0x101, "count": 2}, "rpc": {"procedure": 7}}
    bad = {"xid": 2, "direction": 1, "number": 0}
    report: Message = {"header": {"type": 0x104, "xid": 2, "bad": bad, "fault": 8, "numbers": [1, 0, 0]}}

    def client(*first: Message, then: Message) -> BrokenClient:
        return BrokenClient(tells, *first, then=(then,), version=draft.version, same_xid=not first)

    taken = [f"request.{each}" for each in ("refused", "reported", "not-taken")]
    taken += ["request", "response.[!i]*", "response.in-segment"]
    named = " ".join(f"{family}.{each}" for each in taken)
    yield "sends the same directed READ again", client(then=read), named
    yield "reports places against the XDR", client(read, then=report), f"{family}.response.item-*"
    yield "has its data in no segment", client(then=write), f"{family}.request.items {family}.request.no-segments"
    pieces = " ".join(f"{family}.request.{each}" for each in ("in-pieces", "limit", "no-continuation"))
    dirty = {**write, "bulk": {"at": 1024, "data": "01020304"}, "put": {"1000": "ff"}}
    dirty["header"] = {**write["header"], "items": [{**item, "numbers": [0]}]}
    yield "has other octets than zeros before its data", client(then=dirty), f"{family}.request.items"
    tells_otherwise: Message = {"header": {"type": draft.properties, "properties": [[2, {"words": [4096]}], *told[1:]]}}
    disagreeing = BrokenClient(tells_otherwise, version=draft.version)
    yield "tells another size than its structure has", disagreeing, f"{family}.properties"
    yield "leaves out the second transmission", client(half, half, then=half), pieces


ALL_CAUGHT = [*CAUGHT, *((f"{each[0]}, {draft.version}", *each[1:]) for draft in DRAFTS for each in caught_in(draft))]
"""Clients, and the checks that catch them."""


def ids_of(patterns: str) -> set[str]:
    return {each.id for each in CLIENT_CATALOGUE if any(fnmatch.fnmatchcase(each.id, p) for p in patterns.split())}


def test_each_check_has_a_broken_client() -> None:
    assert {each.id for each in CLIENT_CATALOGUE} == set[str]().union(*(ids_of(each[2]) for each in ALL_CAUGHT))


def before(client: BrokenClient, patterns: str) -> list[Result]:
    async def main() -> list[Result]:
        async with serve([Files()], ["tcp://127.0.0.1:0"]) as server:
            behind = parse_url(server.listening[0])
            checks = [each for each in CLIENT_CATALOGUE if each.id in ids_of(patterns)]
            options = TrialOptions(timeout_s=2.0, pause_s=0.05, behind=(behind.host, behind.port), risky=True)
            trial = ClientTrial(checks, options)
            async with listening(trial, "127.0.0.1", 0) as (host, port):
                while not trial.done.is_set():
                    await client.connect(host, port)
        return trial.results()

    return asyncio.run(main())


@pytest.mark.parametrize(("client", "patterns"), [row[1:] for row in ALL_CAUGHT], ids=[row[0] for row in ALL_CAUGHT])
def test_a_broken_client_is_caught(client: BrokenClient, patterns: str) -> None:
    missed = [each for each in before(client, patterns) if each.verdict not in {Verdict.VIOLATES, Verdict.IGNORES}]
    assert [(each.check.id, each.verdict.value, each.cause) for each in missed] == []


@pytest.mark.parametrize(
    ("last", "check", "reading"),
    [
        (b"", "client.reply.msgp", "ended-after-broken-reply"),
        (b"", "client.crc", "ended-without-terminate"),
        (terminate(0x1000), "client.read.unknown-handle", "terminate-nibbles-swapped"),
        (terminate(0x2001), "client.read.unknown-handle", "other-terminate-code"),
    ],
)
def test_another_reading_is_no_violation(last: bytes, check: str, reading: str) -> None:
    (result,) = before(BrokenClient(NULL, last=last), check)
    assert (result.verdict, list(result.readings)) == (Verdict.DIFFERS, [reading])


def test_a_client_without_the_condition_of_a_check_is_not_judged() -> None:
    """The check is tried on further connections before."""
    tells: Message = {"header": {"type": 5, "properties": [[5, {"words": [1]}]]}}
    (result,) = before(BrokenClient(tells, NULL, version="2"), "client.v2.reverse.without-support")
    assert (result.verdict, result.cause) == (Verdict.NOT_SEEN, "the client takes reverse calls on 3 connections")


def held(
    check: str, *steps: Message, provider: Provider | None = None, **conversation: Any
) -> tuple[Failure | None, Verdict]:
    """The course of a scripted client's conversation, and the verdict of the check that it meets."""

    async def main() -> tuple[Failure | None, Verdict]:
        async with serve([Files()], ["tcp://127.0.0.1:0"]) as server:
            behind = parse_url(server.listening[0])
            checks = [each for each in CLIENT_CATALOGUE if each.id == check]
            options = TrialOptions(timeout_s=2.0, pause_s=0.05, behind=(behind.host, behind.port), provider=provider)
            trial = ClientTrial(checks, options)
            async with listening(trial, "127.0.0.1", 0) as (host, port):
                target = RawTarget(host=host, port=port, provider=provider)
                outcome = await run_conversation({"steps": steps, **conversation}, target)
                await trial.done.wait()
        return outcome.failure, trial.results()[0].verdict

    return asyncio.run(main())


REPLIED: Message = {"hear": {"message": {"rpc": {"accepted": 0}}}}
OTHER: Message = {"say": {"header": {"xid": 1}, "rpc": {}}}


def test_a_client_that_demands_markers_gets_them() -> None:
    steps = ({"say": NULL}, REPLIED, OTHER, REPLIED)
    assert held("client.calls", *steps, startup={"flags": 0xD0}) == (None, Verdict.CONFORMS)


def test_a_client_may_take_as_many_reads_as_a_reply_asks_for() -> None:
    write: Message = {"header": {"xid": 1, "reads": [{"position": 44, "memory": "source"}]}, "rpc": {"procedure": 7}}
    memory = {"source": {"octets": 64}}
    steps = ({"say": NULL}, REPLIED, {"say": write}, {"hear": {"end": {}}})
    assert held("client.startup.depth", *steps, memory=memory) == (None, Verdict.CONFORMS)


def test_a_broken_client_is_caught_over_a_device() -> None:
    _, verdict = held("client.calls", {"say": NO_CREDITS}, provider=VerbsProvider(DeviceInMemory()))
    assert verdict is Verdict.VIOLATES


def test_over_a_device_memory_of_the_client_is_written_and_invalidated() -> None:
    args = [{"opaque": {"text": "file"}}, {"longs": [0]}, {"words": [64]}]
    steps: tuple[Message, ...] = (
        {"say": {"header": {"writes": [[{"memory": "sink"}]]}, "rpc": {"procedure": 6, "args": args}}},
        {"hear": {"message": {"invalidates": {"given": "sink.handle"}}}},
        {"memory": {"sink": {"data": {"zeros": 64}}}},
        OTHER,
    )
    memory = {"sink": {"octets": 64, "may": "write"}}
    provider = VerbsProvider(DeviceInMemory())
    assert held("client.invalidate.own-handle", *steps, memory=memory, provider=provider) == (None, Verdict.CONFORMS)


def test_a_trial_without_a_check_that_can_be_met_is_over() -> None:
    checks = [check for check in CLIENT_CATALOGUE if "program" in check.needs]
    assert ClientTrial(checks, TrialOptions(timeout_s=1.0)).done.is_set()


def test_connections_without_a_check_do_not_end_the_check_of_another_one() -> None:
    async def main() -> Verdict:
        checks = [each for each in CLIENT_CATALOGUE if each.id == "client.startup.rejected"]
        trial = ClientTrial(checks, TrialOptions(timeout_s=5.0))
        async with listening(trial, "127.0.0.1", 0) as (host, port):
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(startup_frame("Req", 0x50, 2, bytes.fromhex("00100010") + raw_calls.BOTH_PRIVATE))
            await reader.readexactly(20)
            for _ in range(4):
                await run_conversation(
                    {"steps": [{"say": NULL}, {"hear": {"end": {}}}]}, RawTarget(host=host, port=port)
                )
            assert not trial.done.is_set()
            writer.transport.abort()
            await trial.done.wait()
        return trial.results()[0].verdict

    assert asyncio.run(main()) is Verdict.CONFORMS


def test_a_client_that_stays_away_is_not_judged() -> None:
    trial = ClientTrial(CLIENT_CATALOGUE, TrialOptions(timeout_s=1.0))
    assert {result.verdict for result in trial.results()} == {Verdict.NOT_SEEN}
