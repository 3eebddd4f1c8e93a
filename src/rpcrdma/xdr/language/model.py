"""A checked interface definition: every name resolved, every bound a number, recursion found.

Provisional: other releases may change these names.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = [
    "UNSIGNED_INT",
    "AliasRef",
    "Arm",
    "Boolean",
    "Bound",
    "Class",
    "ClassRef",
    "Enum",
    "EnumRef",
    "FixedArray",
    "FixedOpaque",
    "LinkedList",
    "Member",
    "Module",
    "Number",
    "Optional",
    "Procedure",
    "ProgramVersion",
    "Struct",
    "Text",
    "Type",
    "Union",
    "VariableArray",
    "VariableOpaque",
    "class_in",
    "parts",
    "reachable",
    "strip",
]


@dataclass(frozen=True, slots=True)
class Number:
    """A numeric type. `code` is the letter for the type in format strings of `struct`: i, I, q, Q, f or d."""

    code: str

    @property
    def octets(self) -> int:
        """The size of one number of this type on the wire, in octets: 4 or 8."""
        return 8 if self.code in "qQd" else 4


UNSIGNED_INT = Number("I")
"""The type `unsigned int`."""


@dataclass(frozen=True, slots=True)
class Boolean:
    """The XDR type bool, encoded as the word 0 or 1."""


@dataclass(frozen=True, slots=True)
class EnumRef:
    """The type of an enumeration's values, by the enumeration's name; `signed` if a value is negative."""

    name: str
    signed: bool


@dataclass(frozen=True, slots=True)
class FixedOpaque:
    """The type opaque[length]: opaque data of exactly `length` octets."""

    length: int


@dataclass(frozen=True, slots=True)
class VariableOpaque:
    """The type opaque<limit>: at most `limit` octets; `ddp`: the data are DDP-eligible."""

    limit: int
    ddp: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """The type string<limit>: at most `limit` octets; `ddp`: the string is DDP-eligible."""

    limit: int
    ddp: bool = False


@dataclass(frozen=True, slots=True)
class ClassRef:
    """The type of a structure or union, by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class FixedArray:
    """The type of arrays of exactly `length` elements."""

    element: Type
    length: int


@dataclass(frozen=True, slots=True)
class VariableArray:
    """The type of arrays of at most `limit` elements.

    `paired`: the array is one of the two of a `pragma pairs`, which are in the arguments and in the result of a call;
    their elements with the same index belong together.
    """

    element: Type
    limit: int
    paired: bool = False


@dataclass(frozen=True, slots=True)
class Optional:
    """The type of a pointer: a value of type `element`, or None."""

    element: Type


@dataclass(frozen=True, slots=True)
class LinkedList:
    """The type of lists of optional data (RFC 4506 section 4.19), whose entries are of the structure `entry`.

    `limit` is the most entries; None: the message alone bounds them. `filled`: there is at least one entry.
    """

    entry: str
    limit: int | None
    filled: bool = False


@dataclass(frozen=True, slots=True)
class AliasRef:
    """A type under the name of its typedef.

    A pragma may have given `type` bounds that the typedef itself does not have.
    """

    name: str
    type: Type


Type: TypeAlias = (
    Number
    | Boolean
    | EnumRef
    | FixedOpaque
    | VariableOpaque
    | Text
    | ClassRef
    | FixedArray
    | VariableArray
    | Optional
    | LinkedList
    | AliasRef
)
"""The type of a member, an argument, a result or a typedef."""


def strip(kind: Type) -> Type:
    """Returns the type behind a typedef (`AliasRef`), or typedef of a typedef; returns any other type as it is.

    Typedefs of elements stay.
    """
    while isinstance(kind, AliasRef):
        kind = kind.type
    return kind


@dataclass(frozen=True, slots=True)
class Enum:
    """An enumeration: its name in Python, and its members in order of definition, each (name in Python, value)."""

    name: str
    members: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a structure, or the discriminant of a union: its name in Python and its type."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Arm:
    """An arm of a union: discriminant values, each with its text in the definition, and the name in Python.

    The default arm has no values. `type` is None for a void arm, which has the name "".
    """

    values: tuple[tuple[int, str], ...]
    name: str
    type: Type | None


