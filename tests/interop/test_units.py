"""systemd takes the units that packages install, which leave little open, but give a server all that it needs.

Run as a program, this module runs a command, which the kernel kills at a system call that is not allowed.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.cli.main import main
from rpcrdma.cli.settings import unit as of_exports

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze: make interop"),
]

UNITS = Path(__file__).parents[2] / "packaging" / "systemd"
EXPOSURE_MAX = "25"
"""Tenths of the scale to 10: the servers of Debian that export files have 9.0 to 9.6."""


@pytest.mark.parametrize(
    ("name", "instance"), [("rpcrdma.service",) * 2, ("rpcrdma@.service", "rpcrdma@daemon.service")]
)
def test_systemd_takes_a_unit_and_calls_its_exposure_low(
    name: str, instance: str, rpcrdma_command: str, tmp_path: Path
) -> None:
    unit = tmp_path / instance
    write(unit, name, rpcrdma_command)
    assert analyzed(unit, "verify", "--recursive-errors=no") == ""
    analyzed(unit, "security", "--offline=true", f"--threshold={EXPOSURE_MAX}")


def test_systemd_takes_the_drop_in_of_exports(
    rpcrdma_command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    unit = tmp_path / "rpcrdma.service"
    write(unit, unit.name, rpcrdma_command)
    file = tmp_path / "c.toml"
    directories = ("/srv/a b%i", "/srv/ä-x", "/srv/must")
    monkeypatch.setattr(of_exports, "mount_points", lambda: frozenset(map(Path, directories)))
    file.write_text(
        "".join(f'[[export]]\nname = "/{number}"\ndirectory = "{path}"\n' for number, path in enumerate(directories))
        + 'missing = "fail"\n'
    )
    assert main(["config", "unit", "--config", str(file)]) == 0
    text = capsys.readouterr().out
    drop_in = tmp_path / "rpcrdma.service.d" / "exports.conf"
    drop_in.parent.mkdir()
    drop_in.write_text(text)
    assert analyzed(unit, "verify", "--recursive-errors=no") == ""
    points = said("systemd-escape", "--path", "--suffix=mount", *directories).split()
    for order in ("Wants", "After"):
        assert [line for line in text.splitlines() if line.startswith(f"{order}=")] == [
            f"{order}={point}" for point in points[:2]
        ]
    analyzed(unit, "security", "--offline=true", f"--threshold={EXPOSURE_MAX}")
    assert not has(unit, "CAP_MKNOD")
    # systemd takes a capability away again where another setting of the unit denies its use.
    file.write_text(file.read_text() + 'squash = "none"\n')
    assert main(["config", "unit", "--config", str(file)]) == 0
    drop_in.write_text(capsys.readouterr().out)
    assert analyzed(unit, "verify", "--recursive-errors=no") == ""
    assert has(unit, "CAP_MKNOD")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, whose rights the units take away: make interop as root")
@pytest.mark.parametrize("name", ["rpcrdma.service", "rpcrdma@.service"])
def test_capabilities_and_system_calls_of_a_unit_suffice_for_read_delegations(
    name: str, serve: Callable[..., Any], rpcrdma_command: str, open_directory: Path, tmp_path: Path
) -> None:
    # A server calls it also where it lacks the capability for it.
    allowed = named("@default") | {"open_by_handle_at"}
    for value in values(name, "SystemCallFilter"):
        for word in value.lstrip("~").split():
            allowed = allowed - named(word) if value.startswith("~") else allowed | named(word)
    capabilities = " ".join(values(name, "CapabilityBoundingSet")).lower().replace("cap_", "+").split()
    bounds = [f"--bounding-set={','.join(['-all', *capabilities])}", "--inh-caps=-all", "--no-new-privs"]
    # The user to whom all files of root belong.
    user = ["unshare", "--user", "--map-user=1000", "--map-group=1000", "--"] if "@" in name else []
    through = [*user, "setpriv", *bounds, sys.executable, __file__, ",".join(sorted(allowed))]
    state = ("--state-dir", str(tmp_path / "state"))
    with serve(*state, str(open_directory), listen="rdma://127.0.0.1:0", through=through) as url:
        check = ("check", url.geturl(), "--write", ".", "--only", "*.back-channel.*", "--json")
        checks = json.loads(said(rpcrdma_command, *check))["checks"]
    assert [(each["id"], each["cause"]) for each in checks if each["verdict"] != "conforms"] == []
    assert checks


def values(name: str, key: str) -> list[str]:
    """The values of a key of a unit, in order."""
    lines = (UNITS / name).read_text().splitlines()
    return [line.removeprefix(f"{key}=") for line in lines if line.startswith(f"{key}=")]


def named(word: str) -> set[str]:
    """The system calls of a word of SystemCallFilter=, such as "@aio" or "mknodat"."""
    if not word.startswith("@"):
        return {word}
    lines = [line.strip() for line in said("systemd-analyze", "syscall-filter", word).splitlines()[1:]]
    return set().union(*(named(line) for line in lines if line and not line.startswith("#")))


def limit(calls: Iterable[str]) -> None:
    """Has the kernel kill this process, and the programs that it runs, at any system call but `calls`."""
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    kill, allow = ctypes.c_uint32(0x80000000), ctypes.c_uint32(0x7FFF0000)
    context = ctypes.c_void_p(library.seccomp_init(kill))
    for call in calls:
        number = library.seccomp_syscall_resolve_name(call.encode())
        # Calls that this machine lacks have numbers below 0.
        assert number < 0 or library.seccomp_rule_add(context, allow, number, 0) == 0, call
    assert library.seccomp_load(context) == 0


def has(unit: Path, capability: str) -> bool:
    """Whether systemd leaves a service of the unit, with its drop-ins, a capability."""
    found = json.loads(said("systemd-analyze", "security", "--offline=true", "--json=short", str(unit)))
    return [each["set"] for each in found if each["json_field"] == f"CapabilityBoundingSet_{capability}"] == [False]


def write(unit: Path, name: str, rpcrdma_command: str) -> None:
    """Writes a unit with the command as it is installed here, for which systemd looks."""
    unit.write_text((UNITS / name).read_text().replace("=rpcrdma ", f"={rpcrdma_command} "))
    assert unit.read_text().count(rpcrdma_command) == 2


def analyzed(unit: Path, *words: str) -> str:
    """What `systemd-analyze` complains of."""
    return said("systemd-analyze", *words, str(unit), of="stderr")


def said(*command: str, of: str = "stdout") -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    found: str = getattr(done, of)
    return found


if __name__ == "__main__":
    limit(sys.argv[1].split(","))
    os.execv(sys.argv[2], sys.argv[2:])
