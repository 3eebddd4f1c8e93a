"""`rpcrdma check` judges the kernel's NFS server and client over siw; the verdicts are those of docs/check-linux.md."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

from kernel_export import equal
from kernel_server import EXPORT, PORT, start_kernel_server
from lab import MOUNT_OPTIONS, Lab, check
from network import HOST
from python_layer import PYTHON

_JUDGED = tomllib.loads(Path(__file__).with_name("linux_verdicts.toml").read_text())["judged"]

_UNSTEADY = re.compile(
    r"v1\.cut\.\d\d?|ddp\.reserved|v1\.(version\.unknown-in-an-error|reads\.position-beyond|reverse\.xid-alone)"
)
"""Checks whose verdict depends on the server's earlier buffers, or on the time of a wake-up or of an end."""


def _recorded(system: str) -> dict[str, str]:
    """The checks that the system does not conform to, with their verdicts."""
    (judged,) = (each for each in _JUDGED if each["system"] == system)
    return {name: verdict for verdict, names in judged.items() if isinstance(names, list) for name in names}


def _not_conformed_to(report: str, left_out: frozenset[str] = frozenset({"conforms", "not seen"})) -> dict[str, str]:
    """The verdicts in a report of `rpcrdma check --json`, without those that are `left_out` or unsteady."""
    kept = os.environ.get("RPCRDMA_CHECK_REPORT")
    if kept:
        Path(kept).write_text(report, encoding="utf-8")
    rows = [row for row in json.loads(report)["checks"] if row["verdict"] not in left_out]
    return {row["id"]: row["verdict"] for row in rows if not _UNSTEADY.fullmatch(row["id"])}


@check(quick=False)
def judged_by_rpcrdma_check(lab: Lab) -> None:
    server = lab.server
    server.run(f"set -e; mkdir -p {EXPORT}/judged; head -c 9001 /dev/urandom >{EXPORT}/judged/file")
    url = f"rdma://{server.address}:{PORT}{EXPORT}/judged"
    command = [sys.executable, "-m", "rpcrdma", "check", url, "--json", "--no-crc", "--timeout", str(2 * server.pace)]
    ran = subprocess.run([*command, "--write", "."], capture_output=True, text=True, check=False)
    equal("verdicts on the kernel's server", _not_conformed_to(ran.stdout), _recorded("server of Linux 6.1"))


_JUDGING_S = 300.0
_OVER_A_DEVICE = f"""
{PYTHON}
mkdir -p {EXPORT}/judged
head -c 9001 /dev/urandom >{EXPORT}/judged/file
python3 -m rpcrdma check --provider verbs --json --write . --only 'v1.*' --timeout TIMEOUT \\
    rdma://ADDRESS:{PORT}{EXPORT}/judged >/run/report.json
[ $? -le 1 ] && cat /run/report.json
"""


@check(named=True)
def verbs_judge_the_kernels_server(lab: Lab) -> None:
    """Over rxe, with both ends in one guest."""
    guest = lab.devices
    start_kernel_server(guest)
    script = _OVER_A_DEVICE.replace("ADDRESS", guest.address).replace("TIMEOUT", str(10 * guest.pace))
    series = ".".join(lab.image.release.split(".")[:2])
    found = _not_conformed_to(guest.run(script, _JUDGING_S).output)
    equal("verdicts on the kernel's server over rxe", found, _recorded(f"server of Linux {series} over rxe"))


_NOT_MADE = ("client.long-call", "client.v2*", "client.startup.length")
"""Checks that are left out: a client of NFSv3 makes no Long Call, and none of version 2; --risky runs the last one."""
_JUDGING_PORT = 20050
_CLIENT_S = 150.0
_CALLS = """\
while [ ! -e /judged ]; do
    grep -q ' /mnt nfs' /proc/mounts ||
        timeout -s KILL {patience} mount.nfs {host}:/ /mnt -o {options},retry=0,soft,timeo=100,retrans=1,noac ||
        sleep 0.2
    timeout -s KILL {patience} dd if=/dev/zero of=/mnt/made bs=64k count=2 conv=fsync
    echo 3 >/proc/sys/vm/drop_caches
    timeout -s KILL {patience} ls -l /mnt
    timeout -s KILL {patience} dd if=/mnt/file of=/dev/null bs=64k count=4
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
        with subprocess.Popen([*command, *behind], stdout=subprocess.PIPE, text=True) as judging:
            options = MOUNT_OPTIONS.replace("port=20049", f"port={_JUDGING_PORT}", 1)
            # A call that is given up before the pause of a check ends is followed by another one, as no call may be.
            patience = round(20 * lab.client.pace)
            calling = lab.client.start(_CALLS.format(host=HOST, options=options, patience=patience), 100)
            try:
                said, _ = judging.communicate(timeout=_CLIENT_S * lab.client.pace)
            except subprocess.TimeoutExpired:
                judging.send_signal(signal.SIGINT)
                said, _ = judging.communicate(timeout=_CLIENT_S)
            lab.client.run("touch /judged")
            calling.wait(check=False)
    equal(
        "verdicts on the kernel's client",
        _not_conformed_to(said, frozenset({"conforms"})),
        _recorded("client of Linux 6.1"),
    )
