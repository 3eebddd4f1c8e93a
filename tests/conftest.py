"""Settings of the whole suite: the conformance ledger's guard, and how many examples property tests try."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from rpcrdma.aio.drivers.loopback_provider import LoopbackProvider
from rpcrdma.aio.drivers.provider import Provider, ProviderChoice
from rpcrdma.aio.drivers.software_rnic import chosen_provider

# `pytester` runs the guard on suites of its own.
pytest_plugins = ["ledger_guard", "pytester"]

# Examples are the same ones in CI. Deadlines measure the machine's load; a test's time is bounded by pytest-timeout.
# Shared machines generate slowly now and then; that is no property of the code.
_COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("default", _COMMON, max_examples=60)
settings.register_profile("ci", _COMMON, max_examples=60, derandomize=True, database=None)
# For a search at leisure: HYPOTHESIS_PROFILE=thorough make test
settings.register_profile("thorough", _COMMON, max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default"))

# A shell starts background jobs with SIGINT ignored, and what they start inherits that: interrupts are tested, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def leave_choice_to(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients and servers that leave the choice of a provider to the library get `name`."""
    loopback = LoopbackProvider()

    def chosen(choice: ProviderChoice, *settings: Any) -> Provider:
        return loopback if choice == "auto" and name == "loopback" else chosen_provider(choice, *settings)

    for module in ("client.connect", "server.rdma_server"):
        monkeypatch.setattr(f"rpcrdma.aio.{module}.chosen_provider", chosen)


@pytest.fixture(params=["iwarp", "loopback"])
def each_provider(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The provider that the test's clients and servers take; its name. What users see is the same over any."""
    name: str = request.param
    leave_choice_to(name, monkeypatch)
    return name


@pytest.fixture(params=["rdma-iwarp", "rdma-loopback", "tcp"])
def scheme(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The scheme of the test's URLs: over RDMA by each provider, and over TCP."""
    name, _, provider = request.param.partition("-")
    if provider:
        leave_choice_to(provider, monkeypatch)
    return str(name)
