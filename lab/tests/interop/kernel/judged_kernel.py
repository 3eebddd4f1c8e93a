"""`rpcrdma check` judges the kernel's NFS server and client, and our client over rxe: see docs/judged-servers.md."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from failures import CheckFailed
from guest import Guest
from kernel_export import equal
from kernel_server import EXPORT, PORT, start_kernel_server
from lab import MOUNT_OPTIONS, Lab, check
from network import HOST
from patience import await_growth
from python_layer import PYTHON, START_OUR_SERVER, STOP_OUR_SERVER

from rpcrdma_lab.check import CATALOGUE, CLIENT_CATALOGUE
from rpcrdma_lab.check.verdicts import FRAMES_NOT_SEEN

VERDICTS = Path(__file__).with_name("linux_verdicts.toml")

_UNSTEADY = re.compile(
    r"v1\.cut\.\d\d?|ddp\.reserved|rdmap\.read\.(empty|in-order)|client\.reverse\.same-xid"
    r"|v1\.(version\.unknown-in-an-error|reverse\.xid-alone|back-channel\.reply\.cut)"
    r"|v1\.(type\.nomsg-with-position-40-alone|reads\.position(-beyond|-descending|s-overlapping))"
)
"""Checks whose verdict depends on the server's earlier buffers, or on the time of a wake-up or of an end."""
_FIRST_STATEMENTS = {check.id: check.statements[0] for check in CATALOGUE + CLIENT_CATALOGUE}


def steady_verdicts(report: str) -> dict[str, str]:
    """The verdicts in a report of `rpcrdma check --json` by check, without the unsteady ones.

    A statement behind the name of a check is the broken one, where it is not the check's first. Checks of frames that a
    device makes are left out.
    """
    kept = os.environ.get("RPCRDMA_CHECK_REPORT")
    if kept:
        Path(kept).write_text(report, encoding="utf-8")
    found = {}
    for row in json.loads(report)["checks"]:
        name = row["id"]
        (statement, *_) = row["statements"] or [_FIRST_STATEMENTS[name]]
        if row["cause"] != FRAMES_NOT_SEEN and not _UNSTEADY.fullmatch(name):
            found[name if statement == _FIRST_STATEMENTS[name] else f"{name} {statement}"] = row["verdict"]
    return found


def _as_recorded(report: str, system: str) -> None:
    """Compares all verdicts but "not seen" with the recorded ones.

    A client need not make each kind of call in each run, and Linux 6.12 sends a LOOKUP without a name now and then.
    """
    (judged,) = (each for each in tomllib.loads(VERDICTS.read_text())["judged"] if each["system"] == system)
    recorded = {name: verdict for verdict, names in judged.items() if isinstance(names, list) for name in names}
    found = {name: verdict for name, verdict in steady_verdicts(report).items() if verdict != "not seen"}
    names = {name for name in {**recorded, **found} if recorded.get(name) != found.get(name)}
    if system.startswith("client"):
        nameless = {row["id"] for row in json.loads(report)["checks"] if "GARBAGE_ARGS" in (row["cause"] or "")}
        names -= nameless | {name for name in names if {recorded.get(name), found.get(name)} == {"conforms", None}}
    equal(
        f"verdicts on the {system} that have changed",
        {name: found.get(name, "not seen") for name in sorted(names)},
        {name: recorded.get(name, "not seen") for name in sorted(names)},
    )


_JUDGED_FILE = f"set -e; mkdir -p {EXPORT}/judged; head -c 9001 /dev/urandom >{EXPORT}/judged/file\n"
_LOCKD_READY = "sleep 4\n"
"""nfsd gives no delegations while the lock manager waits for its clients, which takes 3 s (`kernel_server`)."""


@check(quick=False)
def judged_by_rpcrdma_check(lab: Lab) -> None:
    server = lab.server
    server.run(_JUDGED_FILE + _LOCKD_READY)
    url = f"rdma://{server.address}:{PORT}{EXPORT}/judged"
    command = [sys.executable, "-m", "rpcrdma", "check", url, "--json", "--no-crc", "--timeout", str(2 * server.pace)]
    ran = subprocess.run([*command, "--write", "."], capture_output=True, text=True, check=False)
    _as_recorded(ran.stdout, "server of Linux 6.1")


def _series(lab: Lab) -> str:
    return ".".join(lab.image.release.split(".")[:2])


_JUDGING_S = 300.0
_OVER_A_DEVICE = f"""
{PYTHON}
{_JUDGED_FILE}set +e
{_LOCKD_READY}python3 -m rpcrdma check --provider verbs --json --write . --only 'v1.*' --timeout TIMEOUT \\
    rdma://ADDRESS:{PORT}{EXPORT}/judged >/run/report.json
[ $? -le 1 ] && cat /run/report.json
"""


