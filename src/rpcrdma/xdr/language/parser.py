"""Parses text by grammar.lark to the dataclasses of the syntax tree, and words the errors.

Malformed constructs of drafts parse; each leaves a deviation in the `Specification`, which the caller
turns into an error or, in the lenient dialect, into a warning.
"""

from __future__ import annotations

import functools
import importlib.resources
import re
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TypeVar, cast

import lark

from rpcrdma.file_limits import XDR_CLASSES_NESTED_MAX, XDR_DEFINITION_CHARACTERS_MAX, XDR_NAME_CHARACTERS_MAX
from rpcrdma.xdr.language import syntax
from rpcrdma.xdr.language.diagnostics import Diagnostic, LanguageError, SourceSpan

__all__ = ["parse"]

_Body = TypeVar("_Body", syntax.StructBody, syntax.UnionBody)

_SPELLINGS = {"$END": "end of file", "IDENTIFIER": "a name", "NUMBER": "a number", "TEXT": "a text"}
_PUNCTUATION = {
    "LBRACE": "{", "RBRACE": "}", "LPAR": "(", "RPAR": ")", "LSQB": "[", "RSQB": "]", "LESSTHAN": "<",
    "MORETHAN": ">", "SEMICOLON": ";", "COLON": ":", "COMMA": ",", "EQUAL": "=", "STAR": "*", "DOT": ".",
}  # fmt: skip
_NUMBERS = range(-(1 << 63), 1 << 64)
"""Of the largest types, hyper and unsigned hyper."""
_DIGITS_MAX = 66
"""Of such a number in any base, with its prefix."""
_TYPE_TOKENS = {
    "INT", "HYPER", "LONG", "UNSIGNED", "FLOAT", "DOUBLE", "QUADRUPLE", "BOOL", "CHAR", "SHORT", "ENUM", "STRUCT",
    "UNION",
}  # fmt: skip
_OF_PROCEDURE = r"(?:[(,]|\bversion\s+\w+\s*{(?:[^}]*;)?)\s*"
"""What comes before the type of an argument or a result."""
_MISTAKES: tuple[tuple[re.Pattern[str], str, str], ...] = tuple(
    (re.compile(rf"(?:{before})\s*$"), found, hint)
    for before, found, hint in (
        (r"\bstring\s+\w+", ";[", "a string has a limit: string name<N>"),
        (r"\bopaque\s+\w+", ";", "opaque data have a length, name[N], or a limit, name<N>"),
        (rf"{_OF_PROCEDURE}string(?:\s+\w+)?", "<[", "a typedef names it: typedef string name<N>;"),
        (rf"{_OF_PROCEDURE}opaque(?:\s+\w+)?", "<[", "a typedef names it: typedef opaque name<N>;"),
        (rf"{_OF_PROCEDURE}(?:unsigned\s+)?\w+(?:\s+\w+)?", "<[", "a typedef names it: typedef int name<N>;"),
        (r"\b(?:string|opaque)", "<[", "the limit follows the name: name<N>"),
        (r"\b(?:string|opaque)", "*", "what is optional has a name of its own: typedef string text<N>; and text *name"),
        (r"\w\s*[<\[]\w*[>\]]", "[<", "an array of arrays has a name for the inner one: typedef int row[3];"),
        (r"[{;][^{};=]*\s\w+", ",", "each member has a declaration of its own"),
        (r"\b(?:struct|union)\s+\w+\s*{|\)\s*{", "}", "it has at least one member"),
        (r"\bcase\s+-?\w+\s*:", "}", "an arm without a member is void: case N: void;"),
        (r"=\s*-?\w+", "<>+-*/|", "a value is a number or a name; there are no expressions"),
        (r"\w\s*\(", ")", "void stands for no arguments"),
        (r"[(,]\s*(?:unsigned\s+)?\w+", "", "the types of arguments have no names"),
        (r"\bversion\s+\w+\s*{[^}]*\b\w+|[(,]\s*\w+", "*", "what is optional has a name: typedef int *maybe;"),
        (r"\bprogram\s+\w+\s*{", "", "procedures belong to versions: version NAME { ... } = 1;"),
        (r"\bstruct\s+\w+", "*", "a typedef names the pointer: typedef struct name *pointer;"),
    )
)
"""(what comes before, first characters of what is found there or "" for a word, the hint)."""
_COMMENTS = re.compile(r'/\*.*?\*/|/\*.*|//[^\n]*|%[^\n]*|"[^"\n]*"', re.DOTALL)
"""Comments, lines for the compiler of C, and texts: only there may `//` stand without beginning a comment."""
_WORD = re.compile(r"\w")
_LOOKED_AT_CHARACTERS = 2000


