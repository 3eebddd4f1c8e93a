"""Containment of classes in each other: endless values, recursion, the depth of nesting, and elements of no octets.

The work takes time in proportion to the definition.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

from rpcrdma.file_limits import XDR_CLASSES_NESTED_MAX
from rpcrdma.xdr.language import model
from rpcrdma.xdr.language.symbols import Symbols

__all__ = ["check_containment"]


def check_containment(module: model.Module, symbols: Symbols) -> None:
    """Adds the names of classes that contain themselves, as a pointer permits, to `module.recursive`.

    Adds errors to `symbols` for all classes without a value of finite size, for arrays of elements that take no octets,
    of which no message bounds the number, and for the first class that is nested more than XDR_CLASSES_NESTED_MAX
    levels deep.
    """
    endless = module.classes.keys() - _finite(module)
    for name in module.classes:
        if name in endless:
            symbols.error(symbols.place_of(name), f"{name} contains itself", f"use a pointer: {name} *member;")
    parts = {name: model.parts(item) for name, item in module.classes.items()}
    levels: dict[str, int] = {}
    empty: set[str] = set()
    for group in _groups(parts):
        if len(group) > 1 or group[0] in parts[group[0]]:
            module.recursive.update(group)
        below = max((levels[part] for name in group for part in parts[name] if part in levels), default=0)
        levels.update(dict.fromkeys(group, below + len(group)))
        for name in group:
            item = module.classes[name]
            if isinstance(item, model.Struct) and all(_is_empty(member.type, empty) for member in item.members):
                empty.add(name)
    for name, kind in module.aliases.items():
        _check_elements(kind, name, name, empty, symbols)
    for name, item in module.classes.items():
        for member in item.members if isinstance(item, model.Struct) else [*item.arms, item.default]:
            if member is not None and member.type is not None:
                _check_elements(member.type, f"{name}.{member.name}", name, empty, symbols)
    for name in module.classes:
        if levels[name] > XDR_CLASSES_NESTED_MAX:
            message = f"structures and unions are nested more than {XDR_CLASSES_NESTED_MAX} levels deep"
            symbols.error(symbols.place_of(name), message)
            return


def _is_empty(kind: model.Type, empty: Container[str]) -> bool:
    """Returns whether all values of a type take no octets; `empty` names the structures of which that holds."""
    while True:
        match model.strip(kind):
            case model.FixedOpaque(length):
                return not length
            case model.ClassRef(name):
                return name in empty
            case model.FixedArray(element, length) if length:
                kind = element
            case other:
                return isinstance(other, model.FixedArray)


def _check_elements(kind: model.Type, label: str, owner: str, empty: Container[str], symbols: Symbols) -> None:
    """Adds an error to `symbols`, at the place of `owner`, if `kind` has an array whose elements take no octets.

    The array is `kind` itself, or an element of its arrays and pointers, but not behind a typedef, which has an error
    of its own. `label`: the name of the item. `empty`: the names of the structures that take no octets.
    """
    while isinstance(kind, model.FixedArray | model.VariableArray | model.Optional):
        match kind:
            case model.FixedArray(element, most) | model.VariableArray(element, most):
                if most and _is_empty(element, empty):
                    message = f"the elements of {label} take no octets"
                    symbols.error(symbols.place_of(owner), message, "a peer could claim any number of them")
                    return
        kind = kind.element


def _finite(module: model.Module) -> set[str]:
    """Returns the names of the classes that have values of finite size."""
    finite: set[str] = set()
    missing: dict[str, int] = {}
    within: dict[str, list[str]] = {name: [] for name in module.classes}
    found: list[str] = []
    for name, item in module.classes.items():
        if isinstance(item, model.Struct):
            needed = {part for member in item.members if (part := _needed(member.type)) is not None}
            missing[name] = len(needed)
        else:
            arms = [arm for arm in (*item.arms, item.default) if arm is not None]
            alternatives = {None if arm.type is None else _needed(arm.type) for arm in arms}
            # One arm is enough.
            missing[name] = 0 if None in alternatives else 1
            needed = {part for part in alternatives if part is not None}
        for part in needed:
            within[part].append(name)
        if not missing[name]:
            found.append(name)
    while found:
        name = found.pop()
        if name in finite:
            continue
        finite.add(name)
        for outer in within[name]:
            missing[outer] -= 1
            if missing[outer] == 0:
                found.append(outer)
    return finite


def _needed(kind: model.Type) -> str | None:
    """Returns the name of the class that every value of a type contains at least once; None if there is none."""
    kind = model.strip(kind)
    while isinstance(kind, model.FixedArray) and kind.length:
        kind = model.strip(kind.element)
    match kind:
        case model.ClassRef(name) | model.LinkedList(name, filled=True):
            return name
        case _:
            return None


def _groups(parts: Mapping[str, Iterable[str]]) -> Iterator[list[str]]:
    """Yields the groups of classes that contain each other; a group follows all other classes that it contains.

    A class outside of all cycles is a group of its own. This is Tarjan's algorithm for strongly connected components,
    without recursion.

    Args:
        parts: for each class the classes of its members or arms.
    """
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_names: dict[str, None] = {}
    for start in parts:
        if start in numbers:
            continue
        path = [(start, iter(parts[start]))]
        numbers[start] = lowest[start] = len(numbers)
        open_names[start] = None
        while path:
            name, rest = path[-1]
            part = next(rest, None)
            if part is not None:
                if part not in numbers:
                    numbers[part] = lowest[part] = len(numbers)
                    open_names[part] = None
                    path.append((part, iter(parts[part])))
                elif part in open_names:
                    lowest[name] = min(lowest[name], numbers[part])
                continue
            path.pop()
            if path:
                outer = path[-1][0]
                lowest[outer] = min(lowest[outer], lowest[name])
            if lowest[name] == numbers[name]:
                group: list[str] = []
                while not group or group[-1] != name:
                    group.append(open_names.popitem()[0])
                yield group
