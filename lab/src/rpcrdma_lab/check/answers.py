"""Parts that conversations of the catalogue share: calls, expected answers, and courses after a mistake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rpcrdma_lab.check.entry import Step

__all__ = [
    "ANSWERED",
    "LONG_ANSWERED",
    "NULL",
    "NULL_OCTETS",
    "accepted",
    "afterwards",
    "answered",
    "discarded",
    "either",
    "ended",
    "error",
    "hear",
    "refused",
    "reply_header",
    "say",
    "terminated",
    "terminates",
]

_XID = {"given": "xid"}
_ENDED = {"end": {}, "reading": "ended-after-error"}
_UNTOLD = {"end": {}, "reading": "ended-without-terminate"}
_AWAITED_MS = 2000
"""Time for a Terminate, after which a message counts as awaited."""


def say(**message: Any) -> Step:
    """Returns a step that says a message."""
    return {"say": message}


def hear(*patterns: Any) -> Step:
    """Returns a step that expects a message or event which matches one of `patterns`."""
    return {"hear": list(patterns)}


NULL: Step = say(rpc={})
"""An empty call."""
NULL_OCTETS = {"words": [{"given": "xid"}, 0, 2, {"given": "program"}, {"given": "program_version"}, 0, 0, 0, 0, 0]}
"""The 40 octets of an empty call, for Long Calls."""


def reply_header(plus: int = 0, **fields: Any) -> dict[str, Any]:
    """The header of an inline reply in version 1, without chunks unless `fields` has some (RFC 8166 section 4)."""
    header = {"xid": {**_XID, "plus": plus}, "version": 1, "credit": {"min": 1}, "type": 0}
    return {**header, "reads": [], "writes": [], "reply": None, **fields}


def accepted(status: int = 0, plus: int = 0, rpc: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """Returns the pattern of an RPC reply in version 1 with the accept_stat `status`; 0: successful.

    `plus` is added to the XID of the check's first call; `fields` are of the header, `rpc` of the RPC reply.
    """
    told = {"xid": {**_XID, "plus": plus}, "direction": 1, "accepted": status, **(rpc or {})}
    return {"message": {"header": reply_header(plus, **fields), "rpc": told}}


def answered(plus: int = 0, *, status: int = 0, invalidates: Any = None, **fields: Any) -> dict[str, Any]:
    """Returns the pattern of a reply without results; it invalidates nothing unless `invalidates` names a handle."""
    return {"message": {**accepted(status, plus, {"results": ""}, **fields)["message"], "invalidates": invalidates}}


ANSWERED: Step = hear(answered())
"""The answer to an empty call."""
LONG_ANSWERED = answered(invalidates={"any": [None, {"given": "source.handle"}]})
"""The pattern of the reply to an empty Long Call in the memory "source"."""


def afterwards(plus: int = 1, *others: dict[str, Any]) -> list[Step]:
    """Shows that the connection goes on: says an empty call, and expects its answer or one of `others`."""
    return [say(header={"xid": {**_XID, "plus": plus}}, rpc={}), hear(answered(plus), *others)]


def discarded() -> list[Step]:
    """Shows that the message before was discarded: only the next one is answered."""
    return afterwards()


def error(code: int, *numbers: Any, version: Any = 1) -> dict[str, Any]:
    """Returns the pattern of RDMA_ERROR with `code` and the `numbers` behind it (RFC 8166 section 4.5)."""
    start = {"xid": _XID, "version": version, "credit": {"min": 1}, "type": 4}
    header = {**start, "error": code, "numbers": list(numbers)}
    return {"message": {"header": header, "invalidates": None}}


def refused() -> list[Step]:
    """Expects ERR_CHUNK, after which the connection goes on or ends."""
    return [hear(error(2)), *afterwards(1, _ENDED)]


def either(first: dict[str, Any], *others: dict[str, Any]) -> list[Step]:
    """Expects one of several answers, after which the connection goes on or ends."""
    return [hear(first, *others), *afterwards(1, _ENDED)]


def ended() -> list[Step]:
    """Expects the end of the connection, with nothing before it."""
    return [hear({"end": {}})]


_GENERAL = (0x0000, 0x01FF, 0x0207, 0x0208, 0x02FF, 0x1000, 0x2005)
"""The codes of catastrophic and unspecified errors, which apply to any mistake (RFC 5040 section 4.8)."""


def terminates(
    *codes: int, listed: bool = True, long: bool = False, awaited: bool = False, other: Sequence[dict[str, Any]] = ()
) -> list[dict[str, Any]]:
    """Patterns of a Terminate with one of these codes, 0xLTCC; `other` answers are right, too.

    `listed`: RFC 5040 section 7.1 demands a Terminate, as it does for mistakes in messages whose kind is known. `long`:
    the message has more octets than a server reads that ends the connection, and TCP may lose its Terminate. `awaited`:
    the segment may be placed, and its message waits for others.
    """
    named = {*codes, *_GENERAL}
    swapped = sorted({_swapped(each) for each in named} - named)
    return [
        {"terminate": {"code": {"any": list(codes)}}},
        *other,
        {"terminate": {"code": {"any": list(_GENERAL)}}, "reading": "other-terminate-code"},
        {"terminate": {"code": {"any": swapped}}, "reading": "terminate-nibbles-swapped"},
        {"terminate": {}, "breaks": "RD-4"},
        *([{**_UNTOLD, "end": {"how": "reset"}}] if long else []),
        {"end": {}, "breaks": "RD-15"} if listed else _UNTOLD,
        *([{"quiet": {"milliseconds": _AWAITED_MS}, "reading": "message-awaited"}] if awaited else []),
    ]


def terminated(*codes: int, **how: Any) -> list[Step]:
    """Expects one of the patterns of `terminates`, which has the same arguments."""
    return [hear(*terminates(*codes, **how))]


def _swapped(code: int) -> int:
    return code >> 4 & 0xF00 | code << 4 & 0xF000 | code & 0xFF
