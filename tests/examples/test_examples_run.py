"""The examples keep their word."""

from __future__ import annotations

import dataclasses
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from fsspec_server import RunningServer
from rpcrdma.aio.client.connect import ConnectOptions, connect
from rpcrdma.aio.drivers.loopback_provider import LoopbackProvider
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.aio.server.serve import ServeOptions, serve
from rpcrdma.errors import RemoteProtocolError, TransportClosed
from rpcrdma.transport import ExtensionLink, ExtensionMessage, HeaderRow
from tool_runs import TOOLS

EXAMPLES = Path(__file__).parents[2] / "examples"

RUN_HERE = {"blob_store/run.py", "callback/run.py", "extension_batches/run.py", "probe_extension.py"}
RUN_ELSEWHERE = {"copy_tree.py", "many_servers.py", *(f"data_tools/{name}.py" for name in TOOLS)}
"""copy_tree.py below, the others by test_many_servers.py and test_data_tools.py."""

IMPORTED = {"extension_batches/batches.py", "extension_batches/batch_pair.py"}


def printed(example: str, *words: str, progress: str = "") -> list[str]:
    done = subprocess.run([sys.executable, EXAMPLES / example, *words], capture_output=True, text=True, check=False)
    assert done.stderr == progress
    assert done.returncode == 0
    return done.stdout.splitlines()


def test_every_example_is_run_by_a_test() -> None:
    generated = {path.with_suffix(".py") for path in EXAMPLES.rglob("*.x")}
    programs = set(EXAMPLES.rglob("*.py")) - generated - set(EXAMPLES.rglob("test_*.py"))
    assert {str(path.relative_to(EXAMPLES)) for path in programs} - IMPORTED == RUN_HERE | RUN_ELSEWHERE


@pytest.mark.journey
def test_the_blob_store_moves_a_blob_over_rdma_and_tcp() -> None:
    assert printed("blob_store/run.py") == [
        "rdma: 1024000 octets came back into the caller's own buffer",
        "tcp: 1024000 octets came back into the caller's own buffer",
    ]


@pytest.mark.thorough
def test_the_auction_calls_its_clients_back_over_rdma_and_tcp() -> None:
    assert printed("callback/run.py") == [
        "Bob hears that Ann bids 50, and stays",
        "Ann hears that Bob bids 90, and stays",
        "Ann hears that Bob bids 120, and leaves",
    ]


@pytest.mark.thorough
def test_the_extension_of_batches_sends_calls_together() -> None:
    assert printed("extension_batches/run.py") == [
        "64 calls without the extension: 64 messages",
        "64 calls with the extension: 1 messages",
    ]


@pytest.mark.thorough
def test_the_extension_of_probes_works_beside_those_of_the_library() -> None:
    announced, backwards, round_trip, large, refused = printed("probe_extension.py")
    assert announced == "the server echoes up to 100,000 octets"
    assert backwards == "desserts"
    assert re.fullmatch(r"round trip \d+ us", round_trip)
    assert re.fullmatch(r"100,000 octets in \d+ messages", large)
    assert refused == "one octet more: no more than 100000 octets"


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", ["rdma", "tcp"])
def test_a_tree_is_copied_there_and_back(tmp_path: Path, scheme: str) -> None:
    tree, exported, back = (tmp_path / name for name in ("tree", "exported", "back"))
    (tree / "sub").mkdir(parents=True)
    exported.mkdir()
    (tree / "file").write_bytes(b"x" * 100_000)
    (tree / "sub" / "link").symlink_to("../file")
    with RunningServer(exported, tmp_path / "state") as served:
        url = f"{scheme}://127.0.0.1:{served.ports[scheme]}/data/copy"
        for source, target in ((str(tree), url), (url, str(back))):
            words = (source, target, "--mount-port", str(served.ports["tcp"]))
            found = printed("copy_tree.py", *words, progress="\n1 files, 0.1 MB\n")
            assert found == ["1 files, 2 directories, 1 links, 100000 octets"]
    for top in (exported / "copy", back):
        assert (top / "file").read_bytes() == (tree / "file").read_bytes()
        assert (top / "sub" / "link").is_symlink()


async def test_a_probe_ends_with_a_connection_that_ends_in_the_handler_of_its_peer() -> None:
    example = runpy.run_path(str(EXAMPLES / "probe_extension.py"))
    probes, answering = example["Probes"](), example["Probes"]()

    def ends(_link: ExtensionLink, _message: ExtensionMessage) -> None:
        raise RemoteProtocolError("the peer's handler has failed")

    row = HeaderRow(example["PROBE"], "PROBE", ends)
    extension = dataclasses.replace(answering.extension, headers=(row, answering.extension.headers[1]))
    provider = LoopbackProvider()
    options = ServeOptions(rdma=RdmaServerConfig(extensions=[extension], provider=provider))
    calling = ConnectOptions(extensions=[probes.extension], provider=provider, reconnect=False)
    async with (
        serve([], ["rdma://127.0.0.1:0"], options=options) as server,
        connect(server.listening[0], options=calling) as connection,
    ):
        link = connection.extension("probe")
        with pytest.raises(TransportClosed):
            await probes.probe(link, b"anyone?")
