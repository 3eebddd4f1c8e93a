"""Clients of `check --listen`: broken ones by the checks that catch them, and scripted ones, before a program."""

from __future__ import annotations

import asyncio
import contextlib
import fnmatch
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import local_streams

from rpcrdma.aio.drivers.provider import Provider
from rpcrdma.aio.server.serve import serve
from rpcrdma.aio.urls import parse_url
from rpcrdma.nfs import v3
from rpcrdma.rpc.program import Procedure
from rpcrdma.rpc.service import CallContext
from rpcrdma.xdr.codec import Encoder
from rpcrdma_lab.check import CLIENT_CATALOGUE, ClientTrial, Result, TrialOptions, Verdict, listening
from rpcrdma_lab.check.catalogue.version_2 import CONNPROP
from rpcrdma_lab.scripted import Failure, RawTarget, make_message, run_conversation
from rpcrdma_lab.scripted.values import Names
from support import raw_calls
from support.raw_iwarp import fpdu, startup_frame

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
    # Its data take more than one receive buffer.
    (v3.READ, v3.READ3args(v3.nfs_fh3(b"file"), 0, 40_001)),
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


Message = dict[str, Any]
NULL: Message = {"rpc": {}}
NO_CREDITS: Message = {"header": {"credit": 0}, "rpc": {}}
SEGMENT = {"handle": 7, "length": 64, "offset": 0}
FILE = {"opaque": {"text": "file"}}
LISTED = [FILE, {"longs": [0, 0]}, {"words": [4096, 32768]}]


def read_of(count: int, **header: Any) -> Message:
    """A READ that the program answers."""
    return {"header": header, "rpc": {"procedure": 6, "args": [FILE, {"longs": [0]}, {"words": [count]}]}}


READ = read_of(64, writes=[[SEGMENT]])
READ_TO_SINK = read_of(64, writes=[[{"memory": "sink"}]])
WRITE_OF_SOURCE: Message = {
    "header": {"reads": [{"position": 68, "memory": "source"}]},
    "rpc": {"procedure": 7, "args": [FILE, {"longs": [0]}, {"words": [64, 2, 64]}]},
}
ODD_READ = read_of(61, writes=[[SEGMENT]])
SHORT = {**SEGMENT, "length": 10}
ODD_WRITE: Message = {
    "header": {"reads": [{"position": 44, **SEGMENT}]},
    "rpc": {"procedure": 7, "args": {"words": [61]}},
}
WITH_CHUNK: Message = {"header": READ["header"], "rpc": {"procedure": 1}}
GRANTING: Message = {"header": {"xid": 1001, "credit": 3}, "rpc": {"accepted": 0}}
LISTING: Message = {"header": {"reply": [SEGMENT]}, "rpc": {"procedure": 17, "args": LISTED}}
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
        private: str = raw_calls.BOTH_PRIVATE.hex(),
    ) -> None:
        self._first = first
        self._then = then
        self._version = version
        self._same_xid = same_xid
        self._last = last
        self._private = bytes.fromhex("00100010" + private)
        self._sent = 0

    async def connect(self, host: str, port: int) -> None:
        """One connection, until the server ends it."""
        self._sent = 0
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(startup_frame("Req", 0x50, 2, self._private))
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


class Connecting(Protocol):
    """A client."""

    async def connect(self, host: str, port: int) -> None:
        """One connection, until one end closes it."""


class ScriptedClient:
    """Holds a conversation on each connection; `failures` are those of all."""

    def __init__(self, *steps: Message, provider: Provider | None = None, **conversation: Any) -> None:
        self.failures: list[Failure | None] = []
        self.provider = provider
        self._conversation = {"steps": steps, **conversation}

    async def connect(self, host: str, port: int) -> None:
        """One connection, until the conversation is over."""
        # The server's time for a call ends before.
        target = RawTarget(host=host, port=port, timeout_s=90.0, provider=self.provider)
        self.failures.append((await run_conversation(self._conversation, target)).failure)


