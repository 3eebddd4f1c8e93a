"""A realm of Kerberos for our side and one guest, whose kernel gets its contexts from the daemons of nfs-utils."""

from __future__ import annotations

import base64
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from guest import Guest
from network import HOST
from our_server import ThisSide
from realm import NAME, realm_at

__all__ = ["OUR_NAME", "USER", "joined_realm"]

OUR_NAME = "server.lab"
"""The machine of our server, as the guest knows it."""
USER = "user"
"""The user of the guest that has alice's tickets, and for whom its server takes her."""
_UID = 1000
_ENCRYPTION = {"server": "aes256-sha1", "newer": "aes256-sha2"}
"""The encryption of contexts, by the name of the guest: Linux has the second since 6.3."""
_START = f"""
set -e
{{clock}}
mkdir -p /run/pipefs
rm -f /tmp/krb5cc*
echo "127.0.0.1 localhost\n{{ours}} {OUR_NAME}" >/etc/hosts
echo "hosts: files\npasswd: files\ngroup: files" >/etc/nsswitch.conf
cat >/etc/idmapd.conf <<END
[Translation]
Method = static
GSS-Methods = static
[Static]
alice@{NAME} = {USER}
END
{{files}}
chmod 600 /etc/krb5.keytab /tmp/krb5cc_{_UID}; chown {_UID} /tmp/krb5cc_{_UID}
modprobe rpcsec_gss_krb5; modprobe cts
grep -q pipefs /proc/mounts || mount -t rpc_pipefs pipefs /run/pipefs
rpc.gssd -f -vvv -p /run/pipefs >/run/gssd.log 2>&1 &
rpc.svcgssd -f -vvv >/run/svcgssd.log 2>&1 &
"""
_CLOCK = "date -s @{now}; mkdir -p /var/tmp; chmod 1777 /var/tmp"
"""The clock of the KDC, and a place for the replay cache of whoever takes tickets."""
_STOP = "kill $(pidof rpc.gssd rpc.svcgssd)"


@contextmanager
def joined_realm(guest: Guest, ours: Guest | ThisSide | None = None) -> Iterator[Path]:
    """A new realm: this side and the guest have keys for their services, and tickets of alice.

    Args:
        guest: The guest whose kernel takes part.
        ours: The machine of our server, by default this side.

    Yields:
        The keytab of our server, on its machine.
    """
    ours = ours or ThisSide()
    before = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="rpcrdma-realm-") as name, realm_at(Path(name), HOST) as realm:
        keytab = realm.folder / "guest.keytab"
        encryption = _ENCRYPTION[guest.name]
        for service in (f"host/{guest.name}", f"nfs/{guest.address}"):
            realm.add_service(service, keytab, encryption=encryption)
        realm.add_service(f"nfs/{OUR_NAME}", encryption=encryption)
        tickets = realm.tickets("alice")
        files = {
            "/etc/krb5.conf": realm.folder / "krb5.conf",
            "/etc/krb5.keytab": keytab,
            f"/tmp/krb5cc_{_UID}": Path(tickets.removeprefix("FILE:")),
        }
        clock = _CLOCK.format(now=f"{time.time():.0f}")
        guest.run(_START.format(clock=clock, files=_written(files), ours=ours.address))
        keys = realm.keytab
        if isinstance(ours, Guest):
            keys = Path("/etc/krb5.keytab")
            files = {"/etc/krb5.conf": realm.folder / "krb5.conf", str(keys): realm.keytab}
            ours.run(f"set -e\n{clock}\n{_written(files)}")
        os.environ.update(realm.environment | {"KRB5CCNAME": tickets})
        try:
            yield keys
        finally:
            os.environ.clear()
            os.environ.update(before)
        guest.run(_STOP)


def _written(files: Mapping[str, Path]) -> str:
    """A shell script that writes files of this side, by their names in a guest."""
    encoded = {there: base64.b64encode(path.read_bytes()).decode() for there, path in files.items()}
    return "\n".join(f"echo {content} | base64 -d >{there}" for there, content in encoded.items())
