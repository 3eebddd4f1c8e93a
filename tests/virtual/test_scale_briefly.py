"""The study of scale in a small form: counts of the rules that keep a crowd of clients from wearing a server out."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.testing.virtual import run

pytestmark = pytest.mark.thorough

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def studies(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module("scale_studies")
    for name in ("scale_studies", "scale_world"):
        del sys.modules[name]


def test_after_a_restart_start_ups_that_have_begun_are_finished(studies: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # A storm needs many clients, or few places for start-ups and a slow processor.
    for module in ("rpcrdma.aio.server.rdma_server", "scale_world"):
        monkeypatch.setattr(f"{module}.RDMA_STARTING_MAX", 10)
    monkeypatch.setattr("scale_world.ACCEPT_S", 5e-3)
    taken = {}
    for variant in ("default", "oldest start-up ends"):
        row = run(lambda variant=variant: studies.storm("1", 120, outage_s=0.5, variant=variant))
        assert row.calling == row.course[-1][1] == 120
        taken[variant] = row.attempts
    assert taken["default"] < 2 * 120
    assert taken["oldest start-up ends"] > 2 * taken["default"]


def test_idle_clients_without_a_place_leave_those_of_others_alone(studies: Any) -> None:
    found = {
        variant: run(lambda variant=variant: studies.crowd("1", 15, places=10, variant=variant))
        for variant in ("default", "idle clients return")
    }
    assert [row.failed for row in found.values()] == [0, 0]
    # All clients together make 1.5 calls a second.
    assert found["default"].attempts_s < 1.5
    assert found["idle clients return"].attempts_s > 4


def test_each_client_gets_its_share_and_no_credit_lacks_a_receive(studies: Any) -> None:
    row = run(lambda: studies.load("2", 40, calls=800, greedy=2))
    assert row.share > 0.9
    # 113 credits of 36 KiB each, a receive for grants and 8 to spare, for each client.
    assert row.promised_mib == pytest.approx(42 * 36 / 1024 * (113 + 10), rel=0.02)
    assert row.used_kib <= row.promised_mib * 1024
