"""A checked interface definition: every name resolved, every bound a number, recursion found.

Provisional: other releases may change these names.
"""

from __future__ import annotations

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
    """A number by the letter of its format in `struct`."""

    code: str

    @property
    def octets(self) -> int:
        """Its size on the wire."""
        return 8 if self.code in "qQd" else 4


UNSIGNED_INT = Number("I")
"""The type `unsigned int`."""


@dataclass(frozen=True, slots=True)
class Boolean:
    """A bool."""


@dataclass(frozen=True, slots=True)
class EnumRef:
    """An enumeration; `signed` where it has negative values."""

    name: str
    signed: bool


@dataclass(frozen=True, slots=True)
class FixedOpaque:
    """Opaque data of a fixed length in octets."""

    length: int


@dataclass(frozen=True, slots=True)
class VariableOpaque:
    """Opaque data of at most `limit` octets; `ddp` where it may be placed directly."""

    limit: int
    ddp: bool = False


@dataclass(frozen=True, slots=True)
class Text:
    """A string of at most `limit` octets; `ddp` where it may be placed directly."""

    limit: int
    ddp: bool = False


@dataclass(frozen=True, slots=True)
class ClassRef:
    """A structure or union."""

    name: str


@dataclass(frozen=True, slots=True)
class FixedArray:
    """An array of a fixed number of elements."""

    element: Type
    length: int


@dataclass(frozen=True, slots=True)
class VariableArray:
    """An array of at most `limit` elements; `paired`: those of a result belong to those of the arguments, in order."""

    element: Type
    limit: int
    paired: bool = False


@dataclass(frozen=True, slots=True)
class Optional:
    """A value or none."""

    element: Type


@dataclass(frozen=True, slots=True)
class LinkedList:
    """A list of optional data; `limit` None: as many entries as fit into the message. `filled`: at least one entry."""

    entry: str
    limit: int | None
    filled: bool = False


@dataclass(frozen=True, slots=True)
class AliasRef:
    """A type under the name of its typedef; the bounds are those of `type`, which a pragma may have changed."""

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
    """Returns the type behind all typedefs of `kind`."""
    while isinstance(kind, AliasRef):
        kind = kind.type
    return kind


@dataclass(frozen=True, slots=True)
class Enum:
    """An enumeration with its names and values in order."""

    name: str
    members: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a structure."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Arm:
    """An arm of a union: its discriminant values, each as the definition writes it; a void arm has no type."""

    values: tuple[tuple[int, str], ...]
    name: str
    type: Type | None


@dataclass(slots=True)
class Struct:
    """A structure; the link of a linked list's entry is left out of `members`."""

    name: str
    members: list[Member] = field(default_factory=list)


@dataclass(slots=True)
class Union:
    """A union; without a default arm `default` is None."""

    name: str
    discriminant: Member
    arms: list[Arm]
    default: Arm | None


Class: TypeAlias = Struct | Union
"""A type with members or arms, which is a class in generated code."""


@dataclass(frozen=True, slots=True)
class Bound:
    """How an argument of a call bounds a member of its result.

    The member has at most as many elements as the number `argument` says; or, if `argument` is itself of variable
    length, at most as many as that has: `counted` is then the expression of its length, with {} for the argument, and
    otherwise empty. `octets`: the number bounds octets of encoded elements instead.
    """

    argument: str
    counted: str
    octets: bool


@dataclass(frozen=True, slots=True)
class Procedure:
    """A procedure; void is None."""

    name: str
    method: str
    number: int
    arguments: Type | None
    result: Type | None


@dataclass(frozen=True, slots=True)
class ProgramVersion:
    """One version of a program."""

    program: str
    program_number: int
    name: str
    number: int
    procedures: tuple[Procedure, ...]


@dataclass(slots=True)
class Module:
    """The definitions of one interface definition; the names are the names in the generated module."""

    source_name: str
    constants: dict[str, int] = field(default_factory=dict)
    enums: list[Enum] = field(default_factory=list)
    classes: dict[str, Class] = field(default_factory=dict)
    aliases: dict[str, Type] = field(default_factory=dict)
    versions: list[ProgramVersion] = field(default_factory=list)
    recursive: set[str] = field(default_factory=set)
    """Classes that contain themselves other than as a linked list."""
    bounds: dict[tuple[str, str, str], Bound] = field(default_factory=dict)
    """Bounds by class of the result, its member, and class of the arguments."""


def class_in(kind: Type) -> str | None:
    """Returns the name of the class that a type is, or that its elements are; None for other types."""
    match strip(kind):
        case ClassRef(name) | LinkedList(name):
            return name
        case FixedArray(element) | VariableArray(element) | Optional(element):
            return class_in(element)
        case _:
            return None


def parts(item: Class) -> list[str]:
    """Returns the names of the classes of a class's members or arms."""
    kinds: list[Type] = []
    if isinstance(item, Struct):
        kinds += [member.type for member in item.members]
    else:
        kinds += [arm.type for arm in [*item.arms, item.default] if arm is not None and arm.type is not None]
    return [name for kind in kinds if (name := class_in(kind)) is not None]


def reachable(module: Module, start: str) -> set[str]:
    """Returns the names of all classes within `start`, a class of `module`; itself only if it contains itself."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for name in parts(module.classes[waiting.pop()]):
            if name not in seen:
                seen.add(name)
                waiting.append(name)
    return seen
