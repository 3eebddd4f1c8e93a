"""A low bound of nested calls, at which recursion over the depth of a tree is seen without a deep tree."""

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["frames_left"]


@contextmanager
def frames_left(count: int) -> Iterator[None]:
    """Context manager in which `count` further nested calls of Python functions are possible."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + count)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
