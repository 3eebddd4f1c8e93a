"""Statistics of a server, and their way to Prometheus."""

from __future__ import annotations

import asyncio
import gzip
import json
import platform
import re
import socket
import sys
import urllib.request
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from rpcrdma.aio import metrics
from rpcrdma.aio.client.client_metrics import ClientMetrics
from rpcrdma.aio.client.connect import ConnectOptions, connect
from rpcrdma.aio.server import serve as serve_module
from rpcrdma.aio.server.metrics import Health, MetricsExporter
from rpcrdma.aio.server.serve import ServeOptions, Server, serve
from rpcrdma.errors import ConnectFailed, RpcError
from rpcrdma.nfs import v3
from rpcrdma.rpc.program import Procedure, null_procedure
from rpcrdma.rpc.service import CallContext
from support.cases import each_case
from support.simulated import not_simulated
from support.waiting import until

OCTETS = 150_000
HANDLE = v3.nfs_fh3(data=b"handle")
NO_ATTRIBUTES = v3.post_op_attr(False, None)
DASHBOARD = Path(__file__).parents[2] / "docs" / "grafana-dashboard.json"


class Files(v3.NFS_V3_Service):
    def read(self, args: v3.READ3args, context: CallContext) -> v3.READ3res:
        data = context.buffer(args.count)
        return v3.READ3res(v3.nfsstat3.NFS3_OK, v3.READ3resok(NO_ATTRIBUTES, args.count, False, data))

    def write(self, args: v3.WRITE3args, context: CallContext) -> v3.WRITE3res:
        wcc = v3.wcc_data(v3.pre_op_attr(False, None), NO_ATTRIBUTES)
        result = v3.WRITE3resok(wcc, len(args.data), v3.stable_how.FILE_SYNC, b"verifier")
        return v3.WRITE3res(v3.nfsstat3.NFS3_OK, result)


@asynccontextmanager
async def serving(options: ServeOptions | None = None) -> AsyncIterator[Server]:
    async with serve([Files()], ["rdma://127.0.0.1:0", "tcp://127.0.0.1:0"], options=options) as server:
        yield server


@asynccontextmanager
async def exporting(server: Server) -> AsyncIterator[str]:
    """The URL of the server's metrics."""
    exporter = MetricsExporter(server)
    exporter.start("127.0.0.1", 0)
    try:
        yield exporter.url
    finally:
        await exporter.close()


async def use(server: Server) -> int:
    """READ, WRITE and two NULL over RDMA; NULL over TCP. Returns the version of RPC-over-RDMA."""
    rdma, tcp = server.listening
    async with connect(tcp, v3.PROGRAM) as client:
        await client.call(v3.NULL, None)
    async with connect(rdma, v3.PROGRAM) as client:
        await client.call(v3.NULL, None)
        await client.call(v3.READ, v3.READ3args(HANDLE, 0, OCTETS), into=bytearray(OCTETS))
        write = v3.WRITE3args(HANDLE, 0, OCTETS, v3.stable_how.FILE_SYNC, bytes(OCTETS))
        await client.call(v3.WRITE, write)
        await client.call(v3.NULL, None)
        statistics = server.statistics()
        assert statistics.rdma.connections == 1
        (connection,) = statistics.connections
        assert connection.counters.calls == 4
        assert connection.peer.startswith("127.0.0.1:")
        assert connection.calls_in_progress == 0
        (host,) = await server.hosts()
        assert (host.address, host.rdma_connections, host.calls) == ("127.0.0.1", 1, 4 + host.tcp_connections)
        assert min(host.octets_received, host.octets_sent) >= OCTETS
        assert client.negotiated is not None
        return client.negotiated.version


@pytest.mark.thorough
async def test_connections_are_added_up_by_host_while_calls_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve_module, "ADMIN_CONNECTIONS_AT_ONCE", 2)
    async with serving() as server, AsyncExitStack() as stack:
        for _ in range(5):
            client = await stack.enter_async_context(connect(server.listening[1], v3.PROGRAM))
            await client.call(v3.NULL, None)
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        await asyncio.sleep(0)
        before = turns
        (host,) = await server.hosts()
        assert turns - before == 2, "five connections, two at once"
        counting.cancel()
        assert (host.rdma_connections, host.tcp_connections, host.calls) == (0, 5, 5)
        assert min(host.octets_received, host.octets_sent) >= 5 * 24


