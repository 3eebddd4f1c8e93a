"""Servers at other ports than the usual ones, several on one machine, and several exports of one server."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rpcrdma.aio.client import connect
from rpcrdma.aio.urls import DEFAULT_PORTS, parse_url
from rpcrdma.cli.main import main
from support.cases import each_case

if TYPE_CHECKING:
    from support.commands import Remote, Served, StartServer

REMEDY = "name the TCP port of the server's MOUNT with ?mountport=PORT at the end of the URL"


@pytest.fixture
def named(start: StartServer, tmp_path: Path) -> Iterator[Served]:
    """A server with the exports /data, /team/a and /team/b, and none at /."""
    for name in ("data", "a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"in-{name}").write_text(name)
    exports = [f"--export={name}={tmp_path / name.rpartition('/')[2]}" for name in ("data", "team/a", "team/b")]
    with start(tmp_path, tmp_path / "state", *exports, named_only=True) as served:
        yield served
        assert served.stop() == 0


def in_url(served: Served, scheme: str, path: str) -> str:
    return f"{served.urls[scheme]}{path}?mountport={parse_url(served.urls['tcp']).port}"


@pytest.mark.thorough
@each_case("one_state", [True, False])
def test_a_mount_service_of_another_server_is_named(
    start: StartServer,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    one_state: bool,
) -> None:
    for name in ("first", "second"):
        (tmp_path / name / "d").mkdir(parents=True)
        (tmp_path / name / "d" / f"in-{name}").touch()
    states = [tmp_path / "state", tmp_path / ("state" if one_state else "other")]
    with start(tmp_path / "first", states[0]) as first, start(tmp_path / "second", states[1]) as second:
        first_port, second_port = (parse_url(served.urls["tcp"]).port for served in (first, second))
        url = second.urls["rdma"]
        assert main(["ls", "--mount-port", str(first_port), f"{url}/d"]) == 3
        complaint, advice = capfd.readouterr().err.splitlines()
        assert complaint == (
            f"error: the NFS server at {parse_url(url).authority} does not know the handle of / that MOUNT at "
            f"127.0.0.1:{first_port} gave: MOUNT and NFS are not one server"
        )
        assert advice == f"hint: {REMEDY}"
        assert main(["ls", f"{url}/d"]) == 0, "each server answers MOUNT itself"
        assert main(["ls", "--mount-port", str(second_port), f"{url}/d"]) == 0
        # An option in the URL has precedence over one before it.
        assert main(["ls", "--mount-port", str(first_port), f"{url}/d?mountport={second_port}"]) == 0
        assert capfd.readouterr().out.split() == ["in-second"] * 3


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", ["rdma", "tcp"])
def test_exports_are_listed_where_there_is_nothing_else(
    named: Served, scheme: str, capfd: pytest.CaptureFixture[str]
) -> None:
    def listed(path: str, *options: str) -> list[str]:
        assert main(["ls", *options, in_url(named, scheme, path)]) == 0
        return capfd.readouterr().out.splitlines()

    assert listed("/") == listed("") == ["data", "team"]
    assert listed("/team") == listed("/team/") == ["a", "b"]
    assert listed("/", "-R") == [
        *("/:", "data", "team", "", "/data:", "in-data", "", "/team:", "a", "b"),
        *("", "/team/a:", "in-a", "", "/team/b:", "in-b"),
    ]
    data, team = listed("/", "-l")
    assert data.split()[0] == stat.filemode(named.root.joinpath("data").stat().st_mode)
    assert data.endswith(" data")
    assert team.split() == ["d?????????", "?", "?", "?", "?", "?", "team"]


@pytest.mark.thorough
def test_exports_are_told_from_directories_in_json(named: Served, capfd: pytest.CaptureFixture[str]) -> None:
    import json

    assert main(["ls", "--json", in_url(named, "rdma", "/")]) == 0
    data, team = map(json.loads, capfd.readouterr().out.splitlines())
    assert (data["path"], data["type"], data["export"], data["fileid"]) == (
        *("/data", "directory", True),
        (named.root / "data").stat().st_ino,
    )
    assert team == {"path": "/team", "type": "directory"}


@pytest.mark.thorough
def test_what_no_export_has_is_an_error_that_names_the_exports(
    named: Served, capfd: pytest.CaptureFixture[str]
) -> None:
    for command in (["ls"], ["stat"], ["cat"]):
        assert main([*command, in_url(named, "rdma", "/none/x")]) == 1
        complaint, advice = capfd.readouterr().err.splitlines()
        assert complaint == f"error: {named.urls['rdma']}/none/x: no such file or directory"
        assert advice == "hint: the server exports /data, /team/a, /team/b"


@pytest.mark.thorough
@each_case(
    ("command", "path"),
    [
        *(("ls", "/data/none"), ("stat", "/data/none"), ("cat", "/data/none/x"), ("rm", "/team/a/none")),
        *(("mkdir", "/team/b/none"), ("stat", "/data/sub/../none")),
    ],
)
def test_errors_name_the_url(named: Served, command: str, path: str, capfd: pytest.CaptureFixture[str]) -> None:
    (named.root / "data" / "sub").mkdir(exist_ok=True)
    # A directory is not made: the parent directory is missing.
    asked = f"{path}/x" if command == "mkdir" else path
    assert main([command, in_url(named, "rdma", asked)]) == 1
    assert capfd.readouterr().err.startswith(f"error: {named.urls['rdma']}{path}: no such file or directory")


@pytest.mark.thorough
def test_links_without_end_are_named_by_the_url(named: Served, capfd: pytest.CaptureFixture[str]) -> None:
    (named.root / "data" / "self").symlink_to("self")
    for command in ("stat", "cat", "ls"):
        assert main([command, in_url(named, "rdma", "/data/self/below")]) == 1
        assert (
            capfd.readouterr().err
            == f"error: {named.urls['rdma']}/data/self/below: too many levels of symbolic links\n"
        )


@pytest.mark.thorough
def test_copies_name_the_url(named: Served, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    at = named.urls["rdma"]
    assert main(["get", in_url(named, "rdma", "/data/none"), str(tmp_path / "copy")]) == 1
    assert capfd.readouterr().err == f"error: {at}/data/none: no such file or directory\n"
    assert main(["put", str(tmp_path / "data" / "in-data"), in_url(named, "tcp", "/team/a/none/x")]) == 1
    assert (
        capfd.readouterr().err.splitlines()[0] == f"error: {named.urls['tcp']}/team/a/none/x: no such file or directory"
    )
    source, target = (in_url(named, "rdma", path) for path in ("/data/none", "/data/other"))
    assert main(["mv", source, target]) == 1
    assert capfd.readouterr().err == f"error: {at}/data/none -> {at}/data/other: no such file or directory\n"
    assert main(["rm", in_url(named, "rdma", "/team/a")]) == 1
    assert "/team/a" in capfd.readouterr().err


@pytest.mark.thorough
def test_tcp_at_an_rdma_port_is_told_as_such(server: Served, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """No call ever ran: nothing may sound as if one had."""
    place = parse_url(server.urls["rdma"]).authority
    port = str(parse_url(server.urls["tcp"]).port)
    (tmp_path / "file").touch()
    for command in (
        ["ls", f"tcp://{place}/"],
        ["--mount-port", port, "ls", f"tcp://{place}/"],
        ["put", str(tmp_path / "file"), f"tcp://{place}/file?mountport={port}"],
        ["ping", f"tcp://{place}"],
    ):
        assert main(command) == 3
        complaint, advice = capfd.readouterr().err.splitlines()
        assert complaint.startswith(f"error: tcp://{place} takes connections but answers no call (")
        assert advice == (
            f"hint: check that this is the scheme and port of the server: if it is its RDMA port, write rdma://{place}"
        )


@pytest.mark.thorough
def test_rdma_at_a_tcp_port_is_told_as_such(server: Served, capfd: pytest.CaptureFixture[str]) -> None:
    place = parse_url(server.urls["tcp"]).authority
    assert main(["ls", f"rdma://{place}/"]) == 3
    complaint, advice = capfd.readouterr().err.splitlines()
    assert complaint.startswith(f"error: {place} takes TCP connections but sets up no RDMA connection (")
    assert advice == "hint: check that an NFS/RDMA server with iWARP listens on this port"


@pytest.mark.thorough
def test_a_refused_default_port_leads_to_the_one_of_serve(
    nobody_listens: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # Whether something listens at the real one is not for this test to say.
    monkeypatch.setitem(DEFAULT_PORTS, "tcp", nobody_listens)
    for command in ("ping", "ls"):
        assert main([command, "tcp://127.0.0.1/"]) == 3
        complaint, advice = capfd.readouterr().err.splitlines()
        assert complaint == f"error: cannot connect to 127.0.0.1:{nobody_listens}: connection refused"
        assert advice == (
            "hint: check that the server runs and listens there: rpcrdma serve listens for TCP at "
            f"tcp://127.0.0.1:{connect._SERVE_TCP_PORT} unless told otherwise"
        )


def test_serve_is_where_the_hint_says() -> None:
    from rpcrdma.cli.settings.table import DEFAULT_LISTEN

    assert [parse_url(url).port for url in DEFAULT_LISTEN if url.startswith("tcp://")] == [connect._SERVE_TCP_PORT]


@pytest.mark.thorough
@pytest.mark.versions("2")
def test_ls_l_shows_where_links_lead(remote: Remote) -> None:
    (remote.local / "here").symlink_to("some/where else")
    (remote.local / "file").touch()
    file, link = remote.done("ls", "-l", remote.url()).lines
    assert file.endswith(" file")
    assert link.endswith(" here -> some/where else")
    assert remote.done("ls", remote.url()).lines == ["file", "here"]
    targets = [row.get("target") for row in remote.done("ls", "--json", remote.url()).json_lines]
    assert targets == [None, "some/where else"]
