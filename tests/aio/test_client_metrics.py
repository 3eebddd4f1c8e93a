"""The metrics of clients, and of servers that call them back, for the calls that they make."""

from __future__ import annotations

import asyncio
import errno
import re
import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import prometheus_client
import pytest
from prometheus_client.parser import text_string_to_metric_families

from rpcrdma import ClientMetrics, ConnectOptions, MetricsExporter, ServeOptions, connect, serve
from rpcrdma.aio import metrics as shared_metrics
from rpcrdma.aio.client import client_metrics
from rpcrdma.aio.client.metrics_page import fetch, read_page
from rpcrdma.errors import ConnectFailed
from rpcrdma.nfs import v3
from rpcrdma.rpc.service import CallContext
from support.cases import each_case

pytestmark = pytest.mark.thorough

HANDLE = v3.nfs_fh3(data=b"handle")
LOOKUP = v3.LOOKUP3args(v3.diropargs3(HANDLE, "x"))
BOTH = ("rdma://127.0.0.1:0", "tcp://127.0.0.1:0")
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Files(v3.NFS_V3_Service):
    def lookup(self, _args: v3.LOOKUP3args, _context: CallContext) -> v3.LOOKUP3res:
        return v3.LOOKUP3res(v3.nfsstat3.NFS3ERR_NOENT, v3.LOOKUP3resfail(v3.post_op_attr(False, None)))


class CallingBack(Files):
    """Looks a name up at the client when it is asked for one."""

    async def getattr(self, _args: v3.GETATTR3args, context: CallContext) -> v3.GETATTR3res:
        context.client.ready()
        await context.client.call(v3.LOOKUP, LOOKUP, timeout_s=60.0)
        return v3.GETATTR3res(v3.nfsstat3.NFS3ERR_STALE, None)


