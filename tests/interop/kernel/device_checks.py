"""The provider `verbs` over the kernel's devices: rxe (RoCE) at both ends, and siw with the software RNIC."""

from __future__ import annotations

from failures import CheckFailed
from guest import Guest
from kernel_client_tree import COMPARE
from kernel_server import EXPORT, PORT, start_kernel_server
from lab import MOUNT_OPTIONS, UNPACK, Lab, check
from network import HOST
from python_layer import PYTHON

__all__ = ["OUR_PORT", "START", "STOP", "TCP_PORT"]

OUR_PORT = 20051
TCP_PORT = 20053
_VERSIONS = ("--rpcrdma-version 1", "--rpcrdma-version 2", "--extension rtr")
_COMMAND = "python3 -m rpcrdma"
START = f"""
rm -f /run/serve.log
mkdir -p /run/served
{_COMMAND} serve --provider verbs --no-root-squash --state-dir /run/state --listen rdma://ADDRESS:{OUR_PORT} \\
    --listen tcp://ADDRESS:{TCP_PORT} VERSION /run/served >/run/serve.log 2>&1 &
echo $! >/run/serve.pid
until [ $(grep -cE 'listening at|"listening"' /run/serve.log) = 2 ]; do
    kill -0 $(cat /run/serve.pid) || {{ cat /run/serve.log; exit 1; }}
    sleep 0.2
done
"""
STOP = """
kill $(cat /run/serve.pid)
while kill -0 $(cat /run/serve.pid) 2>/dev/null; do sleep 0.2; done
! grep -E 'Traceback|ERROR' /run/serve.log
"""
_FILE = "head -c 8000001 /dev/urandom >/run/original\n"
_SUITE_S = 300.0
_FILES_S = 120.0


def _run(guest: Guest, script: str, quiet_s: float = _FILES_S) -> str:
    return guest.run(f"set -e\n{PYTHON}{script.replace('ADDRESS', guest.address)}", quiet_s).output


def _copied(url: str, mount_port: int, options: str = "", *, provider: str = "verbs") -> str:
    """A script that copies a file there and back, and compares both."""
    shared = f"--provider {provider} --mount-port {mount_port} {options}"
    return (
        f"{_COMMAND} put {shared} /run/original {url}/copy\n"
        f"{_COMMAND} get {shared} {url}/copy /run/back\n"
        "cmp /run/original /run/back\n"
    )


@check()
def verbs_over_siw_meet_the_software_rnic(lab: Lab) -> None:
    """Our client in the guest at our server outside, and the other way round within the guest.

    siw has no memory windows: remote invalidation is not offered. The check comes before those of rxe: a guest that has
    been idle for the minutes that these take makes no TCP connection to this side for ten seconds.
    """
    guest = lab.client
    script = "ulimit -l unlimited\n" + _FILE
    with lab.our_server() as server:
        _run(guest, script + _copied(f"rdma://{HOST}:20049", 20048))
        said = _run(guest, f"ulimit -l unlimited\n{_COMMAND} ping --count 3 --provider verbs rdma://{HOST}:20049")
        if "remote invalidation off" not in said:
            raise CheckFailed(f"remote invalidation was offered:\n{said}")
        if (server.directory / "copy").stat().st_size != 8_000_001:
            raise CheckFailed("the file at our server is of another size")
    served = script + START.replace("VERSION", "")
    _run(guest, served + _copied(f"rdma://ADDRESS:{OUR_PORT}", TCP_PORT, provider="iwarp") + STOP)


@check(quick=True)
def verbs_keep_the_rules_of_providers(lab: Lab) -> None:
    """The suite of `rpcrdma.testing.provider_suite` over two queue pairs of the device."""
    _run(lab.devices, "python3 /data/device_suite.py ADDRESS", _SUITE_S)


@check()
def verbs_at_both_ends_move_a_file(lab: Lab) -> None:
    """Our client and our server, in each version and with the round-trip extension."""
    guest = lab.devices
    _run(guest, _FILE)
    for options in _VERSIONS:
        version = "" if options.startswith("--extension") else options
        _run(
            guest,
            START.replace("VERSION", version) + _copied(f"rdma://ADDRESS:{OUR_PORT}", TCP_PORT, options) + STOP,
        )


@check()
def verbs_client_at_the_kernels_server(lab: Lab) -> None:
    """The server ends the memory windows of each call by its reply: Send with Invalidate of Linux's svcrdma."""
    guest = lab.devices
    start_kernel_server(guest)
    url = f"rdma://ADDRESS:{PORT}{EXPORT}"
    said = _run(guest, _FILE + _copied(url, 20048) + f"{_COMMAND} ping --count 10 --provider verbs {url}")
    if "provider verbs" not in said:
        raise CheckFailed(f"ping named another provider:\n{said}")
    guest.run(f"cmp /run/original {EXPORT}/copy")
    _run(guest, f"python3 /data/device_memory.py use {url} 20048 1")


