"""Our server goes away under the kernel's client, and comes back."""

from __future__ import annotations

import os
import time
from pathlib import Path

from failures import CheckFailed
from kernel_client_tree import COMPARE
from lab import Lab, check

__all__: list[str] = []

_RECOVERY_S = 180.0
"""The client waits 5 s before it connects again, then longer each time."""


@check(quick=True)
def server_restarted_under_the_mount(lab: Lab) -> None:
    with lab.mounted(interrupted=True) as server:
        lab.client.run("cp /data/source.tar /mnt/before; sync")
        reader = lab.client.start(
            "exec 4</mnt/before; head -c 1000 <&4 >/tmp/start; sleep 3; cat <&4 >/tmp/rest", _RECOVERY_S
        )
        time.sleep(1)
        server.stop()
        server.start()
        reader.wait()
        lab.client.run(
            "set -e; cat /tmp/start /tmp/rest | cmp - /data/source.tar\n"
            "cp /mnt/before /mnt/after; cmp /mnt/after /mnt/before",
            _RECOVERY_S,
        )


@check(quick=True)
def server_killed_during_a_copy(lab: Lab) -> None:
    with lab.mounted(interrupted=True) as server:
        copy = lab.client.start("cp -r /data/original /mnt/copy && sync", _RECOVERY_S)
        _await_files(server.directory, 60)
        server.kill()
        time.sleep(1)
        server.start()
        copy.wait()
        lab.remount()
        lab.client.run("set -e;" + COMPARE.format(directory="/mnt/copy"), 120)


@check()
def server_killed_during_large_writes(lab: Lab) -> None:
    with lab.mounted(interrupted=True) as server:
        lab.client.run("dd if=/dev/urandom of=/data/large bs=1M count=100")
        copy = lab.client.start("cp /data/large /mnt/large && sync", _RECOVERY_S)
        for _ in range(3):
            _await_octets(server.directory / "large", 8 << 20)
            server.kill()
            server.start()
        copy.wait()
        lab.remount()
        reading = lab.client.start("cmp /data/large /mnt/large", _RECOVERY_S)
        time.sleep(1)
        server.kill()
        server.start()
        reading.wait()
        lab.client.run("rm /data/large")


def _await_files(directory: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while sum(len(files) for _, _, files in os.walk(directory)) < count:
        if time.monotonic() > deadline:
            raise CheckFailed(f"fewer than {count} files in a minute")
        time.sleep(0.02)


def _await_octets(path: Path, more: int) -> None:
    """Waits until a file has grown by so much, or has not grown any more for a second."""
    deadline = time.monotonic() + 90
    start = path.stat().st_size if path.exists() else 0
    while not path.exists() or path.stat().st_size < start + more:
        if time.monotonic() > deadline:
            raise CheckFailed(f"{path.name} did not grow by {more} octets in 90 s")
        time.sleep(0.02)
