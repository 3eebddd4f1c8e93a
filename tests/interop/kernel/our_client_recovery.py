"""The kernel's server is restarted while our client works; commands name a server that is down; `doctor` finds it."""

from __future__ import annotations

import dataclasses
import json
import random
import subprocess
import tempfile
import time
from pathlib import Path

from failures import CheckFailed
from kernel_export import equal, url_of
from kernel_server import EXPORT, start_kernel_server, stop_kernel_server
from lab import Lab, check
from our_client_data import command_of, run_command, sums_of
from patience import await_growth

from rpcrdma.aio.client.connect import ConnectOptions

__all__: list[str] = []

_FILES, _FILE_OCTETS = 60, 1_000_000
_RECONNECTS = "reconnect" in {field.name for field in dataclasses.fields(ConnectOptions)}


def restarted_during_a_put(lab: Lab) -> None:
    """A `put -r` survives that nfsd is stopped and started again: its connection ends, its files stay."""
    server = lab.server
    server.run(f"rm -rf {EXPORT}/restart; mkdir {EXPORT}/restart")
    with tempfile.TemporaryDirectory(prefix="rpcrdma-restart-", dir="/dev/shm") as directory:
        near = Path(directory) / "near"
        near.mkdir()
        for number in range(_FILES):
            (near / f"file-{number:02}").write_bytes(random.Random(number).randbytes(_FILE_OCTETS + number))
        put = subprocess.Popen(
            command_of("put", "-r", str(near), url_of(server, "restart")),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:

            def files() -> int:
                if put.poll() is not None:
                    raise CheckFailed(f"put ended with {put.returncode}, after {found()} files")
                return found()

            def found() -> int:
                return int(server.run(f"find {EXPORT}/restart -type f | wc -l").output)

            await_growth("files that put has written", files, 2, 30.0 * server.pace)
            stop_kernel_server(server)
            equal("put has ended before the restart", put.poll(), None)
            time.sleep(0.5)
            start_kernel_server(server)
            said = put.communicate(timeout=120 * server.pace)[0]
        except subprocess.TimeoutExpired:
            raise CheckFailed(f"awaited the end of put after the restart, with {found()} files there") from None
        finally:
            put.kill()
            put.wait()
        equal(f"status of put, which said {said[-500:]!r}", put.returncode, 0)
        server.run(
            f"cd {EXPORT}/restart/near; md5sum -c --quiet - <<E\n{sums_of(near)}\nE\ntest $(ls | wc -l) = {_FILES}", 120
        )


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
