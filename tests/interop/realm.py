"""A realm of Kerberos for tests: a KDC on loopback that runs without privileges, with all its files in one folder."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["NAME", "NEEDED", "Realm", "realm_at"]

NEEDED = ("/usr/sbin/krb5kdc", "/usr/sbin/kdb5_util", "/usr/sbin/kadmin.local", "/usr/bin/kinit")
"""Programs of the packages krb5-kdc, krb5-admin-server and krb5-user."""
NAME = "LAB.TEST"
_KRB5 = """\
[libdefaults]
    default_realm = {name}
    dns_lookup_kdc = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
    forwardable = false
[realms]
    {name} = {{
        kdc = {address}:{port}
        auth_to_local = RULE:[1:$1@$0](alice@{name})s/.*/daemon/
        auth_to_local = DEFAULT
    }}
"""
_KDC = """\
[kdcdefaults]
    kdc_listen = ""
    kdc_tcp_listen = {address}:{port}
[realms]
    {name} = {{
        database_name = {folder}/principal
        key_stash_file = {folder}/stash
        acl_file = {folder}/acl
        max_life = 10h
    }}
[logging]
    kdc = FILE:{folder}/kdc.log
"""


class Realm:
    """A running KDC; `environment` is that of its clients and servers."""

    def __init__(self, folder: Path, address: str, port: int) -> None:
        self.folder = folder
        self.keytab = folder / "server.keytab"
        (folder / "krb5.conf").write_text(_KRB5.format(name=NAME, address=address, port=port))
        (folder / "kdc.conf").write_text(_KDC.format(name=NAME, address=address, port=port, folder=folder))
        self.environment = os.environ | {
            "KRB5_CONFIG": str(folder / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{folder}/tickets",
            "KRB5RCACHENAME": f"dfl:{folder}/replays",
            "KRB5RCACHEDIR": str(folder),
        }

    def run(self, *words: str, given: str = "", **environment: str) -> str:
        """Standard output of a command."""
        done = subprocess.run(
            words,
            input=given,
            env=self.environment | environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def administer(self, command: str) -> None:
        """A command of kadmin.local."""
        self.run("/usr/sbin/kadmin.local", "-q", command)

    def add_user(self, name: str) -> None:
        """A principal whose password is its name."""
        self.administer(f"addprinc -pw {name} {name}")

    def add_service(self, name: str, keytab: Path | None = None, *, encryption: str = "aes256-sha1") -> None:
        """A principal with a random key, in the keytab of the server; its contexts use `encryption`."""
        self.administer(f"addprinc -randkey {name}")
        self.administer(f"setstr {name} session_enctypes {encryption}")
        self.administer(f"ktadd -k {keytab or self.keytab} {name}")

    def tickets(self, user: str, *, lifetime: str = "1h") -> str:
        """KRB5CCNAME of a cache with tickets of the user."""
        cache = f"FILE:{self.folder}/tickets-{user}-{lifetime}"
        self.run("kinit", "-l", lifetime, user, given=f"{user}\n", KRB5CCNAME=cache)
        return cache


@contextlib.contextmanager
def realm_at(folder: Path, address: str = "127.0.0.1") -> Iterator[Realm]:
    """A new realm with the user alice, whom hosts know as daemon, and keys for nfs/localhost.

    Its files are in `folder`, and its KDC listens at `address`.
    """
    with socket.create_server((address, 0)) as free:
        port = free.getsockname()[1]
    realm = Realm(folder, address, port)
    realm.run("/usr/sbin/kdb5_util", "create", "-s", "-P", "master", "-r", NAME)
    realm.add_user("alice")
    realm.add_service("nfs/localhost")
    kdc = subprocess.Popen(["/usr/sbin/krb5kdc", "-n"], env=realm.environment, stderr=subprocess.PIPE)
    try:
        until_it_listens(kdc, address, port)
        yield realm
    finally:
        kdc.terminate()
        kdc.communicate(timeout=60)


def until_it_listens(kdc: subprocess.Popen[bytes], address: str, port: int) -> None:
    """Returns when the KDC takes connections."""
    deadline_s = time.monotonic() + 60
    while True:
        assert kdc.poll() is None, "the KDC has ended"
        try:
            socket.create_connection((address, port), timeout=60).close()
        except OSError:
            assert time.monotonic() < deadline_s, "the KDC does not listen"
        else:
            return
