"""Runs of fixed-size fields, through nested structures, that one `struct.Struct` reads and writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rpcrdma.xdr.language import model
from rpcrdma.xdr.language.writer import CallExpression, Item

__all__ = ["DecodedGroup", "EncodedGroup", "decode_group", "encode_group", "slots_of"]

_MOST_SLOTS = 64
_MOST_OPAQUE_OCTETS = 64
_MOST_ELEMENTS = 16


def slots_of(kind: model.Type, module: model.Module) -> int | None:
    """Returns the number of values that `struct` unpacks for a type; None for types that `struct` is not used for.

    It is not used for types of variable size, unions, empty types, opaque[n] over 64 octets, arrays over 16 elements or
    of anything but numbers, and structures over 64 values or with a member of such a type.
    """
    kind = model.strip(kind)
    match kind:
        case model.Number() | model.Boolean() | model.EnumRef():
            return 1
        case model.FixedOpaque(length):
            return 1 if 0 < length <= _MOST_OPAQUE_OCTETS else None
        case model.FixedArray(element, length):
            return length if isinstance(model.strip(element), model.Number) and 0 < length <= _MOST_ELEMENTS else None
        case model.ClassRef(name):
            item = module.classes[name]
            if not isinstance(item, model.Struct) or name in module.recursive or not item.members:
                return None
            total = 0
            for member in item.members:
                slots = slots_of(member.type, module)
                if slots is None:
                    return None
                total += slots
            return total if total <= _MOST_SLOTS else None
        case _:
            return None


@dataclass(slots=True)
class EncodedGroup:
    """Generated code that encodes a run of fixed-size fields, by one `struct` format.

    `fields` has the name of each slot, `values` the Python expression of each value, in order.
    """

    format: str = ""
    fields: list[str] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    checks: list[tuple[str, str, str]] = field(default_factory=list)
    """For each check before packing: the condition that must not hold, the field, and the complaint as text of an
    f-string."""


def encode_group(kind: model.Type, value: str, label: str, group: EncodedGroup, module: model.Module) -> None:
    """Adds the code that encodes a value of a fixed-size type to `group`, member by member.

    Args:
        kind: the type, for which `slots_of` returns a number.
        value: the Python expression of the value.
        label: the name of the value in errors.
        group: the code of the run of fields so far; changed in place.
        module: the model with the structures.
    """
    kind = model.strip(kind)
    match kind:
        case model.Number(code):
            group.format += code
            group.values.append(value)
            group.fields.append(label)
        case model.Boolean():
            group.format += "I"
            group.values.append(value)
            group.fields.append(label)
            group.checks.append((f"{value} not in {{0, 1}}", label, f"{{{value}!r}} is no bool"))
        case model.EnumRef(name, signed):
            group.format += "i" if signed else "I"
            group.values.append(value)
            group.fields.append(label)
            group.checks.append(
                (f"{value} not in _{name}_BY_VALUE", label, f"{{{value}!r}} is no value of enum {name}")
            )
        case model.FixedOpaque(length):
            group.format += f"{length}s" + (f"{-length & 3}x" if length & 3 else "")
            group.values.append(f'enc.exactly({value}, {length}, "{label}")')
            group.fields.append(label)
        case model.FixedArray(element, length):
            element = model.strip(element)
            assert isinstance(element, model.Number)
            group.format += f"{length}{element.code}"
            group.values.append(f"*{value}")
            group.fields += [f"{label}[{index}]" for index in range(length)]
            group.checks.append(
                (f"len({value}) != {length}", label, f"{{len({value})}} elements given, the type has {length}")
            )
        case model.ClassRef(name):
            for member in _members(name, module):
                encode_group(member.type, f"{value}.{member.name}", f"{label}.{member.name}", group, module)


@dataclass(slots=True)
class DecodedGroup:
    """Generated code that decodes a run of fixed-size fields: slots and octets so far, and the checks of slots.

    `unused_local` returns a variable of the function that it has not returned before: the given one, or one like it.
    """

    unused_local: Callable[[str], str]
    slot: int = 0
    octets: int = 0
    checks: list[tuple[str, int, int, str, str]] = field(default_factory=list)
    """For each check: "bool" or the name of an enumeration, the slot, the octets before it, the field, and the local
    variable."""


def decode_group(
    kind: model.Type, tuple_name: str, label: str, local: str, group: DecodedGroup, module: model.Module
) -> Item:
    """Returns the Python expression that makes a value of a fixed-size type from the values of an unpacked tuple.

    Adds the slots (items of that tuple), the octets and the checks of the value to `group`.

    Args:
        kind: the type, for which `slots_of` returns a number.
        tuple_name: the variable with the tuple.
        label: the name of the value in errors.
        local: the name for the variable of an enumeration's value, which the caller's generated code assigns at the
            check in `group.checks`; `group.unused_local` may alter the name. For a structure, the beginning of the
            names for its members. For other types it has no effect.
        group: the run of fields so far.
        module: the model with the structures.
    """
    kind = model.strip(kind)
    slot = f"{tuple_name}[{group.slot}]"
    match kind:
        case model.Number():
            group.slot += 1
            group.octets += kind.octets
            return slot
        case model.Boolean():
            group.checks.append(("bool", group.slot, group.octets, label, local))
            group.slot += 1
            group.octets += 4
            return f"{slot} == 1"
        case model.EnumRef(name):
            # Member `a_b` and member `b` of the structure `a` have one name here.
            local = group.unused_local(local)
            group.checks.append((name, group.slot, group.octets, label, local))
            group.slot += 1
            group.octets += 4
            return local
        case model.FixedOpaque(length):
            group.slot += 1
            group.octets += (length + 3) & ~3
            return slot
        case model.FixedArray(element, length):
            element = model.strip(element)
            assert isinstance(element, model.Number)
            first = group.slot
            group.slot += length
            group.octets += length * element.octets
            return f"list({tuple_name}[{first}:{group.slot}])"
        case model.ClassRef(name):
            return CallExpression(
                name,
                [
                    decode_group(
                        member.type, tuple_name, f"{label}.{member.name}", f"{local}{member.name}_", group, module
                    )
                    for member in _members(name, module)
                ],
            )
        case _:
            raise AssertionError(kind)


def _members(name: str, module: model.Module) -> list[model.Member]:
    item = module.classes[name]
    assert isinstance(item, model.Struct)
    return item.members
