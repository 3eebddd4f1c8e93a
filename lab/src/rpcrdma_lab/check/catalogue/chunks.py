"""Checks of READ with all forms of chunks and roundings, and of remote invalidation (RFC 8166, 8267, 8797)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rpcrdma_lab.check.answers import accepted, afterwards, either, error, hear, reply_header, say
from rpcrdma_lab.check.catalogue.files import (
    CALLER,
    READ_RESULTS,
    content,
    getattr_call,
    made_old,
    read_answer,
    read_call,
    segment,
    shown,
    write_call,
)
from rpcrdma_lab.check.entry import Check, Step, check

__all__ = ["CHECKS"]


def _read(count: int, **header: Any) -> Step:
    """Returns a step that sends an NFSv3 READ of the first `count` octets of the file {"given": "file"}.

    `header` replaces fields of the transport header.
    """
    return say(header=header, rpc=read_call(count))


def _filled(count: int, *segments: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Returns the pattern of a reply's Write list: one chunk of these segments, to which `count` octets were written.

    Each segment has "handle", "length" and "offset"; the pattern has as lengths the octets written to each.
    """
    returned = []
    for each in segments:
        returned.append({**each, "length": min(each["length"], count)})
        count -= returned[-1]["length"]
    return [returned]


def _placed(count: int, *segments: dict[str, Any]) -> list[Step]:
    """Returns steps that expect the reply to a READ of `count` octets into a Write chunk of these segments.

    Each segment has "handle", "length" and "offset". A reply whose lengths include padding breaks V1-28, a statement
    of the conformance ledger. The connection may end after the reply.
    """
    padded = [
        {**read_answer(count=count, writes=_filled(count + padding, *segments)), "breaks": "V1-28"}
        for padding in (1, 2, 3)
        if count + padding <= sum(each["length"] for each in segments)
    ]
    return either(read_answer(count=count, writes=_filled(count, *segments)), *padded)


def _into_chunk(count: int, room: int) -> Check:
    """Returns a check that a READ writes `count` octets, and no padding, to a Write chunk of `room` octets."""
    return check(
        f"v1.read.{count}-into-{room}",
        f"READ writes {count} octets to a Write chunk of {room}, and no padding",
        "V1-45 V1-28 V1-29 V1-26 V1-24 V1-17 V1-18 V1-19 NF-7 RD-12",
        _read(count, writes=[[segment(room)]]),
        *_placed(count, segment(room)),
        {"memory": {"sink": {"data": content(count)}}},
        {"memory": {"sink": {"written": count, "data": [content(count), "a5" * min(8, room - count)]}},
         "breaks": "V1-28"},
        needs="nfs file",
        memory={"sink": {"octets": room, "may": "write"}},
    )  # fmt: skip


def _into_segments(count: int, *lengths: int) -> Check:
    """Returns a check with a READ of `count` octets into a Write chunk of segments of these lengths.

    Gaps of 8 octets separate the segments in memory.
    """
    offered, left, at = [], count, 0
    compared: list[Any] = []
    for length in lengths:
        offered.append(segment(length, at))
        used = min(length, left)
        compared += [{"given": "content", "from": count - left, "first": used}, "a5" * (length - used + 8)]
        left -= used
        at += length + 8
    name = "-".join(map(str, lengths))
    return check(
        f"v1.read.{count}-into-segments-{name}",
        f"READ of {count} octets fills segments of {', '.join(map(str, lengths))} one after another",
        "V1-94 V1-26 V1-29",
        _read(count, writes=[offered]),
        *_placed(count, *offered),
        {"memory": {"sink": {"written": count, "data": compared}}},
        needs="nfs file",
        memory={"sink": {"octets": at, "may": "write"}},
    )


