"""The extension module `rpcrdma_verbs`, through which RDMA devices are used, where it is installed.

It opens libibverbs and librdmacm when the first of its functions is called; if one is missing, that raises OSError with
the remedy as its text and no `errno`. A failed call of them raises OSError with the call's name as `filename`. One
object is used by one thread at a time. Objects from before a fork are the parent's: in the child they hold memory
alone, and their end has no effect on the device.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple, Protocol, TypeAlias, TypedDict, cast

__all__ = [
    "INTERFACE",
    "Binding",
    "ConnectionIdentifier",
    "Device",
    "DeviceAttributes",
    "DeviceEventKind",
    "Domain",
    "Entry",
    "EventChannel",
    "ManagerEvent",
    "ManagerEventKind",
    "MemoryWindow",
    "PortAttributes",
    "QueuePairHandle",
    "Region",
    "Right",
    "SendWork",
    "WorkStatus",
    "find",
    "removal_of",
]

INTERFACE = 4
"""The version of the module's functions and types, a number that rises with each change of them."""


class Right(enum.IntFlag):
    """The rights of a registration (`ibv_access_flags`). A remote right to write requires the local right."""

    LOCAL_WRITE = 1
    REMOTE_WRITE = 2
    REMOTE_READ = 4
    WINDOW = 16
    """Memory windows may be bound to the region. A window that lets the peer write requires LOCAL_WRITE as well."""


class WorkStatus(enum.IntEnum):
    """The statuses of a completion (`ibv_wc_status`) that this library distinguishes."""

    SUCCESS = 0
    LOCAL_LENGTH = 1
    LOCAL_OPERATION = 2
    FLUSHED = 5
    BAD_RESPONSE = 7
    REMOTE_REQUEST = 9
    REMOTE_ACCESS = 10
    REMOTE_OPERATION = 11
    RETRIES_EXCEEDED = 12
    NOT_READY = 13


class ManagerEventKind(enum.IntEnum):
    """The events of the connection manager (`rdma_cm_event_type`)."""

    ADDRESS_RESOLVED = 0
    ADDRESS_ERROR = 1
    ROUTE_RESOLVED = 2
    ROUTE_ERROR = 3
    CONNECT_REQUEST = 4
    CONNECT_RESPONSE = 5
    CONNECT_ERROR = 6
    UNREACHABLE = 7
    REJECTED = 8
    ESTABLISHED = 9
    DISCONNECTED = 10
    DEVICE_REMOVED = 11
    ADDRESS_CHANGED = 14
    TIMEWAIT_ENDED = 15


def removal_of(device: str | None) -> str:
    """Returns an error's text: the RDMA device named `device` (None: unknown name) was removed, and what to do then."""
    return f"{f'the RDMA device {device}' if device else 'an RDMA device'} was removed: bring it back (see rdma link)"


class DeviceEventKind(enum.IntEnum):
    """The asynchronous events of a device and its ports (`ibv_event_type`) that this library distinguishes."""

    DEVICE_FATAL = 8
    PORT_ACTIVE = 9
    PORT_ERROR = 10


class PortAttributes(TypedDict):
    """The attributes of one port of a device.

    `number` counts from 1. `active`: the port is up. `ethernet`: its link is Ethernet (RoCE, iWARP), not InfiniBand.
    `max_message_octets` is the length of the longest message.
    """

    number: int
    active: bool
    ethernet: bool
    max_message_octets: int


class DeviceAttributes(TypedDict):
    """The attributes and limits of a device, as libibverbs states them.

    `iwarp`: the device speaks iWARP, not InfiniBand or RoCE. `max_queue_pair_work` bounds the work requests in each
    queue of a queue pair, `max_entries` the pieces of memory of a work request, `max_completions` the entries of a
    completion queue, `max_inbound_reads` and `max_outbound_reads` the RDMA Reads of a queue pair. `type_2_windows`:
    work requests bind memory windows, and a peer's Send with Invalidate ends the binding.
    """

    name: str
    iwarp: bool
    firmware: str
    max_queue_pair_work: int
    max_entries: int
    max_completions: int
    max_regions: int
    max_windows: int
    type_2_windows: bool
    max_inbound_reads: int
    max_outbound_reads: int
    max_region_octets: int
    ports: list[PortAttributes]


