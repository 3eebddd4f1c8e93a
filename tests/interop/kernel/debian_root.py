"""A disk with Debian for a guest whose first process is systemd: made by debootstrap, and kept."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import time
from pathlib import Path

from failures import Missing
from image import cache_directory

import packages

__all__ = ["build_debian_disk"]

_SUITE = "bookworm"
"""That of the guests' kernel, whose Python is 3.11."""
_INCLUDED = ("systemd-sysv", "python3", "rpcbind")
_DISK_MIB = 1000
_KEPT_S = 7 * 24 * 3600
_AGENT_UNIT = """\
[Unit]
Description=Runs what the host of the guest asks for

[Service]
ExecStart=/guest-agent
Environment=HOME=/root
LimitNOFILE=65536
"""
_MASKED = ("getty@tty1.service", "serial-getty@ttyS0.service", "systemd-timesyncd.service", "apt-daily.timer")
"""Units that wait for devices and networks that the guest lacks."""


def build_debian_disk() -> Path:
    """The disk, an image of ext4; builds it if the one of the archive's present packages is not kept yet.

    Raises:
        Missing: The disk cannot be built on this machine.
    """
    for program, package in (("debootstrap", "debootstrap"), ("mke2fs", "e2fsprogs")):
        if shutil.which(program) is None:
            raise Missing(f"{program} is needed\n  hint: apt-get install --no-install-recommends {package}")
    cache = cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    versions = packages.versions([*_INCLUDED, "systemd", "base-files"], packages.other_suite(_SUITE, cache / _SUITE))
    builders = [Path(__file__).read_text(), Path(__file__).with_name("agent.sh").read_text()]
    disk = cache / f"debian-{hashlib.sha256(repr((versions, builders)).encode()).hexdigest()[:16]}.ext4"
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not disk.exists():
            for old in cache.glob("debian-*.ext4"):
                if time.time() - old.stat().st_mtime > _KEPT_S:
                    old.unlink()
            print("building a disk with Debian and systemd", flush=True)
            tree = cache / "debian-tree"
            shutil.rmtree(tree, ignore_errors=True)
            command = ["debootstrap", "--variant=minbase", f"--include={','.join(_INCLUDED)}", _SUITE]
            _run(*command, str(tree), packages.archive())
            _make_disk(tree, disk)
            shutil.rmtree(tree)
        disk.touch()
    return disk


def _make_disk(tree: Path, disk: Path) -> None:
    """Adds the agent of the host to the tree, and makes the disk of it."""
    agent = tree / "guest-agent"
    shutil.copyfile(Path(__file__).with_name("agent.sh"), agent)
    agent.chmod(0o755)
    units = tree / "etc/systemd/system"
    (units / "guest-agent.service").write_text(_AGENT_UNIT)
    (units / "multi-user.target.wants/guest-agent.service").symlink_to("../guest-agent.service")
    (units / "default.target").symlink_to("/lib/systemd/system/multi-user.target")
    for name in _MASKED:
        (units / name).unlink(missing_ok=True)
        (units / name).symlink_to("/dev/null")
    (tree / "etc/hostname").write_text("debian\n")
    # Its absence would make this a first boot, at which systemd enables units.
    (tree / "etc/machine-id").write_text("0123456789abcdef0123456789abcdef\n")
    for folder in ("var/cache/apt", "usr/share/doc", "usr/share/locale"):
        shutil.rmtree(tree / folder, ignore_errors=True)
    partial = disk.with_name(f"{disk.name}.partial")
    partial.unlink(missing_ok=True)
    _run("mke2fs", "-q", "-t", "ext4", "-d", str(tree), str(partial), f"{_DISK_MIB}M")
    partial.rename(disk)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()[-3:]
        raise Missing(f"{command[0]} failed: {'; '.join(said)}")
