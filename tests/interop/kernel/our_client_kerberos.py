"""Our client at the kernel's server with Kerberos: each flavor over each transport, refusals, and lost contexts."""

from __future__ import annotations

import random
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from failures import CheckFailed
from guest import Guest
from kerberos_realm import USER, joined_realm
from kernel_export import equal
from kernel_server import EXPORT, start_kernel_server, stop_kernel_server
from lab import Lab, check
from our_client_data import run_command
from our_client_recovery import putting

__all__: list[str] = []

_OCTETS = (4 << 20) + 5
_PLACE = f"{EXPORT}/proved"
_EXPORTS = "/etc/exports.d/proved.exports"
_MADE = "grep -c 'sname = alice' /run/svcgssd.log"
"""Shell command: the contexts that the guest has made with alice."""


@contextmanager
def _exported(guest: Guest, *flavors: str) -> Iterator[None]:
    """A directory of the guest for users who prove themselves."""
    with joined_realm(guest):
        guest.run(
            f"set -e; mkdir -p {_PLACE} /etc/exports.d; chmod 777 {_PLACE}\n"
            f"echo '{_PLACE} *(rw,insecure,no_subtree_check,fsid=24,sec={':'.join(flavors)})' >{_EXPORTS}; exportfs -ra"
        )
        try:
            yield
        except CheckFailed as failure:
            said = guest.run("cut -c -100 /run/svcgssd.log | tail -n 40").output
            raise CheckFailed(f"{failure}\nrpc.svcgssd said\n{said}") from None
        guest.run(f"rm -r {_EXPORTS} {_PLACE}; exportfs -ra")


@contextmanager
def _newer_server(lab: Lab) -> Iterator[Guest]:
    start_kernel_server(lab.newer)
    yield lab.newer
    stop_kernel_server(lab.newer)


def _urls(guest: Guest, path: str = "") -> list[str]:
    """The export over RDMA and over TCP."""
    return [f"rdma://{guest.address}{_PLACE}{path}", f"tcp://{guest.address}:2049{_PLACE}{path}?mountport=20048"]


@check(quick=True)
def our_client_with_kerberos(lab: Lab) -> None:
    """Without krb5p: Linux 6.1.192 takes no call with it, from its own client either."""
    _copied(lab.server, "krb5i", "krb5")


@check(newer=True)
def our_client_with_kerberos_at_the_newer_kernel(lab: Lab) -> None:
    with _newer_server(lab) as guest:
        _copied(guest, "krb5p", "krb5i", "krb5")


def _copied(guest: Guest, *flavors: str) -> None:
    """Each flavor of the export over each transport. A file comes back as it was put, and belongs to the user."""
    with (
        _exported(guest, *flavors),
        tempfile.TemporaryDirectory(prefix="rpcrdma-proved-", dir="/dev/shm") as directory,
    ):
        near, back = Path(directory, "near"), Path(directory, "back")
        near.write_bytes(random.Random(24).randbytes(_OCTETS))
        for flavor in flavors:
            for url in _urls(guest, f"/{flavor}"):
                run_command("put", "--sec", flavor, str(near), url)
                said = run_command("get", "-v", "--sec", flavor, url, str(back))
                equal(f"the flavor is told in {said!r}", f"nfs/{guest.address}, with {flavor}\n" in said, True)
                equal(f"{url} came back whole", back.read_bytes() == near.read_bytes(), True)
        equal("owners", guest.run(f"stat -c %U {_PLACE}/* | uniq").output.split(), [USER])


@check(newer=True)
def our_client_takes_the_flavor_that_the_kernel_lists(lab: Lab) -> None:
    """Without --sec; another flavor is refused in words that name those of the export."""
    with _newer_server(lab) as guest, _exported(guest, "krb5p"):
        for url in _urls(guest):
            equal("krb5p is taken", ", with krb5p\n" in run_command("ls", "-v", url), True)
            for flavor in ("krb5i", "sys"):
                said = run_command("ls", "--sec", flavor, url, status=3)
                equal(f"the reason is in {said!r}", f"{_PLACE} asks for krb5p, not for {flavor}" in said, True)


@check(newer=True)
def our_client_outlives_the_contexts_of_the_kernel(lab: Lab) -> None:
    """A copy with krb5p goes on when the kernel has forgotten its contexts, and when nfsd was restarted.

    The restart is seen over TCP: when nfsd ends in the midst of RDMA Reads, Linux 6.12 warns of a queue pair that it
    destroys too early.
    """
    with _newer_server(lab) as guest, _exported(guest, "krb5p"):
        over_rdma, over_tcp = _urls(guest)
        with putting(guest, over_rdma, _PLACE, "--sec", "krb5p", files=40) as put:
            before = guest.run(f"{_MADE}; date +%s >/proc/net/rpc/auth.rpcsec.context/flush").output
            put.send_signal(signal.SIGCONT)
        equal("a new context was made", int(guest.run(_MADE).output) > int(before), True)
        guest.run(f"rm -r {_PLACE}/*")
        with putting(guest, over_tcp, _PLACE, "--sec", "krb5p", files=30) as put:
            stop_kernel_server(guest)
            put.send_signal(signal.SIGCONT)
            start_kernel_server(guest)