REPLIED: Message = {"hear": {"message": {"rpc": {"accepted": 0}}}}
OTHER: Message = {"say": {"header": {"xid": 1}, "rpc": {}}}
THIRD: Message = {"say": {"header": {"xid": 2}, "rpc": {}}}
HEARD: Message = {"hear": {"message": {}}}
UNTIL_THE_END: Message = {"hear": {"end": {}}}
SINK = {"sink": {"octets": 64, "may": "write"}}
SOURCE = {"source": {"octets": 64}}


CAUGHT: tuple[tuple[str, Connecting, str], ...] = (
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
    (
        "sends the same call again",
        BrokenClient(NULL, same_xid=True),
        "client.error.chunk client.error.version client.reply.refused client.reply.beyond-*",
    ),
    ("sends the same READ again", BrokenClient(READ, same_xid=True), "client.read.[uw]* client.invalidate.own-handle"),
    ("sends the same listing again", BrokenClient(LISTING, same_xid=True), "client.reply-chunk"),
    ("has an item at no Position", BrokenClient(UNALIGNED), "client.write.read-chunk"),
    ("has a Long Call at no Position", BrokenClient(LONG_ELSEWHERE), "client.long-call"),
    ("has a Long Call in no chunk", BrokenClient({"header": {"type": 1}}), "client.calls"),
    ("ends a Long Call within its header", BrokenClient({**LONG_ELSEWHERE, "cut": 32}), "client.calls"),
    (
        "forgets its credits after a broken reply",
        BrokenClient(READ, then=(NO_CREDITS,)),
        "client.reply.longer-* client.reply.chunk-of-* client.reply.without-*",
    ),
    (
        "forgets its credits after a broken long reply",
        BrokenClient(LISTING, then=(NO_CREDITS,)),
        "client.reply-chunk.*",
    ),
    ("sends four calls at once", BrokenClient(NULL, NULL, NULL, NULL), "client.credits.shrinking"),
    ("has a Write chunk below its count", BrokenClient(read_of(61, writes=[[SHORT]])), "client.read.write-chunk"),
    (
        "has a Read chunk below its count",
        BrokenClient({**ODD_WRITE, "header": {"reads": [{"position": 44, **SHORT}]}}),
        "client.write.read-chunk",
    ),
    ("has a Reply chunk below its reply", BrokenClient(read_of(9001, reply=[SEGMENT])), "client.reply-chunk"),
    (
        "lets the memory of a READ be written to for ever",
        ScriptedClient({"say": READ_TO_SINK}, REPLIED, OTHER, HEARD, THIRD, UNTIL_THE_END, memory=SINK),
        "client.write.finished-call",
    ),
    (
        "lets the memory of a WRITE be read for ever",
        ScriptedClient({"say": WRITE_OF_SOURCE}, HEARD, OTHER, UNTIL_THE_END, memory=SOURCE),
        "client.read.finished-call",
    ),
)


