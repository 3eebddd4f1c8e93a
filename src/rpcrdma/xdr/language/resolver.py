"""Resolves syntax to types: declarations with their bounds, linked lists, unions."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from rpcrdma.file_limits import XDR_CLASSES_NESTED_MAX, XDR_ITEMS_NESTED_MAX
from rpcrdma.xdr.language import model, syntax
from rpcrdma.xdr.language.diagnostics import Diagnostic, SourceSpan
from rpcrdma.xdr.language.names import field_name, module_name
from rpcrdma.xdr.language.symbols import PREDEFINED, Symbols

__all__ = ["Resolver"]

_BUILTIN = {
    "int": "i",
    "unsigned int": "I",
    "hyper": "q",
    "unsigned hyper": "Q",
    "float": "f",
    "double": "d",
}
_MAX_U32 = 0xFFFFFFFF
_OF_RPCGEN: dict[str, tuple[str, model.Type]] = {
    **dict.fromkeys(("int8_t", "int16_t"), ("int", model.Number("i"))),
    **dict.fromkeys(
        ("u_char", "u_short", "u_long", "uint8_t", "uint16_t", "u_int32_t"), ("unsigned int", model.UNSIGNED_INT)
    ),
    **dict.fromkeys(
        ("rpcprog_t", "rpcvers_t", "rpcproc_t", "rpcprot_t", "rpcport_t"), ("unsigned int", model.UNSIGNED_INT)
    ),
    **dict.fromkeys(("quad_t", "longlong_t"), ("hyper", model.Number("q"))),
    **dict.fromkeys(("u_quad_t", "u_longlong_t", "u_int64_t"), ("unsigned hyper", model.Number("Q"))),
    "bool_t": ("bool", model.Boolean()),
    "des_block": ("opaque[8]", model.FixedOpaque(8)),
    "netobj": ("opaque<1024>", model.VariableOpaque(1024)),
}
"""Types of the C library for RPC that definitions use, with the XDR types that its functions encode."""


class Resolver:
    """Builds the `model.Module` of one specification in `module`; adds an error to `symbols.errors` for each fault.

    Args:
        symbols: the names of the specification.
        source_name: the name of the definition's file, for the module.
        default_limit: the most octets or elements of items without a limit; None: such items are errors.
    """

    def __init__(self, symbols: Symbols, source_name: str, default_limit: int | None) -> None:
        self.symbols = symbols
        self.default_limit = default_limit
        self.module = model.Module(source_name)
        self._aliases: dict[str, model.Type] = {}
        self._resolving: list[str] = []
        self._limits_used: set[tuple[str, str]] = set()
        self._ddp_used: set[tuple[str, str]] = set()
        self._pairs_used: set[tuple[str, str]] = set()
        self._enums: dict[str, model.EnumRef] = {}
        self._members: dict[str, dict[str, int]] = {}
        """For each enumeration, by its name in the module, the values by the names of its members."""
        self._values: dict[str, set[int]] = {}
        self._levels: dict[str, tuple[int, int]] = {}
        """For each typedef, how many arrays and pointers its type nests, and how many typedefs."""
        self._alike: Counter[str] = Counter()
        """For each name that anonymous types share, how many other names were looked at for them."""
        self._owners: dict[str, object] = {}
        """For each Python name of a constant or type, the body of the type, or another object that is no body."""
        bodies: dict[str, object] = dict.fromkeys(symbols.constants)
        for name, definition in symbols.definitions.items():
            bodies[name] = definition.declaration.type if isinstance(definition, syntax.Typedef) else definition.body
        for name, body in bodies.items():
            spelt = module_name(name)
            if spelt in self._owners:
                message = f"two definitions would be called {spelt} in Python"
                symbols.error(symbols.place_of(name), message, "rename one")
            self._owners[spelt] = body

    def resolve_types(self) -> None:
        """Adds all constants, enumerations, structures, unions and typedefs of the definition to `module`."""
        self.module.constants = {module_name(name): value for name, value in self.symbols.constants.items()}
        for name, definition in self.symbols.definitions.items():
            match definition:
                case syntax.TypeDefinition(body=body):
                    self.specifier(body, name)
                case syntax.Typedef():
                    self._alias(name)

    def check_pragmas(self) -> None:
        """Adds an error for each ddp, limit or pairs pragma that no declaration has used: it lacks a fit target.

        To be called after all types, those of procedures included, have been resolved.
        """
        for key, (limit, _) in self.symbols.limits.items():
            if key not in self._limits_used:
                self._no_target(limit.target, "is not of variable length")
        for key, ddp in self.symbols.ddp.items():
            if key not in self._ddp_used:
                self._no_target(ddp.target, "is not a member")
        for key, target in self.symbols.pairs.items():
            if key not in self._pairs_used:
                self._no_target(target, "is no array<> of structures or unions, whose elements can be paired")

    def _no_target(self, target: syntax.Target, otherwise: str) -> None:
        definition = self.symbols.definitions.get(target.type.name)
        if definition is None and target.type.name not in self.module.classes:
            self.symbols.unknown("type", target.type.name, target.type.place, self.symbols.definitions)
            return
        item = self.module.classes.get(module_name(target.type.name))
        if target.member is not None and item is not None:
            members = item.members if isinstance(item, model.Struct) else [*item.arms, item.default]
            names = [member.name for member in members if member is not None]
            if field_name(target.member.name) not in names:
                self.symbols.unknown("member", target.member.name, target.member.place, names)
                return
        place = (target.member or target.type).place
        self.symbols.error(place, f"{target.type.name if target.member is None else target.member.name} {otherwise}")

    # Types by specifier

    def specifier(self, kind: syntax.TypeSpecifier, owner: str) -> model.Type:
        """Returns the type of a type specifier.

        An anonymous enumeration, structure or union is added to `module` under the name `owner` or, if another type or
        a constant has that name, OWNER_2, OWNER_3 ... A fault adds an error, and the result is then some other type.
        """
        if isinstance(kind, syntax.EnumBody | syntax.StructBody | syntax.UnionBody):
            wanted = owner
            while self._owners.setdefault(module_name(owner), kind) is not kind:
                self._alike[wanted] += 1
                owner = f"{wanted}_{self._alike[wanted] + 1}"
        match kind:
            case syntax.Builtin("bool"):
                return model.Boolean()
            case syntax.Builtin("quadruple", place):
                self.symbols.error(
                    place, "quadruple is not supported: Python has no type for it", "opaque name[16] carries the octets"
                )
                return model.FixedOpaque(16)
            case syntax.Builtin(name):
                return model.Number(_BUILTIN[name])
            case syntax.NamedType(name, place):
                return self._named(name, place)
            case syntax.EnumBody():
                return self._enum(owner, kind)
            case syntax.StructBody():
                self._struct(owner, kind)
                return model.ClassRef(module_name(owner))
            case syntax.UnionBody():
                self._union(owner, kind)
                return model.ClassRef(module_name(owner))

    def _named(self, name: str, place: SourceSpan) -> model.Type:
        definition = self.symbols.definitions.get(name)
        match definition:
            case syntax.TypeDefinition(body=syntax.EnumBody() as body):
                return self._enum(name, body)
            case syntax.TypeDefinition():
                if self._is_entry(name):
                    return model.LinkedList(module_name(name), None, filled=True)
                return model.ClassRef(module_name(name))
            case syntax.Typedef():
                if name in self._resolving:
                    self.symbols.error(place, f"typedef {name} is defined by itself")
                    return model.UNSIGNED_INT
                if len(self._resolving) > XDR_CLASSES_NESTED_MAX:
                    return self._too_deep(place, "typedefs", XDR_CLASSES_NESTED_MAX)
                return model.AliasRef(module_name(name), self._alias(name))
            case _:
                pass
        if name in PREDEFINED:
            return model.Number(PREDEFINED[name])
        if name in {"string", "opaque"}:
            return self._bare(name, place)
        if name in _OF_RPCGEN:
            words, kind = _OF_RPCGEN[name]
            self.symbols.deviates(place, f"{name} is a type of rpcgen, not of the language; taken as {words}")
            return kind
        self.symbols.unknown("type", name, place, self.symbols.definitions)
        return model.UNSIGNED_INT

    def _bare(self, name: str, place: SourceSpan) -> model.Type:
        """Returns the type of the bare word `string`: a string with the default limit; notes a deviation from RFC 4506.

        Without a default limit, and for `opaque`, adds an error and returns the type `unsigned int`.
        """
        remedy = f"typedef {name} text<N>;"
        if name == "opaque" or self.default_limit is None:
            self.symbols.error(place, f"{name} is no type without a limit", remedy)
            return model.UNSIGNED_INT
        self.symbols.deviates(
            place, f"{name} is no type without a limit; taken as {name}<{self.default_limit}>", remedy
        )
        return model.Text(self.default_limit)

    def _alias(self, name: str) -> model.Type:
        known = self._aliases.get(name)
        if known is not None:
            return known
        definition = self.symbols.definitions[name]
        assert isinstance(definition, syntax.Typedef)
        self._resolving.append(name)
        kind = self.declaration(definition.declaration, (name, ""), name)
        self._resolving.pop()
        assert kind is not None
        self._aliases[name] = kind
        items, typedefs = self._levels_of(kind)
        self._levels[module_name(name)] = items, typedefs + 1
        item = model.strip(kind)
        body = definition.declaration.type
        named = isinstance(item, model.ClassRef | model.EnumRef) and item.name == module_name(name)
        if not (named and not isinstance(body, syntax.NamedType)):
            self.module.aliases[module_name(name)] = kind
        return kind

    # Linked lists

    def _is_entry(self, name: str) -> bool:
        """Returns whether the structure `name` is an entry of a linked list: only its last member points to it.

        False if there is no structure of this name.
        """
        match self.symbols.definitions.get(name):
            case syntax.TypeDefinition(body=syntax.StructBody((*others, last))):
                return self._points_to(last) == name and all(self._points_to(member) != name for member in others)
        return False

    def _points_to(self, declaration: syntax.Declaration) -> str | None:
        seen: set[str] = set()
        while True:
            if declaration.form is syntax.Form.OPTIONAL:
                return self._structure_behind(declaration.type)
            if declaration.form is not syntax.Form.PLAIN or not isinstance(declaration.type, syntax.NamedType):
                return None
            definition = self.symbols.definitions.get(declaration.type.name)
            if not isinstance(definition, syntax.Typedef) or declaration.type.name in seen:
                return None
            seen.add(declaration.type.name)
            declaration = definition.declaration

    def _structure_behind(self, kind: syntax.TypeSpecifier) -> str | None:
        seen: set[str] = set()
        while isinstance(kind, syntax.NamedType) and kind.name not in seen:
            seen.add(kind.name)
            definition = self.symbols.definitions.get(kind.name)
            if isinstance(definition, syntax.TypeDefinition):
                return kind.name if isinstance(definition.body, syntax.StructBody) else None
            if definition is None or definition.declaration.form is not syntax.Form.PLAIN:
                return None
            kind = definition.declaration.type
        return None

    # Definitions

    def _enum(self, name: str, body: syntax.EnumBody) -> model.EnumRef:
        known = self._enums.get(name)
        if known is None:
            item = model.Enum(module_name(name), self.symbols.enumerate(name, body))
            self.module.enums.append(item)
            self._members[item.name] = dict(item.members)
            self._values[item.name] = {value for _, value in item.members}
            known = self._enums[name] = model.EnumRef(item.name, any(value < 0 for _, value in item.members))
        return known

    def _struct(self, name: str, body: syntax.StructBody) -> None:
        struct = model.Struct(module_name(name))
        self.module.classes[struct.name] = struct
        members = body.members[:-1] if self._is_entry(name) else body.members
        seen: dict[str, SourceSpan] = {}
        for member in members:
            if member.form is syntax.Form.VOID:
                continue
            self._check_member(member.name, seen)
            kind = self.declaration(member, (name, member.name.name), f"{name}_{member.name.name}")
            assert kind is not None
            struct.members.append(model.Member(field_name(member.name.name), kind))

    def _check_member(self, name: syntax.Identifier, seen: dict[str, SourceSpan]) -> None:
        self.symbols.check_word(name)
        if name.name in seen:
            self.symbols.errors.append(
                Diagnostic.repeated(name.place, f"member {name.name} is defined twice", seen[name.name])
            )
        seen[name.name] = name.place

    def _union(self, name: str, body: syntax.UnionBody) -> None:
        discriminant = self._discriminant(name, body)
        kind = model.strip(discriminant.type)
        union = model.Union(module_name(name), discriminant, [], None)
        self.module.classes[union.name] = union
        labels: dict[int, SourceSpan] = {}
        arms: dict[str, SourceSpan] = {}
        for arm in body.arms:
            values: list[tuple[int, str]] = []
            for label in arm.labels:
                value = self._label(label, kind)
                if value in labels:
                    self.symbols.errors.append(
                        Diagnostic.repeated(label.place, f"case {_words(label)} occurs twice", labels[value])
                    )
                labels[value] = label.place
                values.append((value, _words(label)))
            union.arms.append(self._arm(name, arm, tuple(values), arms))
        if body.default is not None:
            union.default = self._arm(name, body.default, (), arms)

    def _arm(
        self, owner: str, arm: syntax.Arm, values: tuple[tuple[int, str], ...], seen: dict[str, SourceSpan]
    ) -> model.Arm:
        declaration = arm.declaration
        if declaration.form is syntax.Form.VOID:
            return model.Arm(values, "", None)
        name = declaration.name
        if arm.place != name.place:
            self.symbols.check_word(name)
        if name.name in seen:
            self.symbols.deviations.append(
                Diagnostic.repeated(name.place, f"member {name.name} occurs twice in union {owner}", seen[name.name])
            )
        seen.setdefault(name.name, name.place)
        return model.Arm(
            values, field_name(name.name), self.declaration(declaration, (owner, name.name), f"{owner}_{name.name}")
        )

    def _discriminant(self, owner: str, body: syntax.UnionBody) -> model.Member:
        declaration = body.discriminant
        if declaration.form is not syntax.Form.PLAIN:
            self.symbols.error(declaration.name.place, "a discriminant is an int, unsigned int, enum or bool")
            return model.Member("discriminant", model.UNSIGNED_INT)
        name = declaration.name
        self.symbols.check_word(name)
        kind = declaration.type
        resolved: model.Type
        if isinstance(kind, syntax.NamedType) and not self._knows(kind.name) and self._labels_are_constants(body):
            self.symbols.deviates(kind.place, f"type {kind.name} is not defined; taken as unsigned int")
            resolved = model.UNSIGNED_INT
        else:
            resolved = self.specifier(kind, f"{owner}_{name.name}")
        stripped = model.strip(resolved)
        if not isinstance(stripped, model.Boolean | model.EnumRef) and stripped not in {
            model.Number("i"),
            model.UNSIGNED_INT,
        }:
            self.symbols.error(name.place, "a discriminant is an int, unsigned int, enum or bool")
            resolved = model.UNSIGNED_INT
        field = field_name(name.name)
        return model.Member(f"{field}_" if field.rstrip("_") == "value" else field, resolved)

    def _knows(self, name: str) -> bool:
        return name in self.symbols.definitions or name in PREDEFINED

    def _labels_are_constants(self, body: syntax.UnionBody) -> bool:
        return all(
            isinstance(label, syntax.Number) or label.name in self.symbols.constants
            for arm in body.arms
            for label in arm.labels
        )

    def _label(self, label: syntax.Value, kind: model.Type) -> int:
        symbols = self.symbols
        if isinstance(kind, model.Boolean):
            value = {"FALSE": 0, "TRUE": 1}.get(_words(label))
            if value is None:
                symbols.error(label.place, f"a bool is TRUE or FALSE, not {_words(label)}")
            return value or 0
        if isinstance(kind, model.EnumRef):
            members = self._members[kind.name]
            if isinstance(label, syntax.Identifier) and label.name not in members:
                if label.name in symbols.constants:
                    value = symbols.constants[label.name]
                else:
                    symbols.unknown(f"in enum {kind.name},", label.name, label.place, members)
                    return -(1 << 40) - len(symbols.errors)
            else:
                value = symbols.evaluate(label)
            if value not in self._values[kind.name] and symbols.is_defined(value):
                symbols.error(label.place, f"enum {kind.name} has no value {_words(label)}")
            return value
        value = symbols.evaluate(label)
        low, high = (0, _MAX_U32) if kind == model.UNSIGNED_INT else (-(1 << 31), (1 << 31) - 1)
        if symbols.exceeds(value, low, high):
            symbols.error(label.place, f"{value} is out of the discriminant's range, {low} to {high}")
        return value

    # Declarations

    def declaration(self, declaration: syntax.Declaration, key: tuple[str, str], owner: str) -> model.Type | None:
        """Returns the type of a declaration, with the limits and marks of its pragmas; None for void.

        A fault adds an error, and the result is then some other type.

        Args:
            declaration: the declaration.
            key: the names by which pragmas refer to it: structure or union and member, or typedef and "".
            owner: the name for an anonymous type in it.
        """
        specifier = declaration.type
        kind: model.Type
        match declaration.form, specifier:
            case syntax.Form.VOID, _:
                return None
            case syntax.Form.OPTIONAL, _:
                kind = model.Optional(self.specifier(specifier, owner))
                entry = model.strip(kind.element)
                if isinstance(entry, model.LinkedList) and entry.filled:
                    kind = model.LinkedList(entry.entry, entry.limit)
            case syntax.Form.FIXED, syntax.Builtin("opaque"):
                kind = model.FixedOpaque(self._size(declaration, key))
            case syntax.Form.FIXED, _:
                kind = model.FixedArray(self.specifier(specifier, owner), self._size(declaration, key))
            case syntax.Form.VARIABLE, syntax.Builtin("opaque"):
                kind = model.VariableOpaque(self._size(declaration, key))
            case syntax.Form.VARIABLE, syntax.Builtin("string"):
                kind = model.Text(self._size(declaration, key))
            case syntax.Form.VARIABLE, _:
                kind = model.VariableArray(self.specifier(specifier, owner), self._size(declaration, key))
            case _:
                kind = self.specifier(specifier, owner)
        items, typedefs = self._levels_of(kind)
        if items > XDR_ITEMS_NESTED_MAX:
            return self._too_deep(declaration.name.place, "arrays and pointers", XDR_ITEMS_NESTED_MAX)
        if typedefs > XDR_CLASSES_NESTED_MAX:
            return self._too_deep(declaration.name.place, "typedefs", XDR_CLASSES_NESTED_MAX)
        return self._with_pragmas(kind, key)

    def _levels_of(self, kind: model.Type) -> tuple[int, int]:
        """Returns (number of nested arrays and pointers in a type, number of nested typedefs).

        What the type's typedefs contain counts as well.
        """
        items = 0
        while not isinstance(kind, model.AliasRef):
            if not isinstance(kind, model.FixedArray | model.VariableArray | model.Optional):
                return items, 0
            items += 1
            kind = kind.element
        below, typedefs = self._levels.get(kind.name, (0, 0))
        return items + below, typedefs

    def _too_deep(self, place: SourceSpan, what: str, most: int) -> model.Type:
        self.symbols.error(place, f"{what} are nested more than {most} levels deep")
        return model.UNSIGNED_INT

    def _size(self, declaration: syntax.Declaration, key: tuple[str, str]) -> int:
        """Returns the size in a declaration, its length or limit; adds an error if it is not from 0 to 2^32 - 1.

        For a declaration without a size returns 0 if there is a limit pragma for `key`, which sets the limit later;
        else the default limit, else 0 with an error. `key` is (structure or union, member) or (typedef, "").
        """
        if declaration.size is not None:
            value = self.symbols.evaluate(declaration.size)
            if self.symbols.exceeds(value, 0, _MAX_U32):
                self.symbols.error(declaration.size.place, f"{value} is not a size: 0 to {_MAX_U32}")
            return max(value, 0)
        if key in self.symbols.limits:
            return 0
        if self.default_limit is not None:
            return self.default_limit
        name = ".".join(filter(None, key))
        self.symbols.error(declaration.name.place, f"{name} has no limit", f"write <N>, or add: pragma limit {name} N;")
        return 0

    def _with_pragmas(self, kind: model.Type, key: tuple[str, str]) -> model.Type:
        stripped = model.strip(kind)
        if key in self.symbols.limits and isinstance(
            stripped, model.VariableOpaque | model.Text | model.VariableArray | model.LinkedList
        ):
            self._limits_used.add(key)
            stripped = replace(stripped, limit=self.symbols.limits[key][1])
            kind = model.AliasRef(kind.name, stripped) if isinstance(kind, model.AliasRef) else stripped
        if key in self.symbols.pairs and isinstance(stripped, model.VariableArray) and model.class_in(stripped):
            self._pairs_used.add(key)
            stripped = replace(stripped, paired=True)
            kind = model.AliasRef(kind.name, stripped) if isinstance(kind, model.AliasRef) else stripped
        ddp = self.symbols.ddp.get(key)
        if ddp is not None:
            self._ddp_used.add(key)
            if ddp.target.member is None or not isinstance(stripped, model.VariableOpaque | model.Text):
                self.symbols.error(
                    (ddp.target.member or ddp.target.type).place,
                    f"{'.'.join(filter(None, key))} cannot be placed directly",
                    "only members of type opaque<> or string<> can",
                )
                return kind
            stripped = replace(stripped, ddp=True)
            if isinstance(stripped, model.Text) and isinstance(kind, model.AliasRef):
                return model.AliasRef(kind.name, stripped)
            return stripped
        return kind


def _words(value: syntax.Value) -> str:
    return value.name if isinstance(value, syntax.Identifier) else str(value.value)
