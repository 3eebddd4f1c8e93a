"""The base class of all generated structures and unions."""

from __future__ import annotations

__all__ = ["Composite"]


class Composite:
    """Base of generated structures and unions: dataclasses, equal to objects of the same class with equal members.

    A definition has a hundred of them. Methods of their own would double the time in which the module is imported.
    """

    # Each class has the names of its members here.
    __slots__ = tuple[str, ...]()

    def _members(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.__slots__)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Composite) or other.__class__ is not self.__class__:
            return NotImplemented
        return self._members() == other._members()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        members = zip(self.__slots__, self._members(), strict=True)
        return f"{self.__class__.__qualname__}({', '.join(f'{name}={value!r}' for name, value in members)})"
