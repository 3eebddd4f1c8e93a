"""Nothing unfinished, nothing from one developer's machine, and no module too long to understand."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

from packages import ROOT, modules, relative
from support.cases import each_case

LONGEST_MODULE = 600
"""Lines; 100 to 350 are comfortable."""

# Split, so that this file does not contain the words that it searches for.
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK|NotImplemented" r"Error)\b")
OWN_MACHINE = re.compile(r"(?<![\w.>}-])/(?:ho" r"me|wo" r"rk|Us" r"ers|ro" r"ot)/")
SKIPPED_WITHOUT_REASON = re.compile(r"pytest\.(?:mark\.)?(?:skip|xfail)\b(?!.*reason)")


def texts() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode:  # an unpacked source distribution
        found = [
            path
            for top in ("src", "lab", "tests", "docs", "examples", "benchmarks")
            for path in (ROOT / top).rglob("*")
        ]
    else:
        found = [ROOT / name.decode() for name in listed.stdout.split(b"\0") if name]
    kept = [path for path in found if path.suffix in {".py", ".md", ".toml", ".x", ".txt"} or path.name == "Makefile"]
    return sorted(path for path in kept if path.is_file() and "__pycache__" not in path.parts)


TEXTS = texts()


def matches(pattern: re.Pattern[str], paths: list[Path]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in paths
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if pattern.search(line)
    ]


def test_there_are_texts_to_look_at() -> None:
    assert {path.suffix for path in TEXTS} >= {".py", ".md", ".toml"}


@pytest.mark.thorough
@each_case("pattern", [UNFINISHED, OWN_MACHINE])
def test_no_text_holds(pattern: re.Pattern[str]) -> None:
    assert matches(pattern, TEXTS) == []


def test_skipped_tests_say_why() -> None:
    assert matches(SKIPPED_WITHOUT_REASON, [path for path in TEXTS if "tests" in path.relative_to(ROOT).parts]) == []


def test_modules_stay_readable() -> None:
    generated = re.compile(r'"""Generated from \S+\.x ')
    lengths = {
        str(path.relative_to(ROOT)): len(lines)
        for path in TEXTS
        if path.suffix == ".py"
        and len(lines := path.read_text().splitlines()) > LONGEST_MODULE
        and not generated.match(lines[0])
    }
    assert lengths == {}, f"split by responsibility what is longer than {LONGEST_MODULE} lines"


OPTION = re.compile(r"(?<![\w-])--[a-z]")
OF_A_COMMAND = {
    "lab/commands/": "commands themselves",
    "lab/check/": "the reasons in reports of `rpcrdma check`, which nothing else makes",
    "lab/simulation/worlds/__main__.py": "a command of its own, with its options",
}
"""Parts of the packages whose words are those of one command."""


@pytest.mark.thorough
def test_the_library_names_parameters_instead_of_options_of_the_command() -> None:
    found = []
    for path in modules():
        name = relative(path)
        if name.startswith(("cli/", "commands/", *OF_A_COMMAND)):
            continue
        tree = ast.parse(path.read_text())
        prose = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
        texts = [each for each in ast.walk(tree) if isinstance(each, ast.Constant) and id(each) not in prose]
        found += [f"{name}:{each.lineno}: {each.value}" for each in texts if OPTION.search(str(each.value))]
    assert found == [], "name the parameter, as ConnectOptions(xprtsec=...), and its option in commands/console.py"