def _inline(name: str, title: str, statements: str, **header: Any) -> Check:
    """Returns a check of a READ whose data has to be inline; the reply has to return the call's Write list unchanged.

    `header` has fields of the call's transport header, whose Write chunks have no segments.
    """
    writes = header.get("writes", [])
    # The padding is a matter of the check without a Write list alone.
    count = 100 if writes else 101
    results = {"ends": {"opaque": content(count)}}
    pattern = read_answer(writes=writes)["message"]
    answer = {"message": {**pattern, "rpc": {**pattern["rpc"], "results": results}, "invalidates": None}}
    also = [{**error(2), "reading": "empty-write-chunk-refused"}] if writes else []
    padded = {**pattern, "parts": {"data": content(count)}, "invalidates": None}
    also += [] if writes else [{"message": padded, "parts": READ_RESULTS, "breaks": "V1-86"}]
    return check(name, title, statements, _read(count, **header), *either(answer, *also), needs="nfs file")


_SOURCE = {"given": "source.handle"}


def _write(
    count: int,
    *lengths: int,
    pad: int = 0,
    title: str,
    name: str,
    statements: str,
    framed: Mapping[str, Any] | None = None,
) -> Check:
    """Returns a check with a WRITE from a Read chunk of segments with these `lengths`; a READ compares the file.

    The chunk has `count` octets of data and `pad` of zeros, to which `lengths` add up. `framed` has further fields of
    the memory region (docs/send.md), such as "segment_octets" of Read Responses. `name` is the check's identifier after
    "v1.write."; a file with other data breaks the first of `statements`, which spaces separate.
    """
    reads, start = [], 0
    for length in lengths:
        offset = {"given": "source.offset", "plus": start}
        reads.append({"position": {"given": "write_position"}, "handle": _SOURCE, "length": length, "offset": offset})
        start += length
    data = {"pattern": count}
    answer = accepted(rpc={"result_status": 0})["message"]
    return check(
        f"v1.write.{name}",
        title,
        statements,
        *made_old(),
        say(header={"reads": reads}, rpc=write_call(count)),
        hear({"message": {**answer, "invalidates": {"any": [None, _SOURCE]}}}),
        *shown(count, statements.partition(" ")[0]),
        needs="nfs write",
        memory={"source": {"content": [data, {"zeros": pad}], **(framed or {})}},
    )


def _long_write(name: str, title: str, statements: str, *, reduced: bool) -> Check:
    """Returns a check with a WRITE in a Position-Zero chunk; its data is in it or, if `reduced`, in another chunk.

    `name` is the check's identifier after "v1.write." and `title` its expected behaviour as text; `statements` are
    identifiers of the tested statements, separated by spaces.
    """
    count = 64
    call = {"words": [{"given": "xid"}, 0, 2, {"given": "program"}, {"given": "program_version"}, 7]}
    head = [call, {"given": "credential"}, {"zeros": 8}, {"opaque": {"given": "written"}}, {"longs": [0]}]
    data = {"pattern": count}
    content = [*head, {"words": [count, 2, count]}, *([] if reduced else [data])]
    reads: list[dict[str, Any]] = [{"position": 0, "memory": "source"}]
    memory: dict[str, Any] = {"source": {"content": content}}
    handles: list[Any] = [None, _SOURCE]
    if reduced:
        reads.append({"position": {"given": "write_position"}, "memory": "data"})
        memory["data"] = {"content": data}
        handles.append({"given": "data.handle"})
    answer = accepted(rpc={"result_status": 0})["message"]
    steps = [say(header={"type": 1, "reads": reads}), hear({"message": answer | {"invalidates": {"any": handles}}})]
    return check(f"v1.write.{name}", title, statements, *steps, needs="nfs write", memory=memory)


