"""The form of JSON documents of a type: the keys of unions, and documents with words in place of values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rpcrdma.file_limits import JSON_CLASSES_WALKED_MAX
from rpcrdma.xdr.language import model
from rpcrdma.xdr.language.names import definition_name

__all__ = ["NUMBER_WORDS", "arm_key", "arm_of", "data_paths", "discriminant_key", "shape"]

NUMBER_WORDS = {"i": "an int", "I": "an unsigned int", "q": "a hyper", "Q": "an unsigned hyper"}


def arm_of(item: model.Union, tag: int) -> model.Arm | None:
    """Returns the arm of a union for the discriminant's value `tag`, else the default arm; None if neither exists."""
    return next((arm for arm in item.arms if tag in [number for number, _ in arm.values]), item.default)


def discriminant_key(item: model.Union) -> str:
    """Returns the key of a union's discriminant in JSON documents: its name in the definition."""
    name = item.discriminant.name
    return name[:-1] if name.rstrip("_") == "value" else definition_name(name)


def arm_key(item: model.Union, arm: model.Arm) -> str:
    """Returns the key of an arm's value in JSON documents: its name in the definition.

    "_" follows the name if the discriminant has the same key.
    """
    key = definition_name(arm.name)
    return f"{key}_" if key == discriminant_key(item) else key


def shape(module: model.Module, kind: model.Type | None) -> Any:
    """Returns an example of a type's JSON documents, with words such as "opaque[8]" for values; None for void.

    All arms of a union but void ones appear, each with "?" behind its key. Classes within themselves, and classes after
    the first JSON_CLASSES_WALKED_MAX, appear by their names only.
    """
    return None if kind is None else _shape(module, kind, (), iter(range(JSON_CLASSES_WALKED_MAX)))


def _shape(module: model.Module, kind: model.Type, within: tuple[str, ...], left: Iterator[int]) -> Any:
    """Returns an example document for a type, with words in place of values.

    Args:
        module: the model of the definition.
        kind: the type.
        within: the names of the classes around it, which appear by their names only.
        left: an iterator of which each class takes an item; once it is exhausted, further classes appear by name.
    """
    match model.strip(kind):
        case model.Number(code):
            return "a number" if code in "fd" else NUMBER_WORDS[code].partition(" ")[2]
        case model.Boolean():
            return "true or false"
        case model.EnumRef(name):
            return f"enum {name}"
        case model.FixedOpaque(length):
            return f"opaque[{length}]"
        case model.VariableOpaque() as data:
            return f"opaque{_limit(data.limit)}"
        case model.Text(limit):
            return f"string{_limit(limit)}"
        case model.ClassRef(name) if name in within or next(left, None) is None:
            return name
        case model.ClassRef(name):
            item = module.classes[name]
            if isinstance(item, model.Struct):
                members = {definition_name(member.name): member.type for member in item.members}
                return {key: _shape(module, each, (*within, name), left) for key, each in members.items()}
            key = discriminant_key(item)
            seen: dict[str, Any] = {key: _shape(module, item.discriminant.type, within, left)}
            for arm in [*item.arms, item.default]:
                if arm is not None and arm.type is not None:
                    seen[f"{arm_key(item, arm)}?"] = _shape(module, arm.type, (*within, name), left)
            return seen
        case model.Optional(element):
            inner = _shape(module, element, within, left)
            return f"{inner} or null" if isinstance(inner, str) else inner
        case model.FixedArray(element) | model.VariableArray(element):
            return [_shape(module, element, within, left)]
        case model.LinkedList(entry):
            return [_shape(module, model.ClassRef(entry), within, left)]
        case other:
            raise AssertionError(other)


def data_paths(module: model.Module, kind: model.Type | None, path: str) -> Iterator[str]:
    """Yields the paths of opaque items in a type's JSON documents, such as "args.list[].data" for the `path` "args".

    For void (`kind` None) there are none. Classes within themselves, and classes after the first
    JSON_CLASSES_WALKED_MAX, are left out.
    """
    return iter(()) if kind is None else _data_paths(module, kind, path, (), iter(range(JSON_CLASSES_WALKED_MAX)))


def _data_paths(
    module: model.Module, kind: model.Type, path: str, within: tuple[str, ...], left: Iterator[int]
) -> Iterator[str]:
    match model.strip(kind):
        case model.FixedOpaque() | model.VariableOpaque():
            yield path
        case model.ClassRef(name) if name not in within and next(left, None) is not None:
            for key, each in _members(module.classes[name]):
                yield from _data_paths(module, each, f"{path}.{key}", (*within, name), left)
        case model.Optional(element):
            yield from _data_paths(module, element, path, within, left)
        case model.FixedArray(element) | model.VariableArray(element):
            yield from _data_paths(module, element, f"{path}[]", within, left)
        case model.LinkedList(entry):
            yield from _data_paths(module, model.ClassRef(entry), f"{path}[]", within, left)
        case _:
            pass


def _members(item: model.Class) -> Iterator[tuple[str, model.Type]]:
    if isinstance(item, model.Struct):
        yield from ((definition_name(member.name), member.type) for member in item.members)
        return
    for arm in [*item.arms, item.default]:
        if arm is not None and arm.type is not None:
            yield arm_key(item, arm), arm.type


def _limit(limit: int) -> str:
    return "<>" if limit == 0xFFFFFFFF else f"<{limit}>"
