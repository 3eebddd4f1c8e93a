"""Addresses to listen at that change while `serve --config` runs: which ones wait for a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from rpcrdma.errors import LocalProtocolError
from support.cases import each_case
from support.loops import in_virtual_time
from support.reloading import ONE, Reloading


@each_case(
    ("before", "after", "waits"),
    [
        # The default has loopback of IPv4.
        ([], ["tcp://[::]:20048", "rdma://[::]:20049"], True),
        (["tcp://localhost:2049"], ["tcp://[::]:2049"], True),
        ([], ["tcp://[::]:2049"], False),
        (["tcp://127.0.0.1:2049"], ["tcp://0.0.0.0:2049"], True),
        (["tcp://0.0.0.0:2049"], ["tcp://127.0.0.1:2049"], True),
        (["tcp://127.0.0.1:2049"], ["tcp://localhost:2049"], True),
        (["tcp://[::1]:2049"], ["tcp://[::]:2049"], True),
        (["rdma://127.0.0.1:2049"], ["rdma://127.0.0.1:2049?provider=iwarp"], True),
        (["tcp://127.0.0.1:2049"], ["tcp://127.0.0.2:2049"], False),
        (["tcp://127.0.0.1:2049"], ["tcp://0.0.0.0:2050"], False),
        (["tcp://127.0.0.1:0"], ["tcp://0.0.0.0:0"], False),
        (["tcp://[::1]:1", "rdma://[::1]:2"], ["tcp://[::1]:2", "rdma://[::1]:1"], True),
        (["tcp://[::]:2049"], ["rdma://127.0.0.1:2049"], True),
        (["tcp://[::1]:2049"], ["rdma://[::1]:2049?provider=verbs"], False),
        (["rdma://[::1]:2049?provider=verbs"], ["tcp://[::1]:2049"], False),
    ],
)
def test_addresses_that_the_present_ones_keep_from_their_use_wait_for_a_restart(
    file: Path, before: list[str], after: list[str], waits: bool
) -> None:
    file.write_text((f"listen = {before}\n" if before else "") + ONE)

    @in_virtual_time
    async def reload() -> None:
        reloading = Reloading(file)
        told = (await reloading.again(f"listen = {after}\n" + ONE + 'access = "ro"\n'))[-1]
        assert ("listen needs a restart" in told) is waits
        assert (reloading.server.changes == []) is waits
        (tree,) = reloading.services.nfs.exports.trees
        assert tree.export.read_only, "all else is taken"

    reload()


@in_virtual_time
async def test_an_address_of_which_the_server_makes_nothing_is_named_with_its_line(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def listen(*_: str) -> None:
        raise LocalProtocolError("provider verbs is not recorded: leave out capture=")

    reloading = Reloading(file)
    monkeypatch.setattr(reloading.server, "listen", listen)
    told = await reloading.again('listen = ["rdma://127.0.0.1:0?provider=verbs"]\n' + ONE)
    assert told[-1].startswith("STATUS=reload refused: c.toml:1: provider verbs is not recorded")