@check(named=True)
def verbs_judge_the_kernels_server(lab: Lab) -> None:
    """Over rxe, with both ends in one guest."""
    guest = lab.devices
    start_kernel_server(guest)
    script = _OVER_A_DEVICE.replace("ADDRESS", guest.address).replace("TIMEOUT", str(10 * guest.pace))
    _as_recorded(guest.run(script, _JUDGING_S).output, f"server of Linux {_series(lab)} over rxe")
    # After a Read list that it refuses, svcrdma of Linux 6.12 hands a call of no octets to the service.
    warned = guest.new_trouble()
    if warned and "svc_process" not in warned.partition("\n")[0]:
        raise CheckFailed(f"the {guest.name}'s kernel said\n{warned}")


_NOT_MADE = ("client.long-call", "client.v2*", "client.reverse.as-many-as-granted", "client.startup.length")
"""Checks that are left out: a client of NFSv3 makes no Long Call, none of version 2, and takes no reverse calls.
The last one needs --risky.
"""
_JUDGING_PORT = 20050
_CALLING_S = 1200.0
_STILL_S = 100.0
"""Seconds in which a client that makes calls gets a further verdict: a check waits for 20 s, then for a connection."""
_CALLS = """\
while [ ! -e /judged ]; do
    grep -q ' /mnt nfs' /proc/mounts ||
        timeout -s KILL {patience} mount.nfs {host}:/ /mnt -o {options},retry=0,soft,timeo={patience}0,retrans=1,noac ||
        sleep 0.2
    timeout -s KILL {patience} dd if=/dev/zero of=/mnt/made bs=64k count=2 conv=fsync
    timeout -s KILL {patience} dd if=/dev/zero of=/mnt/odd bs=5001 count=1 conv=fsync
    echo 3 >/proc/sys/vm/drop_caches
    # Several calls at once, for the checks of credits.
    for each in 1 2 3 4; do timeout -s KILL {patience} ls -l /mnt & done
    wait
    timeout -s KILL {patience} dd if=/mnt/file of=/dev/null bs=64k count=4
    timeout -s KILL {patience} dd if=/mnt/odd of=/dev/null bs=5001 count=1 iflag=direct
    for each in 1 2 3 4; do timeout -s KILL {patience} dd if=/mnt/file of=/dev/null bs=4k count=4 iflag=direct & done
    wait
done
umount -f -l /mnt
"""


@check(quick=False)
def client_judged_by_rpcrdma_check(lab: Lab) -> None:
    with lab.our_server() as server:
        (server.directory / "file").write_bytes(bytes(1 << 20))
        for index in range(200):
            (server.directory / f"entry-{index:04}").touch()
        command = [sys.executable, "-m", "rpcrdma", "check", "--listen", f"rdma://{HOST}:{_JUDGING_PORT}"]
        behind = ["--behind", f"tcp://{HOST}:20048", "--json", "--timeout", str(20 * lab.client.pace)]
        behind += [word for name in _NOT_MADE for word in ("--skip", name)]
        # Files, since a report that nobody reads yet would hold the command up.
        with (
            tempfile.TemporaryDirectory(prefix="rpcrdma-judged-") as home,
            (Path(home) / "report").open("w+") as report,
            (Path(home) / "verdicts").open("w+") as verdicts,
            subprocess.Popen([*command, *behind], stdout=report, stderr=verdicts, text=True) as judging,
        ):
            options = MOUNT_OPTIONS.replace("port=20049", f"port={_JUDGING_PORT}", 1)
            # A call that is given up before the pause of a check ends is followed by another one, as no call may be.
            patience = round(30 * lab.client.pace)
            calling = lab.client.start(_CALLS.format(host=HOST, options=options, patience=patience), _CALLING_S)

            def seen() -> int:
                return sys.maxsize if judging.poll() is not None else os.fstat(verdicts.fileno()).st_size

            try:
                await_growth("octets of verdicts", seen, sys.maxsize, _STILL_S * lab.client.pace)
            except CheckFailed:
                # The report names the checks that were not met.
                judging.send_signal(signal.SIGINT)
                judging.wait(_STILL_S)
            lab.client.run("touch /judged; umount -f -l /mnt || true")
            calling.wait(check=False)
            report.seek(0)
            said = report.read()
    _as_recorded(said, "client of Linux 6.1")


