"""The extension module `rpcrdma_verbs`, through which RDMA devices are used, where it is installed.

It opens libibverbs and librdmacm when the first of its functions is called. All failures of the two libraries are
OSErrors with the name of the call as their `filename`. One object is used by one thread at a time. Objects from before
a fork are the parent's: in the child they hold memory alone, and their end has no effect on the device.
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
"""The functions and types of the module as one number, which rises with each change of them."""


class Right(enum.IntFlag):
    """The rights of a registration (`ibv_access_flags`). A remote right to write takes the local one."""

    LOCAL_WRITE = 1
    REMOTE_WRITE = 2
    REMOTE_READ = 4
    WINDOW = 16
    """That windows may be bound to it. A window that lets the peer write takes the local right to write as well."""


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
    """Returns the removal of a device in words, with the remedy."""
    return f"the RDMA device {device} was removed: bring it back (see rdma link)"


class DeviceEventKind(enum.IntEnum):
    """The asynchronous events of a device and its ports (`ibv_event_type`) that this library distinguishes."""

    DEVICE_FATAL = 8
    PORT_ACTIVE = 9
    PORT_ERROR = 10


class PortAttributes(TypedDict):
    """A port of a device. `ethernet` distinguishes RoCE and iWARP from InfiniBand."""

    number: int
    active: bool
    ethernet: bool
    max_message_octets: int


class DeviceAttributes(TypedDict):
    """A device and its limits.

    `iwarp`: the device speaks iWARP, not InfiniBand or RoCE. `type_2_windows`: work requests bind memory windows, and a
    peer's Send with Invalidate ends the binding.
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
    """Registered memory."""

    @property
    def handle(self) -> int:
        """The handle by which the peer names it (`rkey`)."""

    @property
    def address(self) -> int:
        """The offset of its first octet for the peer, and its address here."""

    def start_of(self, buffer: object, /) -> int:
        """Returns the place of a buffer in the region; ValueError unless all of it lies there."""

    def deregister(self) -> None:
        """Ends the registration: when it returns, the device does not touch the memory any more."""


class MemoryWindow(Protocol):
    """A memory window of type 2: a handle for a part of a region, while it is bound."""

    @property
    def handle(self) -> int:
        """The handle since it was bound last. The next one must differ in its lower 8 bits, and only there."""

    def end(self) -> None:
        """Ends the window: when this returns, no peer reaches memory through it."""


Entry: TypeAlias = tuple[Region, int, int]
"""A piece of a scatter or gather list: a region, the first octet in it, and the number of octets."""


class Domain(Protocol):
    """A protection domain."""

    @property
    def device(self) -> DeviceAttributes:
        """The attributes of its device when it was made."""

    def register(self, buffer: object, access: int, keep: bool, /) -> Region:
        """Registers a buffer with rights from `Right`; a right to write takes a writable buffer (BufferError).

        The region keeps the buffer until `deregister`; without `keep` its owner calls that when the buffer is
        freed, whose pages stay with the device until then.
        """

    def window(self) -> MemoryWindow:
        """Returns a new memory window, not bound yet; OSError (ENOMEM) if the device has no more."""


SendWork: TypeAlias = (
    tuple[object, tuple[Entry, ...], int, int, int] | tuple[object, tuple[Entry, ...], int, int, int, MemoryWindow]
)
"""(object, entries, opcode, handle, offset), where BIND_WINDOW has rights in place of an offset, and its window."""


class QueuePairHandle(Protocol):
    """A queue pair of the device, with a completion queue of its own.

    It keeps the regions of posted work until their completion is taken, or until `end`.
    """

    def fileno(self) -> int:
        """Returns the descriptor that becomes readable when there may be completions."""

    def post_sends(self, works: Sequence[SendWork], /) -> None:
        """Posts a list of work requests to the send queue in one call."""

    def post_receives(self, works: Sequence[tuple[object, tuple[Entry, ...]]], /) -> None:
        """Posts a list of (object, entries) to the receive queue in one call."""

    def completions(self, most: int, arm: bool, /) -> list[tuple[Any, int, int, int]]:
        """Removes and returns up to `most` completions, each with a posted object, status, octets and a handle.

        These are (object, status, octets received, handle that the peer invalidated or 0). A flag that rxe sets for an
        invalidated handle is one for checksums elsewhere: the handle may be any number. The descriptor becomes readable
        for later ones only with `arm`, and when fewer than `most` were returned.
        """

    def broken(self) -> bool:
        """Returns whether the device has stopped the queue pair because of an error."""

    def end(self) -> None:
        """Stops it: when this returns, the device does not touch the memory of posted work any more."""

    def close(self) -> None:
        """Destroys it with its completion queue and its descriptor."""


class Device(Protocol):
    """A device that this process uses."""

    @property
    def node(self) -> str:
        """The name of its character device, as "uverbs0"."""

    def fileno(self) -> int:
        """Returns the descriptor that becomes readable when there is an event of the device."""

    def events(self) -> list[tuple[int, int]]:
        """Removes and returns all events of the device and its ports: the kind, and the number of the port."""

    def let_go(self) -> None:
        """Closes a device that is being removed, for the whole process, so that its removal can finish.

        The kernel frees everything that this process still has on the device.

        Raises:
            OSError: EBUSY while the process has queue pairs on the device, those of other event loops included.
        """

    def close(self) -> None:
        """Closes the descriptor of events."""


