"""The choice between an RDMA device and the software RNIC, over a device in memory and sockets."""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from local_tcp import without_network
from rpcrdma.aio.client import first_to_connect
from rpcrdma.aio.client.connect import Connection, ConnectOptions, connect
from rpcrdma.aio.client.first_to_connect import first_connection
from rpcrdma.aio.client.known_servers import KnownServers
from rpcrdma.aio.client.rdma_dialer import RdmaDialer
from rpcrdma.aio.drivers import locked_memory, provider_choice, verbs_manager, verbs_provider
from rpcrdma.aio.drivers.provider import ProviderInUse
from rpcrdma.aio.drivers.provider_choice import chosen_providers
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.aio.server.serve import ServeOptions, serve
from rpcrdma.aio.urls import parse_url
from rpcrdma.errors import ConnectFailed, LocalProtocolError
from rpcrdma.iwarp import IwarpConfig
from rpcrdma.limits import SERVER_AGAIN_S
from rpcrdma.nfs import v3
from rpcrdma.verbs.device_config import VerbsConfig
from support.device_in_memory import DeviceInMemory
from support.loops import in_virtual_time
from support.waiting import time_passes, until

VERBS, SOFTWARE = ProviderInUse("verbs", "memory0"), ProviderInUse("iwarp")


class Nothing(v3.NFS_V3_Service):
    """Answers NULL alone."""


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DeviceInMemory:
    """A machine whose loopback interface has an RDMA device."""
    found = DeviceInMemory()
    (tmp_path / "memory0").mkdir()
    monkeypatch.setattr(provider_choice, "DEVICES", str(tmp_path))
    monkeypatch.setattr(verbs_provider, "find", lambda: (found, ""))
    monkeypatch.setattr(locked_memory, "lock_limit_octets", lambda: None)
    monkeypatch.setattr(verbs_manager, "_is_of_tcp", lambda _local: False)
    return found


def serving(*urls: str, provider: Any = "auto") -> Any:
    config = RdmaServerConfig(provider=provider)
    return serve([Nothing()], urls or ["rdma://127.0.0.1:0"], options=ServeOptions(rdma=config, drain_s=1.0))


def connecting(url: str, provider: Any = "auto", **settings: Any) -> Any:
    return connect(url, options=ConnectOptions(provider=provider, reconnect=False, **settings))


async def called(client: Connection) -> ProviderInUse:
    await client.call(v3.NULL, None)
    assert client.negotiated is not None
    return ProviderInUse(client.negotiated.provider, client.negotiated.device)


