"""The kernel's server is restarted while our client works; commands name a server that is down; `doctor` finds it."""

from __future__ import annotations

import dataclasses
import json
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from failures import CheckFailed
from guest import Guest
from kernel_export import equal, url_of
from kernel_server import EXPORT, start_kernel_server, stop_kernel_server
from lab import Lab, check
from our_client_data import command_of, run_command, sums_of
from patience import await_growth

from rpcrdma.aio.client.connect import ConnectOptions

__all__ = ["putting"]

_FILE_OCTETS = 1_000_000
_SLICE_S = 0.1
"""How long a put works between two looks at its files: far less than all of them take."""
_RECONNECTS = "reconnect" in {field.name for field in dataclasses.fields(ConnectOptions)}


@contextmanager
def putting(server: Guest, url: str, path: str, *options: str, files: int) -> Iterator[subprocess.Popen[str]]:
    """A `put -r` to `url`, which is `path` of the guest: its block begins after the first files, and it ends well.

    The process is stopped while its files are counted and when the block begins, so that the copy cannot end before;
    SIGCONT lets it go on, at the end of the block at the latest.
    """
    with tempfile.TemporaryDirectory(prefix="rpcrdma-put-", dir="/dev/shm") as directory:
        near = Path(directory) / "near"
        near.mkdir()
        for number in range(files):
            (near / f"file-{number:02}").write_bytes(random.Random(number).randbytes(_FILE_OCTETS + number))
        put = subprocess.Popen(
            command_of("put", "-r", *options, str(near), url),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:

            def written() -> int:
                put.send_signal(signal.SIGCONT)
                time.sleep(_SLICE_S)
                put.send_signal(signal.SIGSTOP)
                if put.poll() is not None:
                    raise CheckFailed(f"put ended with {put.returncode}, after {found()} files")
                return found()

            def found() -> int:
                return int(server.run(f"find {path} -type f | wc -l").output)

            await_growth("files that put has written", written, 2, 30.0 * server.pace)
            yield put
            put.send_signal(signal.SIGCONT)
            said = put.communicate(timeout=120 * server.pace)[0]
        except subprocess.TimeoutExpired:
            raise CheckFailed(f"awaited the end of put after the fault, with {found()} files there") from None
        finally:
            put.kill()
            put.wait()
        equal(f"status of put, which said {said[-500:]!r}", put.returncode, 0)
        server.run(f"cd {path}/near; md5sum -c --quiet - <<E\n{sums_of(near)}\nE\ntest $(ls | wc -l) = {files}", 120)


def restarted_during_a_put(lab: Lab) -> None:
    """A `put -r` survives that nfsd is stopped and started again: its connection ends, its files stay."""
    server = lab.server
    server.run(f"rm -rf {EXPORT}/restart; mkdir {EXPORT}/restart")
    with putting(server, url_of(server, "restart"), f"{EXPORT}/restart", files=60) as put:
        stop_kernel_server(server, lambda: put.send_signal(signal.SIGCONT))
        time.sleep(0.5)
        start_kernel_server(server)


if _RECONNECTS:
    check(quick=True)(restarted_during_a_put)


@check()
def a_restart_is_told_in_words(lab: Lab) -> None:
    """Without a server, a command ends with a message that names it."""
    stop_kernel_server(lab.server)
    try:
        said = run_command("ls", url_of(lab.server), status=3)
        if lab.server.address not in said:
            raise CheckFailed(f"ls without a server said: {said}")
    finally:
        start_kernel_server(lab.server)
    run_command("ls", url_of(lab.server))


@check(quick=True)
def doctor(lab: Lab) -> None:
    said = run_command("doctor", lab.server.address)
    if f"rdma://{lab.server.address}:20049 answers with RPC-over-RDMA version 1" not in said:
        raise CheckFailed(f"doctor said: {said}")
    found = json.loads(run_command("doctor", "--json", lab.server.address))
    equal("marks", [each["mark"] for each in found["findings"] if each["subject"] in {"route", "server"}], ["ok"] * 2)
