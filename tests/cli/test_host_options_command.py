"""`--host-auth` and its prerequisites, on commands that connect and on `serve`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rpcrdma.cli.main import build_parser, main
from rpcrdma.commands.options import host_authentication
from support.cases import each_case
from support.command_process import run_command
from support.host_pair import Hosts

if TYPE_CHECKING:
    from support.commands import StartServer


@each_case("command", ["ping rdma://h", "put a rdma://h/", "serve /srv"])
def test_every_command_takes_them(command: str) -> None:
    name, *arguments = command.split()
    options = ["--host-auth=optional", "--tls-cert=c", "--tls-key=k", "--tls-ca=a", "--tls-name=n", "--tls-name=m"]
    parsed = host_authentication(build_parser().parse_args([name, *options, *arguments]))
    assert (parsed.policy, parsed.names) == ("optional", ("n", "m"))
    assert (parsed.certificate, parsed.key, parsed.authorities) == (Path("c"), Path("k"), Path("a"))
    bare = host_authentication(build_parser().parse_args([name, *arguments]))
    assert bare.wanted.value == "off"


def test_they_may_stand_before_the_command() -> None:
    parsed = build_parser().parse_args(["--tls-cert=c", "--tls-name=n", "ls", "rdma://h/"])
    assert host_authentication(parsed).certificate == Path("c")
    assert host_authentication(parsed).names == ("n",)


@pytest.mark.thorough
def test_hosts_that_know_each_other(
    start: StartServer, capfd: pytest.CaptureFixture[str], hosts: Hosts, tmp_path: Path
) -> None:
    """Mount and files go over RDMA; a client without a certificate gets nowhere."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").write_text("a")
    authority = ["--tls-ca", str(hosts.authority.path)]
    server = ["--tls-cert", str(hosts.server), *authority, "--tls-name", "client.example"]
    client = ["--tls-cert", str(hosts.client), *authority, "--tls-name", "server.example"]
    with start(tmp_path / "data", tmp_path / "state", *server) as served:
        rdma = served.urls["rdma"]
        assert main(["ping", "-c", "1", *client, rdma]) == 0
        text = capfd.readouterr().out
        assert main(["ping", "-c", "1", "--json", *client, rdma]) == 0
        report = json.loads(capfd.readouterr().out)
        assert main(["cat", *client, f"{rdma}/a"]) == 0
        assert capfd.readouterr().out == "a"
        assert main(["ls", "--json", f"{rdma}/"]) == 3
        without = json.loads(capfd.readouterr().out)["error"]
        assert main(["ping", "-c", "1", "--json", served.urls["tcp"]]) == 1
        over_tcp = json.loads(capfd.readouterr().out)["error"]
        assert served.stop() == 0
    assert "host: server.example, 2001:db8::1, urn:host:server (commonName=the server)" in text.splitlines()
    assert report["host_identity"]["names"] == ["server.example", "2001:db8::1", "urn:host:server"]
    bound = [event["host_identity"] for event in served.events if event["event"] == "connected" and "version" in event]
    assert [host["names"] for host in bound] == [["client.example", "192.0.2.7"]] * 3
    assert report["host_identity"]["channel_binding"] == bound[1]["channel_binding"]
    assert (without["kind"], without["hint"]) == (
        "host_not_authenticated",
        "give this side one (--tls-cert, --tls-key and --tls-ca)",
    )
    assert "the responder does not offer the program" in over_tcp["message"]


@pytest.mark.thorough
def test_people_are_told_what_is_left_over_tcp(hosts: Hosts, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    command = ["serve", "--stop-at-eof", "--state-dir", str(tmp_path / "state")]
    command += ["--tls-cert", str(hosts.server), "--tls-ca", str(hosts.authority.path), str(root)]
    command += ["--listen", "rdma://127.0.0.1:0", "--listen", "tcp://127.0.0.1:0"]
    done = run_command(*command, input="")
    assert done.returncode == 0
    assert "hosts have to authenticate themselves: over TCP there is nothing without --xprtsec mtls" in done.stderr
