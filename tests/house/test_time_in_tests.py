"""No test depends on the speed of the machine: none waits for a duration, and no bound is near a usual time."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEAST_BOUND_S = 60
"""A bound of time only ends a hang."""
ALLOWED = {
    "tests/cli/test_signals.py": "looks whether a condition holds, as long as the process lives",
    "tests/house/stalled_loops.py": "stalls are its purpose",
    "tests/mutation/trials.py": "waits for processes, of which it has to look at several",
    "tests/virtual/one_file_world.py": "a program of its own, in virtual time",
    "tests/soak/misbehaving.py": "peers that dawdle for the length of a soak test, which is a duration itself",
    "tests/soak/soak.py": "lasts as long as its user says",
    "tests/support/waiting.py": "looks whether a condition holds, as long as it does not",
}
WAITING = {"wait", "wait_for", "timeout", "join", "communicate", "settimeout", "result", "select"}


def number(node: ast.expr | None, constants: dict[str, float]) -> float | None:
    """The value of a number that stands in the file, and None of all else."""
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return float(value)
        case ast.Name(id=name):
            return constants.get(name)
    return None


def waits(tree: ast.Module) -> list[int]:
    """The lines that wait for a duration, or have a bound of time that a slow machine exceeds."""
    constants: dict[str, float] = {}
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if (found := number(value, {})) is not None:
                constants[name] = found
    lines = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute | ast.Name):
            continue
        name = ast.unparse(node.func)
        if name in {"asyncio.sleep", "time.sleep", "sleep"}:
            if number(node.args[0] if node.args else None, constants) != 0:
                lines.append(node.lineno)
            continue
        last = name.rpartition(".")[2]
        bounds = [keyword.value for keyword in node.keywords if keyword.arg == "timeout"]
        if last in WAITING and "." in name and len(node.args) == 1 + (last in {"wait_for", "select"}):
            bounds.append(node.args[-1])
        if any(0 < (number(bound, constants) or 0) < LEAST_BOUND_S for bound in bounds):
            lines.append(node.lineno)
    return lines


@pytest.mark.thorough
def test_no_test_waits_for_a_duration_or_has_a_bound_that_a_slow_machine_exceeds() -> None:
    found: list[str] = []
    for path in [*ROOT.glob("tests/**/*.py"), *ROOT.glob("lab/tests/**/*.py"), *ROOT.glob("examples/**/test_*.py")]:
        name = str(path.relative_to(ROOT))
        if name not in ALLOWED and "interop/kernel" not in name:
            found += [f"{name}:{line}" for line in waits(ast.parse(path.read_text()))]
    assert found == [], "await an event (support.waiting.until), or let virtual time pass (support.waiting.time_passes)"


def test_what_is_allowed_to_wait_does() -> None:
    assert [name for name in ALLOWED if not waits(ast.parse((ROOT / name).read_text()))] == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("asyncio.sleep(0)", False),
        ("asyncio.sleep(0.01)", True),
        ("time.sleep(pause_s)", True),
        ("asyncio.wait_for(task, 5)", True),
        ("asyncio.wait_for(task, 60)", False),
        ("BOUND_S = 2\nprocess.wait(timeout=BOUND_S)", True),
        ("thread.join(1)", True),
        ("', '.join(names)", False),
        ("table.get(5)", False),
    ],
)
def test_these_waits_are_found(source: str, found: bool) -> None:
    assert bool(waits(ast.parse(source))) is found
