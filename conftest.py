"""Settings of the whole suite: the conformance ledger's guard, and how many examples property tests try."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import signal
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from rpcrdma.aio.client import connect
from rpcrdma.aio.drivers.loopback_provider import LoopbackProvider
from rpcrdma.aio.drivers.provider import Provider, ProviderChoice
from rpcrdma.aio.drivers.provider_choice import chosen_providers
from rpcrdma.aio.drivers.verbs_provider import VerbsProvider
from rpcrdma.transport import VERSION_CHOICES, offered, version_choice
from support.device_at_loopback import DeviceAtLoopback
from support.device_in_memory import DeviceInMemory
from support.host_pair import Hosts
from support.simulated import Simulated, run_in_virtual_time

# `pytester` runs the guard on suites of its own.
pytest_plugins = ["ledger_guard", "stalled_loops", "tiers", "pytester"]

# Deadlines measure the machine's load; a test's time is bounded by pytest-timeout. Shared machines generate slowly now
# and then; that is no property of the code.
_COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same few examples in each run of the suite: a failure must be reproducible.
settings.register_profile("quick", _COMMON, max_examples=25, derandomize=True, database=None)
# Other ones in each run, for the search of `tools/fuzz.sh`.
settings.register_profile("thorough", _COMMON, max_examples=200)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

# A shell starts background jobs with SIGINT ignored, and their children inherit that: interrupts are tested, too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Freezes collected items: scanning them repeatedly while they grow takes a fifth of the time of collection."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Leaves the collected tests, some hundred MB, out of garbage collections, which many tests call for.

    The garbage of the imports stays: there is little of it, and each process would look for it in all the rest.
    """
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leaves out the remains of earlier files: caches and reports grow, and a test collects its own garbage."""
    if item.path != _running[0]:
        _running[0] = item.path
        leave_out_what_lives()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that is a coroutine function, unless a decorator of `support.loops` or `each_case` does."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}
    # Fixtures may have `asyncio.run` run in virtual time.
    asyncio.run(test(**arguments))
    return True


_running = [Path()]
"""The file whose tests run."""


def leave_out_what_lives() -> None:
    """Collects garbage first: garbage that is frozen would stay."""
    gc.collect()
    gc.freeze()


_DEVICE = os.environ.get("RPCRDMA_TEST_DEVICE")
"""The address of an RDMA device, which takes the place of the one in memory."""
PROVIDERS = ("iwarp", "loopback", "simulated", "verbs")
IN_PROCESS = ("simulated", "loopback")
"""Providers without a network."""
WITH_EXTENSION = "2-rtr"
"""Version 2, where the round-trip extension carries all bulk data that it can; in the others it is left to its rule."""
VERSIONS = (*(choice for choice in VERSION_CHOICES if choice != "auto"), WITH_EXTENSION)
_OF_AUTO = {dialect.name for dialect in offered("auto")}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test of the API over RDMA in each version and over each provider, by the fixture that it uses.

    A fault of one provider in one version lies below the queue pair, where the tests of endpoints see it. So the first
    provider runs in each version, the others in one. `make test` has the run over the simulated provider, or else over
    the one in memory; all other runs are `thorough`. The marks `providers` and `versions` name those of a test that is
    about some only.
    """

    def marked(mark: str, all_of_them: tuple[str, ...]) -> tuple[str, ...]:
        found = metafunc.definition.get_closest_marker(mark)
        return all_of_them if found is None else found.args

    versions = marked("versions", VERSIONS)
    providers = marked("providers", PROVIDERS)
    usual = "2" if "2" in versions else versions[-1]
    over_rdma = [f"{providers[0]}-{version}" for version in versions] + [
        f"{other}-{usual if other in IN_PROCESS else versions[-1]}" for other in providers[1:]
    ]
    quick = next((f"{name}-{usual}" for name in IN_PROCESS if name in providers), None)
    parameters = {
        "each_version": versions,
        "each_provider": over_rdma,
        "scheme": [*(f"rdma-{each}" for each in over_rdma), "tcp"],
        # Commands use a server that leaves the choice of a version to them.
        "remote": [*(f"rdma-{version}" for version in versions if version in _OF_AUTO), "tcp"],
    }
    set_by_test = {
        name.strip()
        for mark in metafunc.definition.iter_markers("parametrize")
        for name in (mark.args[0].split(",") if isinstance(mark.args[0], str) else mark.args[0])
    }
    if not {"each_provider", "scheme"}.isdisjoint(metafunc.fixturenames):
        # A whole file may ask for each version.
        del parameters["each_version"]
    for name, values in parameters.items():
        if name in metafunc.fixturenames and name not in set_by_test:
            in_process = {quick, f"rdma-{quick}"}
            metafunc.parametrize(
                name,
                [value if value in in_process else pytest.param(value, marks=pytest.mark.thorough) for value in values],
                indirect=True,
            )


def leave_choice_to(provider: str, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients and servers that leave the choice of a provider or of a version to the library get these."""
    if version == WITH_EXTENSION:
        version = "2"
        monkeypatch.setattr("rpcrdma.aio.client.connect.extension_choice", lambda _choice: "rtr")
    in_memory: dict[str, Provider] = {
        "loopback": LoopbackProvider(),
        "simulated": Simulated(),
        "verbs": DeviceAtLoopback(_DEVICE) if _DEVICE else VerbsProvider(DeviceInMemory()),
    }
    if provider == "simulated":
        monkeypatch.setattr(asyncio, "run", run_in_virtual_time)

    def chosen(choice: ProviderChoice, *settings: Any) -> tuple[Provider, ...]:
        if choice == "auto" and provider in in_memory:
            return (in_memory[provider],)
        return chosen_providers(choice, *settings)

    def version_of(choice: str | int) -> str:
        return version if choice == "auto" else version_choice(choice)

    for module in ("client.connect", "server.rdma_server"):
        monkeypatch.setattr(f"rpcrdma.aio.{module}.chosen_providers", chosen)
    monkeypatch.setattr("rpcrdma.aio.client.connect.version_choice", version_of)
    if version not in _OF_AUTO:
        # A server leaves it to its clients, where it can.
        monkeypatch.setattr("rpcrdma.aio.server.rdma_server.version_choice", version_of)


@pytest.fixture
def each_version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the version that the test's clients speak, over the software RNIC; no effect beside the other two."""
    if hasattr(request, "param"):
        leave_choice_to("iwarp", request.param, monkeypatch)


@pytest.fixture
def each_provider(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The provider that the test's clients and servers take; its name."""
    provider, version = request.param.split("-", 1)
    leave_choice_to(provider, version, monkeypatch)
    return str(provider)


@pytest.fixture
def remote_invalidation(each_provider: str) -> bool:
    """Whether replies may end memory of the client: of each provider but a device without memory windows."""
    return each_provider != "verbs" or not _DEVICE or DeviceAtLoopback(_DEVICE).has_windows


@pytest.fixture
def scheme(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The scheme of the test's URLs: over RDMA by each provider in each version, and over TCP."""
    name, *over = request.param.split("-", 2)
    if over:
        leave_choice_to(*over, monkeypatch)
    return str(name)


@pytest.fixture(scope="session")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Hosts:
    """A client and a server with good certificates of one authority."""
    return Hosts(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def rpcrdma_command() -> str:
    """The path of the installed command."""
    path = Path(sys.executable).with_name("rpcrdma")
    assert path.exists(), "make install puts the command here"
    return str(path)


@pytest.fixture(autouse=True)
def _servers_are_met_for_the_first_time() -> None:
    connect._KNOWN_SERVERS.clear()
