"""The Debian package holds all parts of the server, nothing of its builder's machine, and runs by Debian's Python."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BUILT = sorted((ROOT / "build" / "deb").glob("rpcrdma_*.deb"))
PYTHON = "/usr/bin/python3"
SCRIPTS = ("postinst", "prerm", "postrm")

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not BUILT or shutil.which("dpkg-deb") is None, reason="there is no package: make deb"),
]


def said(*command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the package, those of its control part in DEBIAN."""
    directory = tmp_path_factory.mktemp("package") / "tree"
    said("dpkg-deb", "--raw-extract", BUILT[-1], directory)
    return directory


def test_the_package_has_a_place_for_each_part_of_the_server(tree: Path) -> None:
    library = tree / "usr/lib/rpcrdma"
    assert {path.name for path in (tree / "usr/lib/systemd/system").iterdir()} == {
        path.name for path in (ROOT / "packaging/systemd").iterdir()
    }
    for part in (
        *("rpcrdma/cli/main.py", "rpcrdma_native.abi3.so", "rpcrdma_verbs.abi3.so"),
        *("uvloop/__init__.py", "prometheus_client/__init__.py"),
    ):
        assert (library / part).is_file()
    assert not (library / "rpcrdma_lab").exists()
    assert not list((tree / "etc/rpcrdma/exports.d").iterdir())
    assert (tree / "DEBIAN/conffiles").read_text() == "/etc/rpcrdma/rpcrdma.toml\n"
    for path in tree.rglob("*"):
        mode = path.stat().st_mode & 0o7777
        programs = {tree / "usr/bin/rpcrdma", *(tree / "DEBIAN" / name for name in SCRIPTS)}
        assert mode == (0o755 if path.is_dir() or path in programs else 0o644), path
    owners = {line.split()[1] for line in said("dpkg-deb", "--contents", BUILT[-1]).splitlines()}
    assert owners == {"root/root"}


def test_the_package_names_nothing_of_the_machine_that_built_it(tree: Path) -> None:
    for path in (path for path in tree.rglob("*") if path.is_file()):
        content = path.read_bytes()
        assert str(ROOT).encode() not in content, path
        assert not path.name.endswith(".pyc"), path
        if path.name.endswith(".so"):
            assert b".debug_info" not in content, path
            # A folder of the builder's in which libraries would be looked for.
            assert not re.search(r"\((RPATH|RUNPATH)\)", said("readelf", "--dynamic", "--wide", path)), path


def test_dpkg_knows_what_the_package_needs_and_its_files(tree: Path) -> None:
    needed = said("dpkg-deb", "--field", BUILT[-1], "Depends")
    built_for = re.fullmatch(r"python3 \(>= 3\.(\d+)\), python3 \(<< 3\.(\d+)\), libc6 \(>= 2\.\d+\)\n", needed)
    assert built_for is not None
    assert int(built_for[2]) == int(built_for[1]) + 1
    said("sh", "-c", f"cd '{tree}' && md5sum --quiet --check DEBIAN/md5sums")
    listed = {line.split("  ", 1)[1] for line in (tree / "DEBIAN/md5sums").read_text().splitlines()}
    files = {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()}
    assert listed == {name for name in files if not name.startswith("DEBIAN/")}


def test_the_scripts_of_the_package_enable_and_start_nothing(tree: Path) -> None:
    for name in SCRIPTS:
        script = tree / "DEBIAN" / name
        said("sh", "-n", script)
        text = script.read_text()
        assert text.startswith("#!/bin/sh\nset -e\n"), "a failure is dpkg's to report"
        assert not re.search(r"\b(enable|preset|unmask|start|restart)\b(?! *')", re.sub(r"#[^!].*", "", text)), name


@pytest.mark.skipif(shutil.which("lexgrog") is None, reason="there is no man")
def test_man_finds_the_pages_by_their_purpose(tree: Path) -> None:
    pages = sorted((tree / "usr/share/man").rglob("*.gz"))
    assert [page.name for page in pages] == ["rpcrdma.1.gz", "rpcrdma.toml.5.gz", "rpcrdma-serve.8.gz"]
    for page in pages:
        name = page.name.rpartition(".")[0].rpartition(".")[0]
        assert f'"{name} - ' in said("lexgrog", page)
        warned = subprocess.run(
            ["man", "--warnings", "-l", page],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )
        assert warned.stderr == ""
        assert "DESCRIPTION" in warned.stdout


@pytest.mark.skipif(not Path(PYTHON).exists(), reason="Debian's Python is not installed")
def test_the_command_of_the_package_runs_by_the_python_of_debian(tree: Path, tmp_path: Path) -> None:
    if said(PYTHON, "-c", "import sys; print(sys.version_info[:2])").strip() != str(sys.version_info[:2]):
        pytest.skip(reason="Debian's Python is another version than the package is for")
    command = tmp_path / "rpcrdma"
    launcher = (tree / "usr/bin/rpcrdma").read_text()
    assert launcher.startswith(f"#!{PYTHON} -sP\n")
    command.write_text(launcher.replace("/usr/lib/rpcrdma", str(tree / "usr/lib/rpcrdma")))
    command.chmod(0o755)
    alone = {"PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "1", "XDG_STATE_HOME": str(tmp_path / "state")}
    assert "native" in said(command, "doctor", **alone)
    said(command, "demo", **alone)
    (tmp_path / "served").mkdir()
    configuration = tmp_path / "rpcrdma.toml"
    installed = (tree / "etc/rpcrdma/rpcrdma.toml").read_text()
    configuration.write_text(f'{installed}\n[[export]]\nname = "/"\ndirectory = "{tmp_path}/served"\n')
    said(command, "serve", "--config", configuration, "--check", **alone)
    lab = subprocess.run(
        [command, "decode", "x"], capture_output=True, text=True, check=False, env={**os.environ, **alone}
    )
    assert "decode is a command of rpcrdma-lab" in lab.stderr
