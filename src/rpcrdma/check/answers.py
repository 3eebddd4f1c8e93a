"""Parts that conversations of the catalogue share: calls, expected answers, and courses after a mistake."""

from __future__ import annotations

from typing import Any

from rpcrdma.check.entry import Step

__all__ = [
    "ANSWERED",
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
]

_XID = {"given": "xid"}
_ENDED = {"end": {}, "reading": "ended-after-error"}


def say(**message: Any) -> Step:
    """A step that says a message."""
    return {"say": message}


def hear(*patterns: Any) -> Step:
    """A step that expects one of these."""
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
    """The pattern of an RPC reply in version 1; 0: successful."""
    told = {"xid": {**_XID, "plus": plus}, "direction": 1, "accepted": status, **(rpc or {})}
    return {"message": {"header": reply_header(plus, **fields), "rpc": told}}


def answered(plus: int = 0) -> dict[str, Any]:
    """The pattern of the reply to an empty call without chunks: no results, and nothing is invalidated."""
    return {"message": {**accepted(plus=plus, rpc={"results": ""})["message"], "invalidates": None}}


ANSWERED: Step = hear(answered())
"""The answer to an empty call."""


def afterwards(plus: int = 1, *others: dict[str, Any]) -> list[Step]:
    """The connection goes on: an empty call is answered next; or one of the `others` comes."""
    return [say(header={"xid": {**_XID, "plus": plus}}, rpc={}), hear(answered(plus), *others)]


def discarded() -> list[Step]:
    """The message before has no answer, and the next one has."""
    return afterwards()


def error(code: int, *numbers: Any, version: Any = 1) -> dict[str, Any]:
    """The pattern of RDMA_ERROR (RFC 8166 section 4.5)."""
    start = {"xid": _XID, "version": version, "credit": {"min": 1}, "type": 4}
    header = {**start, "error": code, "numbers": list(numbers)}
    return {"message": {"header": header, "invalidates": None}}


def refused() -> list[Step]:
    """ERR_CHUNK, and the connection goes on."""
    return [hear(error(2)), *afterwards(1, _ENDED)]


def either(first: dict[str, Any], *others: dict[str, Any]) -> list[Step]:
    """One of several answers, and the connection goes on."""
    return [hear(first, *others), *afterwards(1, _ENDED)]


def ended() -> list[Step]:
    """The end of the connection, with nothing before it."""
    return [hear({"end": {}})]


def terminated(code: int, *also: int) -> list[Step]:
    """A Terminate with one of these codes, 0xLTCC; other servers give others or none."""
    codes = [code, *also]
    swapped = [each >> 4 & 0xF00 | each << 4 & 0xF000 | each & 0xFF for each in codes]
    return [
        hear(
            {"terminate": {"code": {"any": codes}}},
            {"terminate": {"code": {"any": swapped}}, "reading": "terminate-nibbles-swapped"},
            {"terminate": {}, "reading": "other-terminate-code"},
            {"end": {}, "reading": "ended-without-terminate"},
        )
    ]
