"""A directory through sshfs over loopback, at its fastest: straight to an SFTP server, without ssh's encryption."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

MOUNT_S = 30.0
PROGRAM_DIRECTORIES = f"{os.environ.get('PATH', os.defpath)}:/usr/lib/openssh:/usr/libexec/openssh"


def program(name: str) -> str:
    """Its path."""
    found = shutil.which(name, path=PROGRAM_DIRECTORIES)
    if found is None:
        raise SystemExit(
            f"error: {name} is not installed\n"
            "  hint: apt-get install --no-install-recommends sshfs openssh-sftp-server, or choose measures by --only"
        )
    return found


@contextlib.contextmanager
def mounted(directory: Path) -> Iterator[Path]:
    """Where the directory is mounted, by a user who may use FUSE."""
    sshfs, sftp_server = program("sshfs"), program("sftp-server")
    with (
        tempfile.TemporaryDirectory(prefix="rpcrdma-sshfs-") as where,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        port = listener.getsockname()[1]
        accepting = threading.Thread(target=_serve_one, args=(listener, sftp_server))
        accepting.start()
        command = [sshfs, "-f", "-o", f"directport={port}", f"127.0.0.1:{directory}", where]
        with subprocess.Popen(command) as mount:
            try:
                _wait_until_mounted(mount, Path(where))
                yield Path(where)
            finally:
                mount.terminate()  # which unmounts
        accepting.join()


def _serve_one(listener: socket.socket, sftp_server: str) -> None:
    connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection:
        subprocess.run([sftp_server], stdin=connection, stdout=connection, check=False)


def _wait_until_mounted(mount: subprocess.Popen[bytes], where: Path) -> None:
    deadline = time.monotonic() + MOUNT_S
    while not where.is_mount():
        if mount.poll() is not None or time.monotonic() > deadline:
            raise SystemExit("error: sshfs has not mounted within its time; what it wrote stands above")
        time.sleep(0.01)
