"""The kernel's client mounts our server with Kerberos: a realm on this side, rpc.gssd in the guest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from failures import CheckFailed
from guest import Guest, Result
from kerberos_realm import OUR_NAME, USER, joined_realm
from lab import MOUNT_OPTIONS, VERSION_4, Lab, check
from our_server import OurServer

__all__: list[str] = []

_OVER_TCP = {
    MOUNT_OPTIONS: "proto=tcp,port=20048,vers=3,nolock,mountproto=tcp,mountport=20048",
    VERSION_4: "proto=tcp,port=20048",
}
"""The options over TCP, by those over RDMA."""
_FLAVORS = ("krb5", "krb5i", "krb5p")
_LARGE_OCTETS = 24_000_001
_WORK_S = 100.0
_RECOVERY_S = 180.0
"""The client waits 5 s before it connects again, then longer each time."""
_AS_USER = f"busybox su {USER} -c "
_FORGET = "echo 3 >/proc/sys/vm/drop_caches\n"


@check(quick=True, by_version_4=True, over_roce=True)
def mounts_with_kerberos(lab: Lab) -> None:
    _mounted_in_all_ways(lab, lab.server)


@check(newer=True, by_version_4=True, over_roce=True)
def newer_kernel_mounts_with_kerberos(lab: Lab) -> None:
    _mounted_in_all_ways(lab, lab.newer)


def _mounted_in_all_ways(lab: Lab, guest: Guest) -> None:
    """Each flavor over each transport, or over RoCE alone; a mount without Kerberos is refused."""
    transports = (lab.options,) if lab.over_roce else (lab.options, _OVER_TCP[lab.options])
    with _serving(lab, guest) as server:
        guest.run("head -c 2000001 /dev/urandom >/tmp/data; chmod 644 /tmp/data")
        for flavor in _FLAVORS:
            for transport in transports:
                _mount(guest, server, f"{transport},sec={flavor}")
                _work(guest, server)
                guest.run("umount /mnt")
        if not guest.run(f"mount.nfs {OUR_NAME}:/ /mnt -o {lab.options},sec=sys", check=False).status:
            raise CheckFailed("a mount with sec=sys was not refused")
        if "could not prove" in server.log:
            raise CheckFailed(f"our server said\n{server.log[-2000:]}")


@check(newer=True, by_version_4=True, over_roce=True)
def newer_kernel_keeps_a_copy_with_kerberos(lab: Lab) -> None:
    """Our server is killed in the midst of a copy with krb5p over RDMA: its contexts are lost, the copy comes whole."""
    guest = lab.newer
    with _serving(lab, guest) as server:
        _mount(guest, server, f"{lab.options},sec=krb5p")
        guest.run(f"head -c {_LARGE_OCTETS} /dev/urandom >/tmp/data; chmod 644 /tmp/data")
        copying = guest.start(f"{_AS_USER} 'cp /tmp/data /mnt/data' && sync", _RECOVERY_S)
        server.kill(when=f"test $(stat -c %s data 2>/dev/null || echo 0) -gt {4 << 20}")
        before = server.octets("data")
        server.start()
        copied = copying.wait(check=False)
        if copied.status:
            raise CheckFailed(_told(guest, server, copied))
        guest.run(f"set -e\n{_FORGET}{_AS_USER} 'cmp /tmp/data /mnt/data'\numount /mnt; rm /tmp/data", _WORK_S)
        if before >= _LARGE_OCTETS:
            raise CheckFailed("the copy had ended before our server")


@contextmanager
def _serving(lab: Lab, guest: Guest) -> Iterator[OurServer]:
    with joined_realm(guest, lab.machine) as keytab:
        # For a mount over RDMA rpc.gssd makes the context over TCP at port 2049 (RFC 8166 section 8.2.2.1).
        listen = ("--listen", f"tcp://{lab.machine.address}:2049")
        with lab.our_server("--sec", "krb5p:krb5i:krb5", "--keytab", str(keytab), *listen) as server:
            yield server


def _mount(guest: Guest, server: OurServer, options: str) -> None:
    done = guest.run(f"mount.nfs {OUR_NAME}:/ /mnt -o {options}", _WORK_S, check=False)
    if done.status:
        raise CheckFailed(_told(guest, server, done))


def _told(guest: Guest, server: OurServer, failed: Result) -> str:
    """The words of a script that failed, of rpc.gssd and of our server."""
    told = guest.run("cat /run/gssd.log").output
    return f"{failed.output}rpc.gssd said\n{told[-2500:]}\nour server said\n{server.log[-4000:]}"


def _work(guest: Guest, server: OurServer) -> None:
    """Writes, reads and compares as the user with tickets, whose files belong to the local user of the principal."""
    guest.run(
        f"set -e; {_AS_USER} 'cp /tmp/data /mnt/data && mkdir /mnt/made && mv /mnt/data /mnt/made/'; sync\n"
        f"{_FORGET}{_AS_USER} 'cmp /tmp/data /mnt/made/data'",
        _WORK_S,
    )
    owners = set(server.run("find . -mindepth 1 -exec stat -c %U {} +").split())
    if owners != {"daemon"}:
        raise CheckFailed(f"the files belong to {owners}")
    guest.run(f"{_AS_USER} 'rm -r /mnt/made'")