class Region(Protocol):
    """Memory that is registered with a device (a memory region); made by `Domain.register`.

    After `deregister` the properties raise ValueError.
    """

    @property
    def handle(self) -> int:
        """The handle by which the peer names the region (`rkey`)."""

    @property
    def address(self) -> int:
        """The address of the region's first octet in this process, which is also its offset for the peer."""

    def start_of(self, buffer: object, /) -> int:
        """Returns the offset in octets of a buffer from the start of the region.

        Raises ValueError if any part of the buffer lies outside of the region.
        """

    def deregister(self) -> None:
        """Ends the registration: when this returns, the device does not touch the memory any more.

        No effect the second time. Raises OSError if the device does not end it; the memory is then never freed.
        """


class MemoryWindow(Protocol):
    """A memory window of type 2: while it is bound, its handle names a part of a region."""

    @property
    def handle(self) -> int:
        """The handle (`rkey`) of the last posted binding; before the first, one that the device chose; 0 after `end`.

        The user of the window chooses the lower 8 bits of the handle anew for each binding; the upper 24 bits name the
        window.
        """

    def end(self) -> None:
        """Deallocates the window: when this returns, no peer can reach memory through the window.

        Raises OSError if the device has failed.
        """


Entry: TypeAlias = tuple[Region, int, int]
"""A piece of a scatter or gather list: a region, the first octet in it, and the number of octets."""


class Domain(Protocol):
    """A protection domain on a device; made by `ConnectionIdentifier.domain`."""

    @property
    def device(self) -> DeviceAttributes:
        """The attributes of the device at the time when the domain was made."""

    def register(self, buffer: object, access: int, keep: bool, /) -> Region:
        """Registers a buffer with the device.

        Args:
            buffer: the memory, an object with the buffer protocol.
            access: the rights, from `Right`, combined by `|`.
            keep: whether the region keeps the buffer alive until `deregister`. If False, the region's owner must call
                `deregister` when the buffer is freed; the device keeps the pages of the buffer until then.

        Raises:
            BufferError: the buffer is read-only and `access` has a right to write.
            OSError: the device or the system refuses.
        """

    def window(self) -> MemoryWindow:
        """Returns a new memory window, not bound yet; raises OSError (ENOMEM) if the device has no more windows."""


SendWork: TypeAlias = (
    tuple[object, tuple[Entry, ...], int, int, int] | tuple[object, tuple[Entry, ...], int, int, int, MemoryWindow]
)
"""A work request of the send queue: (object that its completion returns, scatter or gather list, opcode of `Binding`,
the peer's handle, the peer's offset). BIND_WINDOW has the window's rights in place of the offset, and the window as a
sixth element."""


class QueuePairHandle(Protocol):
    """A queue pair of a device, with a completion queue of its own; made by `ConnectionIdentifier.queue_pair`.

    It keeps the regions of posted work alive until their completion is taken, or until `end`.
    """

    def fileno(self) -> int:
        """Returns the descriptor of completion events: it becomes readable when there may be completions.

        This happens once, for the first completion; `completions` arms the descriptor again if `arm` is True.
        """

    def post_sends(self, works: Sequence[SendWork], /) -> None:
        """Posts a list of work requests to the send queue in one call.

        Raises:
            OSError: the queue is full, or the device has failed; the requests before the failed one are posted.
            ValueError: a request does not fit the queue pair, or the queue pair has ended; none is posted.
        """

    def post_receives(self, works: Sequence[tuple[object, tuple[Entry, ...]]], /) -> None:
        """Posts a list of receives in one call, each a tuple (object that its completion returns, scatter list).

        Raises:
            OSError: the queue is full, or the device has failed; the receives before the failed one are posted.
            ValueError: a receive does not fit the queue pair, or the queue pair has ended; none is posted.
        """

    def completions(self, most: int, arm: bool, /) -> list[tuple[Any, int, int, int]]:
        """Removes and returns completions, in their order; raises OSError if the device has failed.

        `most`: the largest number of completions to return. `arm`: whether the descriptor is to become readable for
        later completions; certain only if fewer than `most` are returned. Returns tuples of (object given when posting,
        `WorkStatus` value, octets received, handle). The handle is the one that the peer's Send invalidated. Without
        such a Send it is 0, or any number on a device that reports IP checksums: rxe marks an invalidated handle by the
        flag for these.
        """

    def broken(self) -> bool:
        """Returns whether the queue pair is in the error state, as after a fault or a disconnect; False after `end`.

        Raises OSError if the device does not report the queue pair's state.
        """

    def end(self) -> None:
        """Destroys the queue pair: the device then touches no memory of posted work, and reports no completions."""

    def close(self) -> None:
        """Calls `end`, destroys completion queue and descriptor; ignores errors, does nothing the second time."""


