"""Memory for results is used again as soon as no caller refers to it, and not before."""

from __future__ import annotations

import ctypes
from mmap import MADV_HUGEPAGE, PAGESIZE

import pytest

from rpcrdma.errors import OutOfMemory
from rpcrdma.limits import RESULT_OCTETS_KEPT_MAX
from rpcrdma.wire import bulk_memory
from rpcrdma.wire.bulk_memory import PooledMemory, ResultMemory, behind, buffer, bulk
from support.cases import each_case

OCTETS = 1 << 20


def page_offset(view: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(view)) % PAGESIZE


@each_case("octets", [1, PAGESIZE, PAGESIZE + 1, 5 << 20])
def test_a_buffer_begins_with_a_page_and_has_the_length_that_was_asked_for(octets: int) -> None:
    views = [buffer(octets) for _ in range(3)]
    assert [(page_offset(view), len(view), view[-1]) for view in views] == [(0, octets, 0)] * 3
    views[0][-1] = 1
    assert [view[-1] for view in views] == [1, 0, 0]


def test_lengths_that_no_buffer_can_have() -> None:
    assert len(buffer(0)) == 0
    with pytest.raises(ValueError, match="0 or more, not -1"):
        buffer(-1)
    for octets in (1 << 60, 1 << 63, 1 << 64):
        with pytest.raises(MemoryError, match=f"{octets} octets"):
            buffer(octets)
    for wrong in ("8", 8.0, None):
        with pytest.raises(TypeError, match=f"octets must be of type int, not {type(wrong).__name__}"):
            buffer(wrong)  # type: ignore[arg-type] - what is refused


@each_case(("octets", "advice"), [((1 << 22) - 1, []), (1 << 22, [MADV_HUGEPAGE]), ((1 << 22) + 1, [MADV_HUGEPAGE])])
def test_memory_of_4_mib_and_more_has_huge_pages(octets: int, advice: list[int]) -> None:
    given: list[int] = []

    class Advised(PooledMemory):
        def madvise(self, option: int, *_: int) -> None:
            given.append(option)

    assert len(Advised(octets)) == octets
    assert given == advice


@each_case("lead", [0, 1, PAGESIZE - 1, PAGESIZE, PAGESIZE + 1])
def test_memory_begins_a_page_behind_its_head(lead: int) -> None:
    memory = behind(lead, 3 * PAGESIZE)
    assert (page_offset(memory[lead:]), len(memory)) == (0, 3 * PAGESIZE)


@each_case("octets", [1 << 14, (1 << 14) + 1, OCTETS, RESULT_OCTETS_KEPT_MAX + 1])
def test_memory_for_bulk_data_begins_with_a_page(octets: int) -> None:
    memory = ResultMemory()
    views = [bulk(octets), *(memory.take(octets) for _ in range(3))]
    assert [page_offset(view) for view in views] == [0] * 4


def written(memory: ResultMemory, octets: int = OCTETS) -> memoryview:
    """Memory in which there is a mark."""
    view = memory.take(octets)
    view[:4] = b"mark"
    return view


def is_used_again(memory: ResultMemory, octets: int = OCTETS) -> bool:
    return bytes(memory.take(octets)[:4]) == b"mark"


def test_memory_to_which_nothing_refers_is_used_again() -> None:
    memory = ResultMemory()
    # Often enough for an interpreter to specialise or compile the code that counts references.
    for _ in range(3000):
        view = written(memory)
        del view
        assert is_used_again(memory)


