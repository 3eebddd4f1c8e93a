"""The syntax tree of an interface definition: one dataclass a production of the XDR language.

References are to RFC 4506 section 6.3 unless stated otherwise.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TypeAlias

from rpcrdma.xdr.language.diagnostics import Diagnostic, SourceSpan

__all__ = [
    "RESERVED_WORDS",
    "Arm",
    "BoundPragma",
    "Builtin",
    "Constant",
    "DdpPragma",
    "Declaration",
    "Definition",
    "EnumBody",
    "Enumerator",
    "Form",
    "Identifier",
    "LimitPragma",
    "NamedType",
    "Number",
    "PairsPragma",
    "Procedure",
    "Program",
    "Specification",
    "StructBody",
    "Target",
    "TypeDefinition",
    "TypeSpecifier",
    "Typedef",
    "UnionBody",
    "Value",
    "Version",
]

RESERVED_WORDS = frozenset(
    {
        "bool", "case", "const", "default", "double", "enum", "float", "hyper", "int", "opaque", "program",
        "quadruple", "string", "struct", "switch", "typedef", "union", "unsigned", "version", "void",
    }
)  # fmt: skip
"""Words that no definition may use as a name: section 6.1, and RFC 5531 section 12.3 for `program` and `version`."""


@dataclass(frozen=True, slots=True)
class Identifier:
    """A name in a definition, and its place in the source."""

    name: str
    place: SourceSpan


@dataclass(frozen=True, slots=True)
class Number:
    """A literal number (decimal, hexadecimal or octal in the source), and its place."""

    value: int
    place: SourceSpan


Value: TypeAlias = Number | Identifier


@dataclass(frozen=True, slots=True)
class Builtin:
    """A type of the language itself: "unsigned int", "hyper", "opaque" ..."""

    name: str
    place: SourceSpan


@dataclass(frozen=True, slots=True)
class NamedType:
    """A reference to a type by its name, with or without `struct`, `enum` or `union` before it."""

    name: str
    place: SourceSpan


@dataclass(frozen=True, slots=True)
class Enumerator:
    """A member of an enumeration and its value; None (of rpcgen): one more than the value before it, as in C."""

    name: Identifier
    value: Value | None


@dataclass(frozen=True, slots=True)
class EnumBody:
    """The enumerators of an enumeration, the part in braces (RFC 4506 section 4.3)."""

    enumerators: tuple[Enumerator, ...]


@dataclass(frozen=True, slots=True)
class StructBody:
    """The members of a structure, the part in braces (RFC 4506 section 4.14)."""

    members: tuple[Declaration, ...]


@dataclass(frozen=True, slots=True)
class Arm:
    """An arm of a union: its case labels (none: the default arm), its declaration, and the place of its first label."""

    labels: tuple[Value, ...]
    declaration: Declaration
    place: SourceSpan


@dataclass(frozen=True, slots=True)
class UnionBody:
    """A union's discriminant and arms (RFC 4506 section 4.15).

    `arms` are those with case labels; `default` is the default arm, None without one.
    """

    discriminant: Declaration
    arms: tuple[Arm, ...]
    default: Arm | None


TypeSpecifier: TypeAlias = Builtin | NamedType | EnumBody | StructBody | UnionBody


class Form(enum.Enum):
    """The forms of a declaration in XDR; the value of each is its pattern."""

    PLAIN = "type name"
    FIXED = "type name[size]"
    VARIABLE = "type name<size>"
    OPTIONAL = "type *name"
    VOID = "void"


@dataclass(frozen=True, slots=True)
class Declaration:
    """A declaration of a member, an arm, a discriminant or a typedef (RFC 4506 sections 4.9 to 4.13, 4.16 and 4.19).

    Opaque data and strings have the builtin types "opaque" and "string"; `void` has the type and the name "void".
    `size` is None for a variable form without a limit, and for forms without a size.
    """

    form: Form
    type: TypeSpecifier
    name: Identifier
    size: Value | None = None


@dataclass(frozen=True, slots=True)
class Constant:
    """The definition `const name = value;` (RFC 4506 section 4.17)."""

    name: Identifier
    value: Value


@dataclass(frozen=True, slots=True)
class Typedef:
    """The definition `typedef declaration;` (RFC 4506 section 4.18)."""

    declaration: Declaration
    place: SourceSpan


@dataclass(frozen=True, slots=True)
class TypeDefinition:
    """The definition `enum name body;`, `struct name body;` or `union name body;` (RFC 4506 section 6.3)."""

    name: Identifier
    body: EnumBody | StructBody | UnionBody


@dataclass(frozen=True, slots=True)
class Procedure:
    """A procedure of a program: `result name(arguments) = number;` (RFC 5531 section 12.2).

    A void result is None, void arguments are an empty tuple.
    """

    name: Identifier
    result: TypeSpecifier | None
    arguments: tuple[TypeSpecifier, ...]
    number: Value


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a program: `version name { procedures } = number;` (RFC 5531 section 12.2)."""

    name: Identifier
    procedures: tuple[Procedure, ...]
    number: Value


@dataclass(frozen=True, slots=True)
class Program:
    """The definition `program name { versions } = number;` (RFC 5531 section 12.2)."""

    name: Identifier
    versions: tuple[Version, ...]
    number: Value


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a pragma: `type.member`, or a typedef by its name alone (`member` is None)."""

    type: Identifier
    member: Identifier | None


@dataclass(frozen=True, slots=True)
class DdpPragma:
    """`pragma ddp type.member;`: the member may be placed directly (RFC 8166 section 6.1)."""

    target: Target


@dataclass(frozen=True, slots=True)
class LimitPragma:
    """`pragma limit type.member value;`: the most elements or octets of a variable-length item."""

    target: Target
    value: Value


@dataclass(frozen=True, slots=True)
class BoundPragma:
    """`pragma bound type.member arguments.member;`: a member of the arguments bounds a member of the result.

    The bound counts elements or, of opaque data and strings, octets. If `octets` is True, it counts the octets that an
    array's elements have when encoded.
    """

    target: Target
    octets: bool
    argument: Target


@dataclass(frozen=True, slots=True)
class PairsPragma:
    """`pragma pairs type.member arguments.member;`: element i of the result belongs to element i of the arguments."""

    target: Target
    argument: Target


Definition: TypeAlias = (
    Constant | Typedef | TypeDefinition | Program | DdpPragma | LimitPragma | BoundPragma | PairsPragma
)


@dataclass(slots=True)
class Specification:
    """The syntax tree of a whole interface definition, as `parse` returns it.

    `deviations` are the remarks on malformed constructs whose meaning is clear.
    """

    definitions: tuple[Definition, ...]
    deviations: list[Diagnostic] = field(default_factory=list)
