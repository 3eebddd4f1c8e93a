"""Calls of NFSv3 on the files of the checks, and the segments that they name (RFC 1813, RFC 8267).

"file" and "written" are given: a regular file, and one that may be written. "sink" is memory for results, and "source"
memory with arguments.
"""

from __future__ import annotations

from typing import Any

from rpcrdma_lab.check.answers import accepted, hear, say
from rpcrdma_lab.check.entry import Step

__all__ = [
    "CALLER",
    "OLD",
    "READ_RESULTS",
    "content",
    "getattr_call",
    "made_old",
    "read_answer",
    "read_call",
    "segment",
    "shown",
    "write_call",
]

CALLER = {"credential": {"given": "credential"}}
_OLD_OCTETS = 64
OLD = "5a" * _OLD_OCTETS
"""The first 64 octets, in hex, of the file for WRITE before a check, which differ from all data of checks."""
_SHOWN_MAX = 900
"""The most octets of a READ that shows written data: its reply is inline in each version."""
READ_RESULTS = [["status", 4], ["attributes", "attributes"], ["count", 4], ["end", 4], ["data", "opaque"]]
"""The parts of a successful READ's results (RFC 1813 section 3.3.6), each [NAME, KIND]; see `parts_of` for kinds."""
_OLD_PLUS, _SHOWN_PLUS = 12, 13


def getattr_call() -> dict[str, Any]:
    """Returns the RPC fields of an NFSv3 GETATTR of the file {"given": "file"}."""
    return {"procedure": 1, "args": [{"opaque": {"given": "file"}}], **CALLER}


def read_call(count: int, file: str = "file") -> dict[str, Any]:
    """Returns the RPC fields of an NFSv3 READ of `count` octets from the start of a file.

    `file` is the name for {"given": NAME} of its handle: "file", or "written" for the file of WRITE checks.
    """
    return {"procedure": 6, "args": [{"opaque": {"given": file}}, {"longs": [0]}, {"words": [count]}], **CALLER}


def read_answer(*, count: int | None = None, **header: Any) -> dict[str, Any]:
    """Returns the pattern of a successful READ reply of version 1; `header` replaces fields of the header's pattern.

    The reply may invalidate the handle of the region "sink". With `count`, the results must end with this number as a
    word: the data are in a chunk.
    """
    pattern = accepted(**header)["message"]
    rpc = {**pattern["rpc"], "result_status": 0, **({} if count is None else {"results": {"ends": {"words": [count]}}})}
    return {"message": {**pattern, "rpc": rpc, "invalidates": {"any": [None, {"given": "sink.handle"}]}}}


def write_call(count: int) -> dict[str, Any]:
    """Returns the RPC fields of an NFSv3 WRITE of `count` octets to the start of {"given": "written"}, without data."""
    args = [{"opaque": {"given": "written"}}, {"longs": [0]}, {"words": [count, 2, count]}]
    return {"procedure": 7, "args": args, **CALLER}


def made_old() -> list[Step]:
    """Returns steps that write 64 octets 0x5a inline to the start of the file with the handle {"given": "written"}.

    If the WRITE fails, the check is inconclusive.
    """
    xid = {"given": "xid", "plus": _OLD_PLUS}
    call = write_call(_OLD_OCTETS)
    done = {"message": {"rpc": {"xid": xid, "accepted": 0, "result_status": 0}}}
    aside = {"aside": "an inline WRITE, which prepares the file,"}
    return [say(header={"xid": xid}, rpc={**call, "args": [*call["args"], OLD]}), {**hear(done), **aside}]


def shown(count: int, statement: str, data: Any = None) -> list[Step]:
    """Returns steps that READ the start of the file with the handle {"given": "written"}, and expect `data`.

    The READ asks for `count` octets, at most 900. `data` are octets (docs/send.md); None: the test pattern of that
    length. Other data break `statement`, the identifier of a statement. The READ itself is not judged: if it fails or
    returns fewer octets than requested (RFC 1813 section 3.3.6), the check is inconclusive.
    """
    xid = {"given": "xid", "plus": _SHOWN_PLUS}
    count = min(count, _SHOWN_MAX)
    done = {"xid": xid, "accepted": 0, "result_status": 0}
    data = data or {"pattern": count}
    right = {"message": {"rpc": done, "parts": {"data": data}}, "parts": READ_RESULTS}
    wrong = {"message": {"rpc": done, "parts": {"count": {"words": [count]}}}, "parts": READ_RESULTS}
    answer = hear(right, {**wrong, "breaks": statement})
    aside = {"aside": "a READ, which shows the file,"}
    return [say(header={"xid": xid}, rpc=read_call(count, "written")), {**answer, **aside}]


def content(count: int) -> dict[str, Any]:
    """Returns the value (docs/send.md) that stands for the first `count` octets of the file {"given": "file"}."""
    return {"given": "content", "first": count}


def segment(length: int, at: int = 0, memory: str = "sink") -> dict[str, Any]:
    """Returns "handle", "length" and "offset" of a segment of `length` octets in the memory region named `memory`.

    The segment begins `at` octets after the start of the region.
    """
    offset = {"given": f"{memory}.offset", "plus": at}
    return {"handle": {"given": f"{memory}.handle"}, "length": length, "offset": offset}
