"""The largest arguments and results of each procedure.

A requester must know the largest result before it calls (RFC 8166 section 4.3): a number, or an expression of the
arguments (`pragma bound`). Items that may be placed directly are counted apart.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rpcrdma.limits import WRITE_CHUNKS_MAX
from rpcrdma.xdr.language import model

__all__ = ["UNBOUNDED", "Extent", "MessageSizes", "Size"]

UNBOUNDED = 0xFFFFFFFF
"""The size of an unbounded type in octets: no message has more."""
_EXPRESSION_MAX = 90
"""Characters of one term, so that it fits a line; a longer term is replaced by its largest value."""

_TERMS_MAX = 100
"""Terms of a size, each a line of the generated function; a size with more is replaced by its largest value."""


class _Term(NamedTuple):
    """The part of a size that depends on a call's arguments: a Python expression of `args`, and its largest value."""

    text: str
    most: int


@dataclass(frozen=True, slots=True)
class Size:
    """A number of octets (or elements) plus terms that depend on a call's arguments; `str` is the expression."""

    number: int
    terms: tuple[_Term, ...] = ()

    @property
    def most(self) -> int:
        """The largest number of octets (or elements) over all possible arguments of a call, at most 2^32 - 1."""
        return min(self.number + sum(term.most for term in self.terms), UNBOUNDED)

    def __str__(self) -> str:
        parts = [str(self.number)] if self.number or not self.terms else []
        return " + ".join([*parts, *(term.text for term in self.terms)])


_NOTHING = Size(0)


class Extent(NamedTuple):
    """The largest size in octets of a type's values: `size` without items for direct placement, and `items` for these.

    `items[i]` bounds the `i`-th item, in stream order, of any value. At most WRITE_CHUNKS_MAX items are in `items`; the
    octets of further ones are in `size`. Every value has at least `least` items. A value that lacks an optional item
    has its later items at lower indexes, for which `items` allows.
    """

    size: Size
    items: tuple[Size, ...] = ()
    least: int = 0


class MessageSizes:
    """Computes the largest arguments and results of the procedures in a module, for generated code."""

    def __init__(self, module: model.Module) -> None:
        self._module = module
        self._bounding = {arguments for _, _, arguments in module.bounds}
        self._measures: dict[str, _Measure] = {"": _Measure(module, "")}
        self._encoded = _Measure(module, "", reduces=False)

    def most(self, kind: model.Type | None) -> int | None:
        """Returns the most octets of a message of type `kind`, arguments or a result, bulk items included.

        Returns None if they are unbounded, and 0 for a `kind` of None (void).
        """
        octets = 0 if kind is None else self._encoded.of_message(kind).size.most
        return octets if octets < UNBOUNDED else None

    def most_bulk(self, arguments: model.Type | None) -> int:
        """Returns the most octets, padded, of the arguments' items for direct placement; 0 for None (void).

        An item without a limit counts as 2^32 - 1 octets, items beyond the first WRITE_CHUNKS_MAX do not count.
        """
        items = () if arguments is None else self._measures[""].of_message(arguments).items
        return sum(_padded(item.most) for item in items)

    def of_result(self, procedure: model.Procedure) -> Extent:
        """Returns the largest size of a procedure's result without bulk items, and of each item; 0 and () for void.

        Sizes that `pragma bound` limits are expressions of `args`, the arguments of the call.
        """
        if procedure.result is None:
            return Extent(_NOTHING)
        kind = None if procedure.arguments is None else model.strip(procedure.arguments)
        arguments = kind.name if isinstance(kind, model.ClassRef) and kind.name in self._bounding else ""
        if arguments not in self._measures:
            self._measures[arguments] = _Measure(self._module, arguments)
        return self._measures[arguments].of_message(procedure.result)


