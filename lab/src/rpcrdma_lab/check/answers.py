"""Steps and patterns that conversations of the catalogue share: calls, expected answers, and tests after a mistake."""

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
"""Milliseconds without a Terminate, after which the server counts as waiting for the rest of a message."""


def say(**message: Any) -> Step:
    """Returns a step, {"say": FIELDS}, that sends a message with "header", "rpc" and other fields (docs/send.md)."""
    return {"say": message}


def hear(*patterns: Any) -> Step:
    """Returns a step, {"hear": PATTERNS}, that fails unless the next message or event matches one (docs/send.md)."""
    return {"hear": list(patterns)}


NULL: Step = say(rpc={})
"""The step that sends a call of the NULL procedure."""
NULL_OCTETS = {"words": [{"given": "xid"}, 0, 2, {"given": "program"}, {"given": "program_version"}, 0, 0, 0, 0, 0]}
"""The 40 octets of a NULL call, for Long Calls."""


def reply_header(plus: int = 0, **fields: Any) -> dict[str, Any]:
    """Returns the pattern of an inline reply's header in version 1, by default without chunks (RFC 8166 section 4).

    `plus` is added to the XID of the check's first call; `fields` replace fields of the pattern.
    """
    header = {"xid": {**_XID, "plus": plus}, "version": 1, "credit": {"min": 1}, "type": 0}
    return {**header, "reads": [], "writes": [], "reply": None, **fields}


def accepted(status: int = 0, plus: int = 0, rpc: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """Returns the pattern of an accepted RPC reply in version 1; `status` is its accept_stat, 0 for success.

    `plus` is added to the XID of the check's first call; `fields` replace fields of the transport header's pattern, and
    `rpc` fields of the RPC header's pattern.
    """
    told = {"xid": {**_XID, "plus": plus}, "direction": 1, "accepted": status, **(rpc or {})}
    return {"message": {"header": reply_header(plus, **fields), "rpc": told}}


def answered(plus: int = 0, *, status: int = 0, invalidates: Any = None, **fields: Any) -> dict[str, Any]:
    """Returns the pattern of an accepted reply in version 1 without results.

    `plus` is added to the XID of the check's first call, `status` is the accept_stat, and `fields` replace fields of
    the transport header's pattern. `invalidates` is the pattern of the handle that the reply's Send invalidates; None:
    the reply is a plain Send.
    """
    return {"message": {**accepted(status, plus, {"results": ""}, **fields)["message"], "invalidates": invalidates}}


ANSWERED: Step = hear(answered())
"""The step that expects the reply to a NULL call."""
LONG_ANSWERED = answered(invalidates={"any": [None, {"given": "source.handle"}]})
"""The pattern of the reply to a NULL call in a Long Call, whose memory is "source"."""


def afterwards(plus: int = 1, *others: dict[str, Any]) -> list[Step]:
    """Returns steps that check that the connection continues: a NULL call, and its reply or a match of `others`.

    `plus` is added to the XID of the check's first call; `others` are patterns of other permitted answers to it.
    """
    return [say(header={"xid": {**_XID, "plus": plus}}, rpc={}), hear(answered(plus), *others)]


def error(code: int, *numbers: Any, version: Any = 1) -> dict[str, Any]:
    """Returns the pattern of RDMA_ERROR of version 1 with this `code` and the `numbers` after it (RFC 8166, 4.5).

    `version` is the version field of its header; it and `numbers` are numbers or patterns (docs/send.md). The XID is
    that of the check's first call.
    """
    start = {"xid": _XID, "version": version, "credit": {"min": 1}, "type": 4}
    header = {**start, "error": code, "numbers": list(numbers)}
    return {"message": {"header": header, "invalidates": None}}


def refused() -> list[Step]:
    """Returns steps that expect RDMA_ERROR with ERR_CHUNK, then the reply to a NULL call or the connection's end.

    That end is no failure, but noted as the reading "ended-after-error" (`READINGS`): the verdict is DIFFERS unless
    another step fails.
    """
    return [hear(error(2)), *afterwards(1, _ENDED)]


def either(first: dict[str, Any], *others: dict[str, Any]) -> list[Step]:
    """Returns steps that expect a message or event which one of the patterns (docs/send.md) matches.

    After it the connection continues, which a NULL call and its reply show, or ends. That end is no failure, but noted
    as the reading "ended-after-error" (`READINGS`): the verdict is DIFFERS unless another step fails.
    """
    return [hear(first, *others), *afterwards(1, _ENDED)]


def ended() -> list[Step]:
    """Returns a list of one step, which expects the end of the connection before anything else."""
    return [hear({"end": {}})]


_GENERAL = (0x0000, 0x01FF, 0x0207, 0x0208, 0x02FF, 0x1000, 0x2005)
"""Codes of catastrophic and unspecified errors, which apply to any mistake (RFC 5040 section 4.8)."""


def terminates(
    *codes: int, listed: bool = True, long: bool = False, awaited: bool = False, other: Sequence[dict[str, Any]] = ()
) -> list[dict[str, Any]]:
    """Returns patterns of the answers to a mistake: right is a Terminate with one of `codes`, 0xLTCC.

    L is the layer, T the error type and CC the error code. Further patterns match other codes and an end without a
    Terminate: one with "reading" is noted only, one with "breaks" breaks that rule. General error codes (RFC 5040
    section 4.8) and codes with layer and error type swapped are noted; any other code breaks the statement RD-4.

    Args:
        codes: the codes for the mistake.
        listed: whether RFC 5040 section 7.1 demands a Terminate for it, so that an end without one breaks the rule;
            otherwise such an end is noted.
        long: whether the message is longer than what the server reads: TCP may then lose the Terminate, so that a
            connection reset without one is noted, even with `listed`.
        awaited: whether the server may wait for the rest of the message instead: 2 s without an answer are noted.
        other: patterns of further permitted answers.
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
    """Returns a list of one step, which expects a match of `terminates(*codes, **how)`; codes are 0xLTCC."""
    return [hear(*terminates(*codes, **how))]


def _swapped(code: int) -> int:
    return code >> 4 & 0xF00 | code << 4 & 0xF000 | code & 0xFF
