"""rpcinfo and showmount ask our server, and our command and server ask rpcbind: programs that we did not write."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(120),
    pytest.mark.skipif(not all(map(shutil.which, ("rpcinfo", "showmount"))), reason="needs rpcbind: make interop"),
]

ROOT = Path(__file__).parents[2]
# rpcbind has one port and one socket on a machine: it gets a network and a /run of its own.
OWN_MACHINE = ("unshare", "--net", "--mount", "sh", "-euc")
WITHOUT_RPCBIND = """
mount -t tmpfs tmpfs /run
ip link set lo up
"""
WITH_RPCBIND = f"""{WITHOUT_RPCBIND}
rpcbind -f -w & mapper=$!
trap 'kill "$mapper"; wait "$mapper" || true' EXIT
until rpcinfo -T tcp 127.0.0.1 100000 4 >/dev/null 2>&1; do kill -0 "$mapper"; done
"""
LISTEN = "--listen tcp://[::]:2049 --listen tcp://[::]:20048 --listen rdma://[::]:20049"
OF_ANOTHER_USER = """
import asyncio, os
from rpcrdma.nfs import mount, v3
from rpcrdma.nfs.server.registration import RegisteredPrograms

async def main():
    await RegisteredPrograms([v3.NFS_V3, mount.MOUNT_V3], ["tcp://127.0.0.1:9"], owner="65534").start(required=True)

os.setresuid(65534, 65534, 65534)
asyncio.run(main())
"""
REGISTERED = {
    *(("100003", version, *place) for version in "34" for place in
      (("tcp", "0.0.0.0.8.1"), ("tcp6", "::.8.1"), ("rdma", "0.0.0.0.78.81"), ("rdma6", "::.78.81"))),
    ("100005", "3", "tcp", "0.0.0.0.78.80"),
    ("100005", "3", "tcp6", "::.78.80"),
}  # fmt: skip


@pytest.fixture(name="in_own_machine")
def in_own_machine_fixture() -> Callable[[str], str]:
    """Runs a script beside a network and a /run of its own; returns its output."""
    if subprocess.run([*OWN_MACHINE, "true"], capture_output=True, check=False).returncode:
        pytest.skip(reason="needs the right to make namespaces, in which rpcbind has port 111")

    def run(script: str) -> str:
        done = subprocess.run([*OWN_MACHINE, script], capture_output=True, text=True, check=False, timeout=100)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def of_nfs(listed: str) -> set[tuple[str, ...]]:
    """Program, version, netid and address of the rows of rpcinfo about NFS and MOUNT."""
    return {tuple(line.split()[:4]) for line in listed.splitlines() if line.split()[0] in {"100003", "100005"}}


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


def test_our_command_and_rpcinfo_say_the_same_of_rpcbind(
    rpcrdma_command: str, in_own_machine: Callable[[str], str]
) -> None:
    call = f"{rpcrdma_command} call tcp://127.0.0.1 {ROOT}/src/rpcrdma/nfs/port_mapper.x"
    lines = [
        f"{rpcrdma_command} programs tcp://127.0.0.1 --json",
        f"{call} rpcbproc_dump --json",
        f"{call} pmapproc_dump --json",
        f"""{call} getport '{{"prog": 100000, "vers": 2, "prot": 17, "port": 0}}' --json""",
    ]
    script = "\n".join([WITH_RPCBIND, *lines, "rpcinfo 127.0.0.1"])
    printed = in_own_machine(script).splitlines()
    programs, bound, mapped, port = map(json.loads, printed[:4])
    theirs = {tuple(line.split()[:4]) for line in printed[5:]}
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


@pytest.mark.req("OR-7", "NF-2")
def test_showmount_and_rpcinfo_find_the_server_while_it_runs(
    rpcrdma_command: str, in_own_machine: Callable[[str], str], open_directory: Path, tmp_path: Path
) -> None:
    log, listed = tmp_path / "log", [tmp_path / name for name in ("before", "while", "after")]
    script = f"""{WITH_RPCBIND}
    {sys.executable} -c '{OF_ANOTHER_USER}'
    rpcinfo >{listed[0]}
    {rpcrdma_command} serve --state-dir /run/state {LISTEN} --export data={open_directory} >{log} 2>&1 & server=$!
    until grep -q exporting {log}; do kill -0 "$server"; done
    rpcinfo >{listed[1]}
    for host in 127.0.0.1 ::1; do showmount --no-headers -e $host; done
    rpcinfo -T tcp 127.0.0.1 100003; rpcinfo -T tcp6 ::1 100005
    kill "$server"; wait "$server"
    rpcinfo >{listed[2]}
    """
    asked = in_own_machine(script).splitlines()
    before, running, after = (of_nfs(path.read_text()) for path in listed)
    assert before == {(program, "3", "tcp", "127.0.0.1.0.9") for program in ("100003", "100005")}
    assert running == REGISTERED
    assert after == set()
    assert [line.split() for line in asked[:2]] == [["/data", "(everyone)"]] * 2
    answers = [f"program {program} version {version} ready and waiting" for program, version in
               ((100003, 3), (100003, 4), (100005, 3))]  # fmt: skip
    assert asked[2:] == answers
    warnings = [line for line in log.read_text().splitlines() if "WARNING" in line]
    assert len(warnings) == 2
    assert all("registered by user 65534; this server of root has taken its place" in line for line in warnings)


def test_a_server_that_is_to_be_registered_does_not_start_without_rpcbind(
    rpcrdma_command: str, in_own_machine: Callable[[str], str], open_directory: Path, tmp_path: Path
) -> None:
    serve = f"{rpcrdma_command} serve --state-dir /run/state {LISTEN} {open_directory}"
    script = f"""{WITHOUT_RPCBIND}
    {serve} --register yes 2>&1 || echo $?
    {serve} >{tmp_path / "log"} 2>&1 & server=$!
    until grep -q exporting {tmp_path / "log"}; do kill -0 "$server"; done
    kill "$server"; wait "$server"
    """
    absent = "there is no rpcbind: cannot connect to /run/rpcbind.sock: no such file or directory"
    remedy = "start rpcbind, or serve without rpcbind (--register no)"
    assert in_own_machine(script).splitlines() == [f"error: {absent}", f"hint: {remedy}", "1"]
    (warning,) = (line for line in (tmp_path / "log").read_text().splitlines() if "WARNING" in line)
    assert warning.endswith(f"WARNING {absent}; start rpcbind")
