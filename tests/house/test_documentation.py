"""The documentation shows the program as it is: pictures are drawn again, generated pages are whole, tutorials work."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import asdict
from pathlib import Path

import pytest

from rpcrdma import file_limits, limits
from rpcrdma.check import CATALOGUE, CLIENT_CATALOGUE
from rpcrdma.cli.main import build_parser
from rpcrdma.testing.virtual import FabricModel
from support.cases import each_case
from test_layers import RANKS

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
COMMANDS = Path(sys.executable).parent


def run(*command: str | Path, directory: Path) -> str:
    environment = {**os.environ, "PATH": f"{COMMANDS}:{os.environ['PATH']}"}
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_pictures_show_conversations_and_tables_as_they_are_now(tmp_path: Path) -> None:
    run(sys.executable, DOCS / "pictures.py", tmp_path, directory=tmp_path)
    drawn = {path.name: path.read_text() for path in tmp_path.iterdir()}
    kept = {path.name: path.read_text() for path in (DOCS / "pictures").iterdir()}
    assert drawn.keys() == kept.keys()
    assert [name for name in drawn if drawn[name] != kept[name]] == [], "run: python docs/pictures.py"


def test_pictures_are_shown_on_some_page(reference: Path) -> None:
    pages = "\n".join(path.read_text() for path in (*DOCS.glob("*.md"), *reference.iterdir()))
    assert [path.name for path in (DOCS / "pictures").iterdir() if f"pictures/{path.name}" not in pages] == []


def test_the_picture_of_layers_shows_the_rule_for_imports() -> None:
    picture = (DOCS / "pictures" / "layers.svg").read_text()
    height = {name: int(y) for y, name in re.findall(r"y=\"(\d+)\" [^>]*class='name'>(\w+)</text>", picture)}
    rank = {name or "rpcrdma": rank for name, rank in RANKS.items() if name != "__main__"}
    assert height.keys() == rank.keys(), "give each layer its box in docs/pictures.py"
    rows = [{name for name in height if height[name] == y} for y in sorted(set(height.values()))]
    assert rows == [{name for name in rank if rank[name] == each} for each in sorted(set(rank.values()), reverse=True)]
    border = int(re.findall(r'y2="(\d+)" stroke-dasharray', picture)[0])
    assert {name for name in height if height[name] < border} == {n for n in rank if rank[n] >= RANKS["aio"]}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The generated pages."""
    directory = tmp_path_factory.mktemp("reference")
    program = "import pathlib, sys; import reference_pages; reference_pages.write(pathlib.Path(sys.argv[1]))"
    run(sys.executable, "-c", program, directory, directory=DOCS)
    return directory


def test_the_reference_has_every_command(reference: Path) -> None:
    page = (reference / "commands.md").read_text()
    commands = next(action for action in build_parser()._actions if action.dest == "command").choices
    assert commands is not None
    assert [name for name in commands if f"\n## rpcrdma {name}\n" not in page] == []
    assert "| `--rpcrdma-version VERSION` |" in page.partition("\n## Connection options\n")[2]


def test_the_reference_has_every_limit_with_its_value(reference: Path) -> None:
    page = (reference / "limits.md").read_text()
    shown = {name: value.strip("`").replace(",", "") for name, value in re.findall(r"\| `(\w+)` \| (\S+) \|", page)}
    constants = {name: str(value) for name, value in {**vars(limits), **vars(file_limits)}.items() if name.isupper()}
    assert shown == constants


LEDGER_ROW = re.compile(
    r"^\| (\S+(?:, \S+)*) \| ([A-Z0-9]+-[A-Z]?\d+) \| (.*) \| (.*) \| (.*) \| ?(.*?) \| ?(.*) \|$", re.MULTILINE
)


def test_the_ledger_page_has_every_statement_under_its_document_in_the_order_of_sections(reference: Path) -> None:
    page = (reference / "ledger.md").read_text()
    ledger = {
        row["id"]: row
        for path in (ROOT / "specs" / "requirements").glob("*.toml")
        for row in tomllib.loads(path.read_text())["requirement"]
    }
    shown = set()
    for title, table in re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL):
        rows = LEDGER_ROW.findall(table)
        for section, identifier, level, statement, status, *_ in rows:
            row = ledger[identifier]
            assert (title, section, level) == (row["source"], row["section"], row["level"])
            assert (statement, status.partition(":")[0]) == (row["statement"].replace("|", "\\|"), row["status"])
        shown |= {identifier for _, identifier, *_ in rows}
        # Appendices come last.
        numbers = [section.partition(",")[0] for section, *_ in rows if section[0].isdigit()]
        first = [[int(number) for number in re.findall(r"\d+", section)] for section in numbers]
        assert first == sorted(first), title
    assert shown == ledger.keys()


def test_the_ledger_page_names_the_tests_that_carry_each_statement(reference: Path) -> None:
    page = (reference / "ledger.md").read_text()
    marked: dict[str, set[str]] = {}
    for path in (ROOT / "tests").rglob("test_*.py"):
        for marks in re.findall(r"\bmark\.req\(([^)]*)\)", path.read_text()):
            for identifier in re.findall(r'"([A-Z0-9]+-[A-Z]?\d+)"', marks):
                marked.setdefault(identifier, set()).add(path.stem)
    rows = {identifier: (status, proofs) for _, identifier, _, _, status, proofs, _ in LEDGER_ROW.findall(page)}
    named = {identifier: set(re.findall(r"`(\w+)`: ", proofs)) for identifier, (_, proofs) in rows.items()}
    assert {identifier: files for identifier, files in named.items() if files} == {
        identifier: files for identifier, files in marked.items() if identifier in rows
    }
    assert [identifier for identifier, (status, proofs) in rows.items() if status == "done" and not proofs] == []


