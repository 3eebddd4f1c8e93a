"""`rpcrdma check` judges the kernel's NFS server over siw; the verdicts are those of docs/check-linux.md."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from kernel_export import equal
from kernel_server import EXPORT, PORT
from lab import Lab, check

__all__ = ["FOUND"]

_DIFFERS, _VIOLATES = "differs from our reading", "violates a MUST"

FOUND: dict[str, str] = {
    "mpa.startup.reserved-bits": _VIOLATES,
    "mpa.startup.reject-bit": _VIOLATES,
    "mpa.startup.unenhanced": _DIFFERS,
    "mpa.startup.depth-16383": _DIFFERS,
    "mpa.startup.longest-private-data": _DIFFERS,
    "mpa.crc.wrong": _DIFFERS,
    "mpa.length.below-a-header": _DIFFERS,
    "ddp.version.untagged-0": _DIFFERS,
    "ddp.version.untagged-2": _DIFFERS,
    "ddp.queue.3": _DIFFERS,
    "ddp.queue.last": _DIFFERS,
    "ddp.number.skipped": _DIFFERS,
    "ddp.number.repeated": _DIFFERS,
    "ddp.number.zero": _DIFFERS,
    "ddp.offset.first-not-zero": _DIFFERS,
    "ddp.offset.beyond": _DIFFERS,
    "ddp.message.too-long": _DIFFERS,
    "rdmap.version.0": _DIFFERS,
    "rdmap.version.2": _DIFFERS,
    "rdmap.opcode.14": _DIFFERS,
    "rdmap.opcode.send-in-queue-1": _DIFFERS,
    "rdmap.opcode.tagged-send": _DIFFERS,
    "rdmap.opcode.untagged-write": _DIFFERS,
    "rdmap.response.not-asked-for": _DIFFERS,
    "rdmap.invalidate.unknown-handle": _DIFFERS,
    "rdmap.read.unknown-handle": _DIFFERS,
    "v1.type.nomsg-without-chunks": _VIOLATES,
    "v1.type.nomsg-with-payload-alone": _VIOLATES,
    "v1.reads.present-2": _VIOLATES,
    "v1.writes.present-2": _VIOLATES,
    "v1.reply.present-2": _VIOLATES,
    "v1.writes.empty": _DIFFERS,
    "v1.reads.ineligible": _DIFFERS,
    "v1.read.empty-write-chunk": _DIFFERS,
    "v1.read.10-into-segments-4-4-4-4": _VIOLATES,
    "v1.read.10-into-segments-3-0-16": _VIOLATES,
    "v1.write.long-and-reduced": _VIOLATES,
}
"""The checks that Linux 6.1 does not conform to, with their verdicts."""

_UNSTEADY = re.compile(r"v1\.cut\.\d\d?|ddp\.reserved|v1\.(version\.unknown-in-an-error|reads\.position-beyond)")
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
    equal("verdicts on the kernel's server", found, FOUND)
