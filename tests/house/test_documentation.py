"""The documentation shows the program as it is: pictures are drawn again, generated pages are whole, tutorials work."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import asdict
from pathlib import Path

import pytest

from packages import LAB, LIBRARY, ROOT, module_name, modules
from rpcrdma import file_limits, limits
from rpcrdma.cli.command_table import OWN
from rpcrdma.cli.main import build_parser
from rpcrdma.cli.settings.table import NAME_OF_EXPORT, OF_EXPORTS, OF_RULES, OF_SERVER, SOURCES_OF_EXPORT
from rpcrdma.nfs.export import export_limits
from rpcrdma.nfs.v4 import state_limits
from rpcrdma.testing.virtual import FabricModel
from rpcrdma_lab import limits as lab_limits
from rpcrdma_lab.check import CATALOGUE, CLIENT_CATALOGUE
from support.cases import each_case
from test_layers import RANKS

pytestmark = pytest.mark.thorough

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
    pages = "\n".join(path.read_text() for path in (*DOCS.glob("*.md"), *reference.rglob("*.md")))
    assert [path.name for path in (DOCS / "pictures").iterdir() if f"pictures/{path.name}" not in pages] == []


def test_the_picture_of_layers_shows_the_rule_for_imports() -> None:
    picture = (DOCS / "pictures" / "layers.svg").read_text()
    height = {name: int(y) for y, name in re.findall(r"y=\"(\d+)\" [^>]*class='name'>([\w/]+)</text>", picture)}
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
    program = "import pathlib, sys, reference_pages as r; r.write(pathlib.Path(sys.argv[1]), r.pages())"
    run(sys.executable, "-c", program, directory, directory=DOCS)
    return directory


def test_the_manual_has_every_command_of_the_library_and_every_setting() -> None:
    program = "import json, manual_pages; print(json.dumps(manual_pages.pages()))"
    pages = json.loads(run(sys.executable, "-c", program, directory=DOCS))
    assert pages.keys() == {f"{name}.md" for name in ("rpcrdma", "rpcrdma-serve", "rpcrdma.toml")}
    named = set(re.findall(r"^## ([a-z]+)$", pages["rpcrdma.md"], re.MULTILINE))
    assert named == OWN.keys() - {"serve"}
    keys = re.findall(r"^`([a-z-]+)`\n: ", pages["rpcrdma.toml.md"], re.MULTILINE)
    of_rules = [each for each in OF_RULES if each not in OF_EXPORTS]
    assert keys == [each.name for each in (*OF_SERVER, NAME_OF_EXPORT, *SOURCES_OF_EXPORT, *OF_EXPORTS, *of_rules)]


def test_the_reference_has_every_command(reference: Path) -> None:
    page = (reference / "commands.md").read_text()
    commands = next(action for action in build_parser(whole=True)._actions if action.dest == "command").choices
    assert commands is not None
    assert [name for name in commands if f"\n## rpcrdma {name}\n" not in page] == []
    assert "| `--rpcrdma-version VERSION` |" in page.partition("\n## Connection options\n")[2]


def test_the_reference_has_every_limit_with_its_value(reference: Path) -> None:
    page = (reference / "limits.md").read_text()
    shown = {name: value.strip("`").replace(",", "") for name, value in re.findall(r"\| `(\w+)` \| (\S+) \|", page)}
    modules = (limits, file_limits, export_limits, state_limits, lab_limits)
    constants = {name: str(value) for module in modules for name, value in vars(module).items() if name.isupper()}
    assert shown == constants


def test_the_page_on_version_4_has_the_values_of_the_limits_of_clients_state() -> None:
    page = (DOCS / "nfsv4.md").read_text().partition("\n## Limits\n")[2]
    shown = re.findall(r"^\| .* \| ([\d,]+) \| .* \|$", page, re.MULTILINE)
    inner = {"NFS4_SLOT_OCTETS", "NFS4_DELEGATIONS_PARTS", "NFS4_ENDED_AT_ONCE", "NFS4_FREED_AT_ONCE_OCTETS"}
    values = [value for name, value in vars(state_limits).items() if name.isupper() and name not in inner]
    assert sorted(shown) == sorted(f"{value:,.0f}" for value in (*values, limits.NFS4_COMPOUND_OPERATIONS_MAX))


ENTRY = re.compile(r"^\*\*\[(\S+)\]\{#\1\}\*\* · section (.*) · (.*) · (\S+)\n: (.*(?:\n(?!\*\*|#).*)*)", re.MULTILINE)
"""Id, section, level and status of an entry of the ledger, and its paragraphs, of which the first is the statement."""


def ledger_entries(page: str) -> dict[str, tuple[str, str, str, dict[str, str]]]:
    """By id: section, level, status, and the paragraphs by the word before their colon; "" is the statement's."""
    found = {}
    for identifier, section, level, status, text in ENTRY.findall(page):
        statement, *others = re.split(r"\n\n +", text.strip())
        parts = {name: words for name, _, words in (other.partition(": ") for other in others)}
        found[identifier] = section, level, status, {"": statement, **parts}
    return found


