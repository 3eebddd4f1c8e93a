"""Captures of RoCEv2 between two guests: Linux's client and server, ours, and version 2 with its extension.

`RPCRDMA_WRITE_VECTORS=1 run.py roce-captures-are-explained` writes lab/tests/captures/roce-*.pcap anew.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from device_checks import OUR_PORT, START, STOP, TCP_PORT
from failures import CheckFailed
from guest import Guest
from kernel_server import EXPORT, PORT, start_kernel_server
from lab import MOUNT_OPTIONS, Lab, check
from packet_tap import PacketTap
from python_layer import PYTHON

__all__: list[str] = []

_VECTORS = Path(__file__).parents[2] / "captures"
_WRITE_VARIABLE = "RPCRDMA_WRITE_VECTORS"
_OCTETS = 5001
_COMMAND = "python3 -m rpcrdma"
_FILES_S = 120.0


@dataclass(frozen=True, slots=True)
class _Conversation:
    """The script of one end, at a server that the other end has started; some procedures that it must call."""

    name: str
    take_place: Callable[[Guest, Guest], None]
    expected: frozenset[str]


def _linux_client(client: Guest, server: Guest) -> None:
    options = MOUNT_OPTIONS.replace("20049", str(OUR_PORT)).replace("20048", str(TCP_PORT))
    client.run(f"set -e; mount.nfs {server.address}:/ /mnt -o {options}; cat /mnt/file >/dev/null")
    client.run(f"set -e; head -c {_OCTETS} /dev/zero >/mnt/new; sync; umount /mnt", _FILES_S)


def _our_client(url: str, mount_port: int, options: str = "") -> Callable[[Guest, Guest], None]:
    def take_place(client: Guest, server: Guest) -> None:
        shared = f"--provider verbs --mount-port {mount_port} {options}"
        at = url.replace("ADDRESS", server.address)
        script = f"{_COMMAND} get {shared} {at}/file /run/back; {_COMMAND} put {shared} /run/back {at}/new"
        client.run(f"set -e\n{PYTHON}{script}", _FILES_S)

    return take_place


_AT_OURS = f"rdma://ADDRESS:{OUR_PORT}"
_CONVERSATIONS = (
    _Conversation("roce-linux-client", _linux_client, frozenset({"NFS_V3 READ", "NFS_V3 WRITE", "NFS_V3 FSINFO"})),
    _Conversation(
        "roce-extension", _our_client(_AT_OURS, TCP_PORT, "--extension rtr"), frozenset({"NFS_V3 READ", "NFS_V3 WRITE"})
    ),
    _Conversation(
        "roce-linux-server",
        _our_client(f"rdma://ADDRESS:{PORT}{EXPORT}", 20048),
        frozenset({"NFS_V3 READ", "NFS_V3 WRITE"}),
    ),
)


@check()
def roce_captures_are_explained(lab: Lab) -> None:
    """The messages between rxe at both ends break no rule, and every call has its reply."""
    server, client = lab.devices, lab.device_client
    with tempfile.TemporaryDirectory(prefix="rpcrdma-roce-") as directory:
        for conversation in _CONVERSATIONS:
            at_ours = conversation.name != "roce-linux-server"
            make_file = f"head -c {_OCTETS} /dev/zero >"
            if at_ours:
                start = START.replace("VERSION", "").replace("ADDRESS", server.address)
                server.run(f"set -e\n{PYTHON}{start}{make_file}/run/served/file", _FILES_S)
            else:
                start_kernel_server(server)
                server.run(f"{make_file}{EXPORT}/file")
            path = Path(directory, f"{conversation.name}.pcap")
            with PacketTap(client, path):
                conversation.take_place(client, server)
            if at_ours:
                server.run(f"set -e\n{PYTHON}{STOP}")
            if os.environ.get(_WRITE_VARIABLE):
                shutil.copy(path, _VECTORS)
            _judge(conversation, path)


def _judge(conversation: _Conversation, path: Path) -> None:
    command = [str(Path(sys.executable).with_name("rpcrdma")), "explain", "--json", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    exchanges = [json.loads(line) for line in done.stdout.splitlines()]
    seen = {exchange["procedure"] for exchange in exchanges}
    failed = [f"{one['procedure']}: {one['outcome']}" for one in exchanges if one["outcome"] == "no answer"]
    if done.returncode or failed or not conversation.expected <= seen:
        raise CheckFailed(f"{conversation.name}: status {done.returncode}, {sorted(filter(None, seen))}, {failed}")
