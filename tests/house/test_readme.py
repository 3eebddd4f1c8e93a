"""README and `docs` show commands that parse, marked ones that run, and Python that imports existing names.

A page is played as its reader would, from an empty directory: of ```console blocks after `<!-- run -->` every line is
run, in the order of the page; after `<!-- run: server -->` the last line is kept running for the rest of the page. All
of it has to work for root and for users.
"""

from __future__ import annotations

import ast
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from support.cases import each_case
from support.command_process import CommandProcess, run_command

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
DOCUMENTS = "\n".join(path.read_text() for path in PAGES)
RUN_WHOLE = "first-program.md"
"""`test_documentation` runs the programs of this tutorial, which import a module that the tutorial makes."""
COMMANDS = Path(os.environ.get("RPCRDMA_COMMANDS", Path(sys.executable).parent)).absolute()
"""Where the command `rpcrdma` is; `make wheels` names an environment in which its wheels are installed."""
INSTALLED = Path(sys.executable).parent != COMMANDS

DATA_TOOLS = {"dask", "datasets", "duckdb", "h5py", "pandas", "polars", "pyarrow", "torch"}
"""Packages that tools/data-tools.sh installs, and blocks of docs/data-tools.md import."""

BLOCK = re.compile(r"(?:<!-- run(?P<how>: \w+)? -->\n)?```(?P<kind>console|python)\n(?P<body>.*?)```", re.DOTALL)


def blocks(kind: str, text: str = DOCUMENTS) -> list[tuple[str, str]]:
    """(how it is run or "", body) of each block."""
    found = []
    for block in BLOCK.finditer(text):
        if block["kind"] == kind:
            marked = block[0].startswith("<!--")
            found.append(((block["how"] or ": alone").removeprefix(": ") if marked else "", block["body"]))
    return found


def command_lines(body: str) -> list[str]:
    return [line.removeprefix("$ ") for line in body.splitlines() if line.startswith("$ ")]


PLAYED = {
    path.name: [(kind, command_lines(body)) for kind, body in blocks("console", path.read_text()) if kind]
    for path in PAGES
}
"""Of each page (how it is run, lines) of the blocks that are run."""
SHOWN = [line for _, body in blocks("console") for line in command_lines(body)]


def environment(directory: Path) -> dict[str, str]:
    path = f"{COMMANDS}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "XDG_STATE_HOME": str(directory / ".state")}


def run(line: str, directory: Path, who: Sequence[str] = ()) -> str:
    settings: dict[str, Any] = {"cwd": directory, "env": environment(directory), "text": True, "timeout": 120}
    words = shlex.split(line)
    if words[0] == "rpcrdma" and not INSTALLED and not set(line) & set("|&;<>()$`*?"):
        done = run_command(*words[1:], through=who, **settings)
    else:
        done = subprocess.run([*who, "sh", "-c", line], capture_output=True, check=False, **settings)
    assert done.returncode == 0, f"{line}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done.stdout


@pytest.mark.thorough
@each_case("line", [line for line in SHOWN if line.startswith("rpcrdma ")])
def test_commands_parse(line: str) -> None:
    from rpcrdma.cli.main import build_parser

    build_parser().parse_args(shlex.split(line)[1:])


USER = ("unshare", "--user", "--map-user=1000", "--map-group=1000", "--")
"""Makes of root a user who has root's files: with an identity that is not 0, and without root's rights."""


@pytest.fixture(params=["whoever runs the tests", "a user"])
def who(request: pytest.FixtureRequest) -> Sequence[str]:
    """The prefix of commands."""
    if request.param != "a user":
        return ()
    if os.geteuid() != 0:
        pytest.skip(reason="run by a user, all of it is run as a user")
    if shutil.which(USER[0]) is None or subprocess.run([*USER, "true"], capture_output=True, check=False).returncode:
        pytest.skip(reason="no user namespaces on this machine, through which root could act as a user")
    return USER


def serving(line: str, directory: Path, who: Sequence[str]) -> subprocess.Popen[str]:
    """Starts the server at free ports instead of the printed ones, which another process may use."""
    words = shlex.split(re.sub(r"127\.0\.0\.1:2004[89]\b", "127.0.0.1:0", line))
    assert words[0] == "rpcrdma"
    settings: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    settings |= {"cwd": directory, "env": environment(directory)}
    if INSTALLED:
        return subprocess.Popen([*who, COMMANDS / "rpcrdma", *words[1:]], **settings)
    return CommandProcess(words[1:], through=who, **settings)


def play(page: str, directory: Path, who: Sequence[str] = ()) -> dict[str, str]:
    """What each line of a page prints that its reader runs."""
    output, server, url, port = {}, None, "", ""
    try:
        for how, lines in PLAYED[page]:
            for line in lines:
                if how == "server" and line == lines[-1]:
                    server = serving(line, directory, who)
                    assert server.stdout is not None
                    url, tcp = (server.stdout.readline().split()[2] for _ in range(2))
                    port = tcp.rpartition(":")[2]
                    continue
                there = line.replace("rdma://127.0.0.1:20049", url) if server is not None else line
                if there != line:
                    there = there.replace("rpcrdma ", f"rpcrdma --mount-port {port} ", 1)
                output[line] = run(there, directory, who)
    finally:
        if server is not None:
            with server:
                assert server.stdout is not None
                server.terminate()
                server.stdout.read()
    assert server is None or server.returncode == 0
    return output


