"""`rpcrdma ping`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rpcrdma.cli.ping import _Outcome, _print
from rpcrdma.transport import Properties
from rpcrdma.wire.native import DATA_PATH

if TYPE_CHECKING:
    from support.commands import Remote


@pytest.mark.thorough
def test_ping_reports_as_json(remote: Remote) -> None:
    report = remote.done("ping", "-c", "20", "--json", remote.base).json
    assert (report["calls"], report["lost"]) == (20, 0)
    rtt = report["rtt_us"]
    assert list(rtt) == ["min", "p50", "p90", "p99", "max"]
    assert sorted(rtt.values()) == list(rtt.values())
    if remote.base.startswith("rdma"):
        assert report["version"] == int(remote.version)
        assert (report["provider"], report["device"], report["data_path"]) == ("iwarp", None, DATA_PATH)
        assert 0 < report["distance_us"] < 1e6
        assert report["credits"]["requested"] >= report["credits"]["granted"] > 0
        assert report["credits"]["reverse_granted"] == 0, "this command offers no services"
        own, peer = report["properties"]["own"], report["properties"]["peer"]
        if remote.version == "1":
            assert report["thresholds"] == {"send_bytes": 36864, "receive_bytes": 36864}
            assert own is peer is None
            assert report["extensions"] == {}
        else:
            told = report["extensions"]["round trips"]
            assert told["peer"]["rtr_support"] == "requests, responses, continued"
            assert told["own"] == told["peer"] | {"rtr_support": "responses, continued"}, "the command takes no calls"
            assert told["peer"]["response_transmission_send_limit"] > 1
            assert list(own) == list(peer) == list(Properties._fields)
            assert (own["reverse"], peer["reverse"]) == ("none", "general")
            send_octets = min(own["send_octets"], peer["receive_octets"])
            assert report["thresholds"]["send_bytes"] == send_octets > 4096
    else:
        agreed = ("version", "credits", "thresholds", "properties", "extensions", "distance_us", "data_path")
        assert [report[name] for name in agreed] == [None] * len(agreed)


@pytest.mark.thorough
def test_ping_shows_a_histogram(remote: Remote) -> None:
    lines = remote.done("ping", "-c", "20", "--interval", "0.001", remote.base).lines
    assert [line.rpartition(" ")[0].rpartition(" ")[0] for line in lines[:20]] == [
        f"call {number}:" for number in range(1, 21)
    ]
    del lines[:20]
    assert lines[0] == f"{remote.base}: 20 calls, 0 lost"
    assert lines[1].startswith("round trip in µs: min ")
    assert sum(int(line.split()[3]) for line in lines if line.startswith("  <")) == 20


def test_slow_calls_have_their_times_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    report = {"url": "tcp://h", "calls": 1, "lost": 0, "rtt_us": {"p99": 2934580.0}, "principal": None}
    _print(report | {"security": "sys", "version": None, "xprtsec": "none"}, _Outcome([2934580.0, 20e6]))
    out = capsys.readouterr().out
    assert out.startswith("tcp://h: 1 call, 0 lost\nround trip in µs: p99 2934580.0\n  <   3117435 µs ")
    assert "\n  <  20971520 µs        1 " in out


@pytest.mark.thorough
def test_ping_shows_what_was_negotiated(remote: Remote) -> None:
    text = remote.done("ping", "-c", "1", remote.base).text
    if remote.base.startswith("rdma"):
        assert f"RPC-over-RDMA version {remote.version}, provider iwarp" in text
        if remote.version == "1":
            assert "send 36864 bytes, receive 36864 bytes" in text
        assert "credits: 256 requested," in text
        assert f"\ndata path: {DATA_PATH}\n" in text
        told = [line for line in text.splitlines() if line.startswith("transport properties, ")]
        assert [line.split(":")[0] for line in told] == (
            [] if remote.version == "1" else ["transport properties, this end's", "transport properties, the server's"]
        )
        assert all("reverse " in line and "host_authentication no" in line for line in told)
        extended = [line for line in text.splitlines() if line.startswith("extension round trips, ")]
        assert len(extended) == len(told)
        assert all("receive_buffer_structure 1 of 4096, 8 of 4096 for data;" in line for line in extended)
    else:
        assert text.endswith("RPC over TCP\n")


@pytest.mark.thorough
def test_ping_shows_counters_with_linux_names(remote: Remote) -> None:
    report = remote.done("ping", "-c", "7", "--stats", "--json", remote.base).json
    (null,) = report["operations"]
    assert (null["procedure"], null["status"], null["ops"], null["trans"]) == ("NFSPROC3_NULL", "SUCCESS", 7, 7)
    assert null["rtt_us"]["p50"] <= null["execute_us"]["max"]
    lines = remote.done("ping", "-c", "7", "--stats", remote.base).lines
    told = [line.split() for line in lines if line.startswith(("procedure ", "NFSPROC3_NULL "))]
    assert [row[:6] for row in told] == [
        ["procedure", "status", "ops", "trans", "bytes_sent", "bytes_recv"],
        ["NFSPROC3_NULL", "SUCCESS", "7", "7", str(null["bytes_sent"]), str(null["bytes_recv"])],
    ]
    if remote.base.startswith("rdma"):
        assert report["statistics"]["calls"] == 7
        # Versions other than 1 begin with a message from each side; and either may grant credits on its own.
        messages = 7 if remote.version == "1" else 8
        counted, named = report["statistics"], report["linux_counters"]
        assert (counted["sends"], counted["receives"]) == (named["sends"], named["recvs"])
        assert named["sends"] - counted["grants_sent"] == named["recvs"] - counted["grants_received"] == messages
        assert [line.split()[2:] for line in lines if line.startswith("receives ")] == [["recvs"]]
        assert counted["pieces_sent"] == 0
    else:
        assert (report["statistics"], report["linux_counters"]) == (None, None)
        assert lines[-1] == "no further counters: they are kept of RDMA connections"


@pytest.mark.thorough
def test_ping_calls_the_program_that_it_is_told(remote: Remote) -> None:
    assert remote.done("ping", "-c", "3", "--json", "--program", "100003:3", remote.base).json["calls"] == 3
    failed = remote.run("ping", "-c", "3", "--program", "0x20000001", remote.base)
    assert failed.status == 1
    assert "does not offer the program\nhint: rpcrdma programs URL lists" in failed.err
    for version, offered in (("2", "versions 3 to 4"), ("9", "versions 3 to 4")):
        failed = remote.run("ping", "--program", f"100003:{version}", remote.base)
        assert failed.status == 1
        assert f"offers {offered} of the program\nhint: rpcrdma ping --program 100003:4 calls version 4" in failed.err
