"""The error codes of one version, as rows: what each means, and what an error message says beside it."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rpcrdma.errors import DecodeError
from rpcrdma.transport.message import Cause, Refusal
from rpcrdma.wire.cursor import Reader

__all__ = ["ErrorCode", "ErrorCodes"]


class ErrorCode(NamedTuple):
    """A row: `data` are the fields of the `Refusal` that follow the code, one word each."""

    code: int
    cause: Cause
    data: tuple[str, ...] = ()


class ErrorCodes:
    """All codes of a version. Causes that have none are sent `as_other` ones."""

    def __init__(self, rows: Sequence[ErrorCode], as_other: Mapping[Cause, Cause]) -> None:
        self._by_code = {row.code: row for row in rows}
        self._by_cause = {row.cause: row for row in rows}
        self._by_cause |= {cause: self._by_cause[other] for cause, other in as_other.items()}
        self._layouts = [struct.Struct(f">{count}I") for count in range(4)]

    def encode(self, refusal: Refusal) -> bytes:
        """rdma_err and what belongs to it; numbers too large for a word are sent as the largest that it can have."""
        row = self._by_cause[refusal.cause]
        words = [min(getattr(refusal, field), 0xFFFFFFFF) for field in row.data]
        return self._layouts[1 + len(words)].pack(row.code, *words)

    def decode(self, reader: Reader) -> Refusal:
        """What `encode` has written, to the end of the message.

        Raises:
            DecodeError: an unknown code, or not what belongs to it.
        """
        code = reader.u32("rdma_err")
        row = self._by_code.get(code)
        if row is None:
            raise DecodeError("rdma_err", reader.pos - 4, "a known code", str(code))
        words = reader.take(self._layouts[len(row.data)], "RDMA2_ERROR")
        reader.done("RDMA2_ERROR")
        return Refusal(row.cause, **dict(zip(row.data, words, strict=True)))