def test_the_ledger_page_tells_at_the_statement_of_a_check_that_linux_does_otherwise(reference: Path) -> None:
    page = (reference / "ledger.md").read_text()
    told = {identifier: linux for _, identifier, *_, linux in LEDGER_ROW.findall(page)}
    statements = {check.id: check.statements[0] for check in CATALOGUE + CLIENT_CATALOGUE}
    judged = tomllib.loads((ROOT / "tests" / "interop" / "kernel" / "linux_verdicts.toml").read_text())["judged"]
    others, conforming = 0, 0
    for each in judged:
        for verdict, names in each.items():
            for name, _, statement in (name.partition(" ") for name in (names if isinstance(names, list) else ())):
                cell = told[statement or statements[name]]
                assert each["system"] in cell, name
                others += verdict != "conforms"
                conforming += verdict == "conforms"
                assert verdict == "conforms" or f"`{name}`" in cell, name
    assert others
    assert conforming
    assert told["OR-9"] == "", "no check tries it"


def test_the_reference_has_every_module_with_its_purpose(reference: Path) -> None:
    page = (reference / "modules.md").read_text()
    sections = dict(re.findall(r"^## ([\w.]+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    package = ROOT / "src" / "rpcrdma"
    lacking = []
    for path in package.rglob("*.py"):
        purpose = (ast.get_docstring(ast.parse(path.read_text())) or "no docstring").partition("\n")[0]
        section = sections[".".join(path.parent.relative_to(package.parent).parts)]
        row = purpose if path.stem == "__init__" else f"| `{path.stem}` | {purpose.replace('|', chr(92) + '|')} |"
        if f"\n{row}\n" not in section:
            lacking.append(str(path.relative_to(package)))
    assert lacking == []


def blocks(page: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)


def test_the_first_program_of_the_tutorial_works_over_both_transports(tmp_path: Path) -> None:
    (tmp_path / "columns.x").write_text(blocks("first-program.md", "")[0])
    serve, read, read_sync, record = blocks("first-program.md", "python")
    # Free ports instead of those shown, and the addresses on standard output.
    serve = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:0", serve)
    serve = serve.replace("]):\n", "]) as server:\n        print(*server.listening, flush=True)\n")
    (tmp_path / "serve_columns.py").write_text(serve)
    (tmp_path / "read_column.py").write_text(read)
    (tmp_path / "read_column_sync.py").write_text(read_sync)
    (tmp_path / "record.py").write_text(f"{record}\n\nimport asyncio, sys\n\nasyncio.run(record(*sys.argv[1:]))\n")
    run("rpcrdma", "xdr", "compile", "columns.x", directory=tmp_path)
    command = [sys.executable, "serve_columns.py"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            urls = server.stdout.readline().split()
            assert [url.partition(":")[0] for url in urls] == ["rdma", "tcp"]
            for url in urls:
                for program in ("read_column.py", "read_column_sync.py"):
                    output = run(sys.executable, program, url, directory=tmp_path)
                    assert output == "100000 values, from -40.0 to 60.0\n"
            run(sys.executable, "record.py", urls[0], "columns.pcap", directory=tmp_path)
        finally:
            server.kill()
    assert "RDMA Write, 800000 octets" in run("rpcrdma", "decode", "--brief", "columns.pcap", directory=tmp_path)


def test_the_first_program_is_typed_strictly(tmp_path: Path) -> None:
    """An array of NumPy is memory for octets in the stubs for each Python."""
    (tmp_path / "columns.x").write_text(blocks("first-program.md", "")[0])
    run("rpcrdma", "xdr", "compile", "columns.x", directory=tmp_path)
    for name, program in zip(
        ("serve", "read", "read_sync", "record"), blocks("first-program.md", "python"), strict=True
    ):
        (tmp_path / f"{name}.py").write_text(program)
    files = [*tmp_path.glob("*.py"), ROOT / "examples" / "copy_tree.py"]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    for version in ("3.11", "3.14"):
        command = [sys.executable, "-m", "mypy", "--strict", "--python-version", version, "--config-file", "", *files]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


@each_case(
    ("page", "program", "place"),
    [
        ("providers.md", "my_provider.py", 0),
        ("providers.md", "check_queue_pairs.py", 1),
        ("simulation.md", "far_server.py", 0),
    ],
)
def test_the_programs_of_guides_print_the_output_that_is_shown(
    tmp_path: Path, page: str, program: str, place: int
) -> None:
    (tmp_path / program).write_text(blocks(page, "python")[place])
    command, _, output = blocks(page, "console")[place].partition("\n")
    assert command == f"$ python {program}"
    assert run(sys.executable, program, directory=tmp_path) == output


def test_the_page_of_the_simulation_has_every_parameter_with_its_default() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\S+) \|", (DOCS / "simulation.md").read_text(), re.MULTILINE)
    model = asdict(FabricModel())
    assert rows == [(name, str(value) if isinstance(value, bool) else f"{value:g}") for name, value in model.items()]
