"""Checks the numbers among the fields of option classes."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

__all__ = ["check_numbers"]


def check_numbers(options: Any) -> None:
    """Refuses a number that no option can have: each int and float is at least 0 and finite.

    Args:
        options: an instance of a dataclass whose annotations are strings. Fields annotated with `int` or `float`, with
            or without None, are looked at.

    Raises:
        TypeError: a field has a value of another type; the message names the field.
        ValueError: a number is negative, infinite or not a number; likewise.
    """
    for field in dataclasses.fields(options):
        kind, _, other = str(field.type).partition(" | ")
        if kind not in {"int", "float"} or other not in {"", "None"}:
            continue
        value = getattr(options, field.name)
        if value is None and other:
            continue
        # NumPy's numbers are numbers as well.
        if isinstance(value, bool) or not (
            hasattr(value, "__index__") or (kind == "float" and hasattr(value, "__float__"))
        ):
            alternative = " or None" if other else ""
            raise TypeError(f"{field.name} must be of type {kind}{alternative}, not {type(value).__name__}")
        if not 0 <= value < math.inf:
            raise ValueError(f"{field.name} is {value}, but it must be a finite number from 0 up")
