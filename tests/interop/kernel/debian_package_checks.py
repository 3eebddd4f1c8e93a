"""The life of the Debian package under systemd, from its installation over faults and an upgrade to its removal."""

from __future__ import annotations

import base64
import subprocess
import sys
import tempfile
from pathlib import Path

from failures import CheckFailed
from guest import Guest
from lab import VERSION_4, Lab, check
from python_layer import PYTHON

from support.host_certificates import Authority

__all__: list[str] = []

_PACKAGE_S = 240.0
"""Python compiles the package in the emulated machine."""
_RECOVERY_S = 180.0
_NO_PORT_IS_OPEN = (
    'for port in 2049 20048 20049; do bash -c "exec 3<>/dev/tcp/127.0.0.1/$port" 2>/dev/null && exit 1; done; true'
)
_CONFIGURE = """set -e
drop_in=/etc/systemd/system/rpcrdma.service.d
mkdir -p $drop_in
printf '[Service]\\nTimeoutStartSec=900\\nTimeoutStopSec=900\\nWatchdogSec=900\\n' >$drop_in/slow.conf
(umask 077; mkdir -p /etc/ssl/private; echo $certificate | base64 -d >/etc/ssl/private/host.pem)
printf '[Service]\\nLoadCredential=host:/etc/ssl/private/host.pem\\n' >$drop_in/credential.conf
systemctl daemon-reload
mkdir -p /srv/data
chmod 1777 /srv/data
echo 'listen = ["tcp://[::]:2049", "tcp://[::]:20048", "rdma://[::]:20049"]' >>/etc/rpcrdma/rpcrdma.toml
printf '[[export]]\\nname = "/data"\\ndirectory = "/srv/data"\\n' >/etc/rpcrdma/exports.d/data.toml
rpcrdma serve --config /etc/rpcrdma/rpcrdma.toml --check
sed -i '1i tls-cert = "credential:host"' /etc/rpcrdma/rpcrdma.toml
! rpcrdma serve --config /etc/rpcrdma/rpcrdma.toml --check
systemctl enable --now rpcrdma
"""
"""With times for a machine that is emulated on a busy one. The certificate, with its key, is a credential of the unit
alone, as a check from the command line says."""
_NEXT_VERSION = """set -e
dpkg-deb --raw-extract /data/rpcrdma.deb /var/tmp/next
sed -i 's/^Version: .*/&+next/' /var/tmp/next/DEBIAN/control
dpkg-deb -Znone --build /var/tmp/next /var/tmp/next.deb
"""
_MAIN_PID = "systemctl show --property MainPID --value rpcrdma"