def caught_in_version_2() -> Iterator[tuple[str, Connecting, str]]:
    """The same of version 2."""
    family, version, place = "client.v2", "2", {"position": 40, **SEGMENT}
    told: dict[str, Any] = {"header": {"type": CONNPROP}}
    piece = {"header": {"flags": 2}, "body": {"words": [1, 2, 3]}}
    unknown = {"header": {"type": 99}, "rpc": {}}
    longer = {"header": {"reads": [{**place, "length": 5000}]}, "rpc": {"procedure": 7}}
    write = {"header": {"reads": [{**place, "position": 42}]}, "rpc": {"procedure": 7}}
    right_write = {"header": {"reads": [{**place, "position": 44}]}, "rpc": {"procedure": 7}}
    named = {"header": {"writes": [[SEGMENT]], "invalidate": 7}, "rpc": {"procedure": 6}}
    begin: list[Message] = [{"say": told}, {"hear": {"message": {"header": {"type": CONNPROP}}}}]

    def client(
        *first: dict[str, Any], then: Sequence[dict[str, Any]] = (NULL,), same_xid: bool = False
    ) -> BrokenClient:
        return BrokenClient(told, *first, then=then, version=version, same_xid=same_xid)

    yield "calls before the properties", client(NULL), f"{family}.first"
    cut = {"header": {**told["header"], "properties": [[1, {"words": [64]}]]}, "cut": 30}
    yield "tells properties that do not decode", BrokenClient(cut, version=version), f"{family}.first"
    yield (
        "makes unknown messages",
        client(then=(unknown,)),
        f"{family}.properties.[!s]* {family}.calls {family}.credits.largest",
    )
    yield "has a long segment", client(then=(longer,)), f"{family}.properties.segment-size"
    replies = " ".join(f"{family}.reply.{each}" for each in ("[ocu]*", "li*", "long-*"))
    replies += f" {family}.error.undecodable {family}.invalidate.unknown-*"
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
    long: Message = {"header": {"type": 1, "reads": [at_8]}}
    yield "has a Long Call at no Position", client(then=(right_write, long)), f"{family}.error.read-chunks"
    yield "ends a Long Call within its header", client(then=({**long, "cut": 40},)), f"{family}.calls"
    yield "goes on with version 1", client(then=(NULL, {**NULL, "header": {"version": 1}})), f"{family}.calls"
    yield "sends the same WRITE again", client(then=(right_write,), same_xid=True), f"{family}.error.read-chunks"
    yield "sends the same named READ again", client(then=(named,), same_xid=True), f"{family}.invalidate.named"
    few = {"handle": 7, "length": 4096, "offset": 0}
    many: Message = {"header": {"writes": [[few] * 5]}, "rpc": {"procedure": 6}}
    seen = f"{family}.properties.segment-count {family}.properties.one-* {family}.error.segments"
    yield "has as many segments as it likes", client(then=(many,), same_xid=True), seen
    yield "knows no credits", client(NULL, NULL, NULL), f"{family}.credits.[!il]*"
    yield "begins calls within one", client(piece, piece), f"{family}.credits.in-pieces"
    yield "has an item at no Position", client(then=(write,)), f"{family}.write.read-*"
    below = read_of(61, writes=[[SHORT]])
    yield "has a Write chunk below its count", client(then=(below,)), f"{family}.read.write-*"
    below = {**ODD_WRITE, "header": {"reads": [{"position": 44, **SHORT}]}}
    yield "has a Read chunk below its count", client(then=(below,)), f"{family}.write.read-*"
    says_little = {"header": {**told["header"], "properties": [[1, {"words": [64]}]]}}
    yield "sends more than it tells", BrokenClient(says_little, NULL, version=version), f"{family}.calls"
    for name, steps in (
        ("lets the memory of a READ be written to for ever", [OTHER, HEARD, THIRD]),
        ("takes a handle again", [{"say": {**READ_TO_SINK, "header": {**READ_TO_SINK["header"], "xid": 1}}}]),
    ):
        client_of_memory = ScriptedClient(
            *begin, {"say": READ_TO_SINK}, HEARD, *steps, UNTIL_THE_END, memory=SINK, version=version
        )
        yield name, client_of_memory, f"{family}.write.finished-call"
    yield "is silent about its chunk", client(then=(READ, unknown)), f"{family}.reply.longer-*"
    yield "is silent about its Reply chunk", client(then=(LISTING, unknown)), f"{family}.reply-chunk.*"
    yield "goes on with version 2", client(), f"{family}.version-error"
    yield from with_the_extension(f"{family}.rtr")
    reply: Message = {"header": {"flags": 1}, "rpc": {"accepted": 0}}

    def replying(support: int) -> BrokenClient:
        tells = {"header": {"type": CONNPROP, "properties": [[5, {"words": [support]}]]}}
        return BrokenClient(tells, NULL, then=(reply,), version=version)

    own_xid = {"given": "xid", "plus": 999}
    at_length: Message = {"header": {"type": 1, "flags": 1, "xid": own_xid, "reply": [SEGMENT]}}
    tells: Message = {"header": {"type": CONNPROP, "properties": [[5, {"words": [1]}]]}}
    named_replies = BrokenClient(tells, NULL, then=(at_length,), version=version)
    yield "replies by a chunk that it has not been offered", named_replies, f"{family}.reverse.call"
    yield "replies with another XID", replying(1), " ".join(f"{family}.reverse.{each}" for each in ("[!w]*", "write-*"))
    yield "replies without support", replying(0), f"{family}.reverse.without-support"
    right: Message = {"say": {"header": {"flags": 1, "xid": {"heard": "header.xid"}}, "rpc": {"accepted": 0}}}
    steps = [{"say": tells}, begin[1], {"say": NULL}, HEARD, right, HEARD, {"say": unknown}, UNTIL_THE_END]
    goes_wrong = ScriptedClient(*steps, version=version)
    yield "replies, and makes an unknown message", goes_wrong, f"{family}.reverse.call {family}.reverse.*-chunk"


