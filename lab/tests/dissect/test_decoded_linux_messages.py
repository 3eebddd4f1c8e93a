"""Real messages of Linux kernels (tests/vectors) break no rule, and are named."""

from __future__ import annotations

import tomllib
from pathlib import Path

from rpcrdma_lab.dissect.connection import IwarpConnection, Settings
from rpcrdma_lab.dissect.hex_text import hex_messages
from rpcrdma_lab.dissect.rpc_body import Interfaces
from support.cases import each_case

VECTORS = Path(__file__).parents[3] / "tests" / "vectors"
FRAMES = tomllib.loads((VECTORS / "linux/messages.toml").read_text())["message"]
REVERSE = tomllib.loads((VECTORS / "transport/linux_reverse.toml").read_text())["message"]
SETTINGS = Settings(Interfaces(["nfs3.x"]))


@each_case("vector", FRAMES)
def test_frames_of_the_kernel(vector) -> None:
    octets = bytes.fromhex(vector["hex"])
    connection = IwarpConnection(SETTINGS)
    connection.halves[0].expect_fpdus_unless_startup(octets)
    (message,) = connection.feed(0, octets)
    connection.finish(0, message)
    assert message.faults == []
    name = vector["name"].partition(": ")[2]
    what, _, kind = name.partition(" ")
    if kind == "call":
        assert message.summary.endswith(f": call NFS_V3 {what}")
    elif kind == "reply":
        assert message.facts["type"] in {"RDMA_MSG", "RDMA_NOMSG"}
        assert message.facts.get("outcome", "SUCCESS") == "SUCCESS"
    elif what.startswith("ERR_"):
        assert what in message.summary
    elif what == "Terminate":
        assert message.summary == (
            "Terminate, 24 octets: no receive buffer was posted (1/2/02), layer and type swapped as Linux siw does"
        )


@each_case("vector", REVERSE)
def test_messages_in_both_directions(vector) -> None:
    (message,) = hex_messages(bytes.fromhex(vector["hex"]), SETTINGS, iwarp=False)
    assert message.faults == []
    assert message.facts["xid"] == vector["xid"]
    assert message.facts["message"] in {"call", "reply"}