def page_at(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        text: str = answer.read().decode()
    return text


def samples_of(text: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def found(samples: Samples, metric: str, **labels: str) -> list[float]:
    """The values of all samples of a metric that have these labels."""
    return [value for (name, each), value in samples.items() if name == metric and labels.items() <= dict(each).items()]


@contextmanager
def telling() -> Iterator[ClientMetrics]:
    with ClientMetrics() as metrics:
        metrics.start("127.0.0.1", 0)
        yield metrics


async def test_a_client_tells_its_calls_by_server_and_status() -> None:
    with telling() as metrics:
        options = ConnectOptions(metrics=metrics)
        async with serve([Files()], BOTH) as one, serve([Files()], BOTH[:1]) as other:
            urls = [*one.listening, *other.listening]
            for url in urls:
                async with connect(url, v3.PROGRAM, options=options) as client:
                    await client.call(v3.NULL, None)
                    await client.call(v3.LOOKUP, LOOKUP)
            # The first two again: the counts of ended connections are still there.
            async with connect(urls[0], v3.PROGRAM, options=options) as client:
                await client.call(v3.NULL, None)
                samples = samples_of(await asyncio.to_thread(page_at, metrics.url))
                told = client.statistics.operations[0]
            for url, calls in zip(urls, (2, 1, 1), strict=True):
                where = {"side": "client", "server": url, "transport": url[: url.index(":")]}
                null = where | {"program": "100003", "version": "3", "procedure": v3.NULL.name, "status": "SUCCESS"}
                absent = where | {"procedure": v3.LOOKUP.name, "status": "NFS3ERR_NOENT"}
                assert found(samples, "rpcrdma_procedure_ops_total", **null) == [calls]
                assert found(samples, "rpcrdma_procedure_transmissions_total", **null) == [calls]
                assert found(samples, "rpcrdma_procedure_ops_total", **absent) == [1]
                assert found(samples, "rpcrdma_procedure_sent_bytes_total", **absent)[0] > 40
                for part in ("queue", "rtt", "execute"):
                    assert found(samples, f"rpcrdma_procedure_{part}_seconds_count", **null) == [calls]
                    assert found(samples, f"rpcrdma_procedure_{part}_seconds_count", **absent) == [1]
                assert found(samples, "rpcrdma_procedure_rtt_seconds_sum", **null)[0] > 0
                assert found(samples, "rpcrdma_connections_made_total", server=url) == [calls]
                assert found(samples, "rpcrdma_connections", server=url) == [calls - 1]
            assert found(samples, "rpcrdma_calls_by_form_total", server=urls[0], form="short") == [3]
            assert found(samples, "rpcrdma_calls_by_form_total", server=urls[1]) == []
            assert not any(name.startswith("rpcrdma_procedure_handler_seconds_") for name, _ in samples)
            assert (told.procedure, told.ops) == (v3.NULL.name, 1)


@each_case("listen", BOTH)
async def test_calls_back_are_told_at_both_ends(listen: str) -> None:
    with telling() as metrics:
        async with serve([CallingBack()], [listen], options=ServeOptions(count_calls=True)) as server:
            exporter = MetricsExporter(server)
            exporter.start("127.0.0.1", 0)
            options = ConnectOptions(metrics=metrics, services=[Files()])
            async with connect(server.listening[0], v3.PROGRAM, options=options) as client:
                await client.call(v3.GETATTR, v3.GETATTR3args(HANDLE))
            pages = [await asyncio.to_thread(page_at, url) for url in (exporter.url, metrics.url)]
            await exporter.close()
    there, here = map(samples_of, pages)
    transport = listen[: listen.index(":")]
    assert found(there, "rpcrdma_calls_total", transport=transport) == [1]
    for samples, forward, back in ((there, "server", "client"), (here, "client", "server")):
        for side, name, status in ((forward, "GETATTR", "NFS3ERR_STALE"), (back, "LOOKUP", "NFS3ERR_NOENT")):
            where = {"side": side, "transport": transport, "procedure": f"NFSPROC3_{name}", "status": status}
            assert found(samples, "rpcrdma_procedure_ops_total", **where) == [1]
            part = "handler" if side == "server" else "rtt"
            assert found(samples, f"rpcrdma_procedure_{part}_seconds_count", **where) == [1]
    # One reader for both: the table of `rpcrdma stats` is made of it.
    for page in pages:
        assert {where.side for where in read_page(page)} == {"server", "client"}


def test_what_can_be_no_name_of_a_host_is_refused_in_words() -> None:
    with pytest.raises(ConnectFailed, match="not a host name; choose"):
        ClientMetrics().start("my..host", 0)
    with pytest.raises(ConnectFailed, match="not a host name; start"):
        fetch("http://my..host:9/metrics", 10)


def test_both_exporters_have_the_same_names() -> None:
    """A dashboard made for one shows the other."""

    async def main() -> tuple[set[str], set[str]]:
        metrics = ClientMetrics()
        async with serve([Files()], BOTH, options=ServeOptions(count_calls=True)) as server:
            exporter = MetricsExporter(server)
            async with connect(server.listening[0], v3.PROGRAM, options=ConnectOptions(metrics=metrics)) as client:
                await client.call(v3.NULL, None)
                of_server = await asyncio.to_thread(lambda: list(exporter.collect()))
                return {each.name for each in metrics.collect()}, {each.name for each in of_server}

    here, there = asyncio.run(main())
    connections = {"connections_refused", "tcp_received_bytes"}
    resources = {"workers", "calls_running", "buffer_bytes", "buffer_bytes_limit"}
    of_servers = {"calls", "procedure_calls"} | connections | resources
    assert there - here == {f"rpcrdma_{name}" for name in of_servers}
    assert here - there == {"rpcrdma_reconnects"}


async def test_servers_beyond_the_bound_are_told_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_metrics, "METRICS_SERVERS_MAX", 2)

    metrics = ClientMetrics()
    async with serve([Files()], BOTH[:1] * 4) as server:
        for url in [*server.listening, server.listening[0]]:
            async with connect(url, v3.PROGRAM, options=ConnectOptions(metrics=metrics)) as client:
                await client.call(v3.NULL, None)
        samples = samples_of(prometheus_client.generate_latest(registry_of(metrics)).decode())
        ops = [
            found(samples, "rpcrdma_procedure_ops_total", server=server) for server in (*server.listening[:2], "other")
        ]
        assert ops == [[2], [1], [2]]
        assert len(found(samples, "rpcrdma_procedure_ops_total")) == 3


def registry_of(metrics: ClientMetrics) -> prometheus_client.CollectorRegistry:
    """As a program has one that tells other metrics as well."""
    registry = prometheus_client.CollectorRegistry()
    registry.register(metrics)
    return registry


def test_a_registry_may_ask_in_the_loop_itself_and_after_its_end() -> None:
    metrics = ClientMetrics()
    registry = registry_of(metrics)

    async def main() -> str:
        server = await serve([Files()], BOTH[:1])
        client = await connect(server.listening[0], v3.PROGRAM, options=ConnectOptions(metrics=metrics))
        await client.call(v3.NULL, None)
        page = prometheus_client.generate_latest(registry).decode()
        await server.close()
        return page

    # The connection is left as it is when its loop ends.
    pages = [asyncio.run(main()), prometheus_client.generate_latest(registry).decode()]
    for page in pages:
        assert found(samples_of(page), "rpcrdma_procedure_ops_total", status="SUCCESS") == [1]


async def test_a_loop_that_does_not_answer_costs_the_scrape_and_not_the_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_metrics, "SNAPSHOT_S", 0.05)

    metrics = ClientMetrics()
    options = ConnectOptions(metrics=metrics)
    async with (
        serve([Files()], BOTH[:1]) as server,
        connect(server.listening[0], v3.PROGRAM, options=options) as client,
    ):
        await client.call(v3.NULL, None)
        got: list[Any] = []
        thread = threading.Thread(target=lambda: got.append(list(metrics.collect())))
        thread.start()
        thread.join()
        assert got == [[]]
        samples = samples_of(prometheus_client.generate_latest(registry_of(metrics)).decode())
        assert found(samples, "rpcrdma_procedure_ops_total") == [1]


