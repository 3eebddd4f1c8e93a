"""Tries all data tools over RDMA and TCP, and prints the table of docs/data-tools.md, or with --write puts it there."""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

# The fixtures of a folder of tests under pytest.
sys.path.insert(0, str(Path(__file__).parents[1] / "fsspec"))

from fsspec_server import SCHEMES, RunningServer, Served
from tool_runs import DOCUMENT, RECIPES, TOOLS, run_example

BEGIN, END = "<!-- tested versions -->\n", "<!-- end -->\n"


def verdict(served: Served, name: str, protocol: str) -> str:
    folder = served.directory / f"{name}-{SCHEMES[protocol]}"
    folder.mkdir()
    print(f"{name} over {protocol}", file=sys.stderr)
    try:
        works = run_example(name, served.url(protocol, f"/data/{folder.name}")) == TOOLS[name].prints
    except AssertionError as error:
        print(error, file=sys.stderr)
        works = False
    return "works" if works else "failed"


def table(served: Served) -> str:
    lines = ["| example | subject | with | over RDMA | over TCP |", "|---|---|---|---|---|"]
    for name, tool in TOOLS.items():
        versions = ", ".join(f"{package} {version(package)}" for package in tool.packages)
        verdicts = " | ".join(verdict(served, name, protocol) for protocol in SCHEMES)
        lines.append(f"| [{name}.py](../examples/data_tools/{name}.py) | {tool.what} | {versions} | {verdicts} |")
    recipes = ", ".join(f"{package} {version(package)}" for package in RECIPES)
    lines += ["", f"Of the recipes: {recipes}.", f"Python {platform.python_version()}, fsspec {version('fsspec')}."]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write the table to {DOCUMENT.name}")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as data,
        tempfile.TemporaryDirectory() as state,
        RunningServer(Path(data), Path(state)) as served,
    ):
        made = table(served)
    if not options.write:
        print(made, end="")
        return
    before, _, rest = DOCUMENT.read_text().partition(BEGIN)
    DOCUMENT.write_text(f"{before}{BEGIN}{made}{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