@pytest.fixture(scope="module")
def told(reference: Path) -> dict[str, dict[str, str]]:
    """The paragraphs of all entries of the ledger."""
    pages = (reference / "ledger").iterdir()
    return {name: parts for page in pages for name, (*_, parts) in ledger_entries(page.read_text()).items()}


def test_the_ledger_has_every_statement_on_the_page_of_its_document_in_the_order_of_sections(reference: Path) -> None:
    ledger = {
        row["id"]: row
        for path in (ROOT / "specs" / "requirements").glob("*.toml")
        for row in tomllib.loads(path.read_text())["requirement"]
    }
    shown = []
    for path in (reference / "ledger").iterdir():
        numbers: dict[str, list[list[int]]] = {}
        for identifier, (section, level, status, parts) in ledger_entries(path.read_text()).items():
            row = ledger[identifier]
            assert path.stem in row["source"].lower().replace(" ", "-")
            assert (section, level, status) == (row["section"], row["level"], row["status"])
            assert parts[""] == row["statement"]
            shown.append(identifier)
            if section[0].isdigit():  # Appendices come last.
                first = [int(number) for number in re.findall(r"\d+", section.partition(",")[0])]
                numbers.setdefault(row["source"], []).append(first)
        assert all(each == sorted(each) for each in numbers.values()), path.name
    assert sorted(shown) == sorted(ledger)


def test_the_ledger_names_the_tests_that_carry_each_statement(reference: Path, told: dict[str, dict[str, str]]) -> None:
    marked: dict[str, set[str]] = {}
    for path in (*ROOT.glob("tests/**/test_*.py"), *ROOT.glob("lab/tests/**/test_*.py")):
        for marks in re.findall(r"\bmark\.req\(([^)]*)\)", path.read_text()):
            for identifier in re.findall(r'"([A-Z0-9]+-[A-Z]?\d+)"', marks):
                marked.setdefault(identifier, set()).add(path.stem)
    named = {identifier: set(re.findall(r"`(\w+)`: ", parts.get("Tests", ""))) for identifier, parts in told.items()}
    assert {identifier: files for identifier, files in named.items() if files} == {
        identifier: files for identifier, files in marked.items() if identifier in told
    }
    done = {
        row
        for page in (reference / "ledger").iterdir()
        for row in re.findall(r"#(\S+)\}.* done$", page.read_text(), re.MULTILINE)
    }
    assert done
    assert [identifier for identifier in done if not told[identifier].get("Tests")] == []


def test_the_ledger_tells_at_the_statement_of_a_check_that_linux_does_otherwise(
    told: dict[str, dict[str, str]],
) -> None:
    statements = {check.id: check.statements[0] for check in CATALOGUE + CLIENT_CATALOGUE}
    judged = tomllib.loads((ROOT / "lab" / "tests" / "interop" / "kernel" / "linux_verdicts.toml").read_text())[
        "judged"
    ]
    others, conforming = 0, 0
    for each in judged:
        for verdict, names in each.items():
            for name, _, statement in (name.partition(" ") for name in (names if isinstance(names, list) else ())):
                words = told[statement or statements[name]]["Linux"]
                assert each["system"] in words, name
                others += verdict != "conforms"
                conforming += verdict == "conforms"
                assert verdict == "conforms" or f"`{name}`" in words, name
    assert others
    assert conforming
    assert "Linux" not in told["OR-9"], "no check tries it"


