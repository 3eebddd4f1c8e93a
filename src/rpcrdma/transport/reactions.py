"""What a requester does about a refused call: fail it, or send it again in another form."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rpcrdma.limits import CALL_ATTEMPTS_MAX
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.transport.message import Cause, Refusal
from rpcrdma.wire.buffers import Buffer

__all__ = ["REACTIONS", "CallForm", "Reaction", "form_after"]


class Reaction(enum.Enum):
    """What follows a refusal."""

    FAIL = "fail"
    LONG = "send again as a long call"
    """Arguments in one chunk, at Position Zero, instead of one each."""
    LARGER = "send again with larger resources"
    """Of the size that the refusal names."""


REACTIONS: Mapping[Cause, Reaction] = {
    Cause.READ_CHUNKS: Reaction.LONG,
    Cause.WRITE_RESOURCE: Reaction.LARGER,
    Cause.REPLY_RESOURCE: Reaction.LARGER,
}
"""Calls that are refused for any other cause fail."""


class CallForm(NamedTuple):
    """In which form a call is sent: for a reply within `bound`, the arguments in `one_chunk` if not inline.

    `attempts` counts how often it was sent, this time included.
    """

    bound: ReplyBound
    one_chunk: bool = False
    attempts: int = 1


def form_after(
    refusal: Refusal, form: CallForm, into: Sequence[Buffer | None], reply_octets_max: int
) -> CallForm | None:
    """The form in which to send a call again that was refused in `form`; None if it fails.

    `into` are the memory for its results that its caller gave, which cannot become larger;
    `reply_octets_max` is what a call offers at most, see `TransportConfig`.
    """
    reaction = REACTIONS.get(refusal.cause, Reaction.FAIL)
    bound, one_chunk, attempts = form
    if reaction is Reaction.FAIL or attempts >= CALL_ATTEMPTS_MAX or refusal.needed > reply_octets_max:
        return None
    if reaction is Reaction.LONG:
        return None if one_chunk else CallForm(bound, one_chunk=True, attempts=attempts + 1)
    if refusal.cause is Cause.REPLY_RESOURCE:
        if refusal.needed <= bound.results:
            return None
        return CallForm(ReplyBound(refusal.needed, bound.items), one_chunk, attempts + 1)
    index = refusal.chunk - 1
    if not 0 <= index < len(bound.items) or refusal.needed <= bound.items[index]:
        return None
    if index < len(into) and into[index] is not None:
        return None
    items = (*bound.items[:index], refusal.needed, *bound.items[index + 1 :])
    return CallForm(ReplyBound(bound.results, items), one_chunk, attempts + 1)