def test_memory_that_the_system_does_not_give_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = ResultMemory()
    held = written(memory)
    with monkeypatch.context() as patch:
        patch.setattr(bulk_memory, "PooledMemory", lambda _octets: PooledMemory(1 << 60))
        for octets in (2 * OCTETS, OCTETS):
            with pytest.raises(OutOfMemory):
                memory.take(octets)
    del held
    assert is_used_again(memory)
    # More than is kept.
    views = [memory.take(OCTETS) for _ in range(RESULT_OCTETS_KEPT_MAX // OCTETS + 2)]
    assert len({view.obj for view in views}) == len(views)


def test_memory_that_a_caller_refers_to_is_not_used_again() -> None:
    memory = ResultMemory()
    whole = written(memory)
    kept: list[object] = [whole[10:20], whole.cast("I"), memoryview(whole), whole.obj, {"result": whole}]
    del whole
    while kept:
        assert not any(is_used_again(memory) for _ in range(3000))
        kept.pop()
        # The memory that was taken just now is free as well, and has no mark.
    assert is_used_again(memory) or is_used_again(memory)


@each_case(("held", "again"), [(3, True), (4, False)])
def test_free_memory_is_found_among_the_four_that_were_lent_longest_ago(held: int, again: bool) -> None:
    memory = ResultMemory()
    views = [written(memory) for _ in range(held + 1)]
    del views[-1]
    assert is_used_again(memory) is again


def test_a_view_in_a_cycle_keeps_the_memory() -> None:
    memory = ResultMemory()
    cycle: list[object] = [written(memory)]
    cycle.append(cycle)
    assert not is_used_again(memory)


@each_case("octets", [1, (1 << 14) - 1, RESULT_OCTETS_KEPT_MAX + 1])
def test_small_and_very_large_memory_is_fresh(octets: int) -> None:
    memory = ResultMemory()
    view = memory.take(octets)
    view[:1] = b"m"
    del view
    assert memory.take(octets) == bytes(octets)


def test_memory_of_as_many_pages_is_used_and_no_other() -> None:
    memory = ResultMemory()
    view = written(memory)
    del view
    assert not is_used_again(memory, OCTETS + 4)
    assert len(memory.take(OCTETS - 4)) == OCTETS - 4
    assert is_used_again(memory, OCTETS - PAGESIZE + 1)
    assert not is_used_again(memory, OCTETS - PAGESIZE)


def test_memory_of_other_lengths_stands_in_no_ones_way() -> None:
    memory = ResultMemory()
    lengths = [OCTETS - PAGESIZE * number for number in range(8)]
    for octets in lengths:
        view = written(memory, octets)
        del view
    assert all(is_used_again(memory, octets) for octets in lengths)


def test_beyond_the_limit_the_length_goes_that_was_asked_for_longest_ago() -> None:
    memory = ResultMemory()
    page = PAGESIZE
    third = RESULT_OCTETS_KEPT_MAX // 3 // page * page
    for octets in (third, third - page, third, third - 2 * page, third - 3 * page):
        view = written(memory, octets)
        del view
    assert sorted(memory._buffers) == [third - 3 * page, third - 2 * page, third]
    assert memory._octets == sum(memory._buffers)


def test_of_one_length_the_memory_goes_that_was_lent_longest_ago() -> None:
    memory = ResultMemory()
    views = [memory.take(OCTETS) for _ in range(3)]
    for left in (2, 1):
        memory._drop()
        assert memory._buffers == {OCTETS: [view.obj for view in views[-left:]]}
        assert memory._octets == left * OCTETS
    memory._drop()
    assert (memory._buffers, memory._octets) == ({}, 0)


@each_case(("octets", "again"), [(4095, False), (4096, True)])
def test_where_a_device_registers_memory_a_page_is_used_again(octets: int, again: bool) -> None:
    memory = ResultMemory(registers=True)
    view = written(memory, octets)
    del view
    assert is_used_again(memory, octets) is again


def test_no_more_is_kept_than_the_limit() -> None:
    memory = ResultMemory()
    views = [written(memory) for _ in range(RESULT_OCTETS_KEPT_MAX // OCTETS + 5)]
    kept = [len(each) for same in memory._buffers.values() for each in same]
    assert sum(kept) == memory._octets == RESULT_OCTETS_KEPT_MAX
    views.clear()
    views = [memory.take(OCTETS) for _ in range(RESULT_OCTETS_KEPT_MAX // OCTETS + 5)]
    assert [bytes(view[:4]) for view in views].count(b"mark") == RESULT_OCTETS_KEPT_MAX // OCTETS


def test_memory_that_is_given_up_stays_its_holders() -> None:
    memory = ResultMemory()
    view = written(memory)
    memory.clear()
    assert (memory._buffers, memory._octets) == ({}, 0)
    assert not is_used_again(memory)
    assert view[:4] == b"mark"
