"""Definitions that permit longer messages than their server takes or sends: the warnings in its log."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from local_tcp import without_network
from rpcrdma.aio.client.connect import ConnectOptions, connect
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.aio.server.serve import ServeOptions, serve
from rpcrdma.aio.server.tcp_server import TcpServerConfig
from rpcrdma.errors import RpcError
from rpcrdma.rpc.auth import AuthNone
from rpcrdma.rpc.program import Program
from rpcrdma.rpc.service import Service
from rpcrdma.transport import TransportConfig
from support.cases import each_case
from support.compiled import load

RDMA, TCP = "rdma://127.0.0.1:0", "tcp://127.0.0.1:0"
LIMIT = 8192
OPTIONS = ServeOptions(
    rdma=RdmaServerConfig(transport=TransportConfig(call_octets_pulled_max=LIMIT), rpcrdma_version=1),
    tcp=TcpServerConfig(record_octets_max=LIMIT),
)
PULLED = f", where RdmaServerConfig(transport=TransportConfig(call_octets_pulled_max=...)) is {LIMIT}"
RECORD = f", where TcpServerConfig(record_octets_max=...) is {LIMIT}"
BEGINS = "the definition of LARGE_V1 permits what this server refuses: "
BULK = "pragma ddp taken.data;"


def program(arguments: int, results: int = 0, pragmas: str = "", *, smaller: int = 4) -> Any:
    """The procedure MOVE takes and gives opaque items of at most so many octets."""
    return load(f"""
        typedef opaque small<{smaller}>;
        struct taken {{ opaque data<{arguments}>; }}; struct given {{ opaque data<{results}>; }}; {pragmas}
        program LARGE {{ version LARGE_V1 {{
            void SMALL(small) = 1; given MOVE(taken) = 2; void LEFT_OUT(taken, taken) = 3;
        }} = 1; }} = 7;""")


def service(module: Any, **attributes: Any) -> Service:
    """Offers the program without LEFT_OUT; the result of MOVE has as many octets as its arguments ask for."""

    def move(_self: Service, args: Any, _context: Any) -> Any:
        return module.given(bytes(int(args.data[:4])))

    kind = type("Large", (module.LARGE_V1_Service,), {"small": lambda *_: None, "move": move, **attributes})
    made: Service = kind()
    return made


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings since the last call."""
    found = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    caplog.clear()
    return found


@without_network
async def test_one_warning_of_a_program_names_procedure_bound_limit_and_setting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    large = program(10_000, 20_000, smaller=9000)
    async with serve([service(large)], [RDMA, TCP], options=OPTIONS) as server:
        parts = [
            f"MOVE with calls of up to 10044 octets over RDMA{PULLED}",
            f"MOVE with calls of up to 10044 octets over TCP{RECORD}",
            f"MOVE with replies of up to 20028 octets over TCP{RECORD}",
        ]
        assert told(caplog) == [BEGINS + "; ".join(parts)]
        await server.listen(TCP)
        assert told(caplog) == []
    # Only of the transports over which the program is offered.
    async with serve([service(large, OVER_RDMA=False)], [RDMA], options=OPTIONS) as server:
        assert told(caplog) == []
        await server.listen(TCP)
        assert told(caplog) == [BEGINS + "; ".join(parts[1:])]


@without_network
async def test_the_memory_of_the_server_is_a_limit_over_rdma(caplog: pytest.LogCaptureFixture) -> None:
    async with serve([service(program(10_000))], [RDMA], options=ServeOptions(memory_octets_max=9000)):
        (said,) = told(caplog)
        assert said.endswith("calls of up to 10044 octets over RDMA, where ServeOptions(memory_octets_max=...) is 9000")


def uncompiled(module: Any) -> Program:
    """As modules were that an earlier compiler has made."""
    made: Program = module.LARGE_V1
    return replace(made, procedures={n: replace(each, octets_max=None) for n, each in made.procedures.items()})


@each_case(
    "silent",
    [
        # Those left out are the only ones that could be too long.
        service(program(8000)),
        service(program(10_000), OWN_LIMITS=True),
        service(program(0xFFFFFFFF, 0xFFFFFFFF)),
        service(module := program(10_000), PROGRAM=uncompiled(module)),
    ],
)
@without_network
async def test_there_is_no_warning_without_a_bound_or_where_the_service_has_its_own(
    caplog: pytest.LogCaptureFixture, silent: Service
) -> None:
    async with serve([silent], [RDMA, TCP], options=OPTIONS):
        assert told(caplog) == []


@each_case(
    ("url", "arguments", "results", "pragmas"),
    [
        # As long as may be: the header of the call counts with its arguments, except beside a bulk item over RDMA.
        (RDMA, LIMIT - 44, 0, ""),
        (RDMA, LIMIT, 0, BULK),
        (TCP, LIMIT - 44, 0, ""),
        (TCP, LIMIT - 44, 0, BULK),
        (TCP, 4, LIMIT - 28, ""),
    ],
)
@without_network
async def test_what_the_warning_is_about_is_refused_and_nothing_shorter(
    caplog: pytest.LogCaptureFixture, url: str, arguments: int, results: int, pragmas: str
) -> None:
    # Its messages are as short as those of Linux, so that longer calls are read by RDMA.
    small = TransportConfig(inline_send_octets=4096)
    calling = ConnectOptions(credential=AuthNone(), record_octets_max=2 * LIMIT, transport=small)
    for more in (0, 4):
        asked = results + more * (results > 0)
        large = program(arguments + more * (not results), asked, pragmas)
        async with (
            serve([service(large)], [url], options=OPTIONS) as server,
            connect(server.listening[0], large.LARGE_V1, options=calling) as connection,
        ):
            assert len(told(caplog)) == (more > 0)
            move = large.LARGE_V1_Client(connection).move
            taken = large.taken(str(asked).zfill(4).encode().ljust(arguments + more * (not results), b"."))
            if more:
                with pytest.raises(RpcError):
                    await move(taken)
                told(caplog)
            else:
                assert len((await move(taken)).data) == asked
