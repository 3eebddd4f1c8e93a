"""The number of functions that a call enters, in Python and in C: an addition to its way shows on any machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rpcrdma.wire import native

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]
LARGE = 1 << 20
CUTS = 1.15
"""A call of 1 MiB may enter so many times its bound. How many reads of the socket bring the octets, some 15 functions
each, depends on the sizes of the sockets' buffers."""


class Most(NamedTuple):
    """Bounds of one call: functions entered at both ends together, in Python and in C, on either data path.

    Then the different functions of Python and their modules, at the client and in the server's loop, with the native
    step. Up to four of the different ones of a call of 1 MiB depend on the sizes of the sockets' buffers, too.
    """

    python: int
    native: int
    functions: tuple[int, int]
    modules: tuple[int, int]


MOST = {
    ("NULL", "1"): Most(208, 115, (34, 31), (16, 17)),
    ("NULL", "2"): Most(207, 114, (35, 32), (16, 17)),
    ("GETATTR", "1"): Most(246, 153, (45, 43), (17, 22)),
    ("GETATTR", "2"): Most(245, 152, (46, 44), (17, 22)),
    ("READ 4 KiB", "1"): Most(320, 225, (64, 58), (20, 25)),
    ("READ 4 KiB", "2"): Most(319, 224, (65, 59), (20, 25)),
    ("WRITE 4 KiB", "1"): Most(373, 278, (59, 91), (17, 29)),
    ("WRITE 4 KiB", "2"): Most(372, 277, (60, 92), (17, 29)),
    ("READ 1 MiB", "1"): Most(994, 336, (84, 79), (21, 30)),
    ("READ 1 MiB", "2"): Most(990, 332, (83, 80), (22, 30)),
    ("WRITE 1 MiB", "1"): Most(1146, 428, (83, 126), (21, 34)),
    ("WRITE 1 MiB", "2"): Most(1144, 426, (83, 126), (22, 34)),
    ("v4 GETATTR", "1"): Most(381, 288, (76, 53), (19, 31)),
    ("v4 GETATTR", "2"): Most(380, 287, (77, 54), (19, 31)),
    ("v4 READ 4 KiB", "1"): Most(481, 386, (93, 78), (22, 36)),
    ("v4 READ 4 KiB", "2"): Most(481, 386, (94, 80), (22, 36)),
}
"""For each call and version of RPC-over-RDMA. Both versions send 4 KiB in a message."""


def counted(path: str, *calls: str, options: Sequence[str] = ()) -> dict[tuple[str, str], dict[str, Any]]:
    """The counts of calls, by the call and the version."""
    command = [sys.executable, "function_calls.py", "--json", *options, "--calls", *calls]
    environment = {**os.environ, "RPCRDMA_NATIVE": "1" if path == "native" else "0"}
    told = subprocess.run(
        command, cwd=ROOT / "benchmarks", env=environment, capture_output=True, text=True, check=True
    ).stdout
    return {(row["call"], row["version"]): row for row in json.loads(told)}


NATIVE = pytest.mark.skipif(
    native.find("1")[0] is None, reason="needs rpcrdma_native: make install, where a C compiler is"
)


@NATIVE
def test_calls_over_a_device_enter_no_more_functions_than_they_may() -> None:
    most = {"NULL": 187, "READ 4 KiB": 343}
    rows = counted("native", *most, options=["--provider", "verbs", "--rpcrdma-version", "1"])
    for call, bound in most.items():
        assert rows[call, "1"]["both"] <= bound, call


@pytest.mark.parametrize("path", ["python", pytest.param("native", marks=NATIVE)])
def test_calls_enter_no_more_functions_than_they_may(path: str) -> None:
    rows = counted(path, *sorted({call for call, _ in MOST}))
    for call, most in MOST.items():
        row = rows[call]
        slack = CUTS if row["size_bytes"] == LARGE else 1
        assert row["both"] <= getattr(most, path) * slack, call
        for what in ("functions", "modules") if path == "native" else ():
            for side, limit in zip(("client", "server"), getattr(most, what), strict=True):
                assert row[f"{side}_{what}"] <= limit, (call, side, what)

    for side in ("client", "server"):
        # Each end counts every message: four calls, of the 46, may be the price of that.
        assert rows["NULL", "2"][side] - rows["NULL", "1"][side] <= 4, side
