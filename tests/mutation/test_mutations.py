"""The mutation tool itself: which mistakes it makes, that it makes them nowhere else, and what it says of tests."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from mutations import UNCHANGED, apply, find

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
    """What differs from the source: its lines that the mutant has not, and the other way round."""
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


@pytest.mark.parametrize("path", ["wire/cursor.py", "iwarp/states.py"])
def test_every_mutant_of_a_module_compiles_and_differs(path: str) -> None:
    source = (ROOT / "src" / "rpcrdma" / path).read_text()
    plain = ast.dump(ast.parse(source))
    mutants = [apply(source, mutation.number) for mutation in find(source)]
    assert len(mutants) >= 15
    assert all(ast.dump(mutant) != plain for mutant in mutants)
    for mutant in mutants:
        compile(mutant, path, "exec")


@pytest.mark.timeout(120)
def test_mutants_of_a_decoder_are_noticed_and_never_written() -> None:
    """A small run, as `make mutate` makes it."""
    before = {path: path.read_bytes() for path in (ROOT / "src").rglob("*.py")}
    command = [
        sys.executable,
        str(HERE / "run_mutants.py"),
        "--modules",
        "wire/cursor.py",
        "--most",
        "3",
        "--seed",
        "5",
    ]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "  3 /     3  wire/cursor.py" in said
    assert {path: path.read_bytes() for path in (ROOT / "src").rglob("*.py")} == before