def parse(text: str, source_name: str) -> syntax.Specification:
    """Parses an interface definition.

    Args:
        text: The definition, without directives of a preprocessor.
        source_name: The name of the text, for error messages.

    Returns:
        The syntax tree, for `check`. Its `deviations` are the malformed constructs whose meaning is clear.

    Raises:
        LanguageError: the text is too long or otherwise malformed, a name too long, a number too large, or types are
            nested too deep. The error names only the first place.
    """
    builder = _Builder(text, source_name)
    if len(text) > XDR_DEFINITION_CHARACTERS_MAX:
        message = f"the definition has {len(text)} characters, {XDR_DEFINITION_CHARACTERS_MAX} are the most"
        builder.fail(SourceSpan(1, 1), message)
    text = builder.without_comments_of_cpp(text)
    try:
        tree = _grammar().parse(text)
    except lark.exceptions.UnexpectedCharacters as error:
        builder.fail(*_unexpected_character(text, error))
    except lark.exceptions.UnexpectedToken as error:
        builder.fail(*_unexpected_token(text, error))
    try:
        return cast("syntax.Specification", builder.transform(tree))
    except lark.exceptions.VisitError as error:
        if isinstance(error.orig_exc, LanguageError):
            raise error.orig_exc from None
        raise


@functools.cache
def _grammar() -> lark.Lark:
    text = importlib.resources.files(__package__).joinpath("grammar.lark").read_text(encoding="utf-8")
    return lark.Lark(text, parser="lalr", maybe_placeholders=True)


def _unexpected_character(text: str, error: lark.exceptions.UnexpectedCharacters) -> tuple[SourceSpan, str, str]:
    character = error.char
    place = SourceSpan(error.line, error.column)
    if text.startswith("/*", error.pos_in_stream):
        return SourceSpan(error.line, error.column, 2), "comment without an end", ""
    hint = ""
    if character == "#":
        hint = "lines of a preprocessor are not part of the language: let it run before (cpp -P)"
    elif character == "_":
        hint = "a name begins with a letter"
    return place, f"unexpected character {character!r}", hint or _hint_for(text[: error.pos_in_stream], character)


def _unexpected_token(text: str, error: lark.exceptions.UnexpectedToken) -> tuple[SourceSpan, str, str]:
    token = error.token
    expected = set(error.accepts or error.expected) - {"NAMESPACE"}
    if token.type == "$END":
        lines = text.removesuffix("\n").split("\n")
        place = SourceSpan(len(lines), len(lines[-1].rstrip()) + 1)
        found = "end of file"
    else:
        place = _place(token)
        found = f"'{token}'"
    words = []
    if expected >= _TYPE_TOKENS - {"ENUM", "STRUCT", "UNION", "LONG", "CHAR", "SHORT"}:
        words.append("a type")
        expected -= _TYPE_TOKENS | {"IDENTIFIER", "OPAQUE", "STRING", "VOID"}
    words += sorted(_spelling(name) for name in expected)
    wanted = " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
    hint = _hint_for(text[: token.start_pos], str(token)) if token.type != "$END" else ""
    if str(token) in syntax.RESERVED_WORDS and "IDENTIFIER" in error.expected:
        hint = f"'{token}' is a reserved word"
    return place, f"expected {wanted}, found {found}", hint


def _spelling(terminal: str) -> str:
    if terminal in _SPELLINGS:
        return _SPELLINGS[terminal]
    return f"'{_PUNCTUATION.get(terminal, terminal.lower())}'"


def _hint_for(before: str, found: str) -> str:
    """Returns a hint for the correction of the misplaced text `found` after the text `before`; "" if there is none."""
    before = before[-_LOOKED_AT_CHARACTERS:]
    for pattern, characters, hint in _MISTAKES:
        if (found[:1] in characters if characters else _WORD.match(found)) and pattern.search(before):
            return hint
    return ""


def _place(token: lark.Token) -> SourceSpan:
    return SourceSpan(token.line or 1, token.column or 1, max(1, len(token)))


def _definitions(items: list[Any]) -> tuple[Any, ...]:
    """Returns the definitions of a specification or a namespace as one tuple.

    `items` are the results of the grammar rules in it. Tuples among them, as of a nested namespace, are flattened, and
    None is left out.
    """
    each = (one for item in items for one in (item if isinstance(item, tuple) else (item,)))
    return tuple(one for one in each if one is not None)


