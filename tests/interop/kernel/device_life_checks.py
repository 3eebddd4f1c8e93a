"""RDMA devices that go and come back under load: rxe is removed, a link goes down, and memory may not be locked."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from failures import CheckFailed
from guest import Guest, Job
from lab import Lab, check
from python_layer import PYTHON, START_OUR_SERVER, STOP_OUR_SERVER

__all__: list[str] = []

_PORT = 20049
_FILE_OCTETS = 40_000_001
_BEGUN_KIB = 4_000
_COMMAND = "python3 -m rpcrdma"
_REMOVED_S = 15.0
"""Within this time `rdma link delete` returns on a quiet machine: it waits for all processes that use the device."""
_COPY_S = 240.0


@contextlib.contextmanager
def _served(guest: Guest) -> Iterator[None]:
    """Our server at the address of the guest's device."""
    guest.run(
        START_OUR_SERVER.replace("serve ", "serve --verbose --provider verbs ").replace(
            "rdma://0.0.0.0", f"rdma://{guest.address}"
        )
    )
    try:
        yield
    finally:
        guest.run(STOP_OUR_SERVER)
    _expect_not(_log(guest), "Traceback")


def _log(guest: Guest) -> str:
    return guest.run("cat /run/serve.log").output


def _put(client: Guest, server: Guest) -> Job:
    """Starts to copy a file, and returns when a part of it has arrived."""
    client.run(f"head -c {_FILE_OCTETS} /dev/urandom >/run/original")
    job = client.start(
        f"{PYTHON}{_COMMAND} put --verbose --timeout 300 --provider verbs /run/original rdma://{server.address}/copy",
        _COPY_S,
    )
    # The file has another name until it is complete.
    server.run(f"until [ $(du -sk /srv | cut -f1) -gt {_BEGUN_KIB} ]; do sleep 0.1; done")
    return job


def _await_end(job: Job, client: Guest, server: Guest) -> str:
    """Waits for the copy, compares, and returns the words of the client."""
    said = job.wait().output
    sums = {
        guest.run(f"sha256sum <{path}").output for guest, path in ((client, "/run/original"), (server, "/srv/copy"))
    }
    if len(sums) != 1:
        raise CheckFailed("the copy differs from the original")
    server.run("rm /srv/copy")
    return said


def _await_line(guest: Guest, pattern: str) -> None:
    guest.run(f"until grep -q '{pattern}' /run/serve.log; do sleep 0.2; done")


def _expect(text: str, *patterns: str) -> None:
    for pattern in patterns:
        if not re.search(pattern, text):
            raise CheckFailed(f"nothing says {pattern!r}; said was\n{text[-3000:]}")


def _expect_not(text: str, *patterns: str) -> None:
    for pattern in patterns:
        if re.search(pattern, text):
            raise CheckFailed(f"{pattern!r} was said:\n{text[-3000:]}")


@check()
def verbs_device_is_removed_under_load_and_comes_back(lab: Lab) -> None:
    """`rdma link delete` returns at once; server and copy go on when the device is there again."""
    guest = lab.device_client
    with _served(guest):
        removed_s = _REMOVED_S * guest.pace
        job = _put(guest, guest)
        guest.run(f"timeout {removed_s:.0f} rdma link delete rxe0", removed_s)
        if job.poll():
            raise CheckFailed(f"the copy ended too early: {job.wait(check=False).output}")
        said = guest.run(f"{PYTHON}{_COMMAND} ping --provider verbs rdma://{guest.address}", check=False)
        _expect(said.output, "error: cannot connect to .*no RDMA device", "rdma link")
        guest.run("rdma link add rxe0 type rxe netdev eth0")
        _await_line(guest, "again, on the RDMA device rxe0")
        # Either end may be the first one to end the connection.
        _expect(_await_end(job, guest, guest) + _log(guest), "(lost|ended): the RDMA device rxe0 was removed: bring it")
        _expect(_log(guest), r"nothing listens at \S+ any more: the RDMA device rxe0 was removed")


@check()
def verbs_link_goes_down_under_load_and_comes_up(lab: Lab) -> None:
    """Between two guests: connections end in words, and the copy goes on when the device is there again.

    The rxe of Linux 6.1 makes no connection when its link was down while one ended, so it is made anew.
    """
    # In the other guest Linux's server may have the port.
    server, client = lab.device_client, lab.devices
    with _served(server):
        job = _put(client, server)
        client.run("ip link set eth0 down")
        client.run("until grep -q 'connection lost' /run/*.out; do sleep 0.2; done")
        if job.poll():
            raise CheckFailed(f"the copy ended too early: {job.wait(check=False).output}")
        client.run("ip link set eth0 up; rdma link delete rxe0; rdma link add rxe0 type rxe netdev eth0")
        said = _await_end(job, client, server)
        _expect(said, "port 1 of the RDMA device rxe0 is down: .*ip link set")
        _expect(said, "connection lost: .*its network interface")


@check()
def verbs_without_locked_memory_name_the_remedy(lab: Lab) -> None:
    """A user without privileges at a limit of 64 KiB: client and server say how to raise it, and the server goes on."""
    guest = lab.device_client
    as_user = "import os, sys; os.setgid(1000); os.setuid(1000); os.execvp(sys.argv[1], sys.argv[1:])"
    limited = f"ulimit -l 64\nexport HOME=/tmp\npython3 -c '{as_user}' "
    with _served(guest):
        said = guest.run(f"{PYTHON}{limited}{_COMMAND} ping --provider verbs rdma://{guest.address}", check=False)
        if not said.status:
            raise CheckFailed("a limit of 64 KiB did not matter")
        _expect(said.output, "error: .*locked memory", "ulimit -l")
        _expect(guest.run(f"{PYTHON}{_COMMAND} ping --provider verbs rdma://{guest.address}").output, "0 lost")
