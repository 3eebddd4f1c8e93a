"""rpcinfo asks our server, and our command asks rpcbind; both are of programs that we did not write."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(120),
    pytest.mark.skipif(shutil.which("rpcinfo") is None, reason="needs rpcbind: make interop"),
]

ROOT = Path(__file__).parents[2]
# rpcbind has one port and one socket on a machine: it gets a network and a /run of its own.
OWN_MACHINE = ("unshare", "--net", "--mount", "sh", "-euc")
WITH_RPCBIND = """
mount -t tmpfs tmpfs /run
ip link set lo up
rpcbind -f -w & mapper=$!
trap 'kill "$mapper"; wait "$mapper" || true' EXIT
until rpcinfo -T tcp 127.0.0.1 100000 4 >/dev/null 2>&1; do kill -0 "$mapper"; done
"""


@pytest.mark.parametrize(("program", "high"), [(100003, 4), (100005, 3)], ids=["nfs", "mount"])
def test_rpcinfo_finds_our_programs(
    program: int, high: int, serve: Callable[..., object], open_directory: Path
) -> None:
    with serve(str(open_directory)) as url:  # type: ignore[attr-defined]
        address = f"127.0.0.1.{url.port >> 8}.{url.port & 255}"

        def ask(version: int) -> subprocess.CompletedProcess[str]:
            words = ["rpcinfo", "-a", address, "-T", "tcp", str(program), str(version)]
            return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)

        offered, other = [ask(version) for version in range(3, high + 1)], ask(high + 1)
    for version, answer in enumerate(offered, 3):
        assert answer.returncode == 0, answer.stderr
        assert f"version {version} ready and waiting" in answer.stdout
    assert f"low version = 3, high version = {high}" in other.stderr + other.stdout


def test_our_command_and_rpcinfo_say_the_same_of_rpcbind(rpcrdma_command: str) -> None:
    if subprocess.run([*OWN_MACHINE, "true"], capture_output=True, check=False).returncode:
        pytest.skip(reason="needs the right to make namespaces, in which rpcbind has port 111")
    call = f"{rpcrdma_command} call tcp://127.0.0.1 {ROOT}/src/rpcrdma/nfs/port_mapper.x"
    lines = [
        f"{rpcrdma_command} programs tcp://127.0.0.1 --json",
        f"{call} rpcbproc_dump --json",
        f"{call} pmapproc_dump --json",
        f"""{call} getport '{{"prog": 100000, "vers": 2, "prot": 17, "port": 0}}' --json""",
    ]
    script = "\n".join([WITH_RPCBIND, *lines, "rpcinfo 127.0.0.1"])
    done = subprocess.run([*OWN_MACHINE, script], capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()[:4]
    programs, bound, mapped, port = map(json.loads, printed)
    theirs = {tuple(line.split()[:4]) for line in done.stdout.splitlines()[5:]}
    assert theirs

    def told(row: dict[str, object]) -> tuple[str, ...]:
        return str(row["program"]), str(row["version"]), str(row["netid"]), str(row["address"])

    assert {told(row) for row in programs["programs"]} == theirs
    assert programs["port_mapper"]["version"] == 4
    assert {row["answers"] for row in programs["programs"] if row["netid"] == "tcp"} == {True}
    entries = [entry["bound"] for entry in bound["result"]]
    assert {(str(e["prog"]), str(e["vers"]), e["netid"], e["addr"]) for e in entries} == theirs
    assert {"prog": 100000, "vers": 2, "prot": 6, "port": 111} in [entry["map"] for entry in mapped["result"]]
    assert port["result"] == 111
