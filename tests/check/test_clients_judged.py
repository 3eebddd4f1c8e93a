"""Clients before the scripted server: ours conforms, and each check catches a broken one."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from rpcrdma.aio.client.connect import ConnectOptions, connect
from rpcrdma.check import CLIENT_CATALOGUE, ClientTrial, Result, Verdict, listening
from rpcrdma.errors import RpcRdmaError
from rpcrdma.nfs import v3
from support import raw_calls
from support.raw_iwarp import fpdu, startup_frame


def judged(*, versions: str = "auto") -> list[Result]:
    async def calls(url: str) -> None:
        options = ConnectOptions(rpcrdma_version=versions, reconnect=False, call_timeout_s=5)
        async with connect(url, v3.PROGRAM, options=options) as connection:
            for _ in range(4):
                together = (connection.call(v3.NULL, None) for _ in range(2))
                await asyncio.gather(*together, return_exceptions=True)

    async def main() -> list[Result]:
        trial = ClientTrial(CLIENT_CATALOGUE, 5.0, lambda _: None)
        async with listening(trial, "127.0.0.1", 0) as (host, port):
            for _ in CLIENT_CATALOGUE:
                with contextlib.suppress(RpcRdmaError):
                    await calls(f"rdma://{host}:{port}")
            await trial.done.wait()
        return trial.results()

    return asyncio.run(main())


@pytest.mark.parametrize("versions", ["auto", "1"])
def test_our_client_conforms(versions: str) -> None:
    results = judged(versions=versions)
    wrong = [result for result in results if result.verdict is not Verdict.CONFORMS]
    assert [(result.check.id, result.verdict.value, result.cause) for result in wrong] == []


class BrokenClient:
    """Says an empty call, and another one at each arrival; `together` calls at first, under one XID if `same_xid`."""

    def __init__(self, *, together: int = 1, same_xid: bool = False, credit: int = 32) -> None:
        self._together = together
        self._same_xid = same_xid
        self._credit = credit
        self._sent = 0

    async def connect(self, host: str, port: int) -> None:
        """One connection, until the server ends it."""
        self._sent = 0
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(startup_frame("Req", 0x50, 2, bytes.fromhex("00100010") + raw_calls.BOTH_PRIVATE))
        with contextlib.suppress(OSError):
            if await reader.read(4096):
                for _ in range(self._together):
                    writer.write(self._call())
                while await reader.read(4096):
                    writer.write(self._call())
        writer.transport.abort()

    def _call(self) -> bytes:
        self._sent += 1
        xid = 7 if self._same_xid else self._sent
        header = raw_calls.header(xid=xid)
        header = header[:8] + self._credit.to_bytes(4) + header[12:]
        return fpdu(raw_calls.send(header + raw_calls.rpc(0, xid=xid), self._sent))


BROKEN = {
    "takes everything for a reply": BrokenClient(),
    "asks for no credits": BrokenClient(credit=0),
    "sends three calls at once": BrokenClient(together=3),
    "sends the same call again": BrokenClient(same_xid=True),
}


def test_each_check_catches_a_broken_client() -> None:
    async def caught(client: BrokenClient) -> set[str]:
        trial = ClientTrial(CLIENT_CATALOGUE, 2.0, lambda _: None)
        async with listening(trial, "127.0.0.1", 0) as (host, port):
            while not trial.done.is_set():
                await client.connect(host, port)
        wrong = {Verdict.VIOLATES, Verdict.IGNORES}
        return {result.check.id for result in trial.results() if result.verdict in wrong}

    async def main() -> dict[str, set[str]]:
        return {name: await caught(client) for name, client in BROKEN.items()}

    found = asyncio.run(main())
    assert {check.id for check in CLIENT_CATALOGUE} - set[str]().union(*found.values()) == set()
    assert [name for name, ids in found.items() if not ids] == []
    assert "client.calls" not in found["takes everything for a reply"], "its calls are right"


def test_a_client_that_stays_away_is_not_judged() -> None:
    trial = ClientTrial(CLIENT_CATALOGUE, 1.0, lambda _: None)
    assert {result.verdict for result in trial.results()} == {Verdict.NOT_SEEN}
