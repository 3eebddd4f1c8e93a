"""Several RPC messages in one transmission: their fields, and the rules for their combination."""

from __future__ import annotations

from collections.abc import Sequence

from rpcrdma.dissect.fields import Field
from rpcrdma.dissect.headers import Header
from rpcrdma.dissect.rpc_header import RpcHeader

__all__ = ["BATCH", "batched_messages", "check_batch"]

BATCH = "ROPT_BATCH"
_SECTION = "rtissues 4"


def batched_messages(header: Header) -> list[tuple[Field, bytes]]:
    """The octets of each RPC message, with the field that holds them."""
    if header.kind != BATCH:
        return []
    fields = [one for one in header.group.walk() if one.name == "batched_rpc"]
    return [(one, one.value) for one in fields if isinstance(one.value, bytes)]


def check_batch(header: Header, messages: Sequence[tuple[Field, RpcHeader]], taken: int | None) -> None:
    """Adds to `header.faults`. The receiver takes so many messages in one transmission; None: that was not seen."""
    if not messages:
        header.fault("batch_messages", "there is no RPC message", _SECTION)
        return
    if taken is not None and len(messages) > taken:
        header.fault("batch_messages", f"{len(messages)} RPC messages, the receiver takes {taken}", _SECTION)
    first = messages[0][1].xid
    if first is not None and first != header.xid:
        header.fault("rdma_xid", f"the first RPC message has XID {first:#010x}", _SECTION)
    # Without flags the first message decides whether all are calls or replies.
    is_reply = messages[0][1].is_call is False if header.response is None else header.response
    what = "what is before it" if header.response is None else "RESPONSE"
    for field, rpc in messages:
        if rpc.is_call is not None and rpc.is_call == is_reply:
            kind = "a call" if rpc.is_call else "a reply"
            header.fault_at(field, f"{what} does not fit to {kind}", _SECTION)
