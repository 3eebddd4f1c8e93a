"""Checks of FPDUs, DDP segments and RDMAP messages: the mistakes of `frame_mistakes`, and longer conversations."""

from __future__ import annotations

from typing import Any

from rpcrdma_lab.check.answers import ANSWERED, LONG_ANSWERED, NULL, NULL_OCTETS, afterwards, ended, hear, say
from rpcrdma_lab.check.catalogue import frame_mistakes
from rpcrdma_lab.check.catalogue.files import read_answer, read_call, segment
from rpcrdma_lab.check.entry import Check, Step, check

__all__ = ["CHECKS"]


def _unseen(name: str, title: str, statements: str, **message: Any) -> Check:
    """Returns a check with a NULL call in an unusual but valid frame or segment, which has to be answered as usual.

    `message` has fields of the call, such as "ddp" and "mpa". `name` is the check's identifier and `title` its expected
    behaviour as text; `statements` are identifiers of the tested statements, separated by spaces.
    """
    call: dict[str, Any] = {"rpc": {}, "header": {"xid": {"given": "xid", "plus": 1}}, **message}
    steps: list[Step] = [say(**call), afterwards()[1]]
    return check(name, title, statements, NULL, ANSWERED, *steps)


_NUMBERED = {"xid": {"given": "index", "plus": 5000}}
_ANSWER = hear({"message": {"header": {"type": 0, **_NUMBERED}, "rpc": {"accepted": 0}}})


def _marked(name: str, title: str, statements: str, **said: Any) -> Check:
    """Returns a check with twelve NULL calls in frames with markers, some between frames and some within.

    `said` has fields of the calls. `name` is the check's identifier after "mpa.markers." and `title` its expected
    behaviour as text; `statements` are identifiers of the tested statements, separated by spaces.
    """
    steps = [say(header=_NUMBERED, rpc={}, **said), _ANSWER]
    calls: Step = {"repeat": {"times": 12, "steps": steps}}
    return check(f"mpa.markers.{name}", title, statements, calls, needs="markers")


def _part_of_source(at: int) -> dict[str, Any]:
    """Returns a segment of ten octets that begins at octet `at` of the memory "source"."""
    return {"handle": {"given": "source.handle"}, "length": 10, "offset": {"given": "source.offset", "plus": at}}


_PIECES = check(
    "ddp.segments.of-a-result",
    "Data is written by whole segments, of which the last one alone has L, before the Send that tells it",
    "DDP-2 DDP-8 DDP-10 DDP-5 RD-5 RD-12 MPA-3",
    say(header={"writes": [[segment(5000)]]}, rpc=read_call(5000)),
    hear(read_answer(count=5000, writes=[[segment(5000)]])),
    {"memory": {"sink": {"written": 5000, "data": {"given": "content", "first": 5000}}}},
    needs="nfs file",
    memory={"sink": {"octets": 5000, "may": "write"}},
)

CHECKS: tuple[Check, ...] = (
    *frame_mistakes.CHECKS,
    # FPDUs
    _unseen("mpa.frame.in-pieces", "A frame that comes in pieces of seven octets is taken", "MPA-29 MPA-51 MPA-30",
            mpa={"pieces": 7}),
    _marked("taken", "A server that demands markers takes frames with them", "MPA-18 MPA-33"),
    _marked("reserved", "The reserved half of markers is not looked at", "MPA-10", mpa={"marker": 0x10000}),
    check(
        "mpa.frame.cut",
        "A frame that the stream ends within is not delivered, and the connection ends",
        "MPA-4",
        NULL,
        ANSWERED,
        say(header={"xid": {"given": "xid", "plus": 1}}, rpc={}, mpa={"cut": 40}),
        {"end": {}},
        hear({"end": {}}, {"terminate": {}}),
    ),
    # DDP
    _unseen("ddp.segments.of-8-octets", "A message in segments of eight octets is taken", "DDP-11 DDP-7",
            ddp={"segment_octets": 8}),
    _PIECES,
    check(
        "ddp.after-an-error",
        "After an error nothing more is delivered",
        "DDP-17 RD-15",
        NULL,
        ANSWERED,
        say(header={"xid": {"given": "xid", "plus": 1}}, rpc={}, ddp={"queue": 3, "number": 1}),
        say(header={"xid": {"given": "xid", "plus": 2}}, rpc={}),
        hear({"terminate": {}}, {"end": {}}),
        hear({"end": {}}),
    ),
    # RDMAP
    _unseen("rdmap.send.solicited", "A Send with Solicited Event is delivered as a Send is", "RD-9",
            ddp={"opcode": "send_solicited"}),
    check(
        "rdmap.read.in-order",
        "Responses come in the order of their RDMA Read Requests",
        "RD-6 RD-8",
        NULL,
        ANSWERED,
        *(say(payload={"words": [sink, 0, 0, 0, 0, 0, 0]}, ddp={"opcode": "read_request"}) for sink in (1, 2)),
        *(hear({"read_response": {"handle": sink, "offset": 0, "payload": "", "last": 1}}, frame_mistakes.NO_READS,
               {"read_response": {"handle": sink}, "breaks": "RD-8"})
          for sink in (1, 2)),
    ),
    check(
        "rdmap.read.one-at-a-time",
        "With a depth of 1, no second RDMA Read comes before the Response to the first",
        "RD-13 V1-89",
        say(header={"type": 1, "reads": [{"position": 0, **_part_of_source(at)} for at in (0, 10, 20, 30)]}),
        hear(LONG_ANSWERED),
        memory={"source": {"content": NULL_OCTETS, "alone_ms": 30}},
        startup={"ird": 1, "ord": 1},
    ),
    check(
        "rdmap.terminate.layout",
        "A Terminate is as long as the bits of its header demand",
        "RD-4 RD-15",
        NULL,
        ANSWERED,
        say(header={"xid": {"given": "xid", "plus": 1}}, rpc={}, ddp={"queue": 3, "number": 1}),
        hear(
            {"terminate": {"whole": 1}},
            {"terminate": {"code": 0x2101}, "reading": "terminate-nibbles-swapped"},
            {"end": {}, "breaks": "RD-15"},
        ),
    ),
    check(
        "rdmap.terminate",
        "After a Terminate of the other side the connection ends without another one",
        "RD-11 RD-14",
        NULL,
        ANSWERED,
        say(payload="02ff0000", ddp={"opcode": "terminate"}),
        *ended(),
    ),
    check(
        "rdmap.half-closed",
        "After the other side has ended its stream the connection ends",
        "DDP-14",
        NULL,
        ANSWERED,
        {"end": {}},
        hear({"end": {}}, {"terminate": {}}),
    ),
)  # fmt: skip
"""Checks of iWARP frames, segments and messages."""