def _withdrawn() -> Check:
    """Returns a check with a WRITE whose memory is withdrawn after its reply; the server must not read it any more."""
    read = {"position": {"given": "write_position"}, "memory": "source"}
    return check("v1.write.withdrawn", "Behind its reply no RDMA Read reaches the memory of a WRITE", "V1-93",
                 say(header={"reads": [read]}, rpc=write_call(64)), hear(accepted(rpc={"result_status": 0})),
                 {"memory": {"source": {"withdrawn": True}}}, {"quiet": {"milliseconds": 50}}, *afterwards(),
                 needs="nfs write", memory={"source": {"content": {"pattern": 64}}})  # fmt: skip


_WRITES = (
    *(
        _write(count, count, name=f"{count}", title=f"WRITE of {count} octets is read from a chunk without padding",
               statements="V1-24 V1-20 V1-15")
        for count in (1, 2, 3, 4, 5, 1000, 5001)
    ),
    *(
        _write(count, count + -count % 4, pad=-count % 4, name=f"{count}-padded",
               title=f"WRITE of {count} octets is read from a chunk with padding", statements="V1-23")
        for count in (1, 3, 5, 5001)
    ),
    _write(5, 5, 3, pad=3, name="5-padded-apart", title="WRITE takes padding in a segment of its own",
           statements="V1-23 V1-92"),
    _write(10, 1, 2, 3, 4, name="10-in-segments-1-2-3-4", title="WRITE joins segments of 1, 2, 3 and 4 octets",
           statements="V1-92 V1-14"),
    _write(5001, 1001, 4000, name="5001-in-segments-1001-4000", title="WRITE joins segments of 1001 and 4000 octets",
           statements="V1-92 V1-14"),
    *(
        _write(5001, 5001, name=f"5001-in-frames-of-{octets}", statements="RD-8 DDP-11 MPA-1",
               title=f"An RDMA Read is answered in frames of {octets} octets", framed={"segment_octets": octets})
        for octets in (8, 5001)
    ),
    _long_write("long", "WRITE in a Position-Zero chunk with its data is run", "V1-33 V1-35 V1-32", reduced=False),
    _long_write("long-and-reduced", "WRITE in a Position-Zero chunk is run with its data in another chunk",
                "V1-33 V1-92", reduced=True),
    _withdrawn(),
)  # fmt: skip

_NOT_REFUSED = "the server has sent no RDMA_ERROR for a header that does not decode"
_SINK = {"sink": {"octets": 512, "may": "write"}}
_STALE = [{"opaque": {"zeros": 32}}, {"longs": [0]}, {"words": [64]}]
_SMALL_PEER = "f6ab0e18 01 00 00 00"
_ROUNDINGS = (
    (1, 1),
    (2, 2),
    (3, 3),
    (4, 4),
    (5, 5),
    (5, 8),
    (7, 64),
    (64, 64),
    (1000, 1024),
    (5001, 5001),
    (5001, 8192),
)

