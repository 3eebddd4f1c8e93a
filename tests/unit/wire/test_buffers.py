"""Views of octets over any buffer, and gather lists."""

from __future__ import annotations

import array
import mmap

import pytest

from rpcrdma.wire import as_view, gather_length


def test_octets_are_viewed_and_not_copied() -> None:
    memory = bytearray(b"abc")
    view = as_view(memory)
    assert view.obj is memory
    view[0] = 0x7A
    assert memory == b"zbc"
    assert not view.readonly


def test_what_cannot_be_written_stays_so() -> None:
    assert as_view(b"abc").readonly
    assert as_view(memoryview(bytearray(3)).toreadonly()).readonly


def test_a_flat_view_of_octets_is_taken_as_it_is() -> None:
    view = memoryview(bytearray(4))
    assert as_view(view) == view
    assert as_view(view[1:3]).obj is view.obj


@pytest.mark.parametrize("code", ["b", "h", "i", "q", "d"])
def test_items_of_any_size_become_octets(code: str) -> None:
    numbers = array.array(code, [1, 2, 3])
    view = as_view(numbers)
    assert (view.format, view.itemsize, view.ndim) == ("B", 1, 1)
    assert len(view) == 3 * numbers.itemsize
    assert bytes(view) == numbers.tobytes()
    view[:] = bytes(len(view))
    assert list(numbers) == [0, 0, 0]


def test_dimensions_are_laid_flat() -> None:
    square = memoryview(bytearray(range(6))).cast("B", (2, 3))
    assert bytes(as_view(square)) == bytes(range(6))


def test_a_mapped_file_is_a_buffer() -> None:
    with mmap.mmap(-1, 4096) as mapped, as_view(mapped) as view:
        view[:3] = b"abc"
        assert mapped[:4] == b"abc\0"


@pytest.mark.parametrize("value", ["text", 5, None, [1, 2]])
def test_what_has_no_buffer_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        as_view(value)


def test_a_buffer_with_gaps_is_refused() -> None:
    with pytest.raises(TypeError):
        as_view(memoryview(array.array("i", range(8)))[::2])


def test_a_gather_list_is_as_long_as_its_pieces_together() -> None:
    assert gather_length([]) == 0
    assert gather_length([b"ab", bytearray(3), memoryview(b"wxyz"), b""]) == 9
    assert gather_length(iter([b"x"])) == 1
