"""Views of octets over any buffer, and gather lists."""

from __future__ import annotations

import array
import ctypes
import mmap
from typing import Any, ClassVar

import pytest

from rpcrdma.wire import as_view, gather_length
from support.cases import each_case


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


WRITABLE: list[Any] = [
    *(array.array(code, [1, 2, 3]) for code in "bhiqd"),
    memoryview(bytearray(range(6))).cast("B", (2, 3)),
    mmap.mmap(-1, 4096),
    # Byte orders, and one item without a dimension.
    *((kind * 3)() for kind in (ctypes.c_double, ctypes.c_uint16, ctypes.c_char, ctypes.c_double.__ctype_be__)),
    ctypes.c_double(1.0),
]


@each_case("memory", WRITABLE)
def test_items_of_any_format_and_shape_become_octets(memory: Any) -> None:
    view = as_view(memory)
    assert (view.format, view.itemsize, view.ndim, view.readonly) == ("B", 1, 1, False)
    assert bytes(view) == memoryview(memory).tobytes()
    view[:] = b"\1" * len(view)
    assert memoryview(memory).tobytes() == b"\1" * memoryview(memory).nbytes


@each_case(
    "empty", [array.array("d"), (ctypes.c_double * 0 * 3)(), (ctypes.c_uint16 * 0)(), b"", memoryview(b"12")[1:1]]
)
def test_no_items_are_no_octets(empty: object) -> None:
    view = as_view(empty)
    assert (len(view), view.format, view.ndim) == (0, "B", 1)


def test_read_only_items_of_any_format_stay_so() -> None:
    assert as_view(memoryview(array.array("d", [1.0])).toreadonly()).readonly
    assert as_view(memoryview((ctypes.c_double * 2)()).toreadonly()).readonly


@each_case("value", ["text", 5, None, [1, 2], object()])
def test_what_has_no_buffer_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match=f"it: {type(value).__name__} has no octets"):
        as_view(value, "it")


@each_case(
    "gappy",
    [
        memoryview(array.array("i", range(8)))[::2],
        memoryview(bytes(8))[::2],
        memoryview(bytes(8))[::-1],
        memoryview((ctypes.c_double * 4)())[::2],
    ],
)
def test_a_buffer_with_gaps_is_refused_with_the_remedy(gappy: memoryview) -> None:
    with pytest.raises(TypeError, match=r"it: .*not C-contiguous.*numpy\.ascontiguousarray"):
        as_view(gappy, "it")


def test_memory_of_a_device_is_refused_with_the_remedy() -> None:
    class OnDevice:
        __cuda_array_interface__: ClassVar[dict[str, object]] = {"shape": (1,), "typestr": "<f8", "version": 3}

    with pytest.raises(TypeError, match="it: the OnDevice is in the memory of a device: copy it to the host first"):
        as_view(OnDevice(), "it")


def test_a_buffer_that_cannot_be_shown_is_refused_by_its_name() -> None:
    with mmap.mmap(-1, 4096) as mapped:
        pass
    with pytest.raises(TypeError, match=r"it: the mmap does not show its octets .*closed"):
        as_view(mapped, "it")


def test_memory_to_be_filled_is_writable() -> None:
    numbers = array.array("d", [1.0])
    as_view(numbers, "it", writable=True)[:] = bytes(8)
    assert numbers[0] == 0.0
    with pytest.raises(TypeError, match="it: the memoryview is read-only"):
        as_view(memoryview(numbers).toreadonly(), "it", writable=True)


def test_a_gather_list_is_as_long_as_its_pieces_together() -> None:
    assert gather_length([]) == 0
    assert gather_length([b"ab", bytearray(3), memoryview(b"wxyz"), b""]) == 9
    assert gather_length(iter([b"x"])) == 1


def test_a_flat_view_is_one_of_the_owner_and_not_of_another_view() -> None:
    """Python 3.11 crashes when it collects a view and a view of that view as garbage of one circle."""
    for owner in (array.array("d", [1.0] * 10), (ctypes.c_uint32.__ctype_be__ * 4)(), (ctypes.c_uint16 * 0)()):
        assert as_view(owner).obj is owner
