"""examples/copy_tree.py copies trees in both directions."""

from __future__ import annotations

import asyncio
import secrets
import sys
from pathlib import Path

import pytest

from rpcrdma.aio.server.serve import serve
from rpcrdma.nfs.server import Export, build_services, open_state

pytestmark = pytest.mark.thorough

EXAMPLE = Path(__file__).parents[2] / "examples" / "copy_tree.py"


@pytest.mark.providers("iwarp")
@pytest.mark.versions("2-rtr")
def test_a_tree_is_copied_there_and_back(tmp_path: Path, scheme: str) -> None:
    tree, export = tmp_path / "tree", tmp_path / "export"
    (tree / "sub").mkdir(parents=True)
    export.mkdir()
    (tree / "file").write_bytes(b"x" * 100_000)
    (tree / "sub" / "link").symlink_to("../file")
    (tree / "sub" / "small").write_bytes(b"1")

    async def run(*arguments: str) -> str:
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(EXAMPLE), *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        return out.decode()

    async def work() -> None:
        state = open_state(tmp_path / "state", secrets.token_bytes)
        services = build_services([Export(name="/", directory=export, root_squash=False)], state=state)
        async with serve(services, ["rdma://127.0.0.1:0", "tcp://127.0.0.1:0"]) as server:
            rdma, tcp = server.listening
            port = tcp.rpartition(":")[2]
            url = f"{rdma if scheme == 'rdma' else tcp}/copy"
            expected = "2 files, 2 directories, 1 links, 100001 octets\n"
            assert await run(str(tree), url, "--mount-port", port) == expected
            assert await run(url, str(tmp_path / "back"), "--mount-port", port) == expected
        services.nfs.close()
        state.close()

    asyncio.run(work())
    for top in (export / "copy", tmp_path / "back"):
        assert (top / "file").read_bytes() == (tree / "file").read_bytes()
        assert (top / "sub" / "link").is_symlink()