class _Measure:
    """Measures types; remembers the extents of classes.

    Args:
        module: the model.
        arguments: the class of the arguments whose bounds limit a result; "": none does.
        reduces: whether items that may be placed directly are counted apart; False: as part of the size.
    """

    def __init__(self, module: model.Module, arguments: str, *, reduces: bool = True) -> None:
        self._module = module
        self._arguments = arguments
        self._reduces = reduces
        self._within: list[str] = []
        self._known: dict[str, Extent] = {}

    def of_message(self, kind: model.Type) -> Extent:
        """Returns the extent (largest size) of a whole message; `kind` is the type of the arguments or the result."""
        extent = self.of(kind, None)
        # Of classes that contain each other, the extent depends on which of them was met first.
        for name in self._module.recursive & self._known.keys():
            del self._known[name]
        return extent

    def of(self, kind: model.Type, bound: model.Bound | None) -> Extent:
        """Returns the extent of a type: the largest size without bulk items, and the most octets of each bulk item.

        `bound` names the member of the procedure's arguments that limits the elements or octets besides the type's own
        limit (`pragma bound`); None: no member does.
        """
        match model.strip(kind):
            case model.Number() as number:
                return Extent(Size(number.octets))
            case model.FixedOpaque(length):
                return Extent(Size(_padded(length)))
            case model.VariableOpaque(limit, ddp) | model.Text(limit, ddp):
                octets = self._count(limit, bound)
                if ddp and self._reduces:
                    return Extent(Size(4), (octets,), 1)
                return Extent(_sum(Size(4), _padded_size(octets)))
            case model.ClassRef(name):
                return self._class(name)
            case model.FixedArray(element, length):
                return self._times(self.of(element, None), Size(length), length)
            case model.VariableArray(element, limit):
                return _with_words(self._elements(self.of(element, None), limit, bound), 4)
            case model.Optional(element):
                inner = self.of(element, None)
                return Extent(_sum(Size(4), inner.size), inner.items, 0)
            case model.LinkedList(entry, limit):
                each = _with_words(self._class(entry), 4)
                return _with_words(self._elements(each, UNBOUNDED if limit is None else limit, bound), 4)
            case _:
                return Extent(Size(4))

    def _count(self, limit: int, bound: model.Bound | None) -> Size:
        """Returns the most elements or octets of an item: `limit`, or an expression that also heeds `bound`.

        `bound` names the member of the procedure's arguments whose value or length bounds the item; None: no member
        does. Generated code evaluates the expression for each call: the smaller of `limit` and that bound.
        """
        if bound is None:
            return Size(limit)
        given = f"args.{bound.argument}"
        if bound.counted:
            given = bound.counted.format(given)
        return Size(0, (_Term(given if limit >= UNBOUNDED else f"min({given}, {limit})", limit),))

    def _elements(self, each: Extent, limit: int, bound: model.Bound | None) -> Extent:
        if bound is None or not bound.octets:
            return self._times(each, self._count(limit, bound), 0)
        every = self._times(each, Size(limit), 0)
        return every._replace(size=self._count(every.size.most, bound))

    def _times(self, each: Extent, count: Size, least: int) -> Extent:
        """Returns the extent of at most `count` and at least `least` elements, each of extent `each`.

        Only WRITE_CHUNKS_MAX bulk items are in `Extent.items`; the octets of further ones are in `Extent.size`.
        """
        size = _product(each.size, count)
        if not each.items:
            return Extent(size)
        largest = functools.reduce(_larger, each.items)
        total = count.most * len(each.items)
        kept = min(total, WRITE_CHUNKS_MAX)
        # Those for which no requester offers a chunk come in the stream.
        size = _sum(size, _product(_padded_size(largest), Size(total - kept)))
        return Extent(size, (largest,) * kept, min(least * each.least, kept))

    def _class(self, name: str) -> Extent:
        if name in self._within:
            return Extent(Size(UNBOUNDED))
        if name in self._known:
            return self._known[name]
        self._within.append(name)
        item = self._module.classes[name]
        if isinstance(item, model.Struct):
            members = (self._member(name, member) for member in item.members)
            extent = functools.reduce(_followed_by, members, Extent(_NOTHING))
        else:
            arms = [self._member(name, arm) for arm in item.arms]
            arms.append(Extent(_NOTHING) if item.default is None else self._member(name, item.default))
            extent = _with_words(functools.reduce(_either, arms), 4)
        self._within.pop()
        self._known[name] = extent
        return extent

    def _member(self, owner: str, member: model.Member | model.Arm) -> Extent:
        if member.type is None:
            return Extent(_NOTHING)
        return self.of(member.type, self._module.bounds.get((owner, member.name, self._arguments)))


def _followed_by(first: Extent, second: Extent) -> Extent:
    size = _sum(first.size, second.size)
    if not second.items:
        return Extent(size, first.items, first.least)
    items = [*first.items, *second.items]
    if first.least < len(first.items):
        largest = functools.reduce(_larger, second.items)
        items = [*first.items[: first.least], *(_larger(item, largest) for item in items[first.least :])]
    for item in items[WRITE_CHUNKS_MAX:]:
        size = _sum(size, _padded_size(item))
    return Extent(size, tuple(items[:WRITE_CHUNKS_MAX]), min(first.least + second.least, WRITE_CHUNKS_MAX))


def _either(one: Extent, other: Extent) -> Extent:
    shared = min(len(one.items), len(other.items))
    items: Sequence[Size] = [
        *map(_larger, one.items[:shared], other.items[:shared]),
        *one.items[shared:],
        *other.items[shared:],
    ]
    return Extent(_larger(one.size, other.size), tuple(items), min(one.least, other.least))


def _with_words(extent: Extent, octets: int) -> Extent:
    return extent._replace(size=_sum(Size(octets), extent.size))


def _sum(one: Size, other: Size) -> Size:
    number = one.number + other.number
    if number >= UNBOUNDED:
        return Size(UNBOUNDED)
    # A structure that occurs twice in each of twenty levels would have its terms a million times.
    size = Size(number, one.terms + other.terms)
    return size if len(size.terms) <= _TERMS_MAX else Size(size.most)


def _larger(one: Size, other: Size) -> Size:
    # One term may occur several times.
    terms, others = Counter(one.terms), Counter(other.terms)
    if one.number >= other.number and others <= terms:
        return one
    if other.number >= one.number and terms <= others:
        return other
    return _one_term(f"max({one}, {other})", max(one.most, other.most))


def _product(size: Size, count: Size) -> Size:
    if not (size.terms or count.terms):
        return Size(min(size.number * count.number, UNBOUNDED))
    most = min(size.most * count.most, UNBOUNDED)
    factors = (f"({each})" if len(each.terms) + bool(each.number) > 1 else str(each) for each in (count, size))
    return _one_term(" * ".join(factors), most)


def _padded(length: int) -> int:
    return min((length + 3) & ~3, UNBOUNDED)


def _padded_size(size: Size) -> Size:
    if not size.terms:
        return Size(_padded(size.number))
    return _one_term(f"(({size} + 3) & ~3)", _padded(size.most))


def _one_term(text: str, most: int) -> Size:
    return Size(0, (_Term(text, most),)) if len(text) <= _EXPRESSION_MAX else Size(most)
