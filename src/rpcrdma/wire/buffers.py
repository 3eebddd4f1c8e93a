"""The buffer type of all layers, and gather lists of buffers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from rpcrdma.errors import LocalProtocolError

__all__ = ["Buffer", "as_view", "gather_length"]

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Octets: a `memoryview` is always one-dimensional with item size 1 (see `as_view`)."""


def as_view(buffer: object, name: str = "data", *, writable: bool = False) -> memoryview:
    """A flat view of the octets of any C-contiguous object with the buffer protocol, without a copy.

    Wherever a caller's octets enter the package, they pass through here once. Items of any format, byte order and
    number of dimensions count as the octets that they have in memory: those of numpy arrays, `array`, ctypes and mmap.
    `writable`: the memory is to be filled.

    Raises:
        TypeError: the object has no octets that can be read here, or they have gaps or another order. The message
            names the argument by `name`, and the remedy.
        LocalProtocolError: memory that is to be filled is read-only.
    """
    try:
        view = memoryview(buffer)  # type: ignore[arg-type]
    except (BufferError, TypeError, ValueError) as error:
        raise _without_octets(buffer, name, error) from None
    if not view.c_contiguous:
        raise TypeError(
            f"{name}: the items of the {type(buffer).__name__} are not C-contiguous: copy them first, as "
            "numpy.ascontiguousarray does"
        )
    if writable and view.readonly:
        raise LocalProtocolError(f"{name}: the {type(buffer).__name__} is read-only: give a writable buffer")
    if view.ndim == 1 and view.format == "B":
        return view
    # `memoryview.cast` takes neither byte orders, as ctypes arrays have one, nor dimensions without an item.
    from pickle import PickleBuffer  # noqa: PLC0415 - seldom needed, and slow to import

    return PickleBuffer(view).raw()


def _without_octets(buffer: object, name: str, error: Exception) -> Exception:
    kind = type(buffer).__name__
    if not isinstance(error, TypeError):
        return TypeError(f"{name}: the {kind} does not show its octets ({error}): copy them to bytes first")
    if hasattr(buffer, "__cuda_array_interface__"):
        return TypeError(f"{name}: the {kind} is in the memory of a device: copy it to the host first")
    return TypeError(f"{name}: {kind} has no octets: give bytes, a memoryview, or an object with the buffer protocol")


def gather_length(gather: Iterable[Buffer]) -> int:
    """Octets in a gather list."""
    return sum(map(len, gather))
