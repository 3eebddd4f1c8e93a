"""Runs examples/data_tools and the blocks of docs/data-tools.md, each in a process of its own, against a server."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

__all__ = [
    "DOCUMENT",
    "EXAMPLES",
    "RECIPES",
    "ROOT",
    "RUN_S",
    "TOOLS",
    "Tool",
    "blocks",
    "require",
    "run_block",
    "run_cell",
    "run_example",
    "run_lines",
]

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "data_tools"
DOCUMENT = ROOT / "docs" / "data-tools.md"
MODULES = {"universal-pathlib": "upath"}
RUN_S = 240
"""Ray starts a dozen processes, each of which takes its time on a busy machine."""

ABORTED_AT_EXIT = "terminate called without an active exception"
"""Said by Arrow's C++ when the interpreter ends while one of its threads still releases a file of any Python file
system (apache/arrow#45214): rarely, and after all output, which is compared as ever."""


@dataclass(frozen=True, slots=True)
class Tool:
    """The purpose of an example, its packages, and its output."""

    what: str
    packages: tuple[str, ...]
    prints: tuple[str, ...]


TOOLS = {
    "pandas_frames": Tool(
        "`read_csv`, `to_csv`, `read_parquet`, `to_parquet`", ("pandas", "pyarrow"), ("csv: 33.0", "parquet: 18.5")
    ),
    "arrow_dataset": Tool("a directory as `pyarrow.dataset`", ("pyarrow",), ("files: 2", "2025: [3, 4]")),
    "zarr_array": Tool("an array in chunks", ("zarr", "numpy"), ("chunks: 16", "a part: [[1960, 1961], [2024, 2025]]")),
    "xarray_dataset": Tool("`to_zarr`, `open_zarr`", ("xarray", "zarr"), ("mean of day 2: 5.5",)),
    "dask_frames": Tool(
        "`dask.dataframe` on a local cluster, in threads and in processes",
        ("dask", "distributed", "pandas", "pyarrow"),
        ("threads: 2500.0", "processes: 2500.0"),
    ),
    "ray_dataset": Tool("`ray.data` from and to Parquet", ("ray", "pyarrow"), ("sum: 328350",)),
    "universal_paths": Tool(
        "`UPath`", ("universal-pathlib",), ("names: ['a.txt', 'b.txt']", "text: first", "found: ['c.txt']")
    ),
    "local_cache": Tool("`simplecache::rdma://`", ("fsspec",), ("octets: 1000", "octets: 1000", "kept here: [1000]")),
}


RECIPES = ("duckdb", "polars", "datasets", "torch", "h5py", "ipykernel", "tqdm")
"""The packages that the blocks of the document use, and no example."""

_QUIET = {"DASK_LOGGING__DISTRIBUTED": "critical", "HF_HUB_DISABLE_TELEMETRY": "1"}
"""Dask tells with a traceback, at ERROR where it is slow, of its own connections that a closing cluster leaves; what
fails in a task fails its program as well. Hugging Face hears nothing of these runs."""


def require(*packages: str) -> None:
    """Skips the test that runs where one of them is not installed."""
    for package in packages:
        if importlib.util.find_spec(MODULES.get(package, package)) is None:
            command = "tools/data-tools.sh torch" if package == "torch" else "tools/data-tools.sh"
            pytest.skip(reason=f"{package} is not installed, as it is by {command}")


def run_example(name: str, url: str) -> tuple[str, ...]:
    """The lines that the example prints; AssertionError if it fails or warns.

    Ray prints warnings of its own about slow starts of its workers, `log_to_driver=False` notwithstanding.
    """
    lines = run_lines([str(EXAMPLES / f"{name}.py"), url])
    return tuple(line for line in lines if "(raylet)" not in line)


def blocks(document: Path, kind: str = "python") -> list[str]:
    """The document's blocks of Python, or of `python3`: cells, which may await."""
    return re.findall(rf"```{kind}\n(.*?)```", document.read_text(), re.DOTALL)


def _prepared(block: str, urls: Mapping[str, str]) -> str:
    """The block with the URLs of servers that are there; skips the test where a package is not installed."""
    require(*re.findall(r"^(?:import|from) (\w+)", block, re.MULTILINE))
    if "TqdmCallback" in block:
        # fsspec itself imports it.
        require("tqdm")
    assert any(url in block for url in urls), "a block that asks no server shows nothing"
    for documented in sorted(urls, key=len, reverse=True):
        block = block.replace(documented, urls[documented])
    return block


def _said(block: str) -> tuple[str, ...]:
    """The lines that the block prints by its own comments."""
    return tuple(re.findall(r"^ *print\(.*\)  # (.*)$", block, re.MULTILINE))


def run_block(block: str, urls: Mapping[str, str], directory: Path) -> None:
    """Runs a block of a document as a program; `urls` are those of servers, by the ones that stand in documents."""
    program = directory / "block.py"
    program.write_text(_prepared(block, urls))
    printed = run_lines([str(program)], directory)
    assert printed == _said(block) or not _said(block)


def run_cell(block: str, urls: Mapping[str, str], directory: Path) -> None:
    """Runs a block of a document as a cell of a notebook, in a kernel of Jupyter."""
    require("nbclient", "ipykernel")
    import nbclient
    import nbformat

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(_prepared(block, urls))])
    resources = {"metadata": {"path": str(directory)}}
    nbclient.NotebookClient(notebook, timeout=RUN_S, startup_timeout=RUN_S, resources=resources).execute()
    printed = "".join(output.get("text", "") for output in notebook.cells[0].outputs)
    assert tuple(printed.splitlines()) == _said(block)


def run_lines(arguments: list[str], directory: Path = ROOT) -> tuple[str, ...]:
    """The lines that a program of Python prints; AssertionError if it fails or warns."""
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", *arguments],
        cwd=directory,
        env={**os.environ, **_QUIET, "HF_HOME": str(directory / "hugging-face")},
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_S,
    )
    if done.returncode == -signal.SIGABRT and ABORTED_AT_EXIT in done.stderr:
        return tuple(done.stdout.splitlines())
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr
    return tuple(done.stdout.splitlines())