_LISTEN_OVER_A_DEVICE = f"""
{PYTHON}
timeout -s INT MOST python3 -m rpcrdma check --listen rdma://ADDRESS:{_JUDGING_PORT} --provider verbs --json \\
    --behind tcp://127.0.0.1:20048 --timeout TIMEOUT SKIPPED >/run/report.json 2>/run/judging.log
touch /judged
[ -s /run/report.json ] && cat /run/report.json || cat /run/judging.log
"""
_FILES = """
head -c 1048576 /dev/zero >/srv/file
for index in $(seq 200); do : >/srv/entry-$index; done
"""
_OUR_CALLS = f"""
{PYTHON}
python3 - <<'END'
import asyncio
import contextlib
import os

from rpcrdma.aio.client.connect import ConnectOptions, connect
from rpcrdma.errors import RpcRdmaError
from rpcrdma.nfs import v3
from rpcrdma.nfs.client import nfs_open

OPTIONS = ConnectOptions(provider="verbs", reconnect=False, call_timeout_s=TIMEOUT)


async def main():
    # Replies may lack results, so that no mount would succeed.
    async with await nfs_open("tcp://127.0.0.1:20048/", mount_port=20048) as files:
        root, file = [v3.nfs_fh3((await files.handle_of(path))[0]) for path in (".", "file")]
    calls = [(v3.NULL, None)]
    calls.append((v3.READ, v3.READ3args(file, 0, 65536)))
    calls.append((v3.WRITE, v3.WRITE3args(file, 0, 65536, v3.stable_how.FILE_SYNC, bytes(65536))))
    calls.append((v3.READ, v3.READ3args(file, 0, 5001)))
    calls.append((v3.WRITE, v3.WRITE3args(file, 0, 5001, v3.stable_how.FILE_SYNC, bytes(5001))))
    calls.append((v3.READDIRPLUS, v3.READDIRPLUS3args(root, 0, bytes(8), 4096, 32768)))
    while not os.path.exists("/judged"):
        with contextlib.suppress(RpcRdmaError):
            async with connect("rdma://ADDRESS:{_JUDGING_PORT}", v3.PROGRAM, options=OPTIONS) as connection:
                together = (connection.call(v3.NULL, None) for _ in range(6))
                await asyncio.gather(*together, return_exceptions=True)
                for procedure, args in calls * 2:
                    with contextlib.suppress(RpcRdmaError):
                        await connection.call(procedure, args)


asyncio.run(main())
END
"""


def _judged_over_rxe(guest: Guest, calls: str, *skipped: str) -> str:
    """The report on a client with these calls; both ends are in one guest."""
    timeout_s = 10 * guest.pace
    words = {
        "ADDRESS": guest.address,
        "TIMEOUT": f"{timeout_s:.1f}",
        "MOST": f"{_JUDGING_S * guest.pace:.0f}",
        "SKIPPED": " ".join(f"--skip '{name}'" for name in skipped),
    }

    def told(script: str) -> str:
        for name, value in words.items():
            script = script.replace(name, value)
        return script

    # That of another check would end the calls before they begin.
    guest.run(START_OUR_SERVER + _FILES + "rm -f /judged\n")
    judging = guest.start(told(_LISTEN_OVER_A_DEVICE), _JUDGING_S + 20)
    calling = guest.start(told(calls), _JUDGING_S + 20)
    report = judging.wait().output
    calling.wait(check=False)
    guest.run(STOP_OUR_SERVER)
    return report


_NOT_MADE_BY_OURS = (
    *(
        "client.long-call",
        "client.v2.call.in-pieces",
        "client.v2.credits.in-pieces",
        "client.v2.properties.segment-size",
    ),
    *("client.reverse.as-many-as-granted", "client.v2.reverse*", "client.v2.rtr*"),
)
"""Checks that are left out: no call here has arguments beyond the threshold that no chunk can carry, and the client has
no services, and does not prefer the round-trip extension.
"""


@check(named=True)
def verbs_judge_our_client(lab: Lab) -> None:
    found = steady_verdicts(_judged_over_rxe(lab.device_client, _OUR_CALLS, *_NOT_MADE_BY_OURS))
    others = {name: verdict for name, verdict in found.items() if verdict != "conforms"}
    equal("verdicts on our client over rxe", others, {})


@check(named=True)
def verbs_judge_the_kernels_client(lab: Lab) -> None:
    guest = lab.device_client
    options = MOUNT_OPTIONS.replace("port=20049", f"port={_JUDGING_PORT}", 1)
    calls = _CALLS.format(host=guest.address, options=options, patience=round(30 * guest.pace))
    _as_recorded(_judged_over_rxe(guest, calls, *_NOT_MADE), f"client of Linux {_series(lab)} over rxe")