class ConnectionIdentifier(Protocol):
    """One connection, or one listener, of the connection manager."""

    @property
    def device(self) -> str | None:
        """The name of its device, None while none was found or where all are meant."""

    @property
    def port(self) -> int:
        """The number of its port of the device, 0 while none was found or where all are meant."""

    @property
    def local(self) -> tuple[str, int]:
        """Address and port of this end."""

    @property
    def peer(self) -> tuple[str, int]:
        """Address and port of the other end."""

    def bind(self, host: str, port: int, scope: int = 0, /) -> None:
        """Binds the identifier to a local address; port 0 takes a free one.

        `scope`: the interface of a link-local address.
        """

    def listen(self, backlog: int, /) -> None:
        """Accepts requests for connections from now on, with at most `backlog` of them waiting."""

    def resolve_address(self, host: str, port: int, scope: int, timeout_ms: int, /) -> None:
        """Begins the search for the device that reaches the peer: ADDRESS_RESOLVED or ADDRESS_ERROR follows."""

    def resolve_route(self, timeout_ms: int, /) -> None:
        """Begins the search for the path to the peer: ROUTE_RESOLVED or ROUTE_ERROR follows."""

    def domain(self) -> Domain:
        """Returns a protection domain on the device that was found."""

    def queue_pair(
        self, domain: Domain, sends: int, receives: int, send_entries: int, receive_entries: int, /
    ) -> QueuePairHandle:
        """Returns a queue pair with this many work requests in each queue, each of this many entries."""

    def open_device(self) -> Device:
        """Returns the device that was found, with events of its own; the identifier stays as long as this does."""

    def connect(self, private_data: bytes, inbound_reads: int, outbound_reads: int, /) -> None:
        """Asks the peer for the connection, with the limits of RDMA Reads of this end (IRD, ORD)."""

    def accept(self, private_data: bytes, inbound_reads: int, outbound_reads: int, /) -> None:
        """Accepts the peer's request, with the limits of RDMA Reads of this end (IRD, ORD)."""

    def reject(self, private_data: bytes, /) -> None:
        """Rejects the peer's request."""

    def disconnect(self) -> None:
        """Ends the connection: the queue pair stops, and DISCONNECTED follows at both ends."""

    def close(self) -> None:
        """Ends the identifier now, or when the last domain and queue pair made from it is gone."""


class ManagerEvent(NamedTuple):
    """An event of `identifier`; CONNECT_REQUEST brings a new one and names its listener.

    `status` is an errno below 0 or a reason of InfiniBand's connection manager above 0. The read limits are those of
    this end, as the peer asks for them or has agreed to.
    """

    identifier: ConnectionIdentifier
    listener: ConnectionIdentifier | None
    kind: int
    status: int
    private_data: bytes
    inbound_reads: int
    outbound_reads: int


class EventChannel(Protocol):
    """The events of any number of identifiers."""

    def fileno(self) -> int:
        """Returns the descriptor that becomes readable when there is an event."""

    def identifier(self) -> ConnectionIdentifier:
        """Returns a new identifier, whose events this channel reports."""

    def events(self) -> Sequence[tuple[Any, ...]]:
        """Returns, and takes off the channel, events that have happened: the fields of ManagerEvent.

        The descriptor stays readable where there are more than one call returns.
        """


class Binding(Protocol):
    """The module `rpcrdma_verbs`. The numbers are opcodes of work requests."""

    INTERFACE: int
    RDMA_WRITE: int
    SEND: int
    SEND_WITH_INVALIDATE: int
    RDMA_READ: int
    BIND_WINDOW: int

    @property
    def EventChannel(self) -> Callable[[], EventChannel]:  # noqa: N802 - the type's name
        """Makes an event channel."""

    def devices(self) -> list[DeviceAttributes]:
        """Returns the devices that this process can open; OSError if it can open none of those present."""

    def status_text(self, status: int, /) -> str:
        """Returns the status of a completion in words."""


def _load() -> Binding:
    module: Any = import_module("rpcrdma_verbs")
    return cast("Binding", module)


def find(load: Callable[[], Binding] = _load) -> tuple[Binding | None, str]:
    """Returns (module, ""); (None, reason and remedy) if it is not installed or does not load."""
    remedy = "install it from a checkout of rpcrdma: pip install ./native"
    try:
        module = load()
    except ModuleNotFoundError:
        return None, f"rpcrdma_verbs is not installed; {remedy}"
    except ImportError as error:
        return None, f"rpcrdma_verbs does not load: {error}"
    if module.INTERFACE != INTERFACE:
        return None, (
            f"rpcrdma_verbs has interface {module.INTERFACE}, this version of rpcrdma needs {INTERFACE}; {remedy}"
        )
    return module, ""
