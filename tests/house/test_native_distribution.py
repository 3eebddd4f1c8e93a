"""The distributions of the native module and of the lab fit the library, and the modules in C are small."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
import sysconfig
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import rpcrdma
from rpcrdma.verbs import binding
from rpcrdma.wire.native import INTERFACE, Native, NativeFrames, native

ROOT = Path(__file__).parents[2]
LAB, NATIVE = ROOT / "lab", ROOT / "native"
LINES_MAX = {"src": 982, "verbs": 1320}
"""Lines of C for each module, without comments and empty lines, and without the declarations of foreign libraries.

`src` receives a long Send into the object that is delivered, which halved the functions of a READ of 16 KiB, and has a
CRC for registers of 16, 32 and 64 octets: each width doubles its speed. `verbs` is calls into two libraries:
memory windows, scatter lists and device events are each a few calls of theirs.
"""
DECLARATIONS = "abi.h"


def project(directory: Path) -> dict[str, object]:
    found: dict[str, object] = tomllib.loads((directory / "pyproject.toml").read_text())["project"]
    return found


def test_all_distributions_have_one_version_and_ask_for_it() -> None:
    package = project(ROOT)
    assert package["version"] == rpcrdma.__version__
    for directory in (LAB, NATIVE):
        other = project(directory)
        assert other["version"] == package["version"]
        assert other["requires-python"] == package["requires-python"]
        assert (directory / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    extras, needed, own = package["optional-dependencies"], project(LAB)["dependencies"], package["dependencies"]
    assert isinstance(extras, dict)
    assert isinstance(needed, list)
    assert isinstance(own, list)
    assert extras["native"] == [f"rpcrdma-native=={package['version']}"]
    assert f"rpcrdma=={package['version']}" in needed
    others = set(needed) - {f"rpcrdma=={package['version']}"}
    assert others <= set(own), "a package that both need has one requirement"


def test_the_package_asks_for_the_interface_that_the_sources_have() -> None:
    header = (NATIVE / "src" / "native.h").read_text()
    assert re.findall(r"^#define RN_INTERFACE (\d+)$", header, re.MULTILINE) == [str(INTERFACE)]
    header = (NATIVE / "verbs" / "verbs.h").read_text()
    assert re.findall(r"^#define RV_INTERFACE (\d+)$", header, re.MULTILINE) == [str(binding.INTERFACE)]


@pytest.mark.parametrize("module", LINES_MAX)
def test_each_module_stays_small(module: str) -> None:
    sources = sorted((NATIVE / module).iterdir())
    code = (
        re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL) for path in sources if path.name != DECLARATIONS
    )
    assert sum(bool(line.strip()) for text in code for line in text.splitlines()) <= LINES_MAX[module]
    wide = [path.name for path in sources if max(map(len, path.read_text().splitlines())) > 120]
    assert wide == []


def names(described: type) -> set[str]:
    return {name for name in [*vars(described), *described.__annotations__] if not name.startswith("_")}


@pytest.mark.skipif(binding.find()[0] is None, reason=binding.find()[1])
def test_the_module_for_devices_has_the_names_that_the_package_describes() -> None:
    module: Any = binding.find()[0]
    types = {
        "Domain": binding.Domain,
        "EventChannel": binding.EventChannel,
        "ConnectionIdentifier": binding.ConnectionIdentifier,
        "QueuePair": binding.QueuePairHandle,
        "Region": binding.Region,
        "MemoryWindow": binding.MemoryWindow,
        "Device": binding.Device,
    }
    assert names(binding.Binding) | set(types) == {name for name in vars(module) if not name.startswith("__")}
    for name, described in types.items():
        assert names(described) == {name for name in vars(getattr(module, name)) if not name.startswith("__")}


@pytest.mark.skipif(native is None, reason="rpcrdma_native is not installed, or turned off")
def test_the_module_has_the_names_that_the_package_describes() -> None:
    assert native is not None

    assert names(Native) == {name for name in vars(native) if not name.startswith("__")}
    assert names(NativeFrames) == {name for name in vars(native.Receiver) if not name.startswith("__")}


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The program that `make install` calls, with a log of its own."""
    spec = importlib.util.spec_from_file_location("install", NATIVE / "install.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "LOG", tmp_path / "build" / "install.log")
    return module


LEFT_OUT = "the native module is left out, Python does its work: "


def test_where_no_compiler_is_one_line_says_so(
    install: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: "gcc -pthread" if name == "CC" else None)
    monkeypatch.setattr(shutil, "which", lambda program: None)
    assert install.main() == 1
    assert capsys.readouterr().out == f"{LEFT_OUT}there is no C compiler gcc (apt-get install gcc)\n"


def test_where_no_headers_are_one_line_says_so(
    install: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda program: f"/usr/bin/{program}")
    assert install.main() == 1
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert capsys.readouterr().out == (
        f"{LEFT_OUT}there is no {tmp_path}/Python.h (apt-get install python{version}-dev)\n"
    )


@pytest.mark.thorough
def test_a_build_that_fails_leaves_its_output_in_a_log(
    install: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(install, "cause", lambda: None)
    monkeypatch.setattr(install, "PIP", (sys.executable, "-c", "import sys; sys.exit('no network')"))
    assert install.main() == 1
    assert capsys.readouterr().out == f"{LEFT_OUT}the build failed, see {install.LOG}\n"
    assert install.LOG.read_text() == "no network\n"