@dataclass(slots=True)
class Struct:
    """A structure: its name in Python and its members in order, but not a linked list's pointer to the next entry."""

    name: str
    members: list[Member] = field(default_factory=list)


@dataclass(slots=True)
class Union:
    """A union and its discriminant: `arms` has each arm with values of its own, void ones included, in order.

    `name` is the name in Python. `default` is the default arm, for all other values; None if there is none.
    """

    name: str
    discriminant: Member
    arms: list[Arm]
    default: Arm | None


Class: TypeAlias = Struct | Union
"""A type with members or arms, which is a class in generated code."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The bound of a result's member by a member of the call's arguments (`pragma bound`).

    Args:
        argument: the Python name of the member of the arguments.
        counted: "" if that member is a number, which is the bound. Otherwise its length is the bound, and this is the
            Python expression of the length, in which {} stands for the member.
        octets: whether the bound counts octets of encoded elements; False: elements or octets of data.
    """

    argument: str
    counted: str
    octets: bool


@dataclass(frozen=True, slots=True)
class Procedure:
    """A procedure of a program version: `name` in the definition, `method` in Python; a type that is None is void."""

    name: str
    method: str
    number: int
    arguments: Type | None
    result: Type | None


@dataclass(frozen=True, slots=True)
class ProgramVersion:
    """One version of a program: `program` is the program's name in the definition, `name` the version's in Python."""

    program: str
    program_number: int
    name: str
    number: int
    procedures: tuple[Procedure, ...]


@dataclass(slots=True)
class Module:
    """A whole checked definition; names of types and constants are those in the generated module.

    Args:
        source_name: the name of the definition's file, for the first line of the generated module.
        constants: the values of the constants, by name; those of enumerations are in `enums`.
        enums: the enumerations.
        classes: the structures and unions, by name.
        aliases: the types of the typedefs, by name.
        versions: the versions of all programs.
    """

    source_name: str
    constants: dict[str, int] = field(default_factory=dict)
    enums: list[Enum] = field(default_factory=list)
    classes: dict[str, Class] = field(default_factory=dict)
    aliases: dict[str, Type] = field(default_factory=dict)
    versions: list[ProgramVersion] = field(default_factory=list)
    recursive: set[str] = field(default_factory=set)
    """Names of classes that contain themselves, other than as the next entry of a linked list."""
    bounds: dict[tuple[str, str, str], Bound] = field(default_factory=dict)
    """The bounds that `pragma bound` sets: members of the arguments that limit the length of a member of the result.

    The key is (class of the result, name of the limited member, class of the arguments)."""


def class_in(kind: Type) -> str | None:
    """Returns the name of the structure or union that a type is; of an array, pointer or list, that of its elements.

    Returns None for other types. Typedefs are resolved.
    """
    match strip(kind):
        case ClassRef(name) | LinkedList(name):
            return name
        case FixedArray(element) | VariableArray(element) | Optional(element):
            return class_in(element)
        case _:
            return None


def parts(item: Class) -> list[str]:
    """Returns the names of the structures and unions that the members or arms of a class have as types, in order.

    Elements of arrays, targets of pointers and entries of lists count as well, but nothing within those classes. A name
    may occur more than once.
    """
    kinds: list[Type] = []
    if isinstance(item, Struct):
        kinds += [member.type for member in item.members]
    else:
        kinds += [arm.type for arm in [*item.arms, item.default] if arm is not None and arm.type is not None]
    return [name for kind in kinds if (name := class_in(kind)) is not None]


def reachable(module: Module, starts: Iterable[str]) -> set[str]:
    """Returns the names `starts` of classes, and those of all classes within these, at any depth."""
    seen = set(starts)
    waiting = list(seen)
    while waiting:
        for name in parts(module.classes[waiting.pop()]):
            if name not in seen:
                seen.add(name)
                waiting.append(name)
    return seen