def _identifier(token: lark.Token) -> syntax.Identifier:
    return syntax.Identifier(str(token), _place(token))


def _declaration(
    form: syntax.Form, kind: syntax.TypeSpecifier | str, name: lark.Token, size: syntax.Value | None = None
) -> syntax.Declaration:
    if isinstance(kind, str):
        kind = syntax.Builtin(kind, _place(name))
    return syntax.Declaration(form, kind, _identifier(name), size)


def _declares(form: syntax.Form, *kind: Any) -> Callable[[_Builder, list[Any]], syntax.Declaration]:
    """Returns a `_Builder` method for a grammar rule that declares an item in the given form.

    `kind` may be the name of the built-in type, "opaque" or "string". Without it, the first item of the rule is the
    type.
    """
    return lambda _builder, items: _declaration(form, *kind, *items)


class _Builder(lark.visitors.Transformer_NonRecursive[lark.Token, Any]):
    """Makes the syntax tree of a definition from lark's parse tree; each method makes the node of the rule of its name.

    `deviations` collects the malformed constructs whose meaning is clear; other faults raise LanguageError.
    """

    def __init__(self, text: str, source_name: str) -> None:
        super().__init__()
        self.text = text
        self.source_name = source_name
        self.deviations: list[Diagnostic] = []
        self._depths: dict[int, int] = {}
        """The levels of structures and unions in one, by its identity: the tree keeps all of them."""

    def fail(self, place: SourceSpan, message: str, hint: str = "") -> NoReturn:
        raise LanguageError([Diagnostic(place, message, hint)], self.text, self.source_name)

    def deviates(self, place: SourceSpan, message: str, hint: str = "") -> None:
        self.deviations.append(Diagnostic(place, message, hint))

    def without_comments_of_cpp(self, text: str) -> str:
        """Returns the text with spaces for comments that begin with `//`; adds a deviation for the first of them."""
        found = [each for each in _COMMENTS.finditer(text) if each[0].startswith("//")]
        for each in found[:1]:
            line = text.count("\n", 0, each.start()) + 1
            place = SourceSpan(line, each.start() - text.rfind("\n", 0, each.start()), 2)
            self.deviates(place, "'//' begins no comment in the language", "a comment is /* written so */")
        return _COMMENTS.sub(lambda each: " " * len(each[0]) if each[0].startswith("//") else each[0], text)

    def start(self, items: list[Any]) -> syntax.Specification:
        return syntax.Specification(_definitions(items), self.deviations)

    def namespace(self, items: list[Any]) -> tuple[Any, ...]:
        name, *definitions = items
        self.deviates(_place(name), "'namespace' is no word of the language", "its definitions are taken without it")
        return _definitions(definitions)

    # Names and values

    def IDENTIFIER(self, token: lark.Token) -> lark.Token:  # noqa: N802 - lark goes by the name of the terminal
        if len(token) > XDR_NAME_CHARACTERS_MAX:
            message = f"a name has {len(token)} characters, {XDR_NAME_CHARACTERS_MAX} are the most"
            self.fail(_place(token), message)
        return token

    def value(self, items: list[lark.Token]) -> syntax.Value:
        (token,) = items
        if token.type == "IDENTIFIER":
            return _identifier(token)
        digits = token.removeprefix("-")
        base = 16 if digits[:2] in {"0x", "0X"} else 8 if digits[0] == "0" else 10
        try:
            # Python converts long decimal numbers in quadratic time, and refuses the longest.
            number = int(digits, base) if len(digits) <= _DIGITS_MAX else None
        except ValueError:
            self.fail(_place(token), f"'{token}' is not a number", "decimal, 0x hexadecimal or 0 octal")
        if number is not None and token[0] == "-":
            number = -number
        if number is None or number not in _NUMBERS:
            self.fail(_place(token), "the number does not fit 64 bits, which are the most of any type")
        return syntax.Number(number, _place(token))

    def constant(self, items: list[Any]) -> syntax.Constant:
        name, value = items
        return syntax.Constant(_identifier(name), value)

    def constant_without_equals(self, items: list[Any]) -> syntax.Constant:
        name, value = items
        self.deviates(value.place, f"constant {name} lacks '=' before its value", f"const {name} = ...;")
        return syntax.Constant(_identifier(name), value)

    def constant_text(self, items: list[Any]) -> None:
        name, text = items
        self.deviates(_place(text), f"constant {name} is a text, which nothing can use; left out")

    def constant_with_type(self, items: list[Any]) -> syntax.Constant:
        kind, name, value = items
        place, text = (_place(kind), str(kind)) if isinstance(kind, lark.Token) else (kind.place, kind.name)
        self.deviates(place, f"constant {name} is given a type, '{text}'", f"const {name} = ...;")
        return syntax.Constant(_identifier(name), value)

    # Types

    def builtin(self, items: list[lark.Token]) -> syntax.Builtin:
        name = " ".join(items)
        return syntax.Builtin("unsigned int" if name == "unsigned" else name, _span(items))

    def builtin_long(self, items: list[lark.Token]) -> syntax.Builtin:
        self.deviates(_span(items), "'long' is no type of the language", "int has 32 bits, hyper has 64; taken as int")
        return syntax.Builtin(" ".join([*items[:-1], "int"]), _span(items))

    def named_type(self, items: list[lark.Token]) -> syntax.NamedType:
        (name,) = items
        return syntax.NamedType(str(name), _place(name))

    def anonymous(self, items: list[Any]) -> syntax.TypeSpecifier:
        (body,) = items
        return cast("syntax.TypeSpecifier", body)

    def builtin_of_c(self, items: list[lark.Token]) -> syntax.Builtin:
        taken = "unsigned int" if len(items) > 1 else "int"
        self.deviates(_span(items), f"'{' '.join(items)}' is no type of the language", f"taken as {taken}")
        return syntax.Builtin(taken, _span(items))

    def no_type(self, _items: list[Any]) -> None:
        return None

    def enum_body(self, items: list[Any]) -> syntax.EnumBody:
        return syntax.EnumBody(tuple(items))

    def enumerator(self, items: list[Any]) -> syntax.Enumerator:
        name, value = items
        return syntax.Enumerator(_identifier(name), value)

    def enumerator_without_value(self, items: list[Any]) -> syntax.Enumerator:
        (name,) = items
        self.deviates(_place(name), f"{name} has no value", "taken as one more than the one before it, as in C")
        return syntax.Enumerator(_identifier(name), None)

    def struct_body(self, items: list[Any]) -> syntax.StructBody:
        (members,) = items
        return self._counted(syntax.StructBody(tuple(members)), members)

    def _counted(self, body: _Body, members: Iterable[syntax.Declaration]) -> _Body:
        """Returns `body`, a structure or union of `members`, and records its levels of nested structures and unions.

        Raises:
            LanguageError: structures and unions are nested more than XDR_CLASSES_NESTED_MAX levels deep.
        """
        depth = 1
        for member in members:
            depth = max(depth, 1 + self._depths.get(id(member.type), 0))
            if depth > XDR_CLASSES_NESTED_MAX:
                self.fail(
                    member.name.place,
                    f"structures and unions are nested more than {XDR_CLASSES_NESTED_MAX} levels deep",
                )
        self._depths[id(body)] = depth
        return body

    @staticmethod
    def members(items: list[Any]) -> list[Any]:
        return items

    arms = labels = members

    def member_split_by_semicolon(self, items: list[Any]) -> syntax.Declaration:
        kind, semicolon, name = items
        self.deviates(_place(semicolon), f"';' between the type and the name of member {name}", "remove it")
        return _declaration(syntax.Form.PLAIN, kind, name)

    def union_body(self, items: list[Any]) -> syntax.UnionBody:
        discriminant, arms = items
        default = arms[-1] if not arms[-1].labels else None
        body = syntax.UnionBody(discriminant, tuple(arm for arm in arms if arm.labels), default)
        return self._counted(body, [discriminant, *(arm.declaration for arm in arms)])

    def union_body_without_brace(self, items: list[Any]) -> syntax.UnionBody:
        body = self.union_body(items)
        arm = body.arms[0] if body.arms else cast("syntax.Arm", body.default)
        self.deviates(arm.place, "union lacks '{' before its first arm")
        return body

    def default_alone(self, items: list[Any]) -> list[Any]:
        self.deviates(items[0].place, "a union has at least one case before its default", "case N: void;")
        return items

    def arm(self, items: list[Any]) -> syntax.Arm:
        labels, members = items
        return self._arm(labels, members, labels[0].place)

    def default_arm(self, items: list[Any]) -> syntax.Arm:
        default, members = items
        return self._arm([], members, _place(default))

    def _arm(self, labels: list[Any], members: list[Any], place: SourceSpan) -> syntax.Arm:
        if len(members) == 1:
            return syntax.Arm(tuple(labels), members[0], place)
        self.deviates(
            members[1].name.place,
            "an arm of a union has one declaration, this one has more",
            "put them into a struct; taken as one",
        )
        label = "default"
        if labels:
            first = labels[0]
            label = first.name if isinstance(first, syntax.Identifier) else f"case_{first.value}".replace("-", "minus_")
        body = self._counted(syntax.StructBody(tuple(members)), members)
        whole = syntax.Declaration(syntax.Form.PLAIN, body, syntax.Identifier(label, place))
        return syntax.Arm(tuple(labels), whole, place)

    # Declarations

    plain = _declares(syntax.Form.PLAIN)
    fixed_array = _declares(syntax.Form.FIXED)
    variable_array = _declares(syntax.Form.VARIABLE)
    optional = _declares(syntax.Form.OPTIONAL)
    fixed_opaque = _declares(syntax.Form.FIXED, "opaque")
    variable_opaque = _declares(syntax.Form.VARIABLE, "opaque")
    string = _declares(syntax.Form.VARIABLE, "string")

    def void(self, items: list[lark.Token]) -> syntax.Declaration:
        return _declaration(syntax.Form.VOID, "void", items[0])

    # Definitions

    def end(self, items: list[lark.Token]) -> bool:
        return bool(items)

    def _ended(self, name: lark.Token, ended: bool) -> syntax.Identifier:
        if not ended:
            self.deviates(_place(name), f"';' is missing after the definition of {name}")
        return _identifier(name)

    def typedef(self, items: list[Any]) -> syntax.Typedef:
        (declaration,) = items
        return syntax.Typedef(declaration, declaration.name.place)

    def typedef_reversed(self, items: list[Any]) -> syntax.Typedef:
        name, kind = items
        self.deviates(_place(name), f"typedef has the new name before the type: typedef {kind.name} {name};")
        return syntax.Typedef(_declaration(syntax.Form.PLAIN, kind, name), _place(name))

    def enumeration(self, items: list[Any]) -> syntax.TypeDefinition:
        name, body, ended = items
        return syntax.TypeDefinition(self._ended(name, ended), body)

    structure = union = enumeration

    def structure_without_brace(self, items: list[Any]) -> syntax.TypeDefinition:
        name, members, ended = items
        self.deviates(_place(name), f"struct {name} lacks '{{' after its name")
        body = self._counted(syntax.StructBody(tuple(members)), members)
        return syntax.TypeDefinition(self._ended(name, ended), body)

    def program(self, items: list[Any]) -> syntax.Program:
        name, *versions, number = items
        return syntax.Program(_identifier(name), tuple(versions), number)

    def version(self, items: list[Any]) -> syntax.Version:
        name, *procedures, number = items
        return syntax.Version(_identifier(name), tuple(procedures), number)

    def procedure(self, items: list[Any]) -> syntax.Procedure:
        result, name, arguments, number = items
        return syntax.Procedure(_identifier(name), result, arguments, number)

    def named_argument(self, items: list[Any]) -> syntax.TypeSpecifier:
        kind, name = items
        self.deviates(_place(name), f"argument {name} has a name", "the types of arguments have no names")
        return cast("syntax.TypeSpecifier", kind)

    def arguments(self, items: list[Any]) -> tuple[Any, ...]:
        return tuple(item for item in items if not isinstance(item, lark.Token))

    def target(self, items: list[lark.Token]) -> syntax.Target:
        return syntax.Target(_identifier(items[0]), _identifier(items[1]) if len(items) > 1 else None)

    def target_too_deep(self, items: list[lark.Token]) -> NoReturn:
        *_, above, last = items
        self.fail(
            _span(items),
            f"a pragma names a type and one member of it, TYPE.member: '{'.'.join(items)}' goes deeper",
            f"name the type of member '{above}' instead: TYPE.{last}",
        )

    def ddp_pragma(self, items: list[Any]) -> syntax.DdpPragma:
        return syntax.DdpPragma(items[0])

    def bound_pragma(self, items: list[Any]) -> syntax.BoundPragma:
        target, octets, argument = items
        return syntax.BoundPragma(target, octets is not None, argument)

    def pairs_pragma(self, items: list[Any]) -> syntax.PairsPragma:
        return syntax.PairsPragma(*items)

    def limit_pragma(self, items: list[Any]) -> syntax.LimitPragma:
        target, value = items
        return syntax.LimitPragma(target, value)


def _span(tokens: list[lark.Token]) -> SourceSpan:
    first, last = tokens[0], tokens[-1]
    place = _place(first)
    if first.line != last.line:
        return place
    return SourceSpan(place.line, place.column, (last.column or 1) + len(last) - place.column)
