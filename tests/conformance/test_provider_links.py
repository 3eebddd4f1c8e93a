"""The duties of every provider for a connection: links, the drivers that they open to, and the end of both."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rpcrdma.aio.drivers import loopback_provider
from rpcrdma.aio.drivers.deadline_timer import DeadlineTimer
from rpcrdma.aio.drivers.limited_log import LimitedLog
from rpcrdma.aio.drivers.loopback_provider import LoopbackProvider
from rpcrdma.aio.drivers.provider import Link, LinkListener, Provider
from rpcrdma.aio.drivers.software_rnic import SoftwareRnic
from rpcrdma.aio.drivers.verbs_provider import VerbsProvider
from rpcrdma.errors import ConnectFailed
from rpcrdma.testing.virtual import fabric
from rpcrdma.verbs import Completion, ConnectRequested, Disconnected, Established, Status, Verb
from support.device_in_memory import DeviceInMemory
from support.simulated import Simulated, run_in_virtual_time
from support.waiting import time_passes, until

RECEIVES = 200
Scene = Callable[[Provider], Coroutine[Any, Any, None]]


def devices() -> VerbsProvider:
    """The provider of RDMA devices, with one in memory."""
    return VerbsProvider(DeviceInMemory())


def each_provider_does(scene: Scene) -> Callable[..., None]:
    """A test of `scene` over each provider: in memory and simulated, and, thorough, over sockets and a device."""

    @pytest.mark.parametrize(
        "providers",
        [
            pytest.param((LoopbackProvider, Simulated), id="in memory"),
            pytest.param((SoftwareRnic, devices), id="iwarp and verbs", marks=pytest.mark.thorough),
        ],
    )
    def test(providers: tuple[Callable[[], Provider], ...]) -> None:
        for make in providers:
            provider = make()
            (run_in_virtual_time if isinstance(provider, Simulated) else asyncio.run)(scene(provider))

    return test


class Owner:
    """Takes the reports of the queue pair, as a connection does, and accepts every request."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.turns = 0
        self.in_flush = False
        self.events: list[Any] = []
        self.completions: list[Completion] = []
        self.closed: list[None] = []
        self.buffers = [memoryview(bytearray(64)) for _ in range(RECEIVES)]
        loop = asyncio.get_running_loop()
        self.driver = link.open(
            b"from the client", DeadlineTimer(loop, self.turn), self.turn, lambda: self.closed.append(None)
        )
        self.queue_pair = self.driver.queue_pair
        for number, buffer in enumerate(self.buffers):
            self.queue_pair.post_receive(number, buffer)
        assert self.turns == 0, "called before `open` has returned"
        self.flush()

    def turn(self) -> None:
        assert not self.in_flush, "called from within `flush`"
        self.turns += 1
        while self.queue_pair.events:
            event = self.queue_pair.events.pop(0)
            self.events.append(event)
            if isinstance(event, ConnectRequested):
                self.queue_pair.accept(b"from the server")
            elif isinstance(event, Disconnected):
                self.driver.expect_end()
        while self.queue_pair.completions:
            completion = self.queue_pair.completions.popleft()
            self.completions.append(completion)
        self.flush()

    def flush(self) -> None:
        self.in_flush = True
        self.driver.flush()
        self.in_flush = False

    def told(self, kind: type) -> bool:
        return any(isinstance(event, kind) for event in self.events)

    def received(self) -> int:
        return sum(each.verb is Verb.RECEIVE and each.status is Status.SUCCESS for each in self.completions)


@asynccontextmanager
async def listening(provider: Provider) -> AsyncIterator[tuple[LinkListener, tuple[str, int], list[Link]]]:
    links: list[Link] = []
    listener = provider.listener(links.append, LimitedLog(logging.getLogger("rpcrdma.test")))
    ((host, port, _),) = await listener.listen("127.0.0.1", 0)
    try:
        yield listener, (host, port), links
    finally:
        listener.close()


async def ports_are_given_again(provider: Provider) -> None:
    async with listening(provider) as (_, (host, port), _links):
        links = [await provider.connect(host, port) for _ in range(2)]
        assert [link.local[1] for link in links] == [65534, 65535]
        async with listening(provider) as (_, (_host, other), _links):
            assert (port, other) == (65533, 65534)


