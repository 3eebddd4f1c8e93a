"""The requester's reaction to a refused call: the call fails, or is sent again in another form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rpcrdma.limits import CALL_ATTEMPTS_MAX
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.transport.chunks import ChunkLists, segments_needed
from rpcrdma.transport.message import Cause, Refusal
from rpcrdma.transport.plan_call import PlanLimits

__all__ = ["RESENT", "CallForm", "form_after", "has_fewest"]


RESENT: Mapping[Cause, str] = {
    Cause.READ_CHUNKS: "resent_long",
    Cause.WRITE_CHUNKS: "resent_without_chunks",
    Cause.SEGMENTS: "resent_in_segments",
    Cause.WRITE_RESOURCE: "resent_larger",
    Cause.REPLY_RESOURCE: "resent_larger",
}
"""The causes after which a call is sent again in another form, and the counter of `TransportStatistics` for it."""


class CallForm(NamedTuple):
    """The form in which a call is sent: the choices that change when a refused call is sent again.

    The reply fits `bound`. `attempts` counts the Sends of the call, this one included. `one_chunk`: arguments that are
    not inline share one Position-Zero Read chunk. `without_writes`: no Write chunks are offered, so results use the
    Reply chunk. `segment_octets`: the largest segment; 0: as configured. `plain`: the call travels in messages of the
    version, not of an extension.
    """

    bound: ReplyBound
    attempts: int = 1
    one_chunk: bool = False
    without_writes: bool = False
    segment_octets: int = 0
    plain: bool = False

    def narrow(self, plan_limits: PlanLimits) -> PlanLimits:
        """Returns `plan_limits` with the restrictions of this form.

        With `one_chunk` no argument has a Read chunk of its own: a Position-Zero Read chunk has a call that is too long
        for inline. With `without_writes` there are no Write chunks. Segments have at most `segment_octets` unless 0.
        """
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
    """Decides how a refused call is sent again: in fewer chunks, larger segments, or with more reply space.

    Returns these choices for the next Send; None if the call fails: after `CALL_ATTEMPTS_MAX` Sends, for a cause that
    is not in `RESENT`, or if no other form can help.

    Args:
        refusal: the peer's reason.
        form: the form in which the call was refused.
        into: the caller's memory for each result item, or None; such memory cannot grow.
        reply_octets_max: the most octets that a call offers for its reply, see `TransportConfig`.
        segment_octets_possible: the largest segment, in octets, that the peer takes.
    """
    cause = refusal.cause
    if cause not in RESENT or form.attempts >= CALL_ATTEMPTS_MAX or refusal.needed > reply_octets_max:
        return None
    again = form._replace(attempts=form.attempts + 1)
    if cause is Cause.READ_CHUNKS:
        # All arguments in one Position-Zero chunk.
        return None if form.one_chunk else again._replace(one_chunk=True)
    if cause is Cause.WRITE_CHUNKS:
        # The whole reply in a Reply chunk.
        return None if form.without_writes else again._replace(without_writes=True)
    if cause is Cause.SEGMENTS:
        return None if form.segment_octets else again._replace(segment_octets=segment_octets_possible)
    bound = form.bound
    if cause is Cause.REPLY_RESOURCE:
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


def has_fewest(refusal: Refusal, chunks: ChunkLists, segment_octets: int) -> bool:
    """Returns whether it is useless to send a call again that was refused for its number of chunks or segments.

    True if the call already has the fewest of the refused kind, or has more segments than `refusal.limit` even with the
    largest ones; False for other causes. `refusal`: the reason. `chunks`: the chunks of the call. `segment_octets`: the
    largest segment, in octets, that the peer takes.
    """
    cause = refusal.cause
    if cause is Cause.SEGMENTS:
        fewest = sum(segments_needed(chunk.length, segment_octets) for chunk in chunks.chunks)
        return fewest > refusal.limit or fewest == chunks.count_segments()
    if cause is Cause.READ_CHUNKS:
        return all(read.position == 0 for read in chunks.reads)
    return cause is Cause.WRITE_CHUNKS and not chunks.writes