class Device(Protocol):
    """A device that this process uses, with its asynchronous events; made by `ConnectionIdentifier.open_device`."""

    @property
    def node(self) -> str:
        """The name of the device's character device in /dev/infiniband, such as "uverbs0"."""

    def fileno(self) -> int:
        """Returns the descriptor that becomes readable when there is an event of the device or its ports."""

    def events(self) -> list[tuple[int, int]]:
        """Removes and returns all events as (`DeviceEventKind` value, port number, valid for events of a port only)."""

    def let_go(self) -> None:
        """Closes a device that is being removed, for the whole process, so that its removal can finish.

        The kernel frees everything that this process still has on the device; `close` is done, too. Raises OSError
        (EBUSY) until all queue pairs of the process on the device, those of other event loops included, are closed.
        """

    def close(self) -> None:
        """Closes the descriptor of the device's events; the other methods then raise ValueError."""


class ConnectionIdentifier(Protocol):
    """One connection, or one listener, of the RDMA connection manager (`rdma_cm_id`); made by an `EventChannel`.

    Its methods raise OSError if the call of librdmacm fails, and ValueError for an unfit argument or after `close`.
    """

    @property
    def device(self) -> str | None:
        """The name of the device; None before a device is found, and at a listener on all devices."""

    @property
    def port(self) -> int:
        """The number of the device's port; 0 before a device is found, and at a listener on all devices."""

    @property
    def local(self) -> tuple[str, int]:
        """The address and the port number of this end."""

    @property
    def peer(self) -> tuple[str, int]:
        """The address and the port number of the other end."""

    def bind(self, host: str, port: int, scope: int = 0, /) -> None:
        """Binds the identifier to a local address.

        `host`: the IP address. `port`: the port; 0 for a free one. `scope`: the index of the interface of a link-local
        address; else 0.

        Raises:
            OSError: the address cannot be used.
            ValueError: `host` is no IP address, `port` no port, or `close` was called.
        """

    def listen(self, backlog: int, /) -> None:
        """Lets peers ask for connections from now on, each by an event CONNECT_REQUEST; at most `backlog` wait.

        Raises OSError if librdmacm refuses, ValueError after `close`.
        """

    def resolve_address(self, host: str, port: int, scope: int, timeout_ms: int, /) -> None:
        """Starts to look for the device that reaches the peer: ADDRESS_RESOLVED or ADDRESS_ERROR follows.

        Args:
            host: the peer's IP address.
            port: the peer's port.
            scope: the index of the interface of a link-local address; else 0.
            timeout_ms: the time limit in milliseconds.

        Raises:
            OSError: librdmacm refuses.
            ValueError: `host` is no IP address, `port` no port, or `close` was called.
        """

    def resolve_route(self, timeout_ms: int, /) -> None:
        """Starts to look for the path to the peer: within `timeout_ms`, ROUTE_RESOLVED or ROUTE_ERROR follows.

        Raises OSError if librdmacm refuses, ValueError after `close`.
        """

    def domain(self) -> Domain:
        """Returns a new protection domain on the identifier's device.

        Raises OSError if the device has no room for a further one, ValueError if the identifier has no device yet.
        """

    def queue_pair(
        self, domain: Domain, sends: int, receives: int, send_entries: int, receive_entries: int, /
    ) -> QueuePairHandle:
        """Creates the queue pair of the connection.

        Args:
            domain: the protection domain, made by this identifier.
            sends: the size of the send queue in work requests.
            receives: the size of the receive queue in work requests.
            send_entries: the most pieces of memory of a work request in the send queue.
            receive_entries: the most pieces of memory of a receive.

        Raises:
            OSError: the device has no room for a further queue pair.
            ValueError: `domain` is of another identifier.
        """

    def open_device(self) -> Device:
        """Opens the identifier's device a second time, for its asynchronous events.

        The `Device` keeps the identifier alive. Raises OSError if the device cannot be opened, ValueError if the
        identifier has no device yet.
        """

    def connect(self, private_data: bytes, inbound_reads: int, outbound_reads: int, /) -> None:
        """Asks the peer for the connection: ESTABLISHED, or the event of a failure, follows.

        With siw, Linux's iWARP in software, the call waits until the peer has answered.

        `private_data`: octets for the peer. `inbound_reads`: the RDMA Reads that the peer may have outstanding (IRD).
        `outbound_reads`: the RDMA Reads that this end may have outstanding (ORD).

        Raises OSError if librdmacm refuses, or with siw the peer; ValueError for more than 255 octets of private data.
        """

    def accept(self, private_data: bytes, inbound_reads: int, outbound_reads: int, /) -> None:
        """Accepts the peer's request for a connection: ESTABLISHED, or the event of a failure, follows.

        `private_data`: octets for the peer, which may have `inbound_reads` RDMA Reads outstanding (IRD), and this end
        `outbound_reads` (ORD). Raises OSError if librdmacm refuses, ValueError for over 255 octets of private data.
        """

    def reject(self, private_data: bytes, /) -> None:
        """Rejects the peer's request for a connection; `private_data` is sent along.

        Raises OSError if librdmacm refuses, ValueError for more than 255 octets of private data.
        """

    def disconnect(self) -> None:
        """Ends the connection: the queue pair enters the error state, and DISCONNECTED follows at both ends.

        Raises OSError if librdmacm refuses, ValueError after `close`.
        """

    def close(self) -> None:
        """Destroys the identifier; while a domain, queue pair or `Device` of it is left, its last reference does so."""


