"""The kernel's client mounts our server with Kerberos: a realm on this side, rpc.gssd in the guest."""

from __future__ import annotations

import contextlib
import os
import pwd
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from failures import CheckFailed
from guest import Guest
from lab import MOUNT_OPTIONS, Lab, check
from network import HOST
from our_server import OurServer
from realm import Realm, realm_at

__all__: list[str] = []

_SERVER, _NUMBER, _UID = "server.lab", 5, 1000
_OVER_TCP = "proto=tcp,port=20048,vers=3,nolock,mountproto=tcp,mountport=20048"
_START = """
set -e
mkdir -p /var/tmp /run/pipefs; chmod 1777 /var/tmp
modprobe rpcsec_gss_krb5; modprobe cts
mount -t rpc_pipefs pipefs /run/pipefs
rpc.gssd -f -vvv -p /run/pipefs >/tmp/gssd.log 2>&1 &
"""


@contextlib.contextmanager
def _guest_in_realm(lab: Lab, realm: Realm) -> Iterator[Guest]:
    """A guest that has a machine credential, and tickets of alice for its user 1000."""
    keytab = realm.folder / "client.keytab"
    realm.add_service("host/client.lab", keytab)
    tickets = realm.tickets("alice").removeprefix("FILE:")
    files: dict[str, bytes | Path] = {
        "etc/krb5.conf": realm.folder / "krb5.conf",
        "etc/krb5.keytab": keytab,
        "etc/hosts": f"127.0.0.1 localhost\n{HOST} {_SERVER}\n".encode(),
        "etc/nsswitch.conf": b"hosts: files\npasswd: files\ngroup: files\n",
        "data/tickets": Path(tickets),
    }
    layers = (lab.image.layers["nfs-common"],)
    with Guest(lab.image, _NUMBER, name="kerberos", layers=layers, files=files) as guest:
        cache = f"/tmp/krb5cc_{_UID}"
        guest.run(
            f"date -s @{time.time():.0f}; {_START} cp /data/tickets {cache}; chown {_UID} {cache}; chmod 600 {cache}"
        )
        yield guest


@check(quick=True)
def mounts_with_kerberos(lab: Lab) -> None:
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        folder = Path(enter(tempfile.TemporaryDirectory(prefix="rpcrdma-realm-")))
        realm = enter(realm_at(folder, HOST))
        realm.add_service(f"nfs/{_SERVER}")
        saved = dict(os.environ)
        stack.callback(lambda: (os.environ.clear(), os.environ.update(saved)))
        os.environ.update(realm.environment)
        # For a mount over RDMA rpc.gssd makes the context over TCP at port 2049 (RFC 8166 section 8.2.2.1).
        options = ("--sec", "krb5p:krb5i:krb5", "--keytab", str(realm.keytab), "--listen", f"tcp://{HOST}:2049")
        server = enter(lab.our_server(*options))
        guest = enter(_guest_in_realm(lab, realm))
        for flavor in ("krb5", "krb5i"):
            for transport in (MOUNT_OPTIONS, _OVER_TCP):
                _work(guest, server, f"{transport},sec={flavor}")
        refused = guest.run(f"mount.nfs {_SERVER}:/ /mnt -o {MOUNT_OPTIONS},sec=sys", check=False)
        if not refused.status:
            raise CheckFailed("a mount with sec=sys was not refused")
        if "could not prove" in server.log:
            raise CheckFailed(f"our server said\n{server.log[-2000:]}")


def _mount(guest: Guest, server: OurServer, options: str) -> None:
    done = guest.run(f"mount.nfs {_SERVER}:/ /mnt -o {options}", 100, check=False)
    if done.status:
        told = guest.run("cat /tmp/gssd.log").output
        raise CheckFailed(f"{done.output}rpc.gssd said\n{told[-2500:]}\nour server said\n{server.log[-2000:]}")


def _work(guest: Guest, server: OurServer, options: str) -> None:
    """Writes, reads and compares as the user with tickets, whose files belong to the local user of the principal."""
    _mount(guest, server, options)
    guest.run(
        "set -e; dd if=/dev/urandom of=/tmp/data bs=1M count=4 2>/dev/null; chmod 644 /tmp/data\n"
        "busybox su user -c 'cp /tmp/data /mnt/data && sync && mkdir /mnt/made && mv /mnt/data /mnt/made/'\n"
        "umount /mnt",
        100,
    )
    _mount(guest, server, options)
    guest.run("busybox su user -c 'cmp /tmp/data /mnt/made/data && rm -r /mnt/made' && umount /mnt", 100)
    owners = {path.stat().st_uid for path in server.directory.rglob("*")}
    if owners - {pwd.getpwnam("daemon").pw_uid}:
        raise CheckFailed(f"the files belong to {owners}")
