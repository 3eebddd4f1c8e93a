"""The words for failures of RDMA devices and for the ends of connections over them: cause and remedy."""

from __future__ import annotations

import errno

from rpcrdma.errors import LocalProtocolError
from rpcrdma.verbs.binding import ManagerEventKind
from rpcrdma.verbs.binding import WorkStatus as Work

__all__ = ["BROKEN", "ENDS", "REFUSALS", "REFUSED", "TOO_LONG", "UNSENT", "lack_of", "remedy_of"]

UNSENT = {
    Work.LOCAL_OPERATION: ("the device cannot send", "check that its network interface is up (ip link)"),
    Work.RETRIES_EXCEEDED: ("the peer does not answer any more", "check it and the network"),
}
"""The description and the remedy of failures to send, by the status of a completion of the send queue. A device that
sends by a network interface, as rxe, reports the first one when that is down."""
BROKEN = "the device stopped the connection: the peer broke a rule of RDMA"
_REFUSED_MESSAGE = "the peer's device refused a message: the receive was too short, or the handle wrong"
REFUSALS: dict[int, str] = {
    Work.REMOTE_REQUEST: _REFUSED_MESSAGE,
    # With rxe, of a Send that is longer than its receive.
    Work.REMOTE_OPERATION: _REFUSED_MESSAGE,
    Work.BAD_RESPONSE: BROKEN,
    Work.REMOTE_ACCESS: "the peer's device refused access to memory: the handle, the bounds or the right was wrong",
    Work.NOT_READY: "the peer has no receive for a message, though it has granted credits for more",
}
"""The descriptions of statuses of the send queue that mean that either end has broken a rule."""
TOO_LONG = "the peer sent a message that is longer than the receive for it"
"""The end of a connection by a receive with the status LOCAL_LENGTH, or with rxe LOCAL_OPERATION."""
ENDS = {
    ManagerEventKind.CONNECT_ERROR: "the connection could not be made",
    ManagerEventKind.UNREACHABLE: "the peer does not answer: check its address and the network",
    ManagerEventKind.REJECTED: "the peer rejected the connection",
    ManagerEventKind.ADDRESS_CHANGED: "the network address moved to another device: the next connection takes that",
}
REFUSED = (8, -errno.ECONNREFUSED)
"""Statuses of a rejection: the reason "invalid service ID" of InfiniBand, and the errno of iWARP's TCP."""

_OTHER_MEMORY = "pass memory of the process itself, such as a bytearray: a device takes no memory of a mapped file"
_FAILED_DEVICE = "the device is gone or has failed: bring it back (see rdma link)"
_REMEDIES = {
    errno.ENOMEM: "close other connections, or raise the limit of locked memory (ulimit -l, or LimitMEMLOCK= of a "
    "systemd unit)",
    errno.EAGAIN: "raise the limit of the control group on RDMA devices (rpcrdma doctor shows it)",
    errno.EFAULT: _OTHER_MEMORY,
    errno.EOPNOTSUPP: _OTHER_MEMORY,
    errno.EIO: _FAILED_DEVICE,
    errno.ENODEV: _FAILED_DEVICE,
}


def lack_of(error: LocalProtocolError | MemoryError) -> str:
    """Returns the words for a lack of memory, or of room for it in the device, that ends a connection: `error`."""
    # That of small memory is Python's own, without a text.
    return str(error) or "no memory for a message"


def remedy_of(error: OSError) -> str:
    """Returns the remedy, in words, after an RDMA device failed to register memory or to make an object of libibverbs.

    `error`: the failure, whose errno decides; for an unknown errno the remedy is to look in the kernel's log.
    """
    return _REMEDIES.get(error.errno or 0, "see the kernel's log (dmesg)")
