"""The native module: the extension module of the distribution `rpcrdma-native`, if it is installed.

`native` is the module, or None where Python does its work; `DATA_PATH` names the path in use and the reason. The
environment variable RPCRDMA_NATIVE=0 turns the native module off.
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
"""`Native.send` for the socket of one connection, without the argument `descriptor`."""


class NativeFrames(Protocol):
    """The native module's receiver of one connection, which processes the usual FPDUs; made by `Native.Receiver`.

    Usual FPDUs are those of tagged messages, Sends and RDMA Read Requests that break no rule; Python processes others.
    It works on the queue pair's dictionary of regions, and its lists of RDMA Reads, responses and completions.
    `send_number` and `read_number` are the MSNs (message sequence numbers) of the next Send and RDMA Read Request;
    `reads_max` bounds unanswered Read Requests. `posted` receives await messages in buffers of `pool`. `crc`: FPDUs
    have CRCs. `received` counts the octets of the response to the oldest unanswered RDMA Read of this end.

    `opened`: a tagged message has arrived in part, with RDMAP control octet `opened_rdmap` and handle `opened_handle`.
    `length` to `offset` are the header of a large FPDU that has arrived in part (of a Send, `offset` is the MSN); with
    the header 2,048 octets or more were still missing. `placed` octets of its payload are in place, `left` are due,
    then `trailer` octets of padding and CRC; `digest` is the CRC so far. `trailer` 0: there is no such FPDU.
    `message_rdmap` and `message_handle` are the RDMAP control octet and the handle to invalidate of a Send of which
    whole FPDUs have arrived, but not all.

    `hand_over` returns (the received octets that are not processed, the octets so far of a Send that has arrived in
    part), each b"" if there are none, and forgets both and the large FPDU, whose fields the caller reads before.
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
        """Receives until the socket is empty, `most` octets have arrived, or only Python can process the next FPDU.

        Only Python processes invalid and rare FPDUs and some large Sends, whose octets `hand_over` then returns.
        `descriptor` is the socket's. Returns the sum of STOPPED (such an FPDU is next) and END_OF_STREAM (the peer has
        closed its side), or 0.

        Raises:
            OSError: the connection is broken.
            RuntimeError: another thread is in `receive`, `feed` or `hand_over`.
        """

    def feed(self, octets: Buffer, /) -> tuple[int, int]:
        """Processes received octets in memory, as `receive` processes those of the socket.

        Returns (STOPPED if the next FPDU is one that only Python can process, else 0; the number of octets processed).

        Raises:
            RuntimeError: another thread is in `receive`, `feed` or `hand_over`.
        """

    def hand_over(self) -> tuple[bytes, bytes]: ...


class Native(Protocol):
    """The functions of the extension module `rpcrdma_native`.

    `INTERFACE` is their version, `CRC` the name of the instructions that compute digests. STOPPED and END_OF_STREAM are
    bits of the results of `NativeFrames.receive`.
    """

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
        """Frames and sends messages until none is left, the socket is full, or Python has to decide about the next one.

        Python decides about a disconnect, and about an RDMA Read beyond `reads`. One call sends a limited number of
        pieces of memory, so that further messages may be left.

        Returns (the number of messages sent as a whole, the octets sent of the next one, the octets of all sent FPDUs,
        the rest). An FPDU counts as sent whole if the socket has taken any of it; the others are forgotten, and framed
        again by a later call. The rest is None unless the socket is full; then it is what the socket has not taken of
        the last sent FPDU, b"" if it has taken that whole.

        Args:
            descriptor: the socket's file descriptor.
            messages: the messages (`rpcrdma.iwarp.work.Work`).
            position: the octets of the first message that were sent before.
            numbers: the next MSNs of the untagged queues 0 (Sends) and 1 (RDMA Read Requests); updated in place.
            tagged_max: the most octets of payload in a tagged FPDU.
            untagged_max: the most octets of payload in an untagged FPDU.
            crc: whether FPDUs have CRCs.
            reads: the number of RDMA Read Requests that may be sent.

        Raises:
            OSError: the connection is broken, and nothing was sent. If it breaks after a part was sent, the socket
                counts as full.
        """

    def crc32c(self, data: Buffer, value: int = 0, /) -> int:
        """Returns the CRC-32C of `data`, continuing from `value`, the CRC of the octets before."""

    def use_types(self, *types: object) -> None:
        """Sets what receivers use, in order: Completion, ReadResponse, ReadHeader, Verb.RECEIVE and Status.SUCCESS."""


def _load() -> Native:
    module: Any = import_module("rpcrdma_native")
    return cast("Native", module)


def find(setting: str | None, load: Callable[[], Native] = _load) -> tuple[Native | None, str]:
    """Loads the extension module `rpcrdma_native`, unless it is turned off.

    `setting`: the value of the environment variable RPCRDMA_NATIVE, or None; "0" turns the native module off. `load`:
    imports the module. Returns (the module, a text for people): (None, text) if the module is off, is not installed,
    does not load or has another `INTERFACE`. The text says which code moves data, native or Python, and why.
    """
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
