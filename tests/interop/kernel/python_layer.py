"""Our server for a guest: this interpreter, its standard library and the packages that `rpcrdma serve` loads."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import py_compile
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

from archive import Archive

__all__ = [
    "PYTHON",
    "START_OUR_SERVER",
    "STOP_OUR_SERVER",
    "build_extras_layer",
    "build_python_layer",
    "build_tests_layer",
]

PYTHON = "export PYTHONHOME=/python LD_LIBRARY_PATH=/python/libraries PATH=/python/bin:$PATH\n"
"""Begins a shell script in a guest with the layer, which then finds python3."""
START_OUR_SERVER = (
    PYTHON
    + """
rm -f /run/serve.log
python3 -m rpcrdma serve --no-root-squash --state-dir /run/state --listen rdma://0.0.0.0 \
    --listen tcp://0.0.0.0:20048 /srv >/run/serve.log 2>&1 &
echo $! >/run/serve.pid
until [ $(grep -c 'listening at' /run/serve.log) = 2 ]; do
    kill -0 $(cat /run/serve.pid) || { cat /run/serve.log; exit 1; }
    sleep 0.2
done
"""
)
STOP_OUR_SERVER = "kill $(cat /run/serve.pid); while kill -0 $(cat /run/serve.pid) 2>/dev/null; do sleep 0.2; done"
"""Shell scripts, for a guest with the layer: it serves /srv as /, on the ports of the kernel's server."""

_UNUSED = {"test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip", "site-packages", "__pycache__"}
_GUESTS_OWN = re.compile(r"(ld-linux.*|libc|libm)\.so.*")
"""The C library is part of the base system, which is at least as new as this machine."""
_TEST_TOOLS = (
    *("pytest", "pluggy", "iniconfig", "packaging", "pygments", "pytest-timeout"),
    *("hypothesis", "sortedcontainers", "cryptography", "cffi", "prometheus-client"),
)
_TEST_FOLDERS = ("aio", "nfs/client")
_OVER_PROVIDERS = re.compile(r"\b(each_provider|scheme)\b")
"""The fixtures by which a test of these folders runs over each provider."""


def _library() -> str:
    paths = sysconfig.get_paths()
    return f"python/{Path(paths['stdlib']).relative_to(Path(sys.base_prefix))}"


def build_python_layer(path: Path) -> None:
    """Writes the archive, to be unpacked over the base system."""
    library = _library()
    with Archive(path) as layer:
        interpreter = Path(sys.executable).resolve()
        layer.file("python/bin/python3", interpreter, executable=True)
        _add_libraries(layer, interpreter)
        _add_folder(layer, Path(sysconfig.get_paths()["stdlib"]), library)
        for name in ("rpcrdma", "rpcrdma_lab"):
            spec = importlib.util.find_spec(name)
            assert spec is not None, "make install puts the package here"
            assert spec.origin is not None
            _add_folder(layer, Path(spec.origin).parent, f"{library}/site-packages/{name}")
            # By its entry points, the command finds those of the lab.
            _add_distribution(layer, name, library, own=".dist-info")
        for name in ("rpcrdma_verbs", "rpcrdma_native"):
            module = importlib.util.find_spec(name)
            if module is not None and module.origin is not None:
                _add_file(layer, Path(module.origin), f"{library}/site-packages/{Path(module.origin).name}")
        required = [name for name in importlib.metadata.requires("rpcrdma") or [] if "extra ==" not in name]
        for name in (*(re.split(r"[^\w.-]", name)[0] for name in required), "uvloop"):
            _add_distribution(layer, name, library)


def build_extras_layer(path: Path) -> None:
    """Writes the archive of the extras `kerberos` and `fsspec`, which goes over the other one."""
    with Archive(path) as layer:
        for name in ("gssapi", "decorator", "fsspec"):
            _add_distribution(layer, name, _library())


def build_tests_layer(path: Path) -> None:
    """Writes the archive of /data/tests, the tests over each provider, and their tools; it goes over the other one."""
    tests = Path(__file__).parents[2]
    found = [file for folder in _TEST_FOLDERS for file in (tests / folder).glob("*.py")]
    chosen = [file for file in found if not file.name.startswith("test_") or _OVER_PROVIDERS.search(file.read_text())]
    chosen += [tests.parent / "conftest.py", tests / "house/ledger_guard.py", *(tests / "support").glob("*.py")]
    chosen += (tests.parent / "examples/blob_store").glob("*.py")
    with Archive(path) as layer:
        for name in _TEST_TOOLS:
            _add_distribution(layer, name, _library())
        layer.file("data/pyproject.toml", tests.parent / "pyproject.toml")
        for file in chosen:
            layer.file(f"data/{file.relative_to(tests.parent)}", file)


def _add_distribution(layer: Archive, name: str, library: str, *, own: str = "") -> None:
    """Adds the files of an installed distribution; with `own`, those in folders whose names end so."""
    for file in importlib.metadata.distribution(name).files or []:
        if ".." not in file.parts and "__pycache__" not in file.parts and file.parent.name.endswith(own):
            _add_file(layer, Path(str(file.locate())), f"{library}/site-packages/{file}")


def _add_folder(layer: Archive, folder: Path, name: str) -> None:
    for directory, names, files in os.walk(folder):
        names[:] = sorted(set(names) - _UNUSED)
        for file in sorted(files):
            path = Path(directory, file)
            _add_file(layer, path, f"{name}/{path.relative_to(folder)}")


def _add_file(layer: Archive, path: Path, name: str) -> None:
    if path.suffix == ".py":
        # Compiled here: emulated, it would take a minute. A .pyc in the source's place needs no source.
        compiled = Path(importlib.util.cache_from_source(str(path)))
        if not compiled.exists() or compiled.stat().st_mtime < path.stat().st_mtime:
            py_compile.compile(str(path), doraise=True)
        layer.file(name + "c", compiled)
    elif ".so" in path.suffixes and not path.name.startswith("_tkinter"):
        layer.file(name, path, executable=True)
        _add_libraries(layer, path)
    elif path.suffix not in {".a", ".pyc", ".c", ".h", ".pyx", ".so"}:
        layer.file(name, path)


def _add_libraries(layer: Archive, binary: Path) -> None:
    shown = subprocess.run(["ldd", binary], capture_output=True, text=True, check=False).stdout
    for soname, path in re.findall(r"^\s*(\S+) => (/\S+)", shown, re.MULTILINE):
        if not _GUESTS_OWN.fullmatch(soname):
            layer.file(f"python/libraries/{soname}", Path(path), executable=True)
