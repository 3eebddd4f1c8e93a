"""The names of an interface definition: the definition of each, constants and their values."""

from __future__ import annotations

import difflib
import itertools
from collections import Counter
from collections.abc import Container, Iterable

from rpcrdma.file_limits import (
    XDR_BOUND_PRAGMAS_MAX,
    XDR_HINTS_MAX,
    XDR_NAME_COMPARED_CHARACTERS_MAX,
    XDR_NAMES_COMPARED_MAX,
)
from rpcrdma.xdr.language import syntax
from rpcrdma.xdr.language.diagnostics import Diagnostic, SourceSpan
from rpcrdma.xdr.language.names import enumerator_name

__all__ = ["PREDEFINED", "Symbols"]

_UNDEFINED = -(1 << 64)
"""Below it, each number stands for one use of an undefined constant: no type has such numbers."""

PREDEFINED = {
    "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q",
    "int32_t": "i", "uint32_t": "I", "int64_t": "q", "uint64_t": "Q",
    "u_int": "I",
}  # fmt: skip
"""Names of types that many definitions use without a typedef; a definition may give them a meaning of its own."""


class Symbols:
    """All names and pragmas of a specification, and the errors and deviations found so far.

    Creating the object collects the names and pragmas, and evaluates the constants. `deviations` are remarks on
    malformed constructs whose meaning is clear.

    Args:
        specification: the syntax tree.
    """

    def __init__(self, specification: syntax.Specification) -> None:
        self.errors: list[Diagnostic] = []
        self.deviations: list[Diagnostic] = []
        self.definitions: dict[str, syntax.Typedef | syntax.TypeDefinition] = {}
        self.limits: dict[tuple[str, str], tuple[syntax.LimitPragma, int]] = {}
        self.ddp: dict[tuple[str, str], syntax.DdpPragma] = {}
        self.pairs: dict[tuple[str, str], syntax.Target] = {}
        self.bounds: list[syntax.BoundPragma] = []
        self.enumerators: dict[str, int] = {}
        self._enumerations: dict[str, tuple[tuple[str, int], ...]] = {}
        self.constants: dict[str, int] = {}
        self._places: dict[str, SourceSpan] = {}
        self._unevaluated: dict[str, syntax.Value] = {}
        self._collect(specification.definitions)
        for definition in specification.definitions:
            if isinstance(definition, syntax.TypeDefinition) and isinstance(definition.body, syntax.EnumBody):
                self.enumerate(definition.name.name, definition.body)
        for name in list(self._unevaluated):
            if name in self._unevaluated:
                self._constant(name)
        self._collect_pragmas(specification.definitions)

    def error(self, place: SourceSpan, message: str, hint: str = "") -> None:
        """Adds an error at a place in the source to `errors`; the hint is the remedy, "" if there is none."""
        self.errors.append(Diagnostic(place, message, hint))

    def deviates(self, place: SourceSpan, message: str, hint: str = "") -> None:
        """Adds a remark to `deviations`: the construct at `place` is malformed, but its meaning is clear.

        `message` describes it, and `hint` is the remedy, "" if there is none. The checker makes the remark an error or,
        in the lenient dialect, a warning.
        """
        self.deviations.append(Diagnostic(place, message, hint))

    def place_of(self, name: str) -> SourceSpan:
        """Returns the place in the source at which a name is defined.

        For the name OUTER_MEMBER of an anonymous type that is the place of OUTER, and for an unknown name line 1,
        column 1.
        """
        while name not in self._places and "_" in name:
            name = name.rpartition("_")[0]
        return self._places.get(name, SourceSpan(1, 1))

    def declare(self, name: syntax.Identifier) -> bool:
        """Registers a global name, and returns True; returns False and adds an error if the name is defined already.

        A reserved word adds an error as well, and is registered like other names.
        """
        self.check_word(name)
        first = self._places.get(name.name)
        if first is not None:
            self.errors.append(Diagnostic.repeated(name.place, f"{name.name} is defined twice", first))
            return False
        self._places[name.name] = name.place
        return True

    def check_word(self, name: syntax.Identifier) -> None:
        """Adds an error if a name is a reserved word of the language."""
        if name.name in syntax.RESERVED_WORDS:
            self.error(name.place, f"'{name.name}' is a reserved word")

    def enumerate(self, owner: str, body: syntax.EnumBody) -> tuple[tuple[str, int], ...]:
        """Returns the names and values of an enumeration's members, in order.

        The first call for the enumeration `owner` makes the names global (RFC 4506 section 6.4), adds an error for each
        value that is no signed 32-bit integer, and leaves out, with an error, names that are defined already. Later
        calls for `owner` only return the same members.
        """
        known = self._enumerations.get(owner)
        if known is not None:
            return known
        members: list[tuple[str, int]] = []
        taken: dict[str, SourceSpan] = {}
        value = -1
        for enumerator in body.enumerators:
            value = value + 1 if enumerator.value is None else self.evaluate(enumerator.value)
            if self.exceeds(value, -(1 << 31), (1 << 31) - 1):
                place = (enumerator.value or enumerator.name).place
                self.error(place, f"{value} does not fit a signed 32-bit integer")
            spelt = enumerator_name(enumerator.name.name)
            if spelt in taken:
                # Where one of them is a word of Python, names that differ can be one there.
                message = f"{enumerator.name.name} is defined twice"
                self.errors.append(Diagnostic.repeated(enumerator.name.place, message, taken[spelt]))
            elif self.declare(enumerator.name):
                taken[spelt] = enumerator.name.place
                self.enumerators[enumerator.name.name] = value
                members.append((enumerator.name.name, value))
        self._enumerations[owner] = tuple(members)
        return self._enumerations[owner]

    def evaluate(self, value: syntax.Value) -> int:
        """Returns the number that a literal or the name of a constant stands for.

        For an unknown name it adds an error and returns a number for which `is_defined` is False, another each time.
        For a constant that is defined by itself, directly or through others, it adds an error and returns 1.
        """
        if isinstance(value, syntax.Number):
            return value.value
        if value.name in self._unevaluated:
            return self._constant(value.name)
        if value.name in self.constants:
            return self.constants[value.name]
        if value.name in self.enumerators:
            return self.enumerators[value.name]
        self.unknown("constant", value.name, value.place, itertools.chain(self.constants, self.enumerators))
        return _UNDEFINED - 1 - len(self.errors)

    @staticmethod
    def is_defined(value: int) -> bool:
        """Returns False for a number below -2^64, with which `evaluate` marks an unknown name, and True for others."""
        return value >= _UNDEFINED

    def exceeds(self, value: int, low: int, high: int) -> bool:
        """Returns whether a number from `evaluate` is outside `low` to `high`; False if it marks an unknown name."""
        return self.is_defined(value) and not low <= value <= high

    def unknown(self, what: str, name: str, place: SourceSpan, known: Iterable[str]) -> None:
        """Adds the error that a name is not defined.

        The hint is a similar name in `known` or else, for a constant, the option -D; "" if there is none. Similar
        names are looked for while there are fewer than XDR_HINTS_MAX errors, and not for long names.

        Args:
            what: the kind of the name, such as "type" or "constant".
            name: the name.
            place: its place in the source.
            known: the names of this kind, of which at most XDR_NAMES_COMPARED_MAX are compared.
        """
        short = len(self.errors) < XDR_HINTS_MAX and len(name) <= XDR_NAME_COMPARED_CHARACTERS_MAX
        compared = XDR_NAMES_COMPARED_MAX if short else 0
        close = difflib.get_close_matches(name, itertools.islice(known, compared), 1, 0.75)
        # Definitions for rpcgen leave some constants to headers of C.
        remedy = f"-D {name}=N gives it a value" if what == "constant" else ""
        self.error(place, f"{what} {name} is not defined", f"did you mean {close[0]}?" if close else remedy)

    def _constant(self, name: str) -> int:
        # One after another: a definition decides how many constants stand for each other.
        names = {name: None}
        value = self._unevaluated.pop(name)
        while isinstance(value, syntax.Identifier) and value.name in self._unevaluated:
            names[value.name] = None
            value = self._unevaluated.pop(value.name)
        if isinstance(value, syntax.Identifier) and value.name in names:
            self.error(value.place, f"constant {value.name} is defined by itself")
            number = 1
        else:
            number = self.evaluate(value)
        for each in reversed(names):
            self.constants[each] = number
        return number

    def _collect(self, definitions: tuple[syntax.Definition, ...]) -> None:
        types = Counter(PREDEFINED.keys())
        types.update(
            item.declaration.name.name if isinstance(item, syntax.Typedef) else item.name.name
            for item in definitions
            if isinstance(item, syntax.Typedef | syntax.TypeDefinition)
        )
        # A typedef that may be turned round, or is left out, makes no type of its name.
        types.subtract(
            item.declaration.name.name
            for item in definitions
            if isinstance(item, syntax.Typedef)
            and (_names_itself(item.declaration) or _type_unknown(item.declaration, types))
        )
        for item in definitions:
            match item:
                case syntax.Constant(name, value):
                    if self.declare(name):
                        self._unevaluated[name.name] = value
                case syntax.Typedef(declaration):
                    if declaration.form is syntax.Form.VOID:
                        self.error(item.place, "a typedef needs a type and a name")
                        continue
                    if _names_itself(declaration):
                        self.deviates(item.place, f"typedef gives {declaration.name.name} its own name; left out")
                        continue
                    turned = self._turned_round(declaration, types)
                    if self.declare(turned.name):
                        self.definitions[turned.name.name] = syntax.Typedef(turned, item.place)
                case syntax.TypeDefinition(name):
                    if self.declare(name):
                        self.definitions[name.name] = item
                case syntax.Program(name, versions):
                    self.declare(name)
                    for version in versions:
                        self.declare(version.name)
                case _:
                    pass

    def _turned_round(self, declaration: syntax.Declaration, types: Counter[str]) -> syntax.Declaration:
        """Returns `typedef NEW KNOWN;` as `typedef KNOWN NEW;`, with a remark in `deviations`, others unchanged.

        A typedef is turned round only if KNOWN is a type without typedefs like it, and NEW is neither a type nor a
        global name declared before.

        Args:
            declaration: the declaration of the typedef.
            types: the number of types by name, predefined ones such as uint32 included, without typedefs that may be
                turned round. If this method turns a typedef round, it adds one for NEW.
        """
        new, known = _type_unknown(declaration, types), declaration.name
        if new is None or not types[known.name] or new.name in self._places:
            return declaration
        self.deviates(new.place, f"typedef has the new name before the type: typedef {known.name} {new.name};")
        types[new.name] += 1
        turned = syntax.NamedType(known.name, known.place)
        return syntax.Declaration(syntax.Form.PLAIN, turned, syntax.Identifier(new.name, new.place))

    def _collect_pragmas(self, definitions: tuple[syntax.Definition, ...]) -> None:
        for item in definitions:
            if isinstance(item, syntax.BoundPragma):
                self.bounds.append(item)
                if len(self.bounds) == XDR_BOUND_PRAGMAS_MAX + 1:
                    message = f"there are more than {XDR_BOUND_PRAGMAS_MAX} bounds"
                    self.error(item.target.type.place, message)
            if isinstance(item, syntax.PairsPragma):
                for target in (item.target, item.argument):
                    self.pairs[target.type.name, target.member.name if target.member else ""] = target
            if not isinstance(item, syntax.DdpPragma | syntax.LimitPragma):
                continue
            target = item.target
            key = (target.type.name, target.member.name if target.member else "")
            if key in (self.ddp if isinstance(item, syntax.DdpPragma) else self.limits):
                self.error(target.type.place, f"a second pragma for {'.'.join(filter(None, key))}")
            elif isinstance(item, syntax.DdpPragma):
                self.ddp[key] = item
            else:
                limit = self.evaluate(item.value)
                if self.exceeds(limit, 0, 0xFFFFFFFF):
                    self.error(item.value.place, f"{limit} is not a limit: 0 to 4294967295")
                self.limits[key] = (item, limit)


def _type_unknown(declaration: syntax.Declaration, types: Container[str]) -> syntax.NamedType | None:
    """Returns NEW of `typedef NEW KNOWN;` if it is not among the names in `types`, None for other declarations."""
    if declaration.form is not syntax.Form.PLAIN or not isinstance(declaration.type, syntax.NamedType):
        return None
    return None if declaration.type.name in types else declaration.type


def _names_itself(declaration: syntax.Declaration) -> bool:
    """Returns whether a typedef gives a type its own name: `typedef struct T T;`, which C needs and XDR does not."""
    return (
        declaration.form is syntax.Form.PLAIN
        and isinstance(declaration.type, syntax.NamedType)
        and declaration.type.name == declaration.name.name
    )
