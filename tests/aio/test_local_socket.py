"""Connecting to programs of this machine by the path of their socket."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from rpcrdma.aio.drivers.sockets import local_socket
from rpcrdma.errors import ConnectFailed


def test_a_program_is_reached_by_the_path_of_its_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        with local_socket(path) as near, listener.accept()[0] as far:
            assert near.getblocking() is False
            near.send(b"octets")
            assert far.recv(10) == b"octets"


def test_a_path_without_a_listener_is_refused_with_the_cause(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name, cause in (("absent", "no such file or directory"), ("file", "connection refused")):
        with pytest.raises(ConnectFailed, match=rf"^cannot connect to {tmp_path}/{name}: {cause}$") as failure:
            local_socket(str(tmp_path / name))
        assert failure.value.refused


def test_a_listener_whose_queue_is_full_is_not_waited_for(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(0)
        with local_socket(path), pytest.raises(ConnectFailed, match=r": too many clients wait$") as failure:
            local_socket(path)
    assert not failure.value.refused
