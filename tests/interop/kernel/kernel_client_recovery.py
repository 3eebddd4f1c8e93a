"""Our server goes away under the kernel's client, and comes back."""

from __future__ import annotations

import time

from guest import Guest
from kernel_client_tree import COMPARE
from lab import Lab, check
from patience import await_growth

__all__: list[str] = []

_RECOVERY_S = 180.0
"""The client waits 5 s before it connects again, then longer each time."""
_STILL_S = 60.0
"""The longest time without any growth of the files that a job in the guest writes."""


@check(quick=True, by_version_4=True, over_roce=True)
def server_restarted_under_the_mount(lab: Lab) -> None:
    with lab.mounted(interrupted=True) as server:
        lab.client.run("cp /data/source.tar /mnt/before; sync")
        reader = lab.client.start(
            "rm -f /tmp/start; exec 4</mnt/before; head -c 1000 <&4 >/tmp/start; sleep 3; cat <&4 >/tmp/rest",
            _RECOVERY_S,
        )
        _await_in_guest(lab.client, "/tmp/start", 1000)
        server.stop()
        server.start()
        reader.wait()
        lab.client.run(
            "set -e; cat /tmp/start /tmp/rest | cmp - /data/source.tar\n"
            "cp /mnt/before /mnt/after; cmp /mnt/after /mnt/before",
            _RECOVERY_S,
        )


@check(quick=True, by_version_4=True, over_roce=True)
def server_killed_during_a_copy(lab: Lab) -> None:
    with lab.mounted(interrupted=True) as server:
        copy = lab.client.start("cp -r /data/original /mnt/copy && sync", _RECOVERY_S)
        await_growth(
            "files of the copy", lambda: server.count("find . -type f | wc -l"), 60, _STILL_S * lab.client.pace
        )
        server.kill()
        time.sleep(1)
        server.start()
        copy.wait()
        lab.remount()
        lab.client.run("set -e;" + COMPARE.format(directory="/mnt/copy"), 120)


@check(by_version_4=True, over_roce=True)
def server_killed_during_large_writes(lab: Lab) -> None:
    with lab.mounted(interrupted=True) as server:
        lab.client.run("dd if=/dev/urandom of=/data/large bs=1M count=100")
        copy = lab.client.start("cp /data/large /mnt/large && sync", _RECOVERY_S)
        for _ in range(3):
            goal = server.octets("large") + (8 << 20)
            await_growth("octets of the large file", lambda: server.octets("large"), goal, _STILL_S * lab.client.pace)
            server.kill()
            server.start()
        copy.wait()
        lab.remount()
        reading = lab.client.start(
            "rm -f /tmp/read; head -c 1 /mnt/large >/tmp/read; cmp /data/large /mnt/large", _RECOVERY_S
        )
        _await_in_guest(lab.client, "/tmp/read", 1)
        server.kill()
        server.start()
        reading.wait()
        lab.client.run("rm /data/large")


def _await_in_guest(guest: Guest, path: str, octets: int) -> None:
    """Waits until a job in the guest has written `octets` of a file."""
    size = f"stat -c %s {path} 2>/dev/null || echo 0"
    await_growth(f"octets of {path} in the guest", lambda: int(guest.run(size).output), octets, _STILL_S * guest.pace)
