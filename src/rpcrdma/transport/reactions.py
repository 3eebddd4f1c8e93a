"""What a requester does about a refused call: fail it, or send it again in another form."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rpcrdma.limits import CALL_ATTEMPTS_MAX
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.transport.message import Cause, Refusal
from rpcrdma.transport.plan_call import PlanLimits

__all__ = ["REACTIONS", "CallForm", "Reaction", "form_after"]


class Reaction(enum.Enum):
    """What follows a refusal."""

    FAIL = "fail"
    LONG = "send again as a long call"
    """Arguments in one chunk, at Position Zero, instead of one each."""
    WITHOUT_WRITES = "send again without Write chunks"
    """All of the reply goes into a Reply chunk then."""
    LARGER_SEGMENTS = "send again in fewer segments"
    """As large as the peer takes."""
    LARGER = "send again with larger resources"
    """Of the size that the refusal names."""


REACTIONS: Mapping[Cause, Reaction] = {
    Cause.READ_CHUNKS: Reaction.LONG,
    Cause.WRITE_CHUNKS: Reaction.WITHOUT_WRITES,
    Cause.SEGMENTS: Reaction.LARGER_SEGMENTS,
    Cause.WRITE_RESOURCE: Reaction.LARGER,
    Cause.REPLY_RESOURCE: Reaction.LARGER,
}
"""Calls that are refused for any other cause fail."""


class CallForm(NamedTuple):
    """In which form a call is sent: for a reply within `bound`.

    `attempts` counts how often it was sent, this time included. `one_chunk`: the arguments, if not inline.
    `without_writes`: results go into the Reply chunk. `segment_octets`: of the largest segments; 0 as configured.
    `plain`: in messages of the version only, not in those of an extension.
    """

    bound: ReplyBound
    attempts: int = 1
    one_chunk: bool = False
    without_writes: bool = False
    segment_octets: int = 0
    plain: bool = False

    def narrow(self, plan_limits: PlanLimits) -> PlanLimits:
        """The limits for a call that is sent in this form."""
        if self.one_chunk:
            plan_limits = plan_limits._replace(read_chunks_max=0)
        if self.without_writes:
            plan_limits = plan_limits._replace(write_chunks_max=0)
        if self.segment_octets:
            plan_limits = plan_limits._replace(segment_octets_max=self.segment_octets)
        return plan_limits


def form_after(
    refusal: Refusal,
    form: CallForm,
    into: Sequence[memoryview | None],
    reply_octets_max: int,
    segment_octets_possible: int,
) -> CallForm | None:
    """The form in which to send a call again that was refused in `form`; None if it fails.

    `into` are the memory for its results that its caller gave, which cannot become larger;
    `reply_octets_max` is what a call offers at most, see `TransportConfig`; `segment_octets_possible` is the largest
    segment that the peer takes.
    """
    reaction = REACTIONS.get(refusal.cause, Reaction.FAIL)
    if reaction is Reaction.FAIL or form.attempts >= CALL_ATTEMPTS_MAX or refusal.needed > reply_octets_max:
        return None
    again = form._replace(attempts=form.attempts + 1)
    if reaction is Reaction.LONG:
        return None if form.one_chunk else again._replace(one_chunk=True)
    if reaction is Reaction.WITHOUT_WRITES:
        return None if form.without_writes else again._replace(without_writes=True)
    if reaction is Reaction.LARGER_SEGMENTS:
        return None if form.segment_octets else again._replace(segment_octets=segment_octets_possible)
    bound = form.bound
    if refusal.cause is Cause.REPLY_RESOURCE:
        if refusal.needed <= bound.results:
            return None
        return again._replace(bound=ReplyBound(refusal.needed, bound.items))
    # The index may be left out: it is plain where there is one chunk.
    index = refusal.chunk - 1 if refusal.chunk or len(bound.items) > 1 else 0
    if not 0 <= index < len(bound.items) or refusal.needed <= bound.items[index]:
        return None
    if index < len(into) and into[index] is not None:
        return None
    items = (*bound.items[:index], refusal.needed, *bound.items[index + 1 :])
    return again._replace(bound=ReplyBound(bound.results, items))
