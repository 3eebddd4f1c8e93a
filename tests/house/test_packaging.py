"""The Makefile installs as much as a target needs, and distributions hold what pip and an index need."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
from hatchling.builders.plugin.interface import BuilderInterface
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from debian_package import configuration
from packages import LAB, LIBRARY, ROOT
from rpcrdma.cli.settings.table import NAME_OF_EXPORT, OF_EXPORTS, OF_RULES, OF_SERVER, SOURCES_OF_EXPORT
from support.cases import each_case

PROJECT, LAB_PROJECT = (tomllib.loads((ROOT / name / "pyproject.toml").read_text()) for name in (".", "lab"))


def ran(directory: Path, *command: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(directory / "src")}
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("make") is None, reason="there is no program make")
@each_case(
    ("target", "installed"),
    [
        ("install", set()),
        ("demo", set()),
        ("test", {"dev"}),
        ("check", {"dev"}),
        ("docs", {"docs"}),
        ("wheels", {"dev", "wheels"}),
        ("deb", {"docs"}),
    ],
)
def test_a_target_installs_as_much_as_it_needs(tmp_path: Path, target: str, installed: set[str]) -> None:
    steps = ran(ROOT, "make", "--dry-run", f"VENV={tmp_path / 'venv'}", f"PYTHON={sys.executable}", target)
    assert re.search(r"pip install .* -e \. -e \./lab$", steps, re.MULTILINE)
    assert set(re.findall(r"pip install .* --group (\S+)$", steps, re.MULTILINE)) == installed


UNITS = {f"packaging/systemd/{name}" for name in ("rpcrdma.service", "rpcrdma@.service")}


@each_case(("package", "documents"), [(LIBRARY, {"CHANGELOG.md", "README.md"} | UNITS), (LAB, {"README.md"})])
@each_case("builder", [SdistBuilder, WheelBuilder])
def test_a_distribution_holds_its_package_alone(
    package: Path, documents: set[str], builder: type[BuilderInterface]
) -> None:
    root = package.parents[1]
    held = {file.relative_path for file in builder(str(root)).recurse_included_files()}
    files = {path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert held == {str(path.relative_to(root)) for path in files} | (documents if builder is SdistBuilder else set())


def test_the_wheel_installs_the_units_where_systemd_finds_those_of_packages() -> None:
    (installed,) = WheelBuilder(str(ROOT)).config.shared_data.items()
    assert installed == (str(ROOT / "packaging" / "systemd"), "lib/systemd/system")
    assert {f"packaging/systemd/{path.name}" for path in Path(installed[0]).iterdir()} == UNITS


def test_the_description_on_an_index_has_no_link_that_needs_a_checkout() -> None:
    description = (ROOT / "README.md").read_text()
    relative = re.compile(r"\]\((?!https?://)")
    assert relative.search(description), "in a checkout, links lead to its files"
    for rule in PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        description = re.sub(rule["pattern"], rule["replacement"], description)
    assert not relative.search(description)
    for name in ("lab", "native"):
        assert "](" not in (ROOT / name / "README.md").read_text(), "an index shows it unchanged"


def test_the_debian_package_has_all_settings_in_comments() -> None:
    installed = configuration()
    assert tomllib.loads(installed) == {}, "installed, it exports nothing"
    given = tomllib.loads(re.sub(r"^#(?=[\[a-z])", "", installed, flags=re.MULTILINE))
    (example,) = given.pop("export")
    (rule,) = example.pop("rule")
    assert given.pop("defaults").keys() == {each.name for each in OF_EXPORTS}
    assert given.keys() == {each.name for each in OF_SERVER}
    assert example.keys() <= {each.name for each in (NAME_OF_EXPORT, *SOURCES_OF_EXPORT, *OF_EXPORTS)}
    assert rule.keys() <= {each.name for each in OF_RULES}


TARGETS = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_the_makefile_has_twelve_targets_which_its_help_shows() -> None:
    shown = re.findall(r"echo 'make ([\w-]+) ", (ROOT / "Makefile").read_text())
    assert {"help", *shown} == TARGETS
    assert len(TARGETS) <= 12, "rarer work is a program: CONTRIBUTING.md has a table of them"


def texts(*folders: str) -> list[Path]:
    found = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    return [path for path in (*found, *ROOT.glob("*.md")) if path.suffix in {".md", ".py", ".sh", ".toml"}]


def test_texts_name_targets_and_tools_that_exist() -> None:
    for path in texts("benchmarks", "docs", "examples", "lab", "native", "specs", "src", "tests", "tools"):
        text = path.read_text() if path.name != "CHANGELOG.md" else ""  # names what there was
        assert set(re.findall(r"`make ([a-z][\w-]*)", text)) <= TARGETS, path
        assert [name for name in re.findall(r"\btools/[\w-]+\.sh", text) if not (ROOT / name).exists()] == [], path


GROUPS = PROJECT["dependency-groups"]
EXTRAS = {name: each["project"]["optional-dependencies"] for name, each in ((".", PROJECT), ("./lab", LAB_PROJECT))}
OF_INDEX = {
    *(
        re.split(r"[^\w.-]", each)[0]
        for needed in (*GROUPS.values(), *(extra for extras in EXTRAS.values() for extra in extras.values()))
        for each in needed
    ),
    "moto",
    "s3fs",
} - {"rpcrdma-native"}
"""Distributions that the index of Python has; it has none of this project."""
OF_DEBIAN = """
clang cpp gcc ibverbs-providers iperf3 libclang-rt-dev libfabric-bin libibverbs1 libkrb5-dev libnfs13 librdmacm1
openssh-sftp-server python3 python3-dev python3-gssapi python3-pip python3-venv rpcbind sshfs
"""
HINT = re.compile(r"\b(pip|apt-get|apt) install ([^`\"();,|\n]*)")


def exists(program: str, word: str, before: str) -> bool:
    """Whether `word` of a command that installs, behind the word `before`, names a package that can be installed."""
    name, _, extras = word.rstrip("]").partition("[")
    if program != "pip":
        return word in OF_DEBIAN.split() or word.startswith(("python{version}-", "./build/deb/rpcrdma_"))
    if before == "--group":
        return word in GROUPS
    if name in OF_INDEX:
        return True
    of_checkout = (ROOT / name).exists() or name.startswith("build/wheels/")
    return of_checkout and all(extra in EXTRAS[name] for extra in extras.split(",") if extra)


def test_each_hint_to_install_names_packages_that_exist() -> None:
    pages_and_code = texts("benchmarks", "docs", "lab", "native", "src")
    hints = [(path, hint) for path in pages_and_code for hint in HINT.finditer(path.read_text())]
    assert len(hints) > 30
    assert [
        f"{path.relative_to(ROOT)}: {hint[0]}: {word}"
        for path, hint in hints
        for before, word in pairwise(["", *shlex.split(hint[2].replace("'", ""))])
        if not word.startswith("-") and not exists(hint[1], word, before)
    ] == []
