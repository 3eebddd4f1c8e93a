"""`rpcrdma demo` on a small tree."""

from __future__ import annotations

import asyncio
import re
import subprocess
from pathlib import Path

import pytest

from rpcrdma.cli.demo.source_tree import digests
from rpcrdma.cli.main import main
from rpcrdma.transport import VERSION_CHOICES

FILES = 24


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "below").mkdir(parents=True)
    for number in range(FILES - 1):
        (root / "below" / f"{number:03}").write_bytes(bytes([number]) * number * 100)
    (root / "large").write_bytes(bytes(range(256)) * 4096)
    return root


@pytest.mark.parametrize(
    "version",
    [
        pytest.param(choice, marks=pytest.mark.journey if choice == "2" else pytest.mark.thorough)
        for choice in VERSION_CHOICES
        if choice != "auto"
    ],
)
def test_the_demo_moves_a_tree_both_ways(
    tree: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], version: str
) -> None:
    import json

    before = digests(tree)
    arguments = ["--source", str(tree), "--pcap", str(tmp_path / "demo.pcap"), "--keep", str(tmp_path / "kept")]
    assert main(["demo", "--json", "--rpcrdma-version", version, *arguments]) == 0
    said = capfd.readouterr()
    assert said.err == ""
    report = json.loads(said.out)
    assert report.keys() == {
        "version", "provider", "source", "files", "bytes", "mismatches", "seconds", "get_bytes_per_s",
        "put_bytes_per_s", "calls", "chosen", "rdma", "credits",
    }  # fmt: skip
    assert (report["version"], report["provider"], report["mismatches"]) == ((int(version[0]), "iwarp", 0))
    assert report["files"] == FILES
    assert report["bytes"] == sum(path.stat().st_size for path in tree.rglob("*") if path.is_file())
    assert report["calls"].keys() == {
        "total", "short", "read_chunk", "write_chunk", "long_call", "long_reply", "continued", "resent",
        "placed_by_send",
    }  # fmt: skip
    assert report["rdma"].keys() == {
        "sends", "pieces", "grants", "reads", "writes", "registrations", "remote_invalidations"
    }  # fmt: skip
    assert report["credits"].keys() == {"requested", "granted"}
    assert report["chosen"].keys() == {"inline", "rdma", "send"}
    assert sum(report["chosen"].values()) == report["calls"]["total"]
    assert report["chosen"]["rdma"] > 0
    for kind in ("short", "read_chunk", "write_chunk"):
        assert report["calls"][kind] > 0, kind
    assert all(value for name, value in report["rdma"].items() if name not in {"pieces", "grants"})
    assert (tmp_path / "demo.pcap").stat().st_size > 2 * report["bytes"]
    assert digests(tree) == before == digests(tmp_path / "kept" / "fetched") == digests(tmp_path / "kept" / "returned")


@pytest.mark.thorough
def test_the_demo_serves_at_the_address_that_is_asked_for(tree: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--source", str(tree), "--address", "192.0.2.1", "--provider", "iwarp"]) == 1
    assert "cannot listen at rdma://192.0.2.1:0: " in capfd.readouterr().err


@pytest.mark.thorough
def test_the_demo_prints_a_table(tree: Path, capfd: pytest.CaptureFixture[str]) -> None:
    command = ["demo", "--source", str(tree), "--limit-bytes", "20k", "--rpcrdma-version", "2", "--extension", "rtr"]
    assert main(command) == 0
    rows = [re.split("  +", line.strip()) for line in capfd.readouterr().out.splitlines()]
    values = {name: value for name, value, *_ in rows}
    assert int(values["files"]) == 21
    assert values["mismatches"] == "0"
    # Data of 1 KiB and more goes by Send, smaller data in the message itself.
    assert int(values["went by Send"]) == int(values["placed by Send"]) > 0
    assert values["went by RDMA"] == values["read chunk"] == values["RDMA Reads"] == "0"
    assert int(values["went inline"]) + int(values["went by Send"]) == int(values["calls"])


@pytest.mark.thorough
def test_the_demo_fails_where_a_file_differs(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rpcrdma.cli.demo.journey.mismatches", lambda _source, _copy: ["below/001"])
    assert main(["demo", "--source", str(tree), "--limit-bytes", "1k"]) == 1
    assert "did not arrive as they were\n  fetched: below/001\n" in capfd.readouterr().err


def test_the_demo_keeps_nothing_where_something_is(
    tree: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--source", str(tree), "--keep", str(tmp_path)]) == 1
    assert capfd.readouterr().err == f"error: {tmp_path}: is not empty\nhint: name a new directory for the copies\n"


def test_the_demo_needs_a_source_that_exists(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--source", str(tmp_path / "missing")]) == 1
    assert capfd.readouterr().err == f"error: {tmp_path / 'missing'}: no such file or directory\n"


def test_the_demo_minds_the_space_on_the_disk(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rpcrdma.cli.demo.journey.free_octets", lambda _path: 1000)
    assert main(["demo", "--source", str(tree)]) == 1
    assert "TMPDIR" in capfd.readouterr().err


def test_the_demo_refuses_to_copy_a_tree_into_itself(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    before = digests(tree)
    assert main(["demo", "--source", str(tree), "--keep", str(tree / "kept")]) == 1
    said = f"lies within {tree}, so that the copies would be copied, too\nhint: "
    assert capfd.readouterr().err == f"error: {tree / 'kept'}: {said}name another one with --keep\n"
    assert digests(tree) == before | {"kept": "directory"}
    monkeypatch.setattr("tempfile.tempdir", str(tree / "below"))
    assert main(["demo", "--source", str(tree), "--limit-bytes", "1k"]) == 1
    assert capfd.readouterr().err.endswith(f"{said}set TMPDIR to another place\n")


@pytest.mark.thorough
def test_the_demo_copies_a_directory_whose_name_ends_as_an_option_of_an_export(
    tree: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--source", str(tree.rename(tree.with_name("tree:ro")))]) == 0
    assert capfd.readouterr().err == ""


@pytest.mark.thorough
def test_the_demo_runs_no_code_of_the_working_directory(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secrets.py").write_text('raise SystemExit("of the working directory")')
    assert main(["demo", "--source", str(tree)]) == 0
    assert capfd.readouterr().err == ""


@pytest.mark.thorough
def test_an_unfit_address_is_an_error_of_the_demo(tree: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--source", str(tree), "--address", "a b"]) == 1
    said = capfd.readouterr().err
    assert "'a b' is no host" in said
    assert said.endswith("error: the server did not start\n")


@pytest.mark.thorough
def test_the_demo_finds_its_package_where_that_is_not_installed(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []

    async def start(*words: str, **_how: object) -> None:
        started.extend(words)
        raise OSError("only its words count")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    assert main(["demo", "--source", str(tree)]) == 1
    python, *words = started[: started.index("serve")]
    # Without the directories of installed packages, in another directory.
    ran = subprocess.run([python, "-S", *words, "--version"], cwd=tmp_path, env={}, capture_output=True, check=False)
    assert ran.stdout.startswith(b"rpcrdma "), ran.stderr