@pytest.mark.thorough
@each_case("page", [page for page, played in PLAYED.items() if {how for how, _ in played} == {"alone"}])
def test_the_commands_of_a_page_work_in_an_empty_directory(page: str, tmp_path: Path) -> None:
    for line, printed in play(page, tmp_path).items():
        assert printed, line


@pytest.mark.thorough
def test_the_first_commands_of_readme_copy_a_file_there_and_back(tmp_path: Path, who: Sequence[str]) -> None:
    output = play("README.md", tmp_path, who)
    notes = (tmp_path / "notes.txt").read_text()
    assert {text for line, text in output.items() if " cat rdma" in line} == {notes}
    assert (tmp_path / "fetched" / "notes.txt").read_text() == notes


@pytest.mark.thorough
def test_the_tutorial_of_a_server_copies_a_tree(tmp_path: Path, who: Sequence[str]) -> None:
    play("first-server.md", tmp_path, who)
    assert (tmp_path / "copies" / "reports" / "2026" / "q1.txt").read_text() == "first quarter\n"
    assert list((tmp_path / "shared" / "archive" / "reports" / "2026").iterdir()) == []


@pytest.mark.thorough
def test_certificates_made_as_documented_authenticate_hosts(tmp_path: Path) -> None:
    from rpcrdma import HostAuthentication
    from rpcrdma.transport import Role

    if shutil.which("openssl") is None:
        pytest.skip(reason="no openssl on this machine, by which the document makes certificates")
    assert play("tls.md", tmp_path)
    client, server = (
        HostAuthentication(
            certificate=tmp_path / f"{name}.pem",
            key=tmp_path / f"{name}-key.pem",
            authorities=tmp_path / "authority.pem",
            names=names,
        )
        for name, names in (("client", ()), ("server", ("client.example",)))
    )
    one, other = client.source(Role.CLIENT, "localhost")(), server.source(Role.SERVER)()
    value = one.begin(other.begin(one.announce()))
    for receiver in (other, one, other, one):
        assert value is not None
        value = receiver.receive(value)
    assert one.peer is not None
    assert one.peer.names == ("localhost", "127.0.0.1")
    assert other.peer is not None
    assert other.peer.names == ("client.example",)


IMPORTING = "\n".join(path.read_text() for path in PAGES if path.name != RUN_WHOLE)


def tools_in(body: str) -> set[str]:
    """The modules of data tools that a block of Python imports."""
    named = set(re.findall(r"^(?:import|from) ([\w.]+)", body, re.MULTILINE))
    return {name for name in named if name.partition(".")[0] in DATA_TOOLS}


@pytest.mark.parametrize(
    "body",
    # The import of a data tool may start a process.
    [
        pytest.param(body, marks=[pytest.mark.thorough] if tools_in(body) else [])
        for _, body in blocks("python", IMPORTING)
    ],
)
def test_python_imports_what_exists(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples" / "callback")
    tree = ast.parse(body)
    for tool in tools_in(body):
        pytest.importorskip(tool, reason="not installed: tools/data-tools.sh installs it, and runs the block")
    aliases = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            aliases |= {alias.asname or alias.name: importlib.import_module(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            for alias in node.names:
                module = importlib.import_module(node.module)
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")
                aliases[alias.asname or alias.name] = getattr(module, alias.name)
    used = {
        (node.value.id, node.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases
    }
    assert [f"{owner}.{name}" for owner, name in used if not hasattr(aliases[owner], name)] == []


def test_named_files_exist() -> None:
    named = set(
        re.findall(r"\b(?:[A-Z]{4,}\.md|docs/[\w-]+\.md|LICENSE|specs/requirements|src/[\w/]+\.py)\b", DOCUMENTS)
    )
    assert {name for name in named if not (ROOT / name).exists()} == set()
    assert "docs/index.md" in named, "README leads to the index"
    index = (ROOT / "docs" / "index.md").read_text()
    pages = {path.name for path in PAGES[1:]} - {"index.md"}
    assert pages <= set(re.findall(r"\]\(([\w-]+\.md)\)", index)), "the index leads to every page"
    assert len(PAGES[1:]) <= 30, "a new subject is a section of the page that its readers open"


def test_the_page_on_installation_has_each_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    page = (ROOT / "docs" / "installation.md").read_text()
    cells = "".join(re.findall(r"^\| (`.*?) \|", page.partition("## Extras")[2].partition("\n## ")[0], re.MULTILINE))
    assert sorted(re.findall(r"`([\w-]+)`", cells)) == sorted(extras)