class ManagerEvent(NamedTuple):
    """An event of the connection manager about `identifier`; `kind` is a `ManagerEventKind`.

    CONNECT_REQUEST has a new identifier, and names the `listener` that received the request; other events have None
    there. `status` is 0, an errno below 0 or a reason of InfiniBand's connection manager above 0. The peer has asked
    for, or agreed to, `inbound_reads` outstanding RDMA Reads of its own, and `outbound_reads` of this end.
    """

    identifier: ConnectionIdentifier
    listener: ConnectionIdentifier | None
    kind: int
    status: int
    private_data: bytes
    inbound_reads: int
    outbound_reads: int


class EventChannel(Protocol):
    """A channel that reports the events of any number of connection identifiers (`rdma_event_channel`)."""

    def fileno(self) -> int:
        """Returns the descriptor that becomes readable when there is an event."""

    def identifier(self) -> ConnectionIdentifier:
        """Returns a new connection identifier, whose events this channel reports.

        Raises OSError if librdmacm makes none.
        """

    def events(self) -> Sequence[tuple[Any, ...]]:
        """Removes and returns events that have occurred, each as a tuple of the fields of `ManagerEvent`.

        One call may leave events for the next; the descriptor then stays readable. Raises OSError if the channel fails.
        """


class Binding(Protocol):
    """The extension module `rpcrdma_verbs`: INTERFACE is its version, RDMA_WRITE to BIND_WINDOW are opcodes of work."""

    INTERFACE: int
    RDMA_WRITE: int
    SEND: int
    SEND_WITH_INVALIDATE: int
    RDMA_READ: int
    BIND_WINDOW: int

    @property
    def EventChannel(self) -> Callable[[], EventChannel]:  # noqa: N802 - the type's name
        """The type of event channels; a call without arguments makes one."""

    def devices(self) -> list[DeviceAttributes]:
        """Returns the attributes of the devices that this process can open; empty if there is no device.

        Raises OSError if the process cannot list the devices, or can open none of them.
        """

    def status_text(self, status: int, /) -> str:
        """Returns libibverbs' description of a completion's status, a number such as those of `WorkStatus`."""


def _load() -> Binding:
    module: Any = import_module("rpcrdma_verbs")
    return cast("Binding", module)


def find(load: Callable[[], Binding] = _load) -> tuple[Binding | None, str]:
    """Loads the extension module `rpcrdma_verbs`.

    `load`: imports the module. Returns (the module, ""); or (None, a sentence with the reason and the remedy) if the
    module is not installed, does not load, or has another version of its interface than `INTERFACE`.
    """
    remedy = "install it from a checkout of rpcrdma: pip install ./native"
    try:
        module = load()
    except ModuleNotFoundError:
        return None, f"rpcrdma_verbs is not installed; {remedy}"
    except ImportError as error:
        return None, f"rpcrdma_verbs does not load: {error}; {remedy}"
    if module.INTERFACE != INTERFACE:
        return None, (
            f"rpcrdma_verbs has interface {module.INTERFACE}, this version of rpcrdma needs {INTERFACE}; {remedy}"
        )
    return module, ""
