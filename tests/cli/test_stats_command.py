"""`rpcrdma stats`."""

from __future__ import annotations

import contextlib
import http.server
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from rpcrdma.aio.client import metrics_page
from rpcrdma.aio.client.metrics_page import Times, read_page, since
from rpcrdma.cli.main import main
from rpcrdma.errors import RemoteProtocolError
from support.cases import each_case
from support.command_process import CommandProcess

if TYPE_CHECKING:
    from support.commands import StartServer

HEAD = "# HELP rpcrdma_procedure_ops_total x\n# TYPE rpcrdma_procedure_ops_total counter\n"


@pytest.fixture(scope="module")
def metrics(start: StartServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """URLs of the metrics and of the rdma:// listener of a server."""
    served = start(tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("state"), "--metrics", "127.0.0.1:0")
    with served:
        yield next(event["url"] for event in served.events if event["event"] == "metrics"), served.urls["rdma"]
        assert served.stop() == 0


def row(report: dict[str, Any], procedure: str) -> dict[str, Any]:
    (found,) = [each for each in report["operations"] if each["procedure"] == procedure]
    return found


@pytest.mark.thorough
def test_stats_shows_all_since_the_start(metrics: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    url, rdma = metrics
    assert main(["ping", "-c", "20", rdma]) == 0
    capsys.readouterr()
    assert main(["stats", "--json", url.removesuffix("/metrics")]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["url"], report["interval_s"]) == (url, None)
    null = row(report, "NFSPROC3_NULL")
    assert (null["transport"], null["errors"], null["statuses"]) == ("rdma", 0, {"SUCCESS": null["ops"]})
    assert null["ops"] >= 20
    assert null["bytes_recv"] >= 20 * 40
    assert null["bytes_sent"] == 24 * null["ops"]
    execute = null["execute_us"]
    assert 0 < execute["p50"] <= execute["p90"] <= execute["p99"]
    assert null["execute_ms"] == pytest.approx(null["queue_ms"] + null["handler_ms"], abs=0.01)
    assert main(["stats", url]) == 0
    heading, line = capsys.readouterr().out.splitlines()[:2]
    assert heading.split()[:4] == ["procedure", "over", "ops", "errors"]
    assert line.split()[:4] == ["NFSPROC3_NULL", "rdma", str(null["ops"]), "0"]


@pytest.mark.thorough
def test_watch_shows_each_interval_until_it_is_interrupted(metrics: tuple[str, str]) -> None:
    url, rdma = metrics
    command = ["stats", "--watch", "--interval", "0.05", "--json", url]
    with CommandProcess(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert first["interval_s"] > 0
        assert first["operations"] == [], "nothing was called in the meantime"
        assert main(["ping", "-c", "30", rdma]) == 0
        counted = 0
        while counted < 30:
            report = json.loads(process.stdout.readline())
            counted += sum(each["ops"] for each in report["operations"])
        assert counted == 30
        status, _, said = process.ended(signal.SIGINT)
    assert (status, said) == (0, "")


@pytest.mark.thorough
def test_a_command_tells_of_its_own_calls_while_it_runs(
    metrics: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    _, rdma = metrics
    command = ["ping", "--interval", "0.05", "--client-metrics", "127.0.0.1:0", rdma]
    with CommandProcess(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        said = process.stderr.readline()
        assert said.startswith("metrics at http://127.0.0.1:"), said
        for _ in range(3):
            process.stdout.readline()
        assert main(["stats", "--json", said.split()[-1]]) == 0
        null = row(json.loads(capsys.readouterr().out), "NFSPROC3_NULL")
        assert (null["side"], null["server"], null["errors"]) == ("client", rdma, 0)
        assert null["ops"] >= 3
        assert 0 < null["rtt_us"]["p50"] <= null["execute_us"]["p99"]


ERRORS = """\
# TYPE rpcrdma_procedure_execute_seconds histogram
rpcrdma_procedure_ops_total{%(one)s,status="SUCCESS"} 7
rpcrdma_procedure_ops_total{%(one)s,status="NFS3ERR_NOENT"} 2
rpcrdma_procedure_ops_total{%(one)s,status="NFS3ERR_STALE"} 1
rpcrdma_procedure_ops_total{%(two)s,status="SUCCESS"} 4
"""


@pytest.mark.thorough
@each_case("columns", [66, 80, 120, 200])
def test_a_table_is_no_wider_than_the_terminal(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    where = 'side="server",transport="rdma",program="100003",procedure="NFSPROC3_LOOKUP",version='
    body = HEAD + ERRORS % {"one": where + '"3"', "two": where + '"4"'}
    with answering(body.encode()) as url:
        assert main(["stats", url]) == 0
    heading, first, *others = lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    assert heading.split()[0] == "procedure"
    assert {"ops", "errors", "execute", "p99"} <= set(heading.split())
    # Procedures of one name stand apart, and each error with its number.
    assert first.startswith("NFSPROC3_LOOKUP (100003 version 3)")
    assert [line.split()[:2] for line in others[:2]] == [["NFS3ERR_NOENT", "2"], ["NFS3ERR_STALE", "1"]]
    assert others[2].startswith("NFSPROC3_LOOKUP (100003 version 4)")
    assert ("p90" in heading) is (columns >= 120)
    assert ("without p90" in " ".join(lines)) is (columns < 120)


@contextlib.contextmanager
def answering(body: bytes, status: int = 200) -> Iterator[str]:
    """A server of HTTP that gives everybody the same answer."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the library's
            """Says nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.thorough
@each_case(
    ("body", "status", "exit_status", "complaint"),
    [
        (b"<html>", 200, 4, "not in the format of Prometheus"),
        (b"up 1\n", 200, 4, "says nothing of calls"),
        (b"\xff", 200, 4, "no text"),
        (b"", 404, 3, "not found"),
    ],
)
def test_an_answer_of_another_kind_of_server(
    body: bytes, status: int, exit_status: int, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(body, status) as url:
        assert main(["stats", url]) == exit_status
    said = capsys.readouterr().err
    assert complaint in said
    assert "Traceback" not in said


@pytest.mark.thorough
def test_no_calls_are_told_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(HEAD.encode()) as url:
        assert main(["stats", url]) == 0
        assert main(["stats", "--watch", "--count", "1", "--interval", "0.01", url]) == 0
    assert capsys.readouterr().out == "no calls yet\nno calls in the last 0.01 s\n\n"


@pytest.mark.thorough
def test_an_answer_without_end_is_not_read(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_page, "METRICS_PAGE_OCTETS_MAX", 1000)
    with answering(b"#" * 1001) as url:
        assert main(["stats", url]) == 4
    assert "more than 1000 octets" in capsys.readouterr().err


def test_an_answer_that_never_ends_is_given_up(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where each octet comes long before the deadline of a single read."""
    given_up = threading.Event()
    monkeypatch.setattr("rpcrdma.cli.stats._TIMEOUT_S", 0.01)
    monkeypatch.setattr(metrics_page, "fetch", lambda *_: given_up.wait())
    try:
        assert main(["stats", "http://127.0.0.1:1"]) == 3
    finally:
        given_up.set()
    complaint, hint = capsys.readouterr().err.splitlines()
    assert complaint == "error: no statistics at http://127.0.0.1:1/metrics: no whole answer within 0.01 s"
    assert hint == "hint: check that this is the URL of `rpcrdma serve --metrics`"


@pytest.mark.thorough
def test_no_server_is_reported_with_its_remedy(nobody_listens: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stats", f"http://127.0.0.1:{nobody_listens}"]) == 3
    complaint, hint = capsys.readouterr().err.splitlines()
    assert "connection refused" in complaint
    assert "--metrics" in hint


@each_case("url", ["rdma://127.0.0.1", "127.0.0.1:9400", "http://", "http://127.0.0.1:94000"])
def test_a_url_of_another_kind_is_refused_with_its_remedy(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["stats", url])
    assert ended.value.code == 2
    assert "rpcrdma serve --metrics" in capsys.readouterr().err


def page(ops: int, *below: int) -> str:
    where = 'side="server",transport="rdma",program="1",version="1",procedure="P",status="SUCCESS"'
    lines = [f"rpcrdma_procedure_ops_total{{{where}}} {ops}"]
    lines += ["# TYPE rpcrdma_procedure_execute_seconds histogram"]
    for bound, count in zip(("1.0", "2.0", "+Inf"), below, strict=True):
        lines.append(f'rpcrdma_procedure_execute_seconds_bucket{{{where},le="{bound}"}} {count}')
    lines += [f"rpcrdma_procedure_execute_seconds_sum{{{where}}} {ops}"]
    return HEAD + "\n".join(lines) + "\n"


def test_an_interval_is_the_difference_of_two_pages() -> None:
    (calls,) = since(read_page(page(4, 4, 4, 4)), read_page(page(10, 4, 8, 10))).values()
    assert (calls.ops, calls.errors) == (6, 0)
    execute = calls.together.times["execute"]
    assert (execute.count, execute.mean_s) == (6, 1.0)
    assert execute.quantile_s(0.5) == pytest.approx(1.75)
    assert execute.quantile_s(1.0) == 2.0, "beyond the last bound nothing is known"


def test_a_server_that_was_started_anew_begins_at_nothing() -> None:
    (calls,) = since(read_page(page(10, 4, 8, 10)), read_page(page(3, 3, 3, 3))).values()
    assert (calls.ops, calls.together.times["execute"].count) == (3, 3)


def test_no_calls_have_no_percentiles() -> None:
    assert Times().quantile_s(0.5) is Times().mean_s is None
    assert since(read_page(page(3, 3, 3, 3)), read_page(page(3, 3, 3, 3))) == {}


@each_case(
    "text",
    [
        HEAD + 'rpcrdma_procedure_ops_total{status="SUCCESS"} 1\n',
        HEAD + "rpcrdma_procedure_ops_total{ 1",
        *(page(3, 3, 3, 3).replace("} 3", f"}} {value}", 1) for value in ("NaN", "+Inf", "1e308")),
        page(3, 3, 3, 3).replace("1.0", "NaN"),
    ],
)
def test_a_broken_page_is_the_peers_fault(text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        read_page(text)
