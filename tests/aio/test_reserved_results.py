"""Calls that must not run twice have memory for their bulk results before they begin, or wait for it."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, cast

import pytest

from client_calls import MIB
from rpcrdma import errors
from rpcrdma.aio.answering.answering import Answering
from rpcrdma.aio.answering.buffer_pool import BufferPool
from rpcrdma.aio.answering.handler_runner import HandlerRunner
from rpcrdma.aio.answering.server_call import ServerCall
from rpcrdma.limits import BUFFER_OCTETS_MAX, REPLY_OCTETS_MAX
from rpcrdma.rpc.calling import CallEncoder, decode_result
from rpcrdma.rpc.dispatch import Dispatcher
from rpcrdma.rpc.program import Procedure, Program
from rpcrdma.rpc.reply_bound import ReplyBound
from rpcrdma.rpc.service import Service, in_worker, inline_or_worker
from rpcrdma.xdr.codec import Decoder, Encoder, Payload
from support.cases import each_case
from support.programs import WORD, procedure
from support.waiting import until

NUMBER = 0x20000031
ANY_LENGTH = 0xFFFFFFFF
AT_ONCE = 15
"""Results of 1 MiB for which one connection has memory, of 256 MiB."""


def encode_data(enc: Encoder, value: Any) -> None:
    enc.bulk(value, ANY_LENGTH, "data")


def decode_length(dec: Decoder) -> int:
    return len(dec.opaque(ANY_LENGTH, "data"))


PUT = procedure(NUMBER, 1, "put", bound=ReplyBound(4))
GET = procedure(NUMBER, 2, "get", WORD, (encode_data, decode_length))


class Peer:
    """A connection whose replies hold their memory until `result`; implements `CallSource`."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.host = "192.0.2.7"
        self.client = cast("Any", None)
        self.results = scene.pool.share(self.host)
        self.replies: list[tuple[ServerCall, Payload]] = []
        self.dropped = 0

    def call(self, asked: Procedure[Any, Any], args: int = MIB) -> None:
        xid = next(self._scene.xids)
        call = ServerCall(xid, Decoder(CallEncoder().encode(xid, asked, args).reduced))
        self._scene.answering.take(call, self)

    def reply(self, call: ServerCall, reply: Payload) -> None:
        self.replies.append((call, reply))

    def refuse(self, _call: ServerCall) -> bool:
        return False

    def drop(self, call: ServerCall) -> None:
        self.dropped += 1
        call.release()

    def result(self) -> Any:
        """That of the reply which is the next to be sent; its memory is free then."""
        call, reply = self.replies.pop(0)
        octets = b"".join(reply.gather())
        call.release()
        return decode_result(Decoder(octets), call.xid, GET if call.route.name == "GET" else PUT)


class Scene:
    """A server with the default memory, whose GET has the handler `get` and results of up to `bound` octets."""

    def __init__(
        self,
        get: Any,
        bound: int | Callable[[int], ReplyBound] = MIB,
        octets_max: int = BUFFER_OCTETS_MAX,
        reserves: tuple[int, ...] = (),
        idempotent: tuple[int, ...] = (),
    ) -> None:
        limited = replace(GET, bound=ReplyBound(4, (bound,)) if isinstance(bound, int) else bound)

        class Both(Service):
            PROGRAM = Program(NUMBER, 1, "BOTH", {1: PUT, 2: limited})
            RESERVES = frozenset(reserves)
            IDEMPOTENT = frozenset(idempotent)

            def put(self, args: int, context: Any) -> int:
                return args

        service = Both()
        service.get = get  # type: ignore[attr-defined]
        self.pool = BufferPool(octets_max=octets_max)
        self.xids = itertools.count(1)
        self.runner = HandlerRunner()
        self.answering = Answering(Dispatcher([service]), self.runner)


@asynccontextmanager
async def serving(get: Any, *settings: Any, **options: Any) -> AsyncIterator[tuple[Scene, Peer]]:
    scene = Scene(get, *settings, **options)
    yield scene, Peer(scene)
    assert scene.pool.lent_octets == 0
    assert await scene.runner.drain(60)


def inline(args: int, context: Any) -> Any:
    return context.buffer(args)


async def coroutine(args: int, context: Any) -> Any:
    await asyncio.sleep(0)
    return context.buffer(args)


@in_worker
def worker(args: int, context: Any) -> Any:
    return context.buffer(args)


