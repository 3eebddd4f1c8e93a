"""RPC-with-TLS with a kernel: Linux's NFS client on our server, and our client on Linux's server, both over TCP."""

from __future__ import annotations

import base64
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from failures import CheckFailed
from guest import Guest
from kernel_server import start_kernel_server
from lab import Lab, check
from network import HOST

from support.host_certificates import Authority

__all__: list[str] = []

_HOST_NAME, _GUEST_NAME = "our.test", "kernel.test"
_OVER_TCP = "proto=tcp,port=20048"
_MOUNTS = (f"{_OVER_TCP},vers=3,nolock,mountproto=tcp,mountport=20048", _OVER_TCP)
"""The options of mounts by version 3, and by the default version 4.2."""
_SET_UP = f"""
mkdir -p /etc/tls; cd /etc/tls
echo {{authority}} | base64 -d >authority.pem
echo {{certificate}} | base64 -d >host.pem
chmod 600 host.pem
echo "{HOST} {_HOST_NAME}" >>/etc/hosts; echo "{{address}} {_GUEST_NAME}" >>/etc/hosts
cat >tlshd.conf <<END
[debug]
loglevel=1
tls=1
[authenticate]
[authenticate.client]
x509.truststore=/etc/tls/authority.pem
x509.certificate=/etc/tls/host.pem
x509.private_key=/etc/tls/host.pem
[authenticate.server]
x509.truststore=/etc/tls/authority.pem
x509.certificate=/etc/tls/host.pem
x509.private_key=/etc/tls/host.pem
END
for module in tls gcm ghash_generic ctr aesni_intel ccm; do modprobe $module || true; done
tlshd -s -c /etc/tls/tlshd.conf >/run/tlshd.log 2>&1 &
"""
_COMMAND_S = 300.0


class _Certificates:
    """An authority, and certificates of it for this side and for a guest."""

    def __init__(self, directory: Path, guest: Guest) -> None:
        self.authority = Authority(directory)
        self.ours = self.authority.issue(_HOST_NAME, HOST)
        theirs = self.authority.issue(_GUEST_NAME, guest.address)
        texts = {"authority": self.authority.path, "certificate": theirs}
        encoded = {name: base64.b64encode(path.read_bytes()).decode() for name, path in texts.items()}
        guest.run("set -e\n" + _SET_UP.format(**encoded, address=guest.address))

    @property
    def options(self) -> list[str]:
        return ["--tls-cert", str(self.ours), "--tls-ca", str(self.authority.path)]


@contextmanager
def _certified(lab: Lab) -> Iterator[tuple[Guest, _Certificates]]:
    guest = lab.newer
    with tempfile.TemporaryDirectory(prefix="rpcrdma-tls-") as directory:
        yield guest, _Certificates(Path(directory), guest)
    guest.run("kill $(pidof tlshd); grep -v '\\.test' /etc/hosts >/tmp/hosts; cp /tmp/hosts /etc/hosts")


@check(newer=True)
def kernel_client_over_tls(lab: Lab) -> None:
    """`xprtsec=tls` and `xprtsec=mtls` mount the exports that ask for them; a mount in the clear gets nothing."""
    with _certified(lab) as (guest, certificates):
        for xprtsec in ("tls", "mtls"):
            with tempfile.TemporaryDirectory(prefix="rpcrdma-secret-", dir="/dev/shm") as directory:
                Path(directory).chmod(0o777)
                export = f"secret={directory}:xprtsec={xprtsec}"
                with lab.our_server("--mount-in-clear", *certificates.options, "--export", export) as server:
                    for options in _MOUNTS:
                        mount = f"mount.nfs {_HOST_NAME}:/secret /mnt -o {options}"
                        guest.run(
                            f"set -e; {mount},xprtsec={xprtsec} || {{ cat /run/tlshd.log; exit 1; }}\n"
                            "head -c 8000001 /dev/urandom >/tmp/file; cp /tmp/file /mnt/file; sync\n"
                            f"grep -o 'xprtsec=[a-z]*' /proc/mounts; umount /mnt; {mount},xprtsec={xprtsec}\n"
                            "cmp /tmp/file /mnt/file; umount /mnt",
                            _COMMAND_S,
                        )
                        in_clear = guest.run(
                            f"{mount},soft,timeo=50,retrans=1 && ls /mnt; status=$?; umount /mnt; exit $status",
                            check=False,
                        )
                        if in_clear.status == 0:
                            raise CheckFailed(f"a mount in the clear was not refused: {in_clear.output}")
                    if "is in TLS" not in server.log or "it asks for xprtsec=" not in server.log:
                        raise CheckFailed(f"our server said\n{server.log[-2000:]}")
                    if (Path(directory) / "file").stat().st_size != 8000001:
                        raise CheckFailed("the file is not whole")


@check(newer=True)
def our_client_over_tls(lab: Lab) -> None:
    """Our commands put and get a file on exports of nfsd with `xprtsec=tls` and `mtls`, and not in the clear."""
    with _certified(lab) as (guest, certificates), tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "file").write_bytes(bytes(range(256)) * 20_001)
        start_kernel_server(guest, rdma=False)
        url = f"tcp://{guest.address}:2049/srv"

        def command(*words: str) -> subprocess.CompletedProcess[str]:
            line = [sys.executable, "-m", "rpcrdma", *words]
            return subprocess.run(line, capture_output=True, text=True, cwd=directory, timeout=_COMMAND_S, check=False)

        for xprtsec in ("tls", "mtls"):
            guest.run(
                "set -e; exportfs -ua\n"
                f"echo '/srv *(rw,fsid=0,insecure,no_root_squash,no_subtree_check,xprtsec={xprtsec})' >/etc/exports\n"
                "exportfs -ra; date +%s >/proc/net/rpc/nfsd.export/flush"
            )
            options = ["--xprtsec", xprtsec, "--mount-in-clear", "--mount-port", "20048"]
            options += ["--tls-ca", str(certificates.authority.path)]
            if xprtsec == "mtls":
                options += ["--tls-cert", str(certificates.ours)]
            for words in (("put", "file", f"{url}/{xprtsec}"), ("get", f"{url}/{xprtsec}", f"back-{xprtsec}")):
                done = command(words[0], *options, *words[1:])
                if done.returncode:
                    log = guest.run("cat /run/tlshd.log", check=False).output
                    raise CheckFailed(f"{' '.join(words)}: {done.stderr}\ntlshd said\n{log[-1500:]}")
            if (directory / f"back-{xprtsec}").read_bytes() != (directory / "file").read_bytes():
                raise CheckFailed(f"{xprtsec}: another file came back")
            clear = command("get", "--mount-port", "20048", f"{url}/{xprtsec}", "clear")
            if clear.returncode == 0:
                raise CheckFailed("nfsd served the export in the clear")
