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

if TYPE_CHECKING:
    from support.commands import Remote, Served, StartServer


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
def test_an_export_is_neither_removed_nor_moved(named: Served, capfd: pytest.CaptureFixture[str]) -> None:
    for command, path, after, done in [
        (["rm", "-r"], "/data", [], "removed"),
        (["rm", "-r"], "/team/a/", [], "removed"),
        (["mv"], "/data", ["/data/in-data"], "moved"),
    ]:
        assert main([*command, *(in_url(named, "rdma", each) for each in (path, *after))]) == 1
        complaint, advice = capfd.readouterr().err.splitlines()
        assert complaint == f"error: {named.urls['rdma']}{path}: is a whole export, which cannot be {done}"
        assert advice == "hint: name something in it"
    assert (named.root / "data" / "in-data").exists()


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