@inline_or_worker
def rest_in_worker(args: int, context: Any) -> Generator[None, None, Any]:
    yield
    return context.buffer(args)


@each_case("handler", [inline, coroutine, worker, rest_in_worker])
async def test_any_number_of_calls_of_one_connection_have_memory_for_their_results_in_turn(handler: Any) -> None:
    calls = 25
    async with serving(handler) as (scene, peer):
        for _ in range(calls):
            peer.call(GET)
        for number in range(calls):
            await until(lambda number=number: len(peer.replies) >= min(AT_ONCE, calls - number))  # type: ignore[misc]
            assert scene.pool.lent_octets <= AT_ONCE * MIB
            assert peer.result() == MIB


@each_case(("execution", "reserves"), [("inline", True), ("worker", True), ("rest", True), ("rest", False)])
async def test_a_handler_that_reserves_begins_once_although_memory_is_scarce(execution: str, reserves: bool) -> None:
    """A handler with an effect before it asks for memory, as SEQUENCE has, and which an idempotent one would repeat."""
    begun = 0
    calls = 30

    def inline(args: int, context: Any) -> Any:
        nonlocal begun
        begun += 1
        return context.buffer(args)

    @inline_or_worker
    def rest(args: int, context: Any) -> Generator[None, None, Any]:
        nonlocal begun
        begun += 1
        yield
        return context.buffer(args)

    handler = {"inline": inline, "worker": in_worker(partial(inline)), "rest": rest}[execution]
    async with serving(
        handler, lambda args: ReplyBound(4, (args,)), reserves=(2,) if reserves else (), idempotent=(2,)
    ) as (_, peer):
        for _ in range(calls):
            peer.call(GET)
        for number in range(calls):
            await until(lambda number=number: len(peer.replies) >= min(AT_ONCE, calls - number))  # type: ignore[misc]
            assert peer.result() == MIB
        assert (begun == calls) is reserves


async def test_a_handler_that_reserves_ends_after_its_connection() -> None:
    """Its session has its reply for a client that comes back."""
    gate = asyncio.Event()
    results: list[int] = []

    async def gated(args: int, context: Any) -> Any:
        await gate.wait()
        results.append(len(context.buffer(args)))
        return b""

    async with serving(gated, reserves=(2,), idempotent=(2,)) as (_scene, peer):
        peer.call(GET)
        await asyncio.sleep(0)
        peer.results.close()
        gate.set()
        await until(lambda: peer.replies)
        assert peer.result() == 0
        assert results == [MIB]


@each_case("handler", [inline, coroutine, worker])
@each_case("asked", [0, 5000, MIB])
async def test_memory_that_a_handler_has_not_asked_for_is_free_when_it_ends(handler: Any, asked: int) -> None:
    async with serving(handler, 2 * MIB) as (scene, peer):
        peer.call(GET, asked)
        await until(lambda: peer.replies and not scene.runner.running)
        assert scene.pool.lent_octets == {0: 0, 5000: 8192, MIB: MIB}[asked]
        assert peer.result() == asked


async def test_a_result_without_a_bound_may_be_larger_than_the_reserved_memory() -> None:
    async with serving(coroutine, ANY_LENGTH) as (scene, peer):
        peer.call(GET, 12 * MIB)
        peer.call(GET, 12 * MIB)
        assert scene.pool.lent_octets == 2 * REPLY_OCTETS_MAX
        await until(lambda: len(peer.replies) == 2)
        assert peer.result() == 12 * MIB
        # The memory of one connection is too small for the second one.
        with pytest.raises(errors.RemoteSystemError):
            peer.result()
        # No wait brings more than all.
        peer.call(GET, 257 * MIB)
        await until(lambda: peer.replies)
        with pytest.raises(errors.RemoteSystemError):
            peer.result()


async def test_a_bound_above_all_memory_reserves_all() -> None:
    async with serving(coroutine, 2 * MIB, octets_max=MIB) as (scene, peer):
        peer.call(GET)
        assert scene.pool.lent_octets == MIB
        await until(lambda: peer.replies)
        assert peer.result() == MIB


async def test_the_arguments_may_bound_the_memory() -> None:
    async with serving(coroutine, lambda args: ReplyBound(4, (args,))) as (scene, peer):
        peer.call(GET, 5000)
        assert scene.pool.lent_octets == 8192
        # A result of this size is not counted, and there is room for it at any time.
        other = scene.pool.share("192.0.2.8")
        assert other.reserve(256 * MIB - 8192)
        peer.call(GET, 4096)
        peer.call(GET, 5000)
        await until(lambda: len(peer.replies) == 2)
        assert scene.pool.waited_for
        assert [peer.result(), peer.result()] == [5000, 4096]
        other.give_back(256 * MIB - 8192)
        await until(lambda: peer.replies)
        assert peer.result() == 5000