def test_each_check_and_each_statement_lead_to_the_other(reference: Path, told: dict[str, dict[str, str]]) -> None:
    entry = re.compile(r"^\*\*\[`(\S+)`\]\{#(\S+)\}\*\*\n: (.*)\.\n\n  Statements: (.*)$", re.MULTILINE)
    pages = [page.read_text() for page in (reference / "checks").iterdir()]
    found = {
        name: (anchor, title, statements) for page in pages for name, anchor, title, statements in entry.findall(page)
    }
    assert found.keys() == {check.id for check in CATALOGUE + CLIENT_CATALOGUE}
    for check in CATALOGUE + CLIENT_CATALOGUE:
        anchor, title, statements = found[check.id]
        assert (title, statements) == (check.title, ", ".join(f"[{name}](#{name})" for name in check.statements))
        assert all(f"[`{check.id}`](#{anchor})" in told[name]["Checks"] for name in check.statements)


def test_the_reference_has_every_public_name(reference: Path) -> None:
    index = (reference / "api" / "index.md").read_text()
    for path in (reference / "api").glob("rpcrdma*.md"):
        section = index.partition(f"\n## [{path.stem}]({path.name})\n")[2].partition("\n## ")[0]
        names = re.findall(r"\| \{py:obj\}`(\w+) <([\w.]+)\.\1>`", section)
        assert [name for name, _ in names] == importlib.import_module(path.stem).__all__
        for name, module in names:
            assert re.search(rf"(:members:|py:data::).*\b{name}\b", (reference / "api" / f"{module}.md").read_text())


def test_the_reference_has_every_module_with_its_purpose(reference: Path) -> None:
    page = (reference / "modules.md").read_text()
    sections = dict(re.findall(r"^## ([\w.]+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    lacking = []
    for path in modules():
        purpose = (ast.get_docstring(ast.parse(path.read_text())) or "no docstring").partition("\n")[0]
        section = sections[module_name(path.parent / "__init__.py")]
        row = purpose if path.stem == "__init__" else f"| `{path.stem}` | {purpose.replace('|', chr(92) + '|')} |"
        if f"\n{row}\n" not in section:
            lacking.append(module_name(path))
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


BIDS = """
import asyncio, bids, rpcrdma

async def main():
    auction = bids.Auction()
    async with rpcrdma.serve([auction], ["rdma://127.0.0.1:0", "tcp://127.0.0.1:0"]) as server:
        for name, url, amount in zip(("Ann", "Bob"), server.listening, (50, 90), strict=True):
            staying = asyncio.create_task(bids.bid(url, name, amount))
            # Who has joined has bid before, and then all others have answered.
            while name not in auction._bidders and not staying.done():
                await asyncio.sleep(0)

asyncio.run(main())
"""


def test_the_program_that_calls_clients_back_tells_a_client_of_the_bids_of_others(tmp_path: Path) -> None:
    (program,) = (text for text in blocks("python-api.md", "python") if "Bidder" in text)
    (tmp_path / "bids.py").write_text(program)
    (tmp_path / "run_bids.py").write_text(BIDS)
    run("rpcrdma", "xdr", "compile", ROOT / "examples/callback/auction.x", "-o", "auction.py", directory=tmp_path)
    assert run(sys.executable, "run_bids.py", directory=tmp_path) == "Bob bids 90\n"
    check_types([tmp_path / "bids.py", tmp_path / "auction.py"], tmp_path)


def test_the_first_program_is_typed_strictly(tmp_path: Path) -> None:
    """An array of NumPy is memory for octets in the stubs for each Python."""
    (tmp_path / "columns.x").write_text(blocks("first-program.md", "")[0])
    run("rpcrdma", "xdr", "compile", "columns.x", directory=tmp_path)
    for name, program in zip(
        ("serve", "read", "read_sync", "record"), blocks("first-program.md", "python"), strict=True
    ):
        (tmp_path / f"{name}.py").write_text(program)
    check_types([*tmp_path.glob("*.py"), ROOT / "examples" / "copy_tree.py"], tmp_path)


def check_types(files: list[Path], directory: Path) -> None:
    environment = {**os.environ, "MYPYPATH": f"{LIBRARY.parent}:{LAB.parent}"}
    # The stubs of an installed package need not be for an older Python.
    for version in sorted({f"3.{sys.version_info.minor}", "3.14"}):
        command = [sys.executable, "-m", "mypy", "--strict", "--python-version", version, "--config-file", "", *files]
        done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


@each_case(
    ("page", "program", "place"),
    [
        ("extending.md", "my_provider.py", 0),
        ("extending.md", "check_queue_pairs.py", 1),
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
