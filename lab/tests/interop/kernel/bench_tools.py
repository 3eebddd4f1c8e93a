"""`rpcrdma send`, `proxy` and `explain` with the kernel's NFS server over siw."""

from __future__ import annotations

import contextlib
import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from failures import CheckFailed
from guest import Guest
from kernel_export import equal
from kernel_server import EXPORT, PORT
from lab import Lab, check

__all__: list[str] = []

_CONVERSATIONS = Path(__file__).parents[4] / "examples" / "conversations"
_MOUNT_PORT = 20048
_OCTETS = 200_001
_DIFFERS = {"wrong-digest.json": 3, "wrong-number.json": 3}
"""The conversations that go on otherwise from this step on: Linux has no version 2, and siw sends Terminates with layer
and type in each other's place."""
_READ_DELAY_S = 0.02


class _Case(NamedTuple):
    """A fault in a READ or a WRITE: its keys, whether the data arrive, and the words of the capture that show it."""

    kind: str
    rule: str
    procedure: str
    shown: str = ""
    whole: bool = True


_CASES = (
    _Case("delay", f'message = "reply"\ndelay_s = {_READ_DELAY_S}', "READ"),
    _Case("drop", 'operation = "write"\nnumber = 1', "READ", whole=False),
    _Case("cut", 'connection = 1\nmessage = "call"\nnumber = 1', "WRITE", "no answer"),
    _Case("flip", 'connection = 1\nmessage = "call"\nnumber = 1', "WRITE", "CRC mismatch"),
)


@check()
def bench_tools_at_the_kernels_server(lab: Lab) -> None:
    """Each conversation of the examples, and each kind of fault on the way of a file; a capture shows the fault."""
    server = lab.server
    server.run(f"set -e; mkdir -p {EXPORT}/bench; head -c {_OCTETS} /dev/urandom >{EXPORT}/bench/file")
    _send_conversations(server)
    with tempfile.TemporaryDirectory(prefix="rpcrdma-bench-") as folder, _proxy(server, _MOUNT_PORT) as (mount_port, _):
        for case in _CASES:
            _move_a_file(server, case, Path(folder), mount_port)


def _send_conversations(server: Guest) -> None:
    found = {}
    url = f"rdma://{server.address}:{PORT}"
    for path in sorted(_CONVERSATIONS.glob("*.json")):
        done = _command("send", "--json", "--timeout", str(5 * server.pace), url, str(path))
        report = json.loads(done.stdout)
        if not report["as_expected"]:
            found[path.name] = report["failure"]["step"]
    equal("conversations that Linux answers otherwise", found, _DIFFERS)


def _move_a_file(server: Guest, case: _Case, folder: Path, mount_port: int) -> None:
    rules = f'[[fault]]\nkind = "{case.kind}"\nprocedure = "{case.procedure}"\n{case.rule}'
    capture, copy = folder / f"{case.kind}.pcap", folder / case.kind
    with _proxy(server, PORT, rules) as (port, faults):
        url = f"rdma://127.0.0.1:{port}+{mount_port}{EXPORT}/bench"
        moved = (str(folder / "delay"), f"{url}/{case.kind}")
        command = ("put", *moved) if case.procedure == "WRITE" else ("get", f"{url}/file", str(copy))
        done = _command(*command, "--pcap", str(capture), "--timeout", "60")
    if done.returncode:
        raise CheckFailed(f"{case.kind}: {command[0]} ended with status {done.returncode}: {done.stderr}")
    equal(f"faults of {case.kind}", len(faults), 1)
    equal(f"the file is whole after {case.kind}", _arrived(server, copy, case), case.whole)
    explained = _command("explain", str(capture))
    # The padding of siw's FPDUs is not zero, which explain tells (MPA-8).
    broken = [line for line in explained.stdout.splitlines() if "wrong: " in line and "wrong: PAD " not in line]
    if explained.returncode not in {0, 4} or broken or case.shown not in explained.stdout:
        raise CheckFailed(f"{case.kind}: explain says, with status {explained.returncode},\n{explained.stdout}")
    if case.kind == "delay" and (took := _longest_s(capture)) < _READ_DELAY_S:
        raise CheckFailed(f"the READ took {took} s")


def _arrived(server: Guest, copy: Path, case: _Case) -> bool:
    """Whether the copy and the kernel's file are the same."""
    theirs = f"{EXPORT}/bench/{copy.name if case.procedure == 'WRITE' else 'file'}"
    ours = copy if case.procedure == "READ" else copy.with_name("delay")
    return server.run(f"md5sum <{theirs}").output.split()[0] == hashlib.md5(ours.read_bytes()).hexdigest()


def _longest_s(capture: Path) -> float:
    lines = _command("explain", "--json", "--procedure", "READ", str(capture)).stdout.splitlines()
    return max(json.loads(line)["elapsed_s"] for line in lines)


@contextlib.contextmanager
def _proxy(server: Guest, port: int, rules: str = "") -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """A proxy before a port of the guest: its own port, and afterwards the faults that it made."""
    to = ["--listen", "rdma://127.0.0.1:0", "--to", f"rdma://{server.address}:{port}"]
    command = [sys.executable, "-m", "rpcrdma", "proxy", "--json", *(("--rules", "-") if rules else ()), *to]
    faults: list[dict[str, Any]] = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(rules)
        process.stdin.close()
        try:
            listening = json.loads(process.stdout.readline())
            yield int(listening["url"].rpartition(":")[2]), faults
        finally:
            process.terminate()
            faults += map(json.loads, process.stdout)


def _command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "rpcrdma", *arguments], capture_output=True, text=True, check=False)
