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
from kernel_server import EXPORT, PORT
from lab import MOUNT_OPTIONS, Lab, check
from network import HOST

__all__ = ["CLIENT_FOUND", "SERVER_FOUND"]

_JUDGED = tomllib.loads(Path(__file__).with_name("linux_verdicts.toml").read_text())["judged"]
SERVER_FOUND, CLIENT_FOUND = (
    {check: verdict for verdict, checks in each.items() if isinstance(checks, list) for check in checks}
    for each in _JUDGED
)
"""The checks that Linux 6.1 does not conform to, with their verdicts."""

_UNSTEADY = re.compile(
    r"v1\.cut\.\d\d?|ddp\.reserved|v1\.(version\.unknown-in-an-error|reads\.position-beyond|reverse\.xid-alone)"
)
"""Checks whose verdict depends on the server's earlier buffers, or on the time of a wake-up or of an end."""


@check(quick=False)
def judged_by_rpcrdma_check(lab: Lab) -> None:
    server = lab.server
    server.run(f"set -e; mkdir -p {EXPORT}/judged; head -c 9001 /dev/urandom >{EXPORT}/judged/file")
    url = f"rdma://{server.address}:{PORT}{EXPORT}/judged"
    command = [sys.executable, "-m", "rpcrdma", "check", url, "--json", "--no-crc", "--timeout", str(2 * server.pace)]
    ran = subprocess.run([*command, "--write", "."], capture_output=True, text=True, check=False)
    report = json.loads(ran.stdout)
    kept = os.environ.get("RPCRDMA_CHECK_REPORT")
    if kept:
        Path(kept).write_text(ran.stdout, encoding="utf-8")
    rows = [row for row in report["checks"] if row["verdict"] not in {"conforms", "not seen"}]
    found = {row["id"]: row["verdict"] for row in rows if not _UNSTEADY.fullmatch(row["id"])}
    equal("verdicts on the kernel's server", found, SERVER_FOUND)


_NOT_MADE = ("client.long-call", "client.v2*", "client.startup.length")
"""Checks that are left out: a client of NFSv3 makes no Long Call, and none of version 2; --risky runs the last one."""
_JUDGING_PORT = 20050
_JUDGING_S = 150.0
_CALLS = """\
while [ ! -e /judged ]; do
    grep -q ' /mnt nfs' /proc/mounts ||
        timeout -s KILL 20 mount.nfs {host}:/ /mnt -o {options},retry=0,soft,timeo=100,retrans=1,noac || sleep 0.2
    timeout -s KILL 10 dd if=/dev/zero of=/mnt/made bs=64k count=2 conv=fsync
    echo 3 >/proc/sys/vm/drop_caches
    timeout -s KILL 10 ls -l /mnt
    timeout -s KILL 10 dd if=/mnt/file of=/dev/null bs=64k count=4
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
            calling = lab.client.start(_CALLS.format(host=HOST, options=options), 100)
            try:
                said, _ = judging.communicate(timeout=_JUDGING_S * lab.client.pace)
            except subprocess.TimeoutExpired:
                judging.send_signal(signal.SIGINT)
                said, _ = judging.communicate(timeout=_JUDGING_S)
            lab.client.run("touch /judged")
            calling.wait(check=False)
    report = json.loads(said)
    kept = os.environ.get("RPCRDMA_CHECK_REPORT")
    if kept:
        Path(kept).write_text(said, encoding="utf-8")
    rows = [row for row in report["checks"] if row["verdict"] != "conforms"]
    equal("verdicts on the kernel's client", {row["id"]: row["verdict"] for row in rows}, CLIENT_FOUND)
