"""`--host-auth` and what it needs, on commands that connect and on `serve`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from host_pair import Hosts
from rpcrdma.cli.host_options import host_authentication
from rpcrdma.cli.main import build_parser, main

if TYPE_CHECKING:
    from conftest import StartServer

CONNECTING = [
    "ping rdma://h",
    "ls rdma://h/",
    "stat rdma://h/",
    "cat rdma://h/a",
    "get rdma://h/a .",
    "put a rdma://h/",
]
CONNECTING += ["rm rdma://h/a", "mkdir rdma://h/a", "mv rdma://h/a rdma://h/b", "watch rdma://h/"]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Hosts:
    return Hosts(tmp_path_factory.mktemp("certificates"))


@pytest.mark.parametrize("command", [*CONNECTING, "serve /srv"])
def test_every_command_takes_them(command: str) -> None:
    name, *arguments = command.split()
    options = ["--host-auth=optional", "--host-cert=c", "--host-key=k", "--host-ca=a", "--host-name=n", "--host-name=m"]
    parsed = host_authentication(build_parser().parse_args([name, *options, *arguments]))
    assert (parsed.policy, parsed.names) == ("optional", ("n", "m"))
    assert (parsed.certificate, parsed.key, parsed.authorities) == (Path("c"), Path("k"), Path("a"))
    bare = host_authentication(build_parser().parse_args([name, *arguments]))
    assert bare.wanted.value == "off"


def test_they_may_stand_before_the_command() -> None:
    parsed = build_parser().parse_args(["--host-cert=c", "--host-name=n", "ls", "rdma://h/"])
    assert host_authentication(parsed).certificate == Path("c")
    assert host_authentication(parsed).names == ("n",)


def test_a_file_that_is_not_there_is_told_at_start(
    capfd: pytest.CaptureFixture[str], hosts: Hosts, tmp_path: Path
) -> None:
    options = ["--host-cert", str(tmp_path / "none.pem"), "--host-ca", str(hosts.authority.path)]
    for command in (
        ["ping", *options, "rdma://127.0.0.1:1"],
        ["serve", *options, "--state-dir", str(tmp_path / "state"), "--listen", "rdma://127.0.0.1:0", str(tmp_path)],
    ):
        assert main(command) in {1, 3}
        said = capfd.readouterr().err
        assert said.splitlines()[-2:] == [
            f"error: host authentication: cannot read {tmp_path / 'none.pem'}: no such file or directory",
            "hint: name a file in PEM that this user may read (--host-cert)",
        ]


def test_a_failure_has_a_kind_of_its_own(
    start: StartServer, capfd: pytest.CaptureFixture[str], hosts: Hosts, tmp_path: Path
) -> None:
    options = ["--host-cert", str(hosts.client), "--host-ca", str(hosts.authority.path)]
    (tmp_path / "data").mkdir()
    with start(tmp_path / "data", tmp_path / "state") as served:
        assert main(["ping", "--json", *options, served.urls["rdma"]]) == 3
        error = json.loads(capfd.readouterr().out)["error"]
        assert served.stop() == 0
    assert error["kind"] == "host_not_authenticated"
    place = served.urls["rdma"].removeprefix("rdma://")
    assert error["message"] == (
        f"{place}: host authentication failed: it is required here, and the peer takes no part in it"
    )
    assert "--host-cert" in error["hint"]