@check(debian=True)
def debian_package_under_systemd(lab: Lab) -> None:
    debian = lab.debian
    debian.run(f"set -e; dpkg --install /data/rpcrdma.deb; {_NO_PORT_IS_OPEN}", _PACKAGE_S)
    _expect(debian, "systemctl is-enabled rpcrdma; systemctl is-active rpcrdma", "disabled\ninactive")
    with tempfile.TemporaryDirectory(prefix="rpcrdma-tls-") as directory:
        authority = Authority(Path(directory))
        encoded = base64.b64encode(authority.issue("debian.test", debian.address).read_bytes()).decode()
        debian.run(f"certificate={encoded}\n{_CONFIGURE}", 60)
        ping = [sys.executable, "-m", "rpcrdma", "ping", "-c", "1", f"tcp://{debian.address}:2049"]
        ping += ["--xprtsec", "tls", "--tls-ca", str(authority.path)]
        done = subprocess.run(ping, capture_output=True, text=True, timeout=_RECOVERY_S, check=False)
        if done.returncode:
            raise CheckFailed(f"no TLS with the certificate that is a credential: {done.stdout}{done.stderr}")
    shown = "systemctl show --property Type --property SubState --property NRestarts rpcrdma | sort | tr '\\n' ' '"
    _expect(debian, shown, "NRestarts=0 SubState=running Type=notify")
    debian.run("rpcinfo | grep -w 100003")

    # All the time, the client has a file locked and appends lines to it.
    lab.mount(VERSION_4, host=debian.address, path="/data")
    lab.client.run("set -e; echo one >/mnt/file; sync")
    holder = lab.client.start(f"{PYTHON}python3 /data/lock_holder.py hold /mnt/file 0 10", 20 * _RECOVERY_S)
    lab.client.run("until [ -e /tmp/held ]; do sleep 0.2; done", _RECOVERY_S)

    first = _main_pid(debian)
    debian.run("echo 'nonsense = 1' >/etc/rpcrdma/exports.d/wrong.toml; ! systemctl reload rpcrdma", 60)
    debian.run("journalctl --sync; journalctl -u rpcrdma | grep wrong.toml:1 && rm /etc/rpcrdma/exports.d/wrong.toml")
    debian.run("systemctl reload rpcrdma || { journalctl -u rpcrdma --no-pager --output cat --lines 14; exit 1; }", 60)
    _still_serves(lab, "reloaded", first)

    debian.run("systemctl kill --signal KILL rpcrdma")
    second = _await_other(debian, first)
    _expect(debian, "systemctl show --property NRestarts rpcrdma", "NRestarts=1")
    _still_serves(lab, "killed", second)

    debian.run(_NEXT_VERSION, 120)
    debian.run("dpkg --install /var/tmp/next.deb", _PACKAGE_S)
    _expect(debian, "dpkg-query --show rpcrdma | grep -c next", "1")
    third = _await_other(debian, second)
    _still_serves(lab, "upgraded", third)
    debian.run("dpkg --install --force-downgrade /data/rpcrdma.deb", _PACKAGE_S)
    _still_serves(lab, "rolled-back", _await_other(debian, third))

    lab.client.run("rm /tmp/held")
    appended = holder.wait().output.strip()
    lab.client.run("umount /mnt", _RECOVERY_S)
    _expect(debian, "grep -c line /srv/data/file", appended)
    debian.run("cd /var/lib/rpcrdma && ls -d clients.sqlite3 file-handle.key format places.sqlite3")
    _expect(debian, "journalctl --quiet SYSLOG_IDENTIFIER=rpcrdma --priority err | grep -v wrong.toml", "")

    # Removed, nothing of it runs; configuration and state stay until it is purged, and then what an administrator made.
    debian.run(f"set -e; dpkg --remove rpcrdma; {_NO_PORT_IS_OPEN}", _PACKAGE_S)
    _expect(debian, "systemctl is-active rpcrdma", "inactive")
    debian.run("set -e; test -e /etc/rpcrdma/rpcrdma.toml; test -e /var/lib/rpcrdma/file-handle.key")
    debian.run("set -e; dpkg --purge rpcrdma; test -e /etc/rpcrdma/exports.d/data.toml; test -e /srv/data/file")
    remains = "/var/l*/rpcrdma /usr/lib/rpcrdma /etc/rpcrdma/rpcrdma.toml /etc/systemd/system/*.wants/rpcrdma.service"
    _expect(debian, f"ls -d {remains} 2>/dev/null", "")


def _main_pid(guest: Guest) -> str:
    return guest.run(_MAIN_PID).output.strip()


def _await_other(guest: Guest, before: str) -> str:
    """The process id of the server that has taken the place of another one, when it is ready."""
    guest.run(
        f"until pid=$({_MAIN_PID}); [ $pid != 0 ] && [ $pid != {before} ] && systemctl --quiet is-active rpcrdma\n"
        "do sleep 1; done",
        120,
    )
    return _main_pid(guest)


def _still_serves(lab: Lab, name: str, pid: str) -> None:
    """The mount goes on, over the server with this process id."""
    lab.client.run(
        f"set -e; echo {name} >/mnt/{name}; sync; echo 3 >/proc/sys/vm/drop_caches; grep one /mnt/file", _RECOVERY_S
    )
    _expect(lab.debian, f"cat /srv/data/{name}; {_MAIN_PID}", f"{name}\n{pid}")


def _expect(guest: Guest, script: str, output: str) -> None:
    said = guest.run(script, check=False).output.strip()
    if said != output:
        raise CheckFailed(f"{script}: expected {output!r}, got {said!r}")
