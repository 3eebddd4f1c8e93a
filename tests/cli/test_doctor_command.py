"""`rpcrdma doctor`."""

from __future__ import annotations

import asyncio
import errno
import json
import socket
from pathlib import Path

import pytest

from rpcrdma.aio.client.connect import ConnectOptions
from rpcrdma.aio.host_options import HostAuthentication
from rpcrdma.aio.urls import parse_url
from rpcrdma.cli.doctor import examination, network
from rpcrdma.cli.doctor.checks import Mark
from rpcrdma.cli.doctor.devices import rdma_devices
from rpcrdma.cli.doctor.verbs_trial import try_verbs
from rpcrdma.cli.main import main
from rpcrdma.commands.console import ExitStatus
from rpcrdma.errors import AuthError, ConnectFailed
from rpcrdma.rpc.auth import AuthStat
from rpcrdma.transport import VERSION_CHOICES
from rpcrdma.wire.native import DATA_PATH, native
from support.cases import each_case
from support.device_in_memory import DeviceInMemory

SUBJECTS = ["software_rnic", "data_path", "rdma_devices", "kernel_modules", "memory_lock", "open_files", "listening"]


@pytest.mark.thorough
@each_case("version", [choice for choice in VERSION_CHOICES if choice != "auto"])
def test_the_machine_is_examined(tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str) -> None:
    assert main(["doctor", "--json", "--root", str(tmp_path), "--rpcrdma-version", version]) == ExitStatus.DONE
    report = json.loads(capsys.readouterr().out)
    assert [finding["subject"] for finding in report["findings"]] == SUBJECTS
    assert report["problems"] == 0
    loopback, data_path = report["findings"][:2]
    assert (data_path["native"], data_path["text"]) == (native is not None, DATA_PATH)
    assert (loopback["mark"], loopback["version"], loopback["remedy"]) == ("ok", int(version[0]), None)
    assert loopback["version"] == int(version)
    assert loopback["call_us"] > 0


@pytest.mark.thorough
def test_a_machine_with_a_device_is_examined_for_its_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of another root tell of its devices, of which none is tried."""
    ports = tmp_path / "sys/class/infiniband/memory0/ports/1"
    ports.mkdir(parents=True)
    (ports / "state").write_text("4: ACTIVE\n")
    devices = rdma_devices(tmp_path)
    assert main(["doctor", "--json", "--root", str(tmp_path)]) == ExitStatus.DONE
    elsewhere = [finding["subject"] for finding in json.loads(capsys.readouterr().out)["findings"]]
    monkeypatch.setattr(examination, "rdma_devices", lambda _root: devices)
    monkeypatch.setattr(examination, "try_verbs", lambda present: try_verbs(present, lambda: (DeviceInMemory(), "")))
    assert main(["doctor", "--json"]) == ExitStatus.DONE
    findings = {finding["subject"]: finding for finding in json.loads(capsys.readouterr().out)["findings"]}
    with_a_device = [{"rdma_devices": "rdma_device"}.get(name, name) for name in SUBJECTS]
    with_a_device.insert(with_a_device.index("open_files"), "cgroup")
    assert elsewhere == with_a_device
    with_a_device.insert(with_a_device.index("kernel_modules"), "verbs")
    assert list(findings) == with_a_device
    assert findings["rdma_device"]["capabilities"]["outbound_reads"] == 16


@pytest.mark.thorough
def test_people_get_one_line_a_finding_and_remedies_below(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rpcrdma.cli.doctor.examination.why_not_listening", lambda port: "address already in use")
    assert main(["doctor", "--root", str(tmp_path), "--rpcrdma-version", "1"]) == ExitStatus.DONE
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("ok       software RNIC   works: RPC-over-RDMA version 1 over iWARP on 127.0.0.1")
    assert lines[-2].startswith("note     TCP port 20049  cannot be listened on: address already in use")
    assert lines[-1].split("-> ")[1].startswith("that is right if a server runs already")


@pytest.mark.thorough
def test_a_bare_address_means_rdma(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{unused.getsockname()[1]}"
        assert main(["doctor", place]) == ExitStatus.NOT_CONNECTED
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2].startswith("problem  server")
    assert lines[-2].endswith(f"cannot connect to {place}: connection refused")
    assert "-> check that the server runs and listens there; RoCE and InfiniBand servers" in lines[-1]


@pytest.mark.thorough
def test_a_name_without_an_address_is_a_problem_of_the_server_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object, **__: object) -> list[object]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    real = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *a, **k: unknown() if host == "nowhere" else real(host, *a, **k)
    )
    assert main(["doctor", "--json", "nowhere"]) == ExitStatus.NOT_CONNECTED
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [finding["subject"] for finding in findings] == [*SUBJECTS, "server"]


@pytest.mark.thorough
def test_a_machine_without_the_software_rnic_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> object:
        raise ConnectFailed("cannot listen at rdma://127.0.0.1:0: no such device; choose an address of this machine")

    monkeypatch.setattr(network, "serve", broken)
    assert main(["doctor"]) == ExitStatus.FAILED
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("problem  software RNIC   does not work on 127.0.0.1: cannot listen at")
    assert lines[1].endswith("-> choose an address of this machine")


def test_the_way_out_is_asked_of_the_kernel() -> None:
    assert network.interface_towards("127.0.0.1") == "lo"


def test_the_way_to_a_link_local_address_leads_through_its_interface() -> None:
    found = asyncio.run(examination._way(parse_url("rdma://[fe80::1%lo]"), []))
    assert found is not None
    assert found.facts["interface"] == "lo"


def test_a_kernel_that_does_not_tell_the_way_out_is_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> socket.socket:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    async def way() -> object:
        # The event loop has its own sockets by now.
        with monkeypatch.context() as patch:
            patch.setattr("socket.socket", denied)
            return await examination._way(parse_url("rdma://127.0.0.1"), [])

    assert asyncio.run(way()) is None


@pytest.mark.thorough
def test_a_port_is_free_until_somebody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert network.why_not_listening(port) == "address already in use by this process"
    assert network.why_not_listening(port) == ""


def test_what_is_no_place_is_wrong_usage() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "host:port"])
    assert ended.value.code == ExitStatus.USAGE


async def test_a_server_that_asks_for_more_protection_is_no_server_without_nfs(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(*_: object) -> None:
        raise AuthError(AuthStat.AUTH_TOOWEAK)

    monkeypatch.setattr(network, "_measure", refused)
    finding, status = await network.check_server(parse_url("tcp://h"), ConnectOptions())
    assert (finding.mark, status) == (Mark.NOTE, ExitStatus.DONE)
    assert "NFS" not in finding.text + finding.remedy
    assert finding.remedy.startswith("it asks for more protection: TLS (--xprtsec tls), TLS with a certificate")


def test_a_root_that_is_missing_is_no_machine_without_devices(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--root", str(tmp_path / "none")]) == ExitStatus.FAILED
    assert capsys.readouterr().err == f"error: {tmp_path / 'none'}: no such file or directory\n"


@pytest.mark.thorough
def test_the_software_rnic_is_tried_out_without_certificates_and_tickets(tmp_path: Path) -> None:
    """Those of `--tls-cert` and `--sec` are for the server that is examined."""
    options = ConnectOptions(
        security="krb5", xprtsec="tls", host_authentication=HostAuthentication(certificate=tmp_path / "none")
    )
    assert asyncio.run(network.check_software_rnic(options)).mark is Mark.OK