async def test_a_bound_that_raises_is_a_system_error(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(inline, lambda args: ReplyBound(4, (args // 0,)))
    peer = Peer(scene)
    peer.call(GET)
    with pytest.raises(errors.RemoteSystemError):
        peer.result()
    assert await scene.runner.drain(0)
    assert [record.getMessage() for record in caplog.records] == ["GET failed and was answered with SYSTEM_ERR"]


@each_case("crowded", [False, True])
async def test_handlers_that_have_all_memory_reserved_may_wait_for_a_call_without_bulk_results(crowded: bool) -> None:
    """Also if both came when replies held all memory."""
    gate = asyncio.Event()

    async def gated(args: int, context: Any) -> Any:
        await gate.wait()
        return context.buffer(args)

    async with serving(gated) as (scene, peer):
        unsent = [peer.results.acquire(MIB) for _ in range(AT_ONCE if crowded else 0)]
        for _ in range(AT_ONCE + 1):
            peer.call(GET)
        peer.call(PUT, 7)
        for buffer in unsent:
            assert buffer is not None
            assert not peer.replies
            peer.results.release(buffer)
        await until(lambda: peer.replies)
        assert peer.result() == 7
        assert scene.pool.waited_for
        gate.set()
        await until(lambda: len(peer.replies) == AT_ONCE)
        for _ in range(AT_ONCE):
            assert peer.result() == MIB
        await until(lambda: peer.replies)
        assert peer.result() == MIB


async def test_calls_that_wait_for_memory_do_not_run_when_their_connection_ends() -> None:
    ran = 0
    gate = asyncio.Event()

    async def gated(args: int, context: Any) -> Any:
        nonlocal ran
        ran += 1
        await gate.wait()
        return context.buffer(args)

    async with serving(gated) as (scene, peer):
        for _ in range(AT_ONCE + 3):
            peer.call(GET)
        await until(lambda: ran == AT_ONCE)
        peer.results.close()
        assert peer.dropped == 3
        # A repeat may get the results of the others.
        gate.set()
        await until(lambda: len(peer.replies) == AT_ONCE)
        for _ in range(AT_ONCE):
            assert peer.result() == MIB
        assert (ran, scene.pool.lent_octets) == (AT_ONCE, 0)


async def test_reserved_memory_is_free_when_the_handler_is_cancelled_or_gets_no_thread() -> None:
    async def endless(args: int, context: Any) -> Any:
        await asyncio.Event().wait()

    scene = Scene(endless)
    Peer(scene).call(GET)
    assert scene.pool.lent_octets == MIB
    assert not await scene.runner.drain(0)
    assert scene.pool.lent_octets == 0


@each_case(
    ("steps", "idempotent", "let_go"),
    [(False, (), True), (True, (), False), (True, (2,), True)],
)
async def test_a_call_that_waits_for_a_thread_ends_with_its_connection_unless_a_repeat_may_get_its_reply(
    steps: bool, idempotent: tuple[int, ...], let_go: bool
) -> None:
    gate = threading.Event()
    told = 0

    @in_worker
    def gated(args: int, context: Any) -> Any:
        gate.wait()
        return context.buffer(args)

    @inline_or_worker
    def begun(args: int, context: Any) -> Generator[None, None, Any]:
        nonlocal told
        try:
            yield
        except GeneratorExit:
            told += 1
            raise
        return gated(args, context)

    scene = Scene(begun if steps else gated, reserves=(2,), idempotent=idempotent)
    peer = Peer(scene)
    for _ in range(10):
        peer.call(GET)
    assert scene.pool.lent_octets == 10 * MIB
    peer.results.close()
    scene.runner.workers.connection_ended(peer)
    running = 10 - peer.dropped
    assert scene.pool.lent_octets == running * MIB
    assert (running < 10) is let_go
    assert told == (peer.dropped if steps else 0)
    gate.set()
    await until(lambda: len(peer.replies) == running)
    while peer.replies:
        assert peer.result() == MIB
    assert scene.pool.lent_octets == 0
    assert await scene.runner.drain(60)