def with_the_extension(family: str) -> Iterator[tuple[str, Connecting, str]]:
    """Clients that tell the round-trip extension, and eight segments of a page in each receive buffer."""
    octets = 1024 + 8 * 4096
    structure = [0x102, {"words": [octets, 2, 1, 1024, 0, 0, 8, 4096, 0, 1]}]
    told = [[2, {"words": [octets]}], [0x101, {"words": [7]}], structure]
    tells: Message = {"header": {"type": CONNPROP, "properties": told}}
    direction = {"begin": 0, "end": 84, "results": [{"least": 64, "type": 2}]}
    read: Message = {"header": {"type": 0x101, "count": 1, "extra_receives": 3}, "rpc": {"procedure": 6}}
    read["header"]["directions"] = [direction]
    item = {"position": 44, "length": 4, "type": 2, "offset": 0, "numbers": [99]}
    write: Message = {"header": {"type": 0x101, "count": 1, "items": [item]}, "rpc": {"procedure": 7}}
    half: Message = {"header": {"type": 0x101, "count": 2}, "rpc": {"procedure": 7}}
    bad = {"xid": 2, "direction": 1, "number": 0}
    report: Message = {"header": {"type": 0x104, "xid": 2, "bad": bad, "fault": 8, "numbers": [1, 0, 0]}}

    def client(*first: Message, then: Message) -> BrokenClient:
        return BrokenClient(tells, *first, then=(then,), version="2", same_xid=not first)

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
    tells_otherwise: Message = {"header": {"type": CONNPROP, "properties": [[2, {"words": [4096]}], *told[1:]]}}
    disagreeing = BrokenClient(tells_otherwise, version="2")
    yield "tells another size than its structure has", disagreeing, f"{family}.properties"
    yield "leaves out the second transmission", client(half, half, then=half), pieces


ALL_CAUGHT = [*CAUGHT, *caught_in_version_2()]
"""Clients, and the checks that catch them."""


def ids_of(patterns: str) -> set[str]:
    return {each.id for each in CLIENT_CATALOGUE if any(fnmatch.fnmatchcase(each.id, p) for p in patterns.split())}


def before(client: Connecting, patterns: str, provider: Provider | None = None) -> list[Result]:
    """The results of these checks for a client that connects until all have been met."""
    ids = ids_of(patterns)

    async def main() -> list[Result]:
        async with serve([Files()], ["tcp://127.0.0.1:0"]) as server:
            behind = parse_url(server.listening[0])
            checks = [each for each in CLIENT_CATALOGUE if each.id in ids]
            behind_them = (behind.host, behind.port)
            options = TrialOptions(timeout_s=60.0, behind=behind_them, risky=True, provider=provider)
            trial = ClientTrial(checks, options)
            async with listening(trial, "127.0.0.1", 0) as (host, port):
                while not trial.done.is_set():
                    await client.connect(host, port)
        return trial.results()

    return local_streams.run(main())


def held(
    check: str, *steps: Message, provider: Provider | None = None, **conversation: Any
) -> tuple[Failure | None, Verdict]:
    """The course of a scripted client's conversation, and the verdict of the check that it meets."""
    client = ScriptedClient(*steps, provider=provider, **conversation)
    (result,) = before(client, check, provider)
    return client.failures[0], result.verdict
