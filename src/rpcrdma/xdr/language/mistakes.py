"""Hints of the parser: the probable intention where a definition is not in the language."""

from __future__ import annotations

import re

__all__ = ["hint_for"]

_MISTAKES: tuple[tuple[re.Pattern[str], str, str], ...] = tuple(
    (re.compile(rf"(?:{before})\s*$"), found, hint)
    for before, found, hint in (
        (r"\bstring\s+\w+", ";[", "a string has a limit: string name<N>"),
        (r"\bopaque\s+\w+", ";", "opaque data have a length, name[N], or a limit, name<N>"),
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
_WORD = re.compile(r"\w")
_LOOKED_AT_CHARACTERS = 2000


def hint_for(before: str, found: str) -> str:
    """The hint for the text `found`, which should not be there, after the text `before`; "" where there is none."""
    before = before[-_LOOKED_AT_CHARACTERS:]
    for pattern, characters, hint in _MISTAKES:
        if (found[:1] in characters if characters else _WORD.match(found)) and pattern.search(before):
            return hint
    return ""
