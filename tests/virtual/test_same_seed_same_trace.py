"""The same program and seed make the same trace, octet for octet."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from one_file_world import a_few_calls, world
from rpcrdma.testing.virtual import EventKind


@pytest.mark.parametrize("version", ["1", "2"])
def test_two_runs_with_one_seed_have_equal_traces_and_other_seeds_have_others(version: str) -> None:
    first, again, other = (world(a_few_calls, version=version, seed=seed) for seed in (1, 1, 2))
    assert first.octets() == again.octets()
    assert other.octets() != first.octets()
    assert sum(event.kind is EventKind.HANDLE for event in first.events) >= 15


@pytest.mark.thorough
def test_traces_do_not_depend_on_the_hashes_and_addresses_of_a_process() -> None:
    def printed(hash_seed: str) -> bytes:
        program = Path(__file__).with_name("one_file_world.py")
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.run(
            [sys.executable, program, "2", "7"], env=environment, check=True, capture_output=True
        ).stdout

    one = printed("1")
    assert one == printed("2")
    # All of its clients have made their calls, and half of them were there when the server ended.
    assert one.count(b" return ") == 8 * 3
