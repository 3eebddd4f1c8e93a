"""A network of their own for guests and the host's side of the tests, gone with the process that asked for it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from failures import Missing

__all__ = ["HOST", "add_tap", "enter_own_network"]

HOST = "192.168.77.1"
_BRIDGE = "guests"
_INSIDE = "RPCRDMA_KERNEL_NAMESPACE"


def enter_own_network() -> None:
    """Starts this program again in namespaces of its own, for network and processes, and makes a bridge in them.

    The network is not seen outside, and does not outlive the program: at its end, orderly or not, the kernel ends the
    guests and servers that it started, and removes bridge and taps.

    Raises:
        Missing: This takes root, /dev/net/tun, unshare and ip.
    """
    if os.environ.get(_INSIDE) != str(os.getppid()):
        _check_machine()
        sys.stdout.flush()
        os.environ[_INSIDE] = str(os.getpid())
        namespaces = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        # Process ids begin anew in there: the parent's is 0.
        os.environ[_INSIDE] = "0"
        os.execvp("unshare", ["unshare", *namespaces, sys.executable, *sys.orig_argv[1:]])
    # The first process of a namespace ignores SIGTERM unless it has a handler.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    _ip("link", "set", "lo", "up")
    _ip("link", "add", _BRIDGE, "type", "bridge")
    _ip("address", "add", f"{HOST}/24", "dev", _BRIDGE)
    _ip("link", "set", _BRIDGE, "up")


def add_tap(name: str) -> None:
    """A tap on the bridge, for one guest; it may exist already, from the guest before."""
    if not Path("/sys/class/net", name).exists() and not _has_link(name):
        _ip("tuntap", "add", name, "mode", "tap")
        _ip("link", "set", name, "master", _BRIDGE)
        _ip("link", "set", name, "up")


def _has_link(name: str) -> bool:
    return subprocess.run(["ip", "link", "show", name], capture_output=True, check=False).returncode == 0


def _check_machine() -> None:
    if os.geteuid() != 0:
        raise Missing("the guests' network takes root\n  hint: sudo make interop-kernel")
    if not Path("/dev/net/tun").exists():
        raise Missing("there is no /dev/net/tun for the guests' network\n  hint: modprobe tun")
    for program, package in (("qemu-system-x86_64", "qemu-system-x86"), ("unshare", "util-linux"), ("ip", "iproute2")):
        if shutil.which(program) is None:
            raise Missing(f"{program} is needed\n  hint: apt-get install --no-install-recommends {package}")


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(f"ip {' '.join(arguments)} failed: {done.stderr.strip()}")
