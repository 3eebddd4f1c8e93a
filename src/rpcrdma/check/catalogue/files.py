"""Calls of NFSv3 on the files of the checks, and the segments that they name (RFC 1813, RFC 8267).

"file" and "written" are given: a regular file, and one that may be written. "sink" is memory for results, and "source"
memory with arguments.
"""

from __future__ import annotations

from typing import Any

from rpcrdma.check.answers import accepted

__all__ = ["CALLER", "content", "getattr_call", "read_answer", "read_call", "segment", "write_call"]

CALLER = {"credential": {"given": "credential"}}


def getattr_call() -> dict[str, Any]:
    """The RPC message of GETATTR."""
    return {"procedure": 1, "args": [{"opaque": {"given": "file"}}], **CALLER}


def read_call(count: int, file: str = "file", at: int = 0) -> dict[str, Any]:
    """The RPC message of READ."""
    return {"procedure": 6, "args": [{"opaque": {"given": file}}, {"longs": [at]}, {"words": [count]}], **CALLER}


def read_answer(*, count: int | None = None, **header: Any) -> dict[str, Any]:
    """The pattern of a successful reply of version 1, with these fields in its header; it may invalidate "sink".

    That to a READ of `count` octets through a chunk has their number at its end, and neither data nor padding behind.
    """
    pattern = accepted(**header)["message"]
    rpc = {**pattern["rpc"], "result_status": 0, **({} if count is None else {"results": {"ends": {"words": [count]}}})}
    return {"message": {**pattern, "rpc": rpc, "invalidates": {"any": [None, {"given": "sink.handle"}]}}}


def write_call(count: int, at: int = 0) -> dict[str, Any]:
    """The RPC message of WRITE, without its data."""
    args = [{"opaque": {"given": "written"}}, {"longs": [at]}, {"words": [count, 2, count]}]
    return {"procedure": 7, "args": args, **CALLER}


def content(count: int) -> dict[str, Any]:
    """The first octets of the file that is read."""
    return {"given": "content", "first": count}


def segment(length: int, at: int = 0, memory: str = "sink") -> dict[str, Any]:
    """A segment of registered memory."""
    offset = {"given": f"{memory}.offset", "plus": at}
    return {"handle": {"given": f"{memory}.handle"}, "length": length, "offset": offset}