CHECKS: tuple[Check, ...] = (
    _inline("v1.read.inline", "Without chunks, data of a file is inline, padded with zeros", "V1-44 V1-86 V1-35"),
    _inline("v1.read.empty-write-chunk", "For a Write chunk without segments, data is inline and the chunk empty",
            "V1-50 NF-8", writes=[[]]),
    *(_into_chunk(count, room) for count, room in _ROUNDINGS),
    _into_segments(10, 1, 2, 3, 4),
    _into_segments(10, 4, 4, 4, 4),
    _into_segments(10, 3, 0, 16),
    _into_segments(5001, 1000, 1000, 4096),
    check("v1.getattr.write-chunk", "Attributes, which may not be reduced, are inline beside a Write chunk",
          "V1-75 V1-13 NF-1",
          say(header={"writes": [[segment(512)]]}, rpc=getattr_call()),
          *either(read_answer(writes=[[segment(0)]])), {"memory": {"sink": {"written": 0}}},
          needs="nfs file", memory=_SINK),
    check("v1.read.two-write-chunks", "Data takes the first Write chunk, and the second is returned unused",
          "V1-46 V1-48", _read(64, writes=[[segment(64)], [segment(64, 128)]]),
          *either(read_answer(count=64, writes=[[segment(64)], [segment(0, 128)]]),
                  {**error(2), "reading": "chunk-list-too-complex"}),
          {"memory": {"sink": {"written": {"any": [0, 64]}}}}, needs="nfs file", memory=_SINK),
    check("v1.read.failed", "A READ that fails returns its Write chunk unused", "V1-48 V1-46",
          say(header={"writes": [[segment(64)]]}, rpc={"procedure": 6, "args": _STALE, **CALLER}),
          *either(accepted(rpc={"result_status": {"min": 1}}, writes=[[segment(0)]])),
          {"memory": {"sink": {"written": 0}}}, needs="nfs file", memory=_SINK),
    check("v1.read.write-and-reply-chunk", "Data takes the Write chunk where a Reply chunk is offered, too",
          "V1-45 V1-53",
          _read(64, writes=[[segment(64)]], reply=[segment(256, 128)]),
          *either(read_answer(count=64, writes=[[segment(64)]], reply=[segment(0, 128)]),
                  {"message": {"header": {"type": 1, "reads": [], "writes": [[segment(64)]], "reply": [
                      {**segment(256, 128), "length": {"min": 24}}]}}}),
          {"memory": {"sink": {"data": content(64)}}}, needs="nfs file", memory=_SINK),
    check("v1.read.reply-chunk", "A reply beyond the threshold of a peer with receives of 1,024 octets takes the Reply "
          "chunk", "V1-34 V1-31 V1-53 V1-11 PD-8",
          _read(2000, reply=[segment(4096)]),
          *either({"message": {"header": {"xid": {"given": "xid"}, "version": 1, "credit": {"min": 1}, "type": 1,
                                          "reads": [], "writes": [],
                                          "reply": [{**segment(4096), "length": {"min": 2036, "max": 2136}}]},
                               "invalidates": None, "octets": {"max": 1024}}}),
          needs="nfs file", memory={"sink": {"octets": 4096, "may": "write"}}, startup={"data": ""}),
    check("v1.invalidation.not-offered", "A peer without remote invalidation gets plain Sends", "PD-7",
          _read(64, writes=[[segment(64)]]),
          hear({"message": {"header": reply_header(writes=[[segment(64)]]), "invalidates": None}}),
          needs="nfs file", memory=_SINK, startup={"data": _SMALL_PEER}),
    check("v1.invalidation.no-private-data", "A peer without private data gets plain Sends", "PD-8 PD-7",
          _read(64, writes=[[segment(64)]]),
          hear({"message": {"header": reply_header(writes=[[segment(64)]]), "invalidates": None}}),
          needs="nfs file", memory=_SINK, startup={"data": ""}),
    check("v1.invalidation.other-version", "Private data of another version counts as none: plain Sends", "PD-10",
          _read(64, writes=[[segment(64)]]),
          hear({"message": {"header": reply_header(writes=[[segment(64)]]), "invalidates": None}}),
          needs="nfs file", memory=_SINK, startup={"data": "f6ab0e18 02 01 03 03"}),
    check("v1.invalidation.of-this-call", "A reply invalidates a handle of its own call, or none", "PD-6 PD-5",
          _read(64, writes=[[segment(64)]]),
          hear(read_answer(count=64, writes=[[segment(64)]])), needs="nfs file", memory=_SINK),
    check("v1.invalidation.errors", "An error invalidates nothing", "PD-6",
          say(header={"writes": [[segment(64)]], "reads_end": 2}, rpc={}),
          # Whether the header is refused is a matter of v1.reads.end-2.
          hear(error(2), {"message": {"header": {"type": {"not": 4}}}, "unmet": _NOT_REFUSED},
               {"end": {}, "unmet": _NOT_REFUSED}), {"memory": {"sink": {"written": 0}}}, memory=_SINK),
    *_WRITES,
)  # fmt: skip
"""Checks of READ and WRITE with chunks, and of remote invalidation."""
