"""Programs compiled from a definition, over RDMA: how large their results may be needs no other words."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

import pytest

from client_calls import MIB
from rpcrdma.aio.client.connect import Connection, ConnectOptions, connect
from rpcrdma.aio.server.serve import serve
from rpcrdma.limits import REPLY_OCTETS_MAX
from rpcrdma.rpc.auth import AuthNone
from rpcrdma.rpc.service import CallContext, Service
from rpcrdma.transport import VERSION_CHOICES, ChunkRefused, TransportConfig
from rpcrdma.xdr.language import compile_source
from support.cases import each_case

pytestmark = pytest.mark.usefixtures("each_provider")

NEWER = tuple(choice for choice in VERSION_CHOICES if choice not in {"auto", "1"})

DEFINITION = """
struct ask { unsigned int most; unsigned int made; };

/* Nothing of it may be placed: a Reply chunk. */
struct listing { string lines<1000000>; };

/* Placed, and as large as the caller wants it, or as memory is given for it. */
struct blob { int status; opaque data<16777216>; };
pragma ddp blob.data;
pragma bound blob.data ask.most;

/* Nobody says how large it is. */
struct anything { opaque data<4294967295>; };
pragma ddp anything.data;

struct words { opaque data<4294967295>; };

program LARGE {
    version LARGE_V1 {
        void LARGE_NULL(void) = 0;
        listing LARGE_LIST(ask) = 1;
        blob LARGE_FETCH(ask) = 2;
        anything LARGE_ANYTHING(ask) = 3;
        words LARGE_WORDS(ask) = 4;
    } = 1;
} = 0x20000024;
"""


@pytest.fixture(name="large", scope="module")
def large_fixture(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    path = tmp_path_factory.mktemp("large") / "large_program.py"
    path.write_text(compile_source(DEFINITION, source_name="large.x").text)
    spec = importlib.util.spec_from_file_location("large_program", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "large_program", module)
        spec.loader.exec_module(module)
    return module


def service(large: ModuleType) -> Service:
    class Large(large.LARGE_V1_Service):  # type: ignore[misc]
        def large_list(self, args: Any, context: CallContext) -> Any:
            return large.listing("x" * args.made)

        def large_fetch(self, args: Any, context: CallContext) -> Any:
            return large.blob(0, bytes(args.made))

        def large_anything(self, args: Any, context: CallContext) -> Any:
            return large.anything(bytes(args.made))

        def large_words(self, args: Any, context: CallContext) -> Any:
            return large.words(bytes(args.made))

    made: Service = Large()
    return made


@asynccontextmanager
async def joined(large: ModuleType, **transport: int) -> AsyncIterator[Connection]:
    options = ConnectOptions(credential=AuthNone(), transport=TransportConfig(**transport))
    async with (
        serve([service(large)], ["rdma://127.0.0.1:0"]) as server,
        connect(server.listening[0], large.LARGE_V1, options=options) as connection,
    ):
        yield connection
        assert connection.reconnects == 0


async def test_results_as_large_as_the_definition_says_come(large: ModuleType) -> None:
    async with joined(large) as connection:
        client = large.LARGE_V1_Client(connection)
        assert len((await client.large_list(large.ask(0, 1_000_000))).lines) == 1_000_000
        for size in (0, 5000, 2 * MIB):
            assert len((await client.large_fetch(large.ask(size, size))).data) == size
        assert len((await client.large_anything(large.ask(0, REPLY_OCTETS_MAX))).data) == REPLY_OCTETS_MAX
        assert len((await client.large_words(large.ask(0, REPLY_OCTETS_MAX - 100))).data) == REPLY_OCTETS_MAX - 100


@pytest.mark.versions("1", "2")
async def test_a_call_offers_what_its_arguments_or_its_caller_say_and_no_more(large: ModuleType) -> None:
    async with joined(large, reply_octets_max=1 << 16) as connection:
        client = large.LARGE_V1_Client(connection)
        assert connection.statistics is not None

        async def offered(most: int, made: int, **options: Any) -> int:
            before = connection.statistics.octets_offered
            await client.large_fetch(large.ask(most, made), **options)
            return int(connection.statistics.octets_offered - before)

        assert await offered(60_000, 5) == 60_000
        # A result that fits inline offers nothing.
        assert await offered(100, 100) == 0
        # Memory of the caller counts for more than the cap; where the argument bounds it as well, that counts.
        into = bytearray(MIB)
        assert (await client.large_anything(large.ask(0, MIB), into=into)).data.obj is into
        assert await offered(80_000, 80_000, into=into) == 80_000


@pytest.mark.versions("1")
@each_case("method", ["large_anything", "large_words", "large_fetch", "large_list"])
async def test_what_is_over_the_cap_is_refused_with_words_that_help(large: ModuleType, method: str) -> None:
    async with joined(large, reply_octets_max=1 << 16) as connection:
        call = getattr(large.LARGE_V1_Client(connection), method)
        with pytest.raises(ChunkRefused) as raised:
            await call(large.ask(100_000, 100_000))
        said = str(raised.value)
        assert method.upper() in said
        assert "65536" in said
        for remedy in ("pragma bound", "pragma limit", "`into`", "TransportConfig(reply_octets_max=...)"):
            assert remedy in said
        await call(large.ask(10_000, 10_000))


@pytest.mark.versions(*NEWER, "2-rtr")
@each_case("method", ["large_anything", "large_words", "large_fetch", "large_list"])
async def test_what_is_over_the_cap_comes_all_the_same_where_messages_may_be_long(
    large: ModuleType, method: str
) -> None:
    async with joined(large, reply_octets_max=1 << 16) as connection:
        call = getattr(large.LARGE_V1_Client(connection), method)
        result = await call(large.ask(100_000, 100_000))
        assert len(result.lines if method == "large_list" else result.data) == 100_000
        assert connection.statistics is not None
        assert connection.statistics.pieces_received + connection.statistics.resent_larger > 0
        if method == "large_list":
            return
        with pytest.raises(ChunkRefused) as raised:
            await call(large.ask(2 * MIB, 2 * MIB))
        said = str(raised.value)
        for remedy in (method.upper(), "pragma bound", "`into`", "TransportConfig(reply_octets_max=...)"):
            assert remedy in said
