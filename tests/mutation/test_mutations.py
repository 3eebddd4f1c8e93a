"""The mutation tool's mistakes: which ones it makes, that it makes them nowhere else, and how they get into code."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from code_swap import changed_code
from mutations import UNCHANGED, apply, bound_names, find
from support.cases import each_case

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

SOURCE = '''
"""About it."""
from typing import TYPE_CHECKING
__all__ = ["f"]
if TYPE_CHECKING:
    import x
LIMIT: int = 8
def f(a: int, b: bool = True) -> int:
    """What it does."""
    assert a != 3
    if a > LIMIT and not b:
        raise ValueError(f"{a + 1} is more than {LIMIT - 1}")
    while a in (1,):
        a += 1
        continue
    g.h = a << 2
    g.call(a)
    t = {a: b, 'c': d}
    return a if b is None else None
'''


def changed(number: int) -> str:
    """The difference from the source: its lines that the mutant lacks, and the other way round."""
    before, after = ast.unparse(ast.parse(SOURCE)).splitlines(), ast.unparse(apply(SOURCE, number)).splitlines()
    gone = [line.strip() for line in before if line not in after]
    new = [line.strip() for line in after if line not in before]
    return f"{'; '.join(gone)} => {'; '.join(new)}"


def test_each_kind_of_mistake_is_made_once_and_in_one_place() -> None:
    made = [changed(mutation.number) for mutation in find(SOURCE)]
    assert made == [
        "LIMIT: int = 8 => LIMIT: int = 9",
        "LIMIT: int = 8 => LIMIT: int = 7",
        "def f(a: int, b: bool=True) -> int: => def f(a: int, b: bool=False) -> int:",
        "if a > LIMIT and (not b): => if not (a > LIMIT and (not b)):",
        "if a > LIMIT and (not b): => if a > LIMIT or not b:",
        "if a > LIMIT and (not b): => if a >= LIMIT and (not b):",
        "if a > LIMIT and (not b): => if a > LIMIT and b:",
        "raise ValueError(f'{a + 1} is more than {LIMIT - 1}') => pass",
        "while a in (1,): => while a not in (1,):",
        "while a in (1,): => while a in (2,):",
        "a += 1 => pass",
        "a += 1 => a += 2",
        "continue => pass",
        "g.h = a << 2 => pass",
        "g.h = a << 2 => g.h = a >> 2",
        "g.h = a << 2 => g.h = a << 3",
        "g.h = a << 2 => g.h = a << 1",
        "g.call(a) => pass",
        "t = {a: b, 'c': d} => t = {'c': d}",
        "t = {a: b, 'c': d} => t = {a: b}",
        "return a if b is None else None => return None",
        "return a if b is None else None => return a if b is not None else None",
    ]


def test_no_mistake_is_the_module_itself() -> None:
    assert ast.unparse(apply(SOURCE, UNCHANGED)) == ast.unparse(ast.parse(SOURCE))
    with pytest.raises(ValueError, match="no mutation 99"):
        apply(SOURCE, 99)


@pytest.mark.thorough
@each_case("path", ["wire/buffers.py", "iwarp/states.py"])
def test_every_mutant_of_a_module_compiles_and_differs(path: str) -> None:
    source = (ROOT / "src" / "rpcrdma" / path).read_text()
    plain = ast.dump(ast.parse(source))
    mutants = [apply(source, mutation.number) for mutation in find(source)]
    assert len(mutants) >= 15
    assert all(ast.dump(mutant) != plain for mutant in mutants)
    for mutant in mutants:
        compile(mutant, path, "exec")


def test_a_definition_is_known_by_its_name() -> None:
    tree = ast.parse(
        "A = B, (C) = 1\nclass D:\n    e: int = 2\n    def f(self, g=3): ...\nfor h in ():\n    I = 4\nj(5)\n"
    )
    assert [bound_names(tree, line) for line in range(1, 8)] == [
        {"A", "B", "C"},
        {"D"},
        {"e"},
        {"f"},
        set(),
        {"I"},
        set(),
    ]


def test_each_mistake_names_the_function_that_it_is_in() -> None:
    assert {mutation.scope for mutation in find(SOURCE)} == {"", "f"}
    assert [each.scope for each in find("class A:\n    def b(self):\n        def c():\n            return 1\n")] == [
        "A.b.c"
    ]


def test_code_is_changed_in_functions_and_not_in_what_is_executed_on_import() -> None:
    source = "X = 1\nclass A:\n    y = 2\n    def f(self, z=3):\n        return list(a + 4 for a in z)\n"
    changes = {mutation.what: changed_code(source, "m.py", mutation.number) for mutation in find(source)}
    assert [what for what, pairs in changes.items() if pairs is None] == [
        "1 -> 2",
        "2 -> 3",
        "2 -> 1",
        "3 -> 4",
        "3 -> 2",
    ]
    assert [before.co_qualname for before, _ in changes["Add -> Sub"] or ()] == ["A.f", "A.f.<locals>.<genexpr>"]
