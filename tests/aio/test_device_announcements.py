"""The kernel's announcements of RDMA devices, of which it tells each process that listens."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcrdma.aio.drivers import verbs_devices
from rpcrdma.aio.drivers.verbs_devices import KernelAnnouncements, announced

REMOVED = (
    b"remove@/devices/virtual/infiniband_verbs/uverbs0\0ACTION=remove\0"
    b"DEVPATH=/devices/virtual/infiniband_verbs/uverbs0\0SUBSYSTEM=infiniband_verbs\0MAJOR=231\0MINOR=192\0"
    b"DEVNAME=infiniband/uverbs0\0SEQNUM=1234\0"
)


def test_announcements_of_rdma_devices_are_read_and_others_left() -> None:
    assert announced(REMOVED) == ("remove", "uverbs0")
    assert announced(REMOVED.replace(b"ACTION=remove", b"ACTION=add")) == ("add", "uverbs0")
    assert announced(REMOVED.replace(b"SUBSYSTEM=infiniband_verbs", b"SUBSYSTEM=net")) is None
    for end in range(len(REMOVED)):
        assert announced(REMOVED[:end]) in (None, ("remove", "uverbs0"))
    assert announced(REMOVED[: REMOVED.index(b"SUBSYSTEM=")]) is None


@given(st.binary(max_size=200))
def test_any_datagram_is_an_announcement_or_none(datagram: bytes) -> None:
    announced(datagram)


def test_announcements_of_programs_are_passed_over_and_lost_ones_told(monkeypatch: pytest.MonkeyPatch) -> None:
    arrived: list[Any] = [
        (REMOVED, (4711, 1)),
        OSError(errno.ENOBUFS, "No buffer space"),
        (REMOVED, (0, 1)),
        (b"", (0, 1)),
    ]

    class Socket:
        def __init__(self, *kind: int) -> None:
            pass

        def bind(self, address: tuple[int, int]) -> None:
            assert address == (0, 1)

        def recvfrom(self, octets: int) -> Any:
            if not arrived:
                raise BlockingIOError
            first = arrived.pop(0)
            if isinstance(first, OSError):
                raise first
            return first

        def close(self) -> None:
            pass

    monkeypatch.setattr(verbs_devices.socket, "socket", Socket)
    assert KernelAnnouncements().take() == [("lost", ""), ("remove", "uverbs0")]