async def scrape(url: str) -> dict[tuple[str, ...], float]:
    """Every sample by its name and the values of its labels."""

    def get() -> str:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.read().decode()

    text = await asyncio.to_thread(get)
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def labels(
    procedure: Procedure[Any, Any], status: str = "SUCCESS", *, side: str = "server", transport: str = "rdma"
) -> tuple[str, ...]:
    """The values of the labels of calls, in the order of the labels' names, without that of the server."""
    return procedure.name, str(procedure.program), side, status, transport, str(procedure.version)


@pytest.mark.thorough
@pytest.mark.versions("1", "2")
@pytest.mark.usefixtures("each_version")
async def test_a_server_counts_calls_connections_and_procedures() -> None:
    async with serving() as server:
        await use(server)
        await until(lambda: not server.connections)
        statistics = server.statistics()
        # The counts of ended connections are not forgotten.
        assert (statistics.rdma.connections, statistics.rdma.connections_made, statistics.connections) == (0, 1, ())
        assert (statistics.rdma.calls, statistics.tcp.calls) == (4, 1)
        assert statistics.rdma.procedures == {v3.NULL.name: 2, v3.READ.name: 1, v3.WRITE.name: 1}
        assert statistics.tcp.procedures == {v3.NULL.name: 1}
        assert statistics.tcp_octets_received > 40
        assert statistics.counters.octets_read == statistics.counters.octets_written == OCTETS
        assert (statistics.buffer_octets_lent, statistics.calls_running) == (0, 0)


@pytest.mark.thorough
@not_simulated
@pytest.mark.usefixtures("each_provider")
async def test_a_snapshot_does_not_change_afterwards() -> None:
    async with serving() as server, connect(server.listening[0], v3.PROGRAM) as client:
        await client.call(v3.NULL, None)
        before = server.statistics()
        await client.call(v3.NULL, None)
        assert before.connections[0].counters.calls == before.counters.calls == 1
        assert server.statistics().counters.calls == 2


@pytest.mark.thorough
@not_simulated
@pytest.mark.versions("1", "2")
@pytest.mark.usefixtures("each_provider")
async def test_prometheus_is_told_what_the_server_counts() -> None:
    async with serving() as server:
        async with exporting(server) as url:
            version = await use(server)
            samples = await scrape(url)
            assert samples["rpcrdma_calls_total", "rdma"] == 4
            assert samples["rpcrdma_calls_total", "tcp"] == 1
            assert samples["rpcrdma_connections_made_total", "rdma"] == 1
            assert samples["rpcrdma_procedure_calls_total", "NFSPROC3_READ", "rdma"] == 1
            assert samples["rpcrdma_calls_by_form_total", "write_chunk"] == 1
            assert samples["rpcrdma_calls_by_form_total", "read_chunk"] == 1
            assert samples["rpcrdma_transferred_bytes_total", "rdma_write"] == OCTETS
            # Not version 1: the client's transport properties come first, and a credit for the server's answer to them.
            told = version > 1
            assert samples["rpcrdma_operations_total", "receive"] == 4 + 2 * told
            for direction in ("sent", "received"):
                assert samples["rpcrdma_pieces_total", direction] == 0
                assert samples["rpcrdma_grants_total", direction] == (told and direction == "received")
            assert samples["rpcrdma_messages_continued_total",] == 0
            assert samples["rpcrdma_calls_resent_total", "larger"] == 0
            assert samples["rpcrdma_registrations_total",] >= 1
            assert samples["rpcrdma_errors_sent_total",] == 0
            assert samples["rpcrdma_buffer_bytes",] == 0
            assert samples["rpcrdma_workers",] == 8
        with pytest.raises(OSError, match="refused"):
            await scrape(url)


