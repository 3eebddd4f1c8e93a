"""The cost of TLS over TCP: time and processor time of calls with it and without it, by turns, to one server.

`python benchmarks/tls.py` prints the table of docs/tls.md. With `--kernel-tls` it tells whether this kernel has TLS of
its own, and how fast one connection of Python's `ssl` is with it and without it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import ssl
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from nfs_servers import served
from orders import spent_s

import rpcrdma
from rpcrdma import HostAuthentication
from rpcrdma.nfs import v3
from rpcrdma.nfs.client import MountedFilesystem

ROUNDS = 25
BATCH_S = 0.1
MIB = 1 << 20
KERNEL_TLS = 8
"""SSL_OP_ENABLE_KTLS, which Python names from 3.12 on."""


class Measured(NamedTuple):
    """Microseconds of one call."""

    elapsed: float
    client: float
    server: float


def certificate(directory: Path) -> Path:
    """A certificate for 127.0.0.1 that signs itself, with its key."""
    path = directory / "server.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-days", "1",
         "-subj", "/CN=server", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", path, "-out", directory / "c.pem"],
        check=True, capture_output=True,
    )  # fmt: skip
    path.write_bytes(path.read_bytes() + (directory / "c.pem").read_bytes())
    return path


async def batch(fs: MountedFilesystem, call: str, buffer: bytearray, pid: int) -> Measured:
    """Calls of one kind for BATCH_S, one after another."""
    file = v3.nfs_fh3((await fs.handle_of("file"))[0])
    count = 0
    at_server, at_client, began = spent_s(pid), time.process_time(), time.perf_counter()
    while time.perf_counter() < began + BATCH_S:
        if call == "NULL":
            await fs.connection.call(v3.NULL, None)
        elif call == "READ 1 MiB":
            await fs.connection.call(v3.READ, v3.READ3args(file, 0, MIB), into=buffer)
        else:
            args = v3.WRITE3args(file, 0, MIB, v3.stable_how.UNSTABLE, buffer)
            await fs.connection.call(v3.WRITE, args)
        count += 1
    elapsed = time.perf_counter() - began
    client, of_server = time.process_time() - at_client, spent_s(pid) - at_server
    return Measured(*(seconds * 1e6 / count for seconds in (elapsed, client, of_server)))


async def measure(url: str, pid: int, authority: Path) -> None:
    """Prints a row for each kind of call."""
    hosts = HostAuthentication(authorities=authority)
    secured = rpcrdma.ConnectOptions(xprtsec="tls", host_authentication=hosts)
    buffer = bytearray(os.urandom(MIB))
    print("| call | time, µs: clear, TLS | ratio | processor time of the client, µs: clear, TLS | of the server |")
    print("|---|---|---|---|---|")
    async with await rpcrdma.nfs_open(url) as clear, await rpcrdma.nfs_open(url, options=secured) as in_tls:
        async with await clear.open("file", "wb") as file:
            await file.write(buffer)
        for call in ("NULL", "READ 1 MiB", "WRITE 1 MiB"):
            found = [[await batch(fs, call, buffer, pid) for fs in (clear, in_tls)] for _ in range(ROUNDS)]
            columns = [[[getattr(pair[side], name) for pair in found] for side in (0, 1)] for name in Measured._fields]
            mean = [[statistics.fmean(side) for side in sides] for sides in columns]
            ratio = statistics.median(pair[1].elapsed / pair[0].elapsed for pair in found)
            times = [statistics.median(side) for side in columns[0]]
            print(f"| {call} | {times[0]:.0f}, {times[1]:.0f} | {ratio:.2f} | ", end="")
            print(f"{mean[1][0]:.0f}, {mean[1][1]:.0f} | {mean[2][0]:.0f}, {mean[2][1]:.0f} |", flush=True)


def kernel_tls(path: Path) -> None:
    """Prints the rate of one connection of SSL sockets, with the kernel's TLS where it has one."""
    available = Path("/proc/sys/net/ipv4/tcp_available_ulp")
    found = available.read_text().strip() if available.exists() else "none"
    print(f"upper layer protocols of TCP in this kernel: {found}")
    total = 512 * MIB
    for name, option in (("OpenSSL", 0), ("OP_ENABLE_KTLS", KERNEL_TLS)):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            if not (pid := os.fork()):
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(path)
                context.options |= option
                with context.wrap_socket(listener.accept()[0], server_side=True) as sock:
                    buffer, count = bytearray(MIB), 0
                    while count < total:
                        count += sock.recv_into(buffer)
                    sock.send(b".")
                os._exit(0)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(path)
            context.options |= option
            with (
                socket.create_connection(listener.getsockname()) as plain,
                context.wrap_socket(plain, server_hostname="127.0.0.1") as sock,
            ):
                data, began = os.urandom(MIB), time.perf_counter()
                for _ in range(total // MIB):
                    sock.sendall(data)
                sock.recv(1)
                elapsed = time.perf_counter() - began
            os.waitpid(pid, 0)
        print(f"{name}: {total / MIB / elapsed:.0f} MiB/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kernel-tls", action="store_true", help="the kernel's TLS under Python's ssl, alone")
    args = parser.parse_args()
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as name:
        directory = Path(name)
        path = certificate(directory)
        if args.kernel_tls:
            kernel_tls(path)
            return
        (directory / "export").mkdir()
        with served([str(directory / "export"), "--no-root-squash", "--tls-cert", str(path)]) as server:
            asyncio.run(measure(server.tcp, server.process, path))


if __name__ == "__main__":
    main()