@check(quick=True)
def verbs_invalidate_remotely_and_keep_registrations(lab: Lab) -> None:
    """Our client at our server, in each version: the server's replies end windows, and memory stays registered."""
    for options in _VERSIONS[:2]:
        version = options.split()[-1]
        script = START.replace("VERSION", options)
        script += f"{_COMMAND} ping --count 3 --provider verbs {options} rdma://ADDRESS:{OUR_PORT}\n"
        script += f"python3 /data/device_memory.py use rdma://ADDRESS:{OUR_PORT} {TCP_PORT} {version}\n"
        said = _run(lab.devices, script + STOP)
        if "remote invalidation on" not in said:
            raise CheckFailed(f"remote invalidation was not offered:\n{said}")


@check()
def verbs_carry_the_checks_of_servers(lab: Lab) -> None:
    """`rpcrdma check` judges our server over the device: Sends, chunks, invalidation and placement by Sends."""
    patterns = " ".join(f"--only '{each}'" for each in ("v1.[itw]*", "v1.read.5*", "v2.rtr.[rw]*"))
    said = _run(
        lab.devices,
        START.replace("VERSION", "")
        + "head -c 9001 /dev/urandom >/run/served/file\n"
        + f"{_COMMAND} check --provider verbs --write . --timeout 20 {patterns} "
        + f"rdma://ADDRESS:{OUR_PORT}/?mountport={TCP_PORT}\n"
        + STOP,
        _SUITE_S,
    )
    if "conforms" not in said or "violates" in said or "inconclusive" in said:
        raise CheckFailed(f"our server was not judged, or does not conform:\n{said}")


@check(quick=True)
def verbs_break_the_connection_of_late_accesses(lab: Lab) -> None:
    """A peer uses handles of calls that have ended, against a whole client and a whole server."""
    _run(lab.devices, "python3 /data/device_memory.py attack ADDRESS", _SUITE_S)


@check()
def verbs_server_mounted_by_the_kernel(lab: Lab) -> None:
    """The server's replies end the memory of Linux's client, by Send with Invalidate, in version 3 and 4.2.

    By version 4.2 a tree is unpacked and compared, a file is exercised, and a lock outlives the server's death.
    """
    guest = lab.devices
    start = START.replace("VERSION", "--json")
    _run(guest, _FILE + start)
    for options in (
        MOUNT_OPTIONS.replace("20049", str(OUR_PORT)).replace("20048", str(TCP_PORT)),
        f"rdma,port={OUR_PORT}",
    ):
        mount = f"mount.nfs {guest.address}:/ /mnt -o {options}"
        guest.run(f"set -e; {mount}; cp /run/original /mnt/copy; sync; cmp /run/original /run/served/copy", _FILES_S)
        guest.run(f"set -e; umount /mnt; {mount}; cmp /run/original /mnt/copy; rm /mnt/copy; umount /mnt", _FILES_S)
    _run(guest, STOP + "python3 /data/device_memory.py invalidated /run/serve.log")
    _run(guest, f"{start}{UNPACK}; rm -r /data/original", _SUITE_S)
    guest.run(f"set -e; {mount}; mkdir /mnt/tree; cd /mnt/tree; tar -xf /data/source.tar", _SUITE_S)
    guest.run("set -e; echo 3 >/proc/sys/vm/drop_caches;" + COMPARE.format(directory="/mnt/tree"), _SUITE_S)
    _run(guest, "python3 /data/file_exerciser.py /mnt/exercised 1 300; echo 0 >/mnt/locked\n", _SUITE_S)
    holder = guest.start(f"{PYTHON}python3 /data/lock_holder.py hold /mnt/locked 0 10", _SUITE_S)
    guest.run("until [ -e /tmp/held ]; do sleep 0.2; done", _FILES_S)
    _run(guest, f"kill -9 $(cat /run/serve.pid)\n{start}")
    guest.run("set -e; echo after >/mnt/after; sync; cmp /mnt/after /run/served/after; rm /tmp/held", _SUITE_S)
    lines = holder.wait().output.strip()
    guest.run(f"set -e; umount /mnt; test $(grep -c line /run/served/locked) = {lines}", _FILES_S)
    _run(guest, STOP)


@check(named=True)
def verbs_over_siw_keep_the_rules_of_providers(lab: Lab) -> None:
    """The suite of `rpcrdma.testing.provider_suite` over siw at both ends."""
    guest = lab.device_client
    _run(
        guest,
        "rdma link delete rxe0; rdma link add siw0 type siw netdev eth0; ulimit -l unlimited\n"
        "python3 /data/device_suite.py ADDRESS",
        _SUITE_S,
    )
    guest.run("set -e; rdma link delete siw0; rdma link add rxe0 type rxe netdev eth0")
