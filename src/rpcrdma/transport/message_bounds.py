"""How large a reply can get: what a requester must know before it sends a call (RFC 8166 section 4.3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rpcrdma.rpc.program import Procedure

__all__ = ["Binding", "ReplyBound"]


@dataclass(frozen=True, slots=True)
class ReplyBound:
    """The largest result of one call.

    `results`: octets of the encoded result without its DDP-eligible items and their padding, RPC header excluded.
    `items`: for each DDP-eligible item that the result may have, in stream order, the most octets it can have.
    """

    results: int
    items: tuple[int, ...] = ()


Binding = Callable[[Procedure[Any, Any], Any], ReplyBound]
"""An upper-layer binding's answer for (procedure, arguments); see `rpcrdma.ulb`."""