def test_ports_are_given_again_after_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (loopback_provider, fabric):
        monkeypatch.setattr(module, "_FREE_PORTS", range(65533, 65536))
    asyncio.run(ports_are_given_again(LoopbackProvider()))
    run_in_virtual_time(ports_are_given_again(Simulated()))


@each_provider_does
async def test_a_driver_tells_a_round_trip_that_it_has_measured_or_none(provider: Provider) -> None:
    async with joined(provider) as ends:
        for end in ends:
            told_s = end.driver.round_trip_s
            assert told_s is None or 0 < told_s < 1
            if isinstance(provider, Simulated):
                # Two miles, and 0.31 us for each message to leave.
                assert told_s == pytest.approx(2 * (16e-6 + 0.31e-6), rel=0.001)


@asynccontextmanager
async def joined(provider: Provider) -> AsyncIterator[tuple[Owner, Owner]]:
    """Two owners of one connection, of which both know that it stands."""
    async with listening(provider) as (_, address, links):
        client = Owner(await provider.connect(*address))
        await until(lambda: links)
        server = Owner(links[0])
        await until(lambda: client.told(Established))
        # A provider may know it at the server only then (RFC 6581 section 9).
        client.queue_pair.post_send("first", [b"first"])
        client.flush()
        await until(lambda: server.told(Established) and server.received() == 1)
        try:
            yield client, server
        finally:
            for end in (client, server):
                end.queue_pair.abort("the test is over")
                end.driver.close()


@each_provider_does
async def test_links_know_their_addresses_and_who_connects(provider: Provider) -> None:
    async with joined(provider) as (client, server):
        assert (client.link.active, server.link.active) == (True, False)
        assert (client.link.local, client.link.peer) == (server.link.peer, server.link.local)
        assert client.link.provider == server.link.provider == provider.name
        assert client.driver.protection_domain is not server.driver.protection_domain


@each_provider_does
async def test_private_data_and_depths_reach_the_other_end(provider: Provider) -> None:
    async with joined(provider) as (client, server):
        asked = next(event for event in server.events if isinstance(event, ConnectRequested))
        stands = next(event for event in client.events if isinstance(event, Established))
        received = [asked.private_data, stands.private_data]
        if provider.name == "verbs":
            # See `DEVICE_DEVIATIONS`.
            received = [data.rstrip(b"\0") for data in received]
        assert received == [b"from the client", b"from the server"]
        terms, there = client.driver.terms, server.driver.terms
        assert (terms.inbound_reads, terms.outbound_reads) == (stands.inbound_reads, stands.outbound_reads)
        assert (terms.inbound_reads, terms.outbound_reads) == (there.outbound_reads, there.inbound_reads)
        assert terms.crc is there.crc


@each_provider_does
async def test_what_is_posted_goes_when_it_is_flushed(provider: Provider) -> None:
    async with joined(provider) as (client, server):
        server.queue_pair.post_send("back", [b"back"])
        server.flush()
        await until(client.received)
        assert bytes(client.buffers[0][:4]) == b"back"
        # Of Sends that are done a provider need not tell before something else happens.
        server.turn()
        assert Completion("back", Verb.SEND, Status.SUCCESS, 4) in server.completions


async def fill(client: Owner, server: Owner) -> int:
    """Sends as many messages as there are receives left; returns in how many turns the server got them."""
    for number in range(RECEIVES - 1):
        client.queue_pair.post_send(number, [bytes(64)])
    before = server.turns
    client.flush()
    await until(lambda: server.received() == RECEIVES)
    assert [each.wr for each in server.completions if each.verb is Verb.RECEIVE] == list(range(RECEIVES))
    return server.turns - before


@each_provider_does
async def test_many_messages_arrive_in_order_and_several_in_one_turn(provider: Provider) -> None:
    async with joined(provider) as (client, server):
        turns = await fill(client, server)
        # A turn of a simulated host costs nothing. Each completion has its own, so that each event has one cause.
        assert turns == RECEIVES - 1 if isinstance(provider, Simulated) else turns < RECEIVES / 4


