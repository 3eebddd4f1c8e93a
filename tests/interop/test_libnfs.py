"""A client that we did not write, libnfs, reads and writes through our NFSv3 server over TCP."""

from __future__ import annotations

import hashlib
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(120),
    pytest.mark.skipif(shutil.which("nfs-cp") is None, reason="needs libnfs-utils: make interop"),
]

SIZES = [0, 1, 4095, 4096, (1 << 20) + 3, 20_000_000]

UrlOf = Callable[[str], str]


def octets_of(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def run(*command: str) -> bytes:
    done = subprocess.run(command, capture_output=True, check=False, timeout=100)
    said = done.stderr.decode(errors="replace") + done.stdout.decode(errors="replace")[-2000:]
    assert done.returncode == 0, f"{' '.join(command)}: {said}"
    return done.stdout


@pytest.fixture
def url_of(serve: Callable[..., object], open_directory: Path) -> Iterator[UrlOf]:
    """URLs of paths below the export /data, with the ports that save libnfs from asking rpcbind."""
    with serve("--export", f"data={open_directory}") as url:  # type: ignore[attr-defined]
        yield lambda path: f"nfs://127.0.0.1/data{path}?version=3&nfsport={url.port}&mountport={url.port}"


@pytest.mark.parametrize("size", SIZES)
def test_nfs_cp_reads_what_is_there(size: int, url_of: UrlOf, open_directory: Path, tmp_path: Path) -> None:
    source, copy = open_directory / "source", tmp_path / "copy"
    source.write_bytes(octets_of(size))
    source.chmod(0o644)
    run("nfs-cp", url_of("/source"), str(copy))
    assert copy.stat().st_size == size
    assert digest(copy) == digest(source)


@pytest.mark.parametrize("size", SIZES)
def test_nfs_cp_writes_what_arrives(size: int, url_of: UrlOf, open_directory: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(octets_of(size))
    run("nfs-cp", str(source), url_of("/copy"))
    assert (open_directory / "copy").stat().st_size == size
    assert digest(open_directory / "copy") == digest(source)


@pytest.mark.parametrize("size", SIZES)
def test_nfs_cat_prints_the_file(size: int, url_of: UrlOf, open_directory: Path) -> None:
    (open_directory / "source").write_bytes(octets_of(size))
    (open_directory / "source").chmod(0o644)
    assert hashlib.sha256(run("nfs-cat", url_of("/source"))).hexdigest() == digest(open_directory / "source")


def test_nfs_cp_copies_from_the_server_to_the_server(url_of: UrlOf, open_directory: Path) -> None:
    (open_directory / "source").write_bytes(octets_of(3_000_001))
    (open_directory / "source").chmod(0o644)
    run("nfs-cp", url_of("/source"), url_of("/copy"))
    assert digest(open_directory / "copy") == digest(open_directory / "source")


def test_nfs_ls_lists_every_one_of_many_names(url_of: UrlOf, open_directory: Path) -> None:
    names = {f"file with a name of some length {number:05}" for number in range(3000)} | {"ä", "\N{SNOWMAN}" * 40}
    for name in names:
        (open_directory / name).touch()
    listed = run("nfs-ls", url_of("/")).decode().splitlines()
    # mode, links, uid, gid, size, then the name
    assert sorted(line.split(maxsplit=5)[5] for line in listed) == sorted(names)


def test_nfs_ls_descends_into_directories(url_of: UrlOf, open_directory: Path) -> None:
    deep = open_directory / "a" / "b" / "c"
    deep.mkdir(parents=True)
    (deep / "leaf").write_bytes(b"12345")
    listed = run("nfs-ls", "-R", url_of("/")).decode()
    for name in ("a", "b", "c", "leaf"):
        assert f"{name}\n" in listed


def test_directories_below_the_export_can_be_mounted(url_of: UrlOf, open_directory: Path, tmp_path: Path) -> None:
    (open_directory / "below").mkdir()
    (open_directory / "below" / "leaf").write_bytes(b"12345")
    (open_directory / "below" / "leaf").chmod(0o644)
    run("nfs-cp", url_of("/below/leaf"), str(tmp_path / "leaf"))
    assert (tmp_path / "leaf").read_bytes() == b"12345"


def test_a_missing_file_is_reported_as_missing(url_of: UrlOf, tmp_path: Path) -> None:
    done = subprocess.run(
        ["nfs-cp", url_of("/absent"), str(tmp_path / "copy")], capture_output=True, check=False, timeout=60
    )
    assert done.returncode != 0
    assert b"NFS3ERR_NOENT" in done.stderr + done.stdout