@pytest.mark.thorough
@without_network
async def test_a_device_that_reaches_the_address_is_taken_at_both_ends(
    device: DeviceInMemory, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with serving() as server:
        (url,) = server.listening
        assert server.providers == {url: [VERBS, SOFTWARE]}
        async with connecting(url) as client:
            assert await called(client) == VERBS
        async with connecting(url, "iwarp") as over_tcp, connecting(url, "verbs") as over_device:
            assert (await called(over_tcp), await called(over_device)) == (SOFTWARE, VERBS)
    assert [line.count("provider verbs (memory0)") for line in caplog.messages if "version" in line] == [
        1,
        1,
        0,
        0,
        1,
        1,
    ]


@pytest.mark.thorough
@without_network
async def test_an_address_that_no_device_reaches_is_the_software_rnics(
    device: DeviceInMemory, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    device.reached.clear()
    async with serving() as server, connecting(server.listening[0]) as client:
        assert server.providers == {server.listening[0]: [SOFTWARE]}
        assert await called(client) == SOFTWARE
    assert [line for line in caplog.messages if "no RDMA device reaches it" in line] != []
    assert [line for line in caplog.messages if "not by provider verbs" in line] == []


@pytest.mark.thorough
@without_network
async def test_a_server_that_refuses_the_device_gets_the_software_rnic_at_once(
    device: DeviceInMemory, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_to_connect, "_HEAD_START_S", 1000.0)

    caplog.set_level(logging.INFO)
    async with serving(provider="iwarp") as server, connecting(server.listening[0]) as client:
        assert await called(client) == SOFTWARE
    assert [line for line in caplog.messages if "by provider verbs: " in line and "refused" in line] != []


@pytest.mark.thorough
@without_network
async def test_each_address_of_a_host_is_tried_over_devices(
    device: DeviceInMemory, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_to_connect, "_HEAD_START_S", 1000.0)
    device.reached.add("127.0.0.2")
    loop = asyncio.get_running_loop()
    look_up = loop.getaddrinfo

    async def found(host: str, port: int, **how: Any) -> Any:
        hosts = ["127.0.0.2", "127.0.0.1"] if host == "both" else [host]
        return [each for name in hosts for each in await look_up(name, port, **how)]

    monkeypatch.setattr(loop, "getaddrinfo", found)
    caplog.set_level(logging.INFO)
    async with serving(provider="verbs") as server:
        port = parse_url(server.listening[0]).port
        async with connecting(f"rdma://both:{port}", "verbs") as client:
            assert await called(client) == VERBS
    (said,) = [line for line in caplog.messages if "trying" in line]
    assert said.startswith(f"127.0.0.2:{port} by provider verbs: ")
    assert said.endswith(f"; trying provider verbs at 127.0.0.1:{port}")
    with pytest.raises(ConnectFailed, match=r"^cannot connect to 127.0.0.1:9: .*, and by verbs at 127.0.0.2:9: .*; "):
        await connecting("rdma://both:9", "verbs")


class Made:
    """A connection that notes its end."""

    aborted = ""

    def abort(self, reason: str) -> None:
        self.aborted = reason


async def test_of_two_connections_at_the_same_time_the_devices_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_to_connect, "_HEAD_START_S", 0.0)

    begun: list[asyncio.Future[Made]] = []

    async def dial() -> Made:
        begun.append(asyncio.get_running_loop().create_future())
        return await begun[-1]

    url = parse_url("rdma://127.0.0.1")
    dialers = [
        SimpleNamespace(url=url, server=(name,), provider=SimpleNamespace(name=name), dial=dial) for name in ("a", "b")
    ]
    chosen = asyncio.ensure_future(first_connection(cast("list[RdmaDialer]", dialers), KnownServers()))
    await until(lambda: len(begun) == 2)
    made = [Made(), Made()]
    for future, each in zip(begun, made, strict=True):
        future.set_result(each)
    assert cast("object", await chosen) is made[0]
    await until(lambda: any(each.aborted for each in made))
    assert [bool(each.aborted) for each in made] == [False, True]


class Dialer:
    """One provider's dialer to a server, which answers after some seconds, fails, or is silent (None)."""

    url = parse_url("rdma://server")

    def __init__(self, name: str, answer: float | ConnectFailed | None, tried: list[str]) -> None:
        self.provider = SimpleNamespace(name=name)
        self.server = (name, self.url.host, self.url.port)
        self._answer = answer
        self._tried = tried

    async def dial(self) -> Made:
        self._tried.append(self.provider.name)
        if isinstance(self._answer, ConnectFailed):
            raise self._answer
        await time_passes(1000.0 if self._answer is None else self._answer)
        return Made()


class Dialing:
    """Connections to one server, over the first of several providers that `answers`."""

    def __init__(self, **answers: float | ConnectFailed | None) -> None:
        self.known = KnownServers()
        self.answers = answers
        self.tried: list[str] = []

    async def connect(self) -> float:
        """Connects, and returns the seconds that it took."""
        now_s = asyncio.get_running_loop().time
        before_s = now_s()
        dialers = [Dialer(name, answer, self.tried) for name, answer in self.answers.items()]
        await first_connection(cast("list[RdmaDialer]", dialers), self.known)
        return now_s() - before_s


@in_virtual_time
async def test_a_server_that_is_silent_over_devices_is_not_waited_for_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    dialing = Dialing(verbs=None, iwarp=0.0)
    assert await dialing.connect() == 1.0
    caplog.clear()
    for _ in range(3):
        assert await dialing.connect() == 0.0
    assert dialing.tried == ["verbs", "iwarp", *["iwarp"] * 3]
    assert [line.count("verbs: no answer lately; trying provider iwarp") for line in caplog.messages] == [1, 1, 1]
    await time_passes(SERVER_AGAIN_S)
    assert await dialing.connect() == 1.0, "it is asked again"


@in_virtual_time
async def test_a_silent_device_is_asked_last_and_known_to_answer_when_it_does() -> None:
    dialing = Dialing(verbs=None, iwarp=0.0)
    await dialing.connect()
    dialing.tried.clear()
    dialing.answers.update(verbs=0.5, iwarp=ConnectFailed("refused", refused=True))
    for _ in range(2):
        assert await dialing.connect() == 0.5
    assert dialing.tried == ["iwarp", "verbs", "verbs"]


@in_virtual_time
async def test_a_device_that_answers_slowly_is_not_silent() -> None:
    dialing = Dialing(verbs=1.5, iwarp=None)
    for _ in range(2):
        assert await dialing.connect() == 1.5
    assert dialing.tried == ["verbs", "iwarp"] * 2
    now_s = asyncio.get_running_loop().time()
    assert not dialing.known.is_silent(("iwarp", "server", 20049), now_s), "it had no time to answer"


@pytest.mark.thorough
@without_network
async def test_where_nothing_answers_both_causes_are_named(device: DeviceInMemory) -> None:
    said = r"^cannot connect to 127.0.0.1:9: connection refused, and by verbs: .*refused; check"
    with pytest.raises(ConnectFailed, match=said) as caught:
        await connecting("rdma://127.0.0.1:9")
    assert caught.value.refused


async def test_a_failure_that_both_would_share_ends_the_attempt(
    device: DeviceInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
    with pytest.raises(ConnectFailed, match=r"^cannot connect to nowhere:20049: name or service not known; check"):
        await connecting("rdma://nowhere")


@pytest.mark.thorough
@without_network
async def test_a_listener_may_choose_its_provider_and_both_listen_at_a_wildcard(device: DeviceInMemory) -> None:
    urls = ["rdma://127.0.0.1:0?provider=verbs", "rdma://127.0.0.1:0?provider=iwarp"]
    async with serving(*urls) as server:
        over_device, over_tcp = server.listening
        assert server.providers == {over_device: [VERBS], over_tcp: [SOFTWARE]}
        async with connecting(over_device) as client:
            assert await called(client) == VERBS
        async with connecting(over_tcp) as client:
            assert await called(client) == SOFTWARE
    async with serving("rdma://0.0.0.0:0") as server:
        assert list(server.providers.values()) == [[ProviderInUse("verbs"), SOFTWARE]]


@pytest.mark.thorough
@without_network
async def test_a_loopback_address_without_a_device_is_not_opened_to_the_network(device: DeviceInMemory) -> None:
    async with serving("rdma://127.0.0.2:0?provider=iwarp") as server:
        await server.listen("rdma://127.0.0.2:0")
        with pytest.raises(ConnectFailed, match="no rdma device has the address"):
            await server.listen("rdma://127.0.0.2:0?provider=verbs")
        assert device.listeners == {}
        assert set(map(tuple, server.providers.values())) == {(SOFTWARE,)}


def test_a_machine_without_a_device_loads_nothing_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verbs_provider, "VerbsProvider", None)
    for directory in (tmp_path, tmp_path / "absent"):
        monkeypatch.setattr(provider_choice, "DEVICES", str(directory))
        assert [provider.name for provider in chosen_providers("auto", IwarpConfig(), VerbsConfig(), None)] == ["iwarp"]


def test_a_process_that_may_lock_little_memory_is_told_why_it_gets_no_device(
    device: DeviceInMemory, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locked_memory, "lock_limit_octets", lambda: 8 << 20)
    with caplog.at_level(logging.INFO):
        assert [provider.name for provider in chosen_providers("auto", IwarpConfig(), VerbsConfig(), None)] == ["iwarp"]
    assert caplog.messages == [
        "provider iwarp: RDMA devices need more locked memory than the 8192 KiB of ulimit -l: raise it to 65536"
    ]
    assert [provider.name for provider in chosen_providers("verbs", IwarpConfig(), VerbsConfig(), None)] == ["verbs"]


def test_an_unknown_name_is_no_provider() -> None:
    with pytest.raises(LocalProtocolError, match="'roce' is not known: take auto, iwarp, verbs or an object"):
        chosen_providers("roce", IwarpConfig(), VerbsConfig(), None)  # type: ignore[arg-type]
