"""The error about an address in use names the process that has it, where this user may see that."""

from __future__ import annotations

import ipaddress
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rpcrdma.aio.drivers import port_owner
from rpcrdma.aio.drivers.port_owner import address_in_use
from rpcrdma.aio.drivers.sockets import cannot_listen
from support.cases import each_case

LISTENS, CONNECTED = "0A", "01"
UNKNOWN = ("address already in use", "stop what listens there")
HEADING = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def row(host: str, port: int, inode: int, state: str = LISTENS) -> str:
    octets = ipaddress.ip_address(host).packed
    words = (octets[at : at + 4] for at in range(0, len(octets), 4))
    address = "".join((word[::-1] if sys.byteorder == "little" else word).hex() for word in words).upper()
    return f"   0: {address}:{port:04X} 00000000:0000 {state} 0:0 00:0 0        0        0 {inode} 1 0 100 0\n"


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A made /proc: systemd listens for nginx, which has two processes, and nobody is seen who has the port 2049."""
    monkeypatch.setattr(port_owner, "_PROC", tmp_path)
    for process, name, inode in ((1, "systemd", 7), (20, "ngi\x1bnx", 7), (100, "nginx", 7), (300, "other", 8)):
        folder = tmp_path / str(process)
        (folder / "fd").mkdir(parents=True)
        (folder / "comm").write_text(f"{name}\n")
        (folder / "fd/0").symlink_to("/dev/null")
        (folder / "fd/3").symlink_to(f"socket:[{inode}]")
    (tmp_path / "self").mkdir()
    net = tmp_path / "net"
    net.mkdir()
    (net / "tcp").write_text(
        HEADING + row("127.0.0.1", 80, 7) + row("192.0.2.1", 81, 8) + row("0.0.0.0", 2049, 9)
        + row("127.0.0.1", 99, 7, CONNECTED) + row("127.0.0.1", 99, 7)
    )  # fmt: skip
    (net / "tcp6").write_text(HEADING + row("::", 82, 8) + row("::1", 83, 8))
    return tmp_path


@each_case(
    ("host", "port", "owner"),
    [
        ("127.0.0.1", 80, r"ngi\x1bnx (pid 20)"),
        ("0.0.0.0", 80, r"ngi\x1bnx (pid 20)"),
        ("::", 80, r"ngi\x1bnx (pid 20)"),
        ("::ffff:127.0.0.1", 80, r"ngi\x1bnx (pid 20)"),
        ("localhost", 80, r"ngi\x1bnx (pid 20)"),
        ("", 81, "other (pid 300)"),
        ("127.0.0.1", 82, "other (pid 300)"),
        ("::1", 83, "other (pid 300)"),
        ("127.0.0.2", 80, ""),
        ("192.0.2.2", 81, ""),
        ("127.0.0.1", 83, ""),
        # Those after the first connection are none that listen.
        ("127.0.0.1", 99, ""),
        ("127.0.0.1", 1, ""),
        ("127.0.0.1", 2049, ""),
    ],
)
def test_the_process_is_that_of_a_socket_whose_address_is_in_the_way(
    proc: Path, host: str, port: int, owner: str
) -> None:
    assert address_in_use(host, port) == ((f"address already in use by {owner}", "stop it") if owner else UNKNOWN)


def test_what_this_user_may_not_see_is_left_out(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_owner, "_DESCRIPTORS_MAX", 5)
    assert address_in_use("127.0.0.1", 80)[0].endswith("(pid 20)")
    monkeypatch.setattr(port_owner, "_DESCRIPTORS_MAX", 1)
    assert address_in_use("127.0.0.1", 80) == UNKNOWN
    for path in (proc / "20/fd", proc / "100/fd", proc / "300/fd"):
        path.rename(path.with_name("hidden"))
    monkeypatch.setattr(port_owner, "_DESCRIPTORS_MAX", 5)
    assert address_in_use("127.0.0.1", 80)[0] == "address already in use by systemd (pid 1)"
    (proc / "1/comm").unlink()
    assert address_in_use("127.0.0.1", 80)[0] == "address already in use by a process (pid 1)"
    monkeypatch.setattr(port_owner, "_PROC", proc / "absent")
    assert address_in_use("127.0.0.1", 80) == UNKNOWN


def test_the_server_of_the_kernel_is_none_of_the_processes(proc: Path) -> None:
    ports = proc / "fs/nfsd/portlist"
    ports.parent.mkdir(parents=True)
    ports.write_text("rdma 20049\ntcp 2049\ntcp 2049\n")
    cause, remedy = address_in_use("::", 2049)
    assert cause == "address already in use by Linux's own NFS server"
    assert remedy == "stop it (systemctl stop nfs-server)"


@pytest.mark.thorough
def test_a_real_process_is_named() -> None:
    listens = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", listens], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        url = f"rdma://127.0.0.1:{int(process.stdout.readline())}/a://b?provider=iwarp"
        error = cannot_listen(url, OSError(98, os.strerror(98)))
        process.communicate("\n")
    assert str(error).startswith(f"cannot listen at {url}: address already in use by python")
    assert str(error).endswith(f"(pid {process.pid}); stop it, or choose another port (0 takes a free one)")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        cause, remedy = address_in_use("localhost", listener.getsockname()[1])
    assert (cause, remedy) == ("address already in use by this process", "listen there once")
