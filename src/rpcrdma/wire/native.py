"""The native step: the extension module of the distribution `rpcrdma-native`, if it is installed.

`native` is the module, or None where Python does its work; `DATA_PATH` names the path in use and the reason. The
environment variable RPCRDMA_NATIVE=0 turns the native step off.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

if TYPE_CHECKING:
    from rpcrdma.wire.buffers import Buffer

__all__ = ["DATA_PATH", "INTERFACE", "Native", "NativeFrames", "NativeSend", "find", "native"]

# The functions and types of the module as one number, which rises with each change of them.
INTERFACE = 4

NativeSend: TypeAlias = Callable[[list[Any], int, list[int], int, int, bool, int], tuple[int, int, int, "bytes | None"]]
"""`Native.send` of one socket."""


class NativeFrames(Protocol):
    """Takes the usual FPDUs of one connection. It works on the lists and the dictionary of regions of the queue pair.

    The attributes are the state of a receiver, with the names of `DirectPayload` in `rpcrdma.iwarp.receiver` where that
    has them; those with `opened` and `message` are about the tagged message and the Send that have arrived in part.
    `received` counts the octets of the response to the first of the RDMA Reads. `offset` of a Send is its number.
    `hand_over` returns the octets of an FPDU that has arrived in part, and those of such a Send, and forgets both.
    """

    send_number: int
    read_number: int
    posted: int
    reads_max: int
    pool: object
    crc: bool
    received: int
    opened: bool
    opened_rdmap: int
    opened_handle: int
    length: int
    control: int
    rdmap: int
    handle: int
    offset: int
    placed: int
    left: int
    trailer: int
    digest: int
    message_rdmap: int
    message_handle: int

    def receive(self, descriptor: int, most: int, /) -> int:
        """Receives until the socket is empty, `most` octets have arrived, or an FPDU is unusual.

        Returns the sum of STOPPED and END_OF_STREAM, as far as they apply.

        Raises:
            OSError: the connection is broken.
            RuntimeError: another thread is in `receive`, `feed` or `hand_over`.
        """

    def feed(self, octets: Buffer, /) -> tuple[int, int]:
        """Receives from memory: returns the outcome, as `receive` does, and the number of octets taken."""

    def hand_over(self) -> tuple[bytes, bytes]: ...


class Native(Protocol):
    """The module `rpcrdma_native`. `CRC` names the instructions that compute digests."""

    INTERFACE: int
    CRC: str
    STOPPED: int
    END_OF_STREAM: int
    Receiver: Callable[[Any, list[Any], list[Any], Any, Callable[[], None]], NativeFrames]
    """Of the regions by handle, the RDMA Reads that are not answered, the Read Responses due, the completions, and
    `Sender.read_answered`, which it calls at the end of the response to the first of these Reads."""

    def send(
        self, descriptor: int, messages: list[Any], position: int, numbers: list[int], tagged_max: int,
        untagged_max: int, crc: bool, reads: int, /,
    ) -> tuple[int, int, int, bytes | None]:  # fmt: skip
        """Frames and sends messages (`rpcrdma.iwarp.sender.Work`), of the first one all octets from `position` on.

        `numbers` are the next MSNs of both queues, which it keeps up to date; FPDUs carry at most `tagged_max` and
        `untagged_max` octets of payload. It ends before an RDMA Read Request beyond the number of `reads`.

        Returns how many messages were framed as a whole, the position in the next one, the octets of all FPDUs, and how
        many of them the socket has not taken: None if it took all, else the rest of the last FPDU.

        Raises:
            OSError: the connection is broken, and nothing was sent.
        """

    def crc32c(self, data: Buffer, value: int = 0, /) -> int:
        """Returns the digest of `data`, continuing from `value`."""

    def use_types(self, *types: object) -> None:
        """Sets the types Completion, ReadResponse and ReadHeader, and Verb.RECEIVE and Status.SUCCESS."""


def _load() -> Native:
    module: Any = import_module("rpcrdma_native")
    return cast("Native", module)


def find(setting: str | None, load: Callable[[], Native] = _load) -> tuple[Native | None, str]:
    """Returns the module or None, and a sentence about the path in use; `setting` is the value of RPCRDMA_NATIVE."""
    if setting == "0":
        return None, "Python: RPCRDMA_NATIVE=0"
    try:
        module = load()
    except ModuleNotFoundError:
        return None, "Python: rpcrdma_native is not installed"
    except ImportError as error:
        return None, f"Python: rpcrdma_native does not load: {error}"
    if module.INTERFACE != INTERFACE:
        return None, (
            f"Python: rpcrdma_native has interface {module.INTERFACE}, this version of rpcrdma needs {INTERFACE}"
        )
    return module, f"native, CRC by {module.CRC}"


native, DATA_PATH = find(os.environ.get("RPCRDMA_NATIVE"))
