"""Data tools read and write through fsspec: the examples keep their word, over RDMA and over TCP."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from fsspec_server import SCHEMES, RunningServer, Served
from tool_runs import DOCUMENT, EXAMPLES, TOOLS, blocks, require, run_block, run_cell, run_example, run_lines


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with RunningServer(tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("state")) as running:
        yield running


@pytest.fixture(scope="module")
def documented(served: Served) -> str:
    """The URL of a directory for the files of the document."""
    (served.directory / "documented").mkdir()
    return f"rdma://{served.path('rdma', '/data/documented')}"


@pytest.mark.data_tools
@pytest.mark.timeout(300)
@pytest.mark.parametrize("protocol", SCHEMES)
@pytest.mark.parametrize("name", TOOLS)
def test_an_example_prints_what_it_should(served: Served, name: str, protocol: str) -> None:
    require(*TOOLS[name].packages)
    folder = served.directory / f"{name}-{secrets.token_hex(4)}"
    folder.mkdir()
    assert run_example(name, served.url(protocol, f"/data/{folder.name}/made/by/it")) == TOOLS[name].prints


@pytest.mark.data_tools
@pytest.mark.timeout(300)
@pytest.mark.parametrize("block", [block for block in blocks(DOCUMENT) if "rdma://server2" not in block])
def test_a_block_of_the_document_prints_what_it_says(documented: str, block: str, tmp_path: Path) -> None:
    run_block(block, {"rdma://server/data": documented}, tmp_path)


@pytest.mark.data_tools
@pytest.mark.timeout(300)
@pytest.mark.parametrize("cell", blocks(DOCUMENT, "python3"))
def test_a_cell_of_the_document_runs_in_a_notebook(documented: str, cell: str, tmp_path: Path) -> None:
    run_cell(cell, {"rdma://server/data": documented}, tmp_path)


def test_every_example_is_tried_and_in_the_table_of_the_document() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(TOOLS)
    rows = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("| [")]
    assert [row.split("]")[0].removeprefix("| [") for row in rows] == [f"{name}.py" for name in TOOLS]
    assert [row for row in rows if "failed" in row] == []


REFUSED_IN_PANDAS = """
import pandas as pd
from rpcrdma.rpc.auth import AuthSys

nobody = AuthSys(machine="here", uid=65534, gid=65534)
try:
    pd.read_csv("rdma://server/data/secret.csv", storage_options={"options": {"credential": nobody}})
except PermissionError as error:
    print(error.strerror)
"""


@pytest.mark.data_tools
@pytest.mark.timeout(300)
@pytest.mark.parametrize("protocol", SCHEMES)
def test_pandas_says_that_a_file_may_not_be_read(served: Served, protocol: str, tmp_path: Path) -> None:
    require("pandas")
    folder = served.directory / f"refused-{protocol}"
    folder.mkdir()
    (folder / "secret.csv").write_text("a\n1\n")
    (folder / "secret.csv").chmod(0)
    # Where botocore can be imported, of which pandas takes two exceptions, it tries again with the option `anon`.
    (tmp_path / "botocore").mkdir()
    (tmp_path / "botocore" / "__init__.py").touch()
    exceptions = "class ClientError(Exception): pass\nclass NoCredentialsError(Exception): pass\n"
    (tmp_path / "botocore" / "exceptions.py").write_text(exceptions)
    program = REFUSED_IN_PANDAS.replace("rdma://server/data", served.url(protocol, f"/data/{folder.name}"))
    assert run_lines(["-c", program], tmp_path) == ("Permission denied",)
