"""Hints for a caller, and for a server's log, about a call whose chunks do not suffice: how to offer more."""

from __future__ import annotations

from rpcrdma.limits import CALL_OCTETS_PULLED_MAX
from rpcrdma.transport import CallHandle, ChunkRefused

__all__ = ["REMEDY", "explained", "octets_pulled"]

REMEDY = (
    "`pragma limit` and `pragma bound` in the program's definition (or Procedure.bound), the length of `into`, and "
    "TransportConfig(reply_octets_max=...) say how much a call offers"
)


def explained(handle: CallHandle, error: ChunkRefused) -> ChunkRefused:
    """The refusal of a call's chunks, with its probable cause."""
    procedure = handle.context.procedure
    bound = handle.form.bound
    hint = f"; the reply of {procedure.name} could have {bound.results} octets"
    if bound.items:
        hint += f" and {', '.join(map(str, bound.items))} placed directly"
    return ChunkRefused(f"{hint}: {REMEDY}{octets_pulled(handle)}", error.refusal)


def octets_pulled(handle: CallHandle) -> str:
    """A reason for which a server may refuse the call's Read chunks; "" without any."""
    pulled = sum(segment.length for chunk in handle.chunks.reads for segment in chunk.segments)
    if not pulled:
        return ""
    return (
        f"; {pulled} octets of the call were in Read chunks: a server of this library takes "
        f"{CALL_OCTETS_PULLED_MAX}, or what TransportConfig(call_octets_pulled_max=...) says there"
    )