def status_of(url: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.status, answer.read()
    except HTTPError as error:
        with error:
            return error.code, error.read()


@pytest.mark.thorough
async def test_health_is_whether_the_server_takes_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(Files):
        def __init__(self) -> None:
            self.asked, self.gate = asyncio.Event(), asyncio.Event()

        async def getattr(self, _args: v3.GETATTR3args, _context: CallContext) -> v3.GETATTR3res:
            self.asked.set()
            await self.gate.wait()
            return v3.GETATTR3res(v3.nfsstat3.NFS3ERR_STALE, None)

    slow = Slow()
    server = await serve([slow], ["rdma://127.0.0.1:0"])
    state = [Health("the server starts")]
    exporter = MetricsExporter(server, lambda: state[0])
    exporter.start("127.0.0.1", 0)
    health = exporter.url.replace("/metrics", "/healthz")
    ready = exporter.url.replace("/metrics", "/readyz")

    async def look(url: str) -> tuple[int, bytes]:
        return await asyncio.to_thread(status_of, url)

    async with connect(server.listening[0], v3.PROGRAM) as client:
        assert await look(health) == (200, b"ok\n")
        assert await look(ready) == (503, b"the server starts\n")
        state[0] = Health(
            exports={"/a": True, "/b": False},
            registered=True,
            certificate_expires_s=5.5,
            reload_taken=False,
            reload_taken_at_s=6.5,
            state_written=False,
            version="7.8",
        )
        assert await look(ready) == (200, b"ok\n")
        samples = await scrape(exporter.url)
        assert [samples["rpcrdma_export_available", name] for name in ("/a", "/b")] == [1, 0]
        assert samples["rpcrdma_rpcbind_registered",] == 1
        assert samples["rpcrdma_certificate_expiry_timestamp_seconds",] == 5.5
        assert samples["rpcrdma_config_last_reload_successful",] == 0
        assert samples["rpcrdma_config_last_reload_success_timestamp_seconds",] == 6.5
        assert samples["rpcrdma_state_written",] == 0
        assert samples["rpcrdma_build_info", platform.python_version(), "7.8"] == 1
        assert (await look(exporter.url + "/more"))[0] == 404
        with monkeypatch.context() as patch:
            patch.setattr(metrics, "SNAPSHOT_S", 0.05)
            # The event loop waits for these answers.
            for url in (health, ready, exporter.url):
                with ThreadPoolExecutor(1) as pool:
                    assert pool.submit(status_of, url).result() == (503, b"the event loop does not answer\n")
        call = asyncio.create_task(client.call(v3.GETATTR, v3.GETATTR3args(HANDLE)))
        await slow.asked.wait()
        closing = asyncio.create_task(server.close())
        await asyncio.sleep(0)
        for url in (health, ready):
            assert await look(url) == (503, b"the server takes no calls: it stops\n")
        slow.gate.set()
        await asyncio.wait([call, closing])
    await exporter.close()


@pytest.mark.thorough
@each_case("accept", ["", "application/openmetrics-text; version=1.0.0"])
async def test_a_scrape_gets_the_format_that_it_accepts(accept: str) -> None:
    async with serving() as server:

        def get(url: str) -> bytes:
            headers = {"Accept": accept, "Accept-Encoding": "gzip"}
            with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as answer:
                assert answer.headers["Content-Encoding"] == "gzip"
                assert answer.headers["Content-Type"].startswith("application/openmetrics" if accept else "text/plain")
                return gzip.decompress(answer.read())

        await use(server)
        async with exporting(server) as url:
            page = (await asyncio.to_thread(get, url)).decode()
        parse = openmetrics_families if accept else text_string_to_metric_families
        assert "rpcrdma_connections" in {family.name for family in parse(page)}
        assert page.endswith("# EOF\n") == bool(accept)


@pytest.mark.thorough
async def test_an_address_in_use_is_reported_with_its_remedy() -> None:
    async with serving() as server:
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            with pytest.raises(ConnectFailed, match="in use by this process; listen there once, or choose another"):
                MetricsExporter(server).start("127.0.0.1", other.getsockname()[1])


@pytest.mark.thorough
async def test_a_missing_package_is_reported_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)

    async with serving() as server:
        with pytest.raises(ConnectFailed, match=r"prometheus-client; pip install"):
            MetricsExporter(server).start("127.0.0.1", 0)


@pytest.mark.thorough
async def test_prometheus_is_told_of_latency_by_procedure() -> None:
    async with serving(ServeOptions(count_calls=True)) as server:
        async with exporting(server) as url:
            await use(server)
            samples = await scrape(url)
        (read,) = [each for each in server.statistics().rdma.operations if each.procedure == v3.READ.name]
        assert samples["rpcrdma_procedure_ops_total", *labels(v3.READ)] == 1
        assert samples["rpcrdma_procedure_ops_total", *labels(v3.NULL, transport="tcp")] == 1
        assert samples["rpcrdma_procedure_sent_bytes_total", *labels(v3.READ)] == read.bytes_sent > OCTETS
        assert samples["rpcrdma_procedure_received_bytes_total", *labels(v3.WRITE)] > OCTETS
        for part in ("queue", "handler", "execute"):
            histogram = getattr(read, part)
            name = f"rpcrdma_procedure_{part}_seconds"
            assert samples[f"{name}_sum", *labels(v3.READ)] == pytest.approx(histogram.sum_ns / 1e9)
            below = [count for key, count in samples.items() if key[0] == f"{name}_bucket" and v3.READ.name in key]
            assert len(below) == 23
            assert below == sorted(below)
            assert (below[-1], samples[f"{name}_count", *labels(v3.READ)]) == (1, 1)


