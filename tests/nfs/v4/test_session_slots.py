"""The slots of a session: every cell of the table, wrapping numbers, and false retries."""

from __future__ import annotations

import itertools

import pytest

from rpcrdma.nfs.v4.session_slots import ANSWERS, SEQUENCES, Answer, Number, Slot, SlotState
from support.cases import each_case

WRAPPED = [1, 7, SEQUENCES - 1, 0]
"""Numbers of a newest request: usual ones, the last one, and the one after it."""


def slot_in(state: SlotState, newest: int) -> Slot[bytes]:
    """A slot in `state` whose newest request, "a", has the number `newest`; FRESH has none."""
    slot: Slot[bytes] = Slot()
    if state is not SlotState.FRESH:
        slot.sequence = (newest - 1) % SEQUENCES
        slot.state = SlotState.NOT_KEPT
        assert slot.take(newest, "a") is Answer.RUN
    if state is SlotState.KEPT:
        slot.finish(b"reply")
    elif state is SlotState.NOT_KEPT:
        slot.finish(None)
    return slot


def test_the_table_has_an_answer_for_every_state_and_number() -> None:
    assert set(ANSWERS) == set(itertools.product(SlotState, Number))


@pytest.mark.req("NF4-101")
@pytest.mark.req("NF4-104")
@each_case(
    "state, following, same",
    [
        (SlotState.FRESH, "run", "misordered"),
        (SlotState.BUSY, "misordered", "delay"),
        (SlotState.KEPT, "run", "repeat"),
        (SlotState.NOT_KEPT, "run", "uncached"),
    ],
)
def test_a_request_is_answered_by_its_slot_and_number(state: SlotState, following: str, same: str) -> None:
    for newest in [0] if state is SlotState.FRESH else WRAPPED:
        numbers = {1: following, 0: same, 2: "misordered", -1: "misordered", 1 << 31: "misordered"}
        for distance, expected in numbers.items():
            slot = slot_in(state, newest)
            before = (slot.state, slot.sequence, slot.call, slot.reply)
            assert slot.take((newest + distance) % SEQUENCES, "a").value == expected
            if expected == "run":
                assert (slot.state, slot.sequence) == (SlotState.BUSY, (newest + 1) % SEQUENCES)
                assert slot.reply is None, "the reply before is dropped as soon as the client has said that it has it"
            else:
                assert (slot.state, slot.sequence, slot.call, slot.reply) == before


@pytest.mark.req("NF4-103")
def test_a_kept_reply_is_for_its_own_request_alone() -> None:
    slot = slot_in(SlotState.KEPT, 5)
    assert slot.take(5, "b") is Answer.FALSE_RETRY
    assert slot.take(5, "a") is Answer.REPEAT
    assert slot.reply == b"reply"


@pytest.mark.req("NF4-102")
def test_numbers_wrap_to_zero() -> None:
    assert slot_in(SlotState.KEPT, SEQUENCES - 1).take(0, "a") is Answer.RUN
    assert slot_in(SlotState.KEPT, 0).take(SEQUENCES - 1, "a") is Answer.MISORDERED
    slot = slot_in(SlotState.KEPT, 0)
    assert slot.take(0, "a") is Answer.REPEAT, "after wrapping, 0 is a number as any other"