def test_work_in_memory_leaves_the_event_loop_to_others_in_between() -> None:
    async def main() -> None:
        async with joined(LoopbackProvider()) as (client, server):
            assert await fill(client, server) >= 3

    asyncio.run(main())


@each_provider_does
async def test_an_orderly_end_comes_after_what_was_posted_and_closes_both_ends_once(provider: Provider) -> None:
    async with joined(provider) as (client, server):
        client.queue_pair.post_send("last", [b"last"])
        client.queue_pair.disconnect()
        client.driver.expect_end()
        client.flush()
        await until(lambda: client.closed and server.closed)
        assert server.received() == 2
        (end,) = (event for event in server.events if isinstance(event, Disconnected))
        assert (end.by_peer, end.protocol_error) == (True, False)
        for side in (client, server):
            side.driver.close()
            side.flush()
            assert side.driver.blocked
            assert side.closed == [None]


@each_provider_does
async def test_an_end_at_once_is_heard_of_at_the_other_end(provider: Provider) -> None:
    async with joined(provider) as (client, server):
        client.queue_pair.abort("told to")
        client.turn()
        client.driver.close()
        assert client.closed == [None]
        await until(lambda: server.closed)
        assert server.told(Disconnected)
        # An object that waited for a message gives its memory back.
        flushed = [each for each in server.completions if each.status is Status.FLUSHED]
        assert len(flushed) == RECEIVES - 1


@each_provider_does
async def test_who_is_turned_away_hears_of_it(provider: Provider) -> None:
    async with listening(provider) as (_, address, links):
        client = Owner(await provider.connect(*address))
        await until(lambda: links)
        links[0].refuse()
        await until(lambda: client.closed)
        assert client.told(Disconnected)
        assert not client.told(Established)


@each_provider_does
async def test_an_address_is_left_while_the_others_stay(provider: Provider) -> None:
    async with listening(provider) as (listener, address, links):
        ((host, port, _),) = await listener.listen("127.0.0.1", 0)
        listener.stop([address, ("192.0.2.1", 1)])
        client = Owner(await provider.connect(host, port))
        await until(lambda: links)
        assert links[0].local == (host, port)
        links[0].refuse()
        await until(lambda: client.closed)
        if provider.name == "verbs":
            refused = Owner(await provider.connect(*address))
            await until(lambda: refused.closed)
        else:
            with pytest.raises(ConnectFailed):
                await provider.connect(*address)


@each_provider_does
async def test_where_nothing_listens_any_more_connecting_is_refused(provider: Provider) -> None:
    async with listening(provider) as (listener, address, _):
        listener.close()
        if provider.name == "verbs":
            # There is a path to the peer, of which the device knows before it asks for a connection.
            client = Owner(await provider.connect(*address))
            await until(lambda: client.closed)
            assert client.events == [Disconnected(reason="connection refused", by_peer=True)]
            return
        with pytest.raises(ConnectFailed, match="refused; check that the server") as caught:
            await provider.connect(*address)
        assert caught.value.refused


def test_a_simulated_request_that_comes_to_no_listener_or_after_its_end_makes_no_link() -> None:
    async def main() -> None:
        provider = Simulated()
        async with listening(provider) as (listener, address, links):
            early, late = await provider.connect(*address), await provider.connect(*address, reserved_port=True)
            assert late.local[1] < 1024 <= early.local[1]
            gone = Owner(early)
            gone.queue_pair.abort("enough")
            gone.driver.close()
            await time_passes(1)
            listener.close()
            client = Owner(late)
            await until(lambda: client.closed)
            (end,) = (event for event in client.events if isinstance(event, Disconnected))
            assert "refused" in end.reason
            assert links == []

    run_in_virtual_time(main())


@each_provider_does
async def test_an_address_is_taken_once(provider: Provider) -> None:
    async with listening(provider) as (listener, (host, port), _):
        with pytest.raises(OSError, match="in use"):
            await listener.listen(host, port)
        ((_, another, _),) = await listener.listen(host, 0)
        assert another not in {0, port}