@pytest.mark.thorough
async def test_clients_cannot_make_more_series() -> None:
    async with serving(ServeOptions(count_calls=True)) as server:

        async def ask(numbers: range) -> None:
            async with connect(server.listening[0]) as client:
                for number in numbers:
                    for program, version in ((number, 1), (v3.PROGRAM.number, number)):
                        with pytest.raises(RpcError):
                            await client.call(null_procedure(program, version), None)

        async with exporting(server) as url:
            await use(server)
            await ask(range(100, 101))
            before = await scrape(url)
            await ask(range(101, 110))
            after = await scrape(url)
        assert set(after) == set(before)
        assert after["rpcrdma_procedure_ops_total", "other", "0", "server", "PROG_UNAVAIL", "rdma", "0"] == 10


@pytest.mark.thorough
async def test_every_metric_of_the_dashboard_is_exported() -> None:
    """The metrics of servers and clients: names and labels, also the labels of sums."""
    dashboard = json.loads(DASHBOARD.read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(queries) > 10
    asked = [(name, labels) for query in queries for name, labels in re.findall(r"(rpcrdma_\w+){([^}]*)}", query)]
    asked += [(name, label) for name, label in re.findall(r"label_values\((\w+), (\w+)\)", json.dumps(dashboard))]
    assert {name for query in queries for name in re.findall(r"rpcrdma_\w+", query)} <= {name for name, _ in asked}

    async with serving(ServeOptions(count_calls=True)) as server:
        await use(server)
        exporter, client_metrics = MetricsExporter(server), ClientMetrics()
        options = ConnectOptions(metrics=client_metrics)
        async with connect(server.listening[0], v3.PROGRAM, options=options) as client:
            await client.call(v3.NULL, None)
        labels: dict[str, set[str]] = {}
        for collector in (exporter, client_metrics):
            families = await asyncio.to_thread(collector.collect)
            for sample in (sample for family in families for sample in family.samples):
                labels.setdefault(sample.name, {"instance"}).update(sample.labels)
        for name, wanted in asked:
            assert name in labels, name
            named = set(re.findall(r"(\w+)(?:=~|!=|=)", wanted)) or {wanted}
            assert named <= labels[name], name

        for query in queries:
            (name, *_) = re.findall(r"rpcrdma_\w+", query)
            for by in re.findall(r"sum by \(([^)]*)\)", query):
                assert set(by.split(", ")) <= labels[name], query


def test_the_dashboard_has_what_grafana_imports() -> None:
    dashboard: dict[str, Any] = json.loads(DASHBOARD.read_text())
    keys = {"__inputs", "__requires", "title", "uid", "panels", "schemaVersion", "templating", "time", "version"}
    assert keys <= set(dashboard)
    assert dashboard["id"] is None, "Grafana gives an imported dashboard its number"
    (source,) = dashboard["__inputs"]
    assert (source["type"], source["pluginId"]) == ("datasource", "prometheus")
    uid = f"${{{source['name']}}}"
    variables = dashboard["templating"]["list"]
    assert {each["datasource"]["uid"] for each in [*dashboard["panels"], *variables]} == {uid}
    known = {each["name"] for each in variables}
    used_variables = set(re.findall(r"\$(?!__)(\w+)", json.dumps([panel["targets"] for panel in dashboard["panels"]])))
    assert used_variables == known
    assert {panel["type"] for panel in dashboard["panels"]} <= {each["id"] for each in dashboard["__requires"]}
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(numbers)) == len(numbers)
    for panel in dashboard["panels"]:
        assert {"id", "type", "title", "gridPos", "targets", "fieldConfig", "options"} <= set(panel)
        assert set(panel["gridPos"]) == {"x", "y", "w", "h"}
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        for target in panel["targets"]:
            assert {"refId", "expr", "datasource"} <= set(target)
            assert target["datasource"]["uid"] == uid