async def test_the_documented_program_tells_of_its_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    document = (Path(__file__).parents[2] / "docs" / "python-api.md").read_text()
    (program,) = (each for each in re.findall(r"```python\n(.*?)```", document, re.DOTALL) if "ClientMetrics" in each)
    names: dict[str, Any] = {}
    exec(program.replace("9401", "0"), names)
    seen: list[Samples] = []

    class Tree:
        """Stands for a file system: a copy is one call, over the connection that the program has opened."""

        def __init__(self, url: str, *, options: ConnectOptions) -> None:
            self.connecting = connect(url, v3.PROGRAM, options=options)
            self.metrics = options.metrics

        async def __aenter__(self) -> Tree:
            self.client = await self.connecting.__aenter__()
            return self

        async def __aexit__(self, *error: Any) -> None:
            await self.connecting.__aexit__(*error)

        async def download_tree(self, _source: str, _target: str) -> None:
            await self.client.call(v3.NULL, None)
            assert self.metrics is not None
            seen.append(samples_of(await asyncio.to_thread(page_at, self.metrics.url)))

    monkeypatch.setattr(names["rpcrdma"], "nfs_open", Tree)
    async with serve([Files()], BOTH[:1]) as server:
        await names["copy_and_tell"](server.listening[0], "tree", "copy")
    assert found(seen[0], "rpcrdma_procedure_ops_total") == [1]


def test_a_path_may_have_letters_of_any_script(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> socket.socket:
        raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")

    monkeypatch.setattr("socket.create_connection", refuse)
    with pytest.raises(ConnectFailed, match="no statistics at http://h/é ü: connection refused; start"):
        fetch("http://h/é ü", 10)
