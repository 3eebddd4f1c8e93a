"""The calls and the ways to carry them that `rpcrdma roundtrips` compares.

An `Operation` is a call, or several calls at once, of a chosen size. A `Variant` has the settings of both ends that
decide how its data travels. draft-dnoveck-nfsv4-rpcrdma-rtissues-02 discusses them in sections 2 to 4.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from rpcrdma import AuthSys, Connection, ConnectOptions, RdmaServerConfig, TransportConfig
from rpcrdma.extension import Extension, Preference, RoundTrip, RoundTripConfig
from rpcrdma.nfs import v3
from rpcrdma.provider import Provider
from rpcrdma.rpc import CallContext, ReplyBound, Service
from rpcrdma_lab.simulation import sized_calls

__all__ = [
    "CALLS_AT_ONCE",
    "OPERATIONS",
    "PLOTTED_OPERATIONS",
    "SHORT_CALL",
    "TRANSFERS",
    "VARIANTS",
    "Operation",
    "Variant",
    "services",
    "with_extension",
]

CALLS_AT_ONCE = 8
"""Number of small calls made in one turn of the event loop, to show the interrupts that they share."""
TRANSFERS = 4
"""Number of READs and WRITEs, in turn, in one call."""

_MESSAGE_OCTETS = 4096
"""The default inline threshold of version 1 in octets, used as the message size of version 2, too."""
_HEAD_OCTETS = 1024
"""Octets of the first segment of a receive buffer, for headers and the payload of a usual call or reply."""
_ALL_IN_MESSAGES_OCTETS = 2 << 20
_CREDENTIAL = AuthSys(machine="client", uid=1000, gid=1000, gids=())
"""A fixed credential, so that the length of a call does not depend on the simulating machine."""
_HANDLE = v3.nfs_fh3(b"file")
_NO_ATTRIBUTES = v3.post_op_attr(False, None)
_NO_CHANGES = v3.wcc_data(v3.pre_op_attr(False, None), _NO_ATTRIBUTES)


class _Files(v3.NFS_V3_Service):
    """An NFSv3 service with one file: READ returns any number of octets, and WRITE drops the octets."""

    OWN_LIMITS = True
    IDEMPOTENT = frozenset({v3.READ.number, v3.WRITE.number})

    def read(self, args: v3.READ3args, context: CallContext) -> v3.READ3res:
        data = context.buffer(args.count)
        return v3.READ3res(v3.nfsstat3.NFS3_OK, v3.READ3resok(_NO_ATTRIBUTES, args.count, False, data))

    def write(self, args: v3.WRITE3args, context: CallContext) -> v3.WRITE3res:
        del context
        done = v3.WRITE3resok(_NO_CHANGES, args.count, args.stable, bytes(v3.NFS3_WRITEVERFSIZE))
        return v3.WRITE3res(v3.nfsstat3.NFS3_OK, done)


class _SizedCalls(sized_calls.SIZED_CALLS_V1_Service):
    """The service of the RPC program `sized_calls`, which takes and returns any number of octets."""

    OWN_LIMITS = True
    IDEMPOTENT = frozenset(sized_calls.PROGRAM.procedures)

    def sized_long_call(self, args: sized_calls.message_data, context: CallContext) -> sized_calls.message_size:
        del context
        return sized_calls.message_size(len(args.octets))

    def sized_long_reply(self, args: sized_calls.message_size, context: CallContext) -> sized_calls.message_data:
        del context
        return sized_calls.message_data(bytes(args.octets))

    def sized_transfers(self, args: sized_calls.transfer_list, context: CallContext) -> sized_calls.transfer_results:
        results = []
        for transfer in args.transfers:
            # A READ names a length, a WRITE has the data.
            value = transfer.value
            result = context.buffer(value) if isinstance(value, int) else len(value)
            results.append(sized_calls.transferred(transfer.kind, result))
        return sized_calls.transfer_results(results)


def services() -> list[Service]:
    """Returns new services for the simulated server: NFSv3 with one file, and the RPC program of `sized_calls`."""
    return [_Files(), _SizedCalls()]


class Operation(NamedTuple):
    """A kind of call that is measured.

    Attributes:
        name: the name of the operation in tables.
        call: makes one call on a connection, with a number of octets of data; returns an awaitable of its result.
        calls: the number of calls made at the same time.
    """

    name: str
    call: Callable[[Connection, int], Awaitable[Any]]
    calls: int = 1


def _transfers(connection: Connection, size: int) -> Awaitable[object]:
    kinds = [sized_calls.transfer_kind.TRANSFER_READ, sized_calls.transfer_kind.TRANSFER_WRITE] * (TRANSFERS // 2)
    reads = kinds.count(sized_calls.transfer_kind.TRANSFER_READ)
    bound = ReplyBound(4 + 8 * len(kinds), (size,) * reads)
    procedure = replace(sized_calls.SIZED_TRANSFERS, bound=bound)
    transfers = [
        sized_calls.transfer(kind, size if kind is sized_calls.transfer_kind.TRANSFER_READ else bytes(size))
        for kind in kinds
    ]
    return connection.call(procedure, sized_calls.transfer_list(transfers))


def _write(connection: Connection, size: int) -> Awaitable[object]:
    return connection.call(v3.WRITE, v3.WRITE3args(_HANDLE, 0, size, v3.stable_how.UNSTABLE, bytes(size)))


SHORT_CALL = Operation("short call", lambda connection, _: connection.call(sized_calls.SIZED_NULL, None))
OPERATIONS = (
    SHORT_CALL,
    Operation("READ", lambda connection, size: connection.call(v3.READ, v3.READ3args(_HANDLE, 0, size))),
    Operation("WRITE", _write),
    Operation(
        "long call",
        lambda connection, size: connection.call(sized_calls.SIZED_LONG_CALL, sized_calls.message_data(bytes(size))),
    ),
    Operation(
        "long reply",
        lambda connection, size: connection.call(sized_calls.SIZED_LONG_REPLY, sized_calls.message_size(size)),
    ),
    Operation(f"{TRANSFERS} transfers in one call", _transfers),
    SHORT_CALL._replace(name=f"{CALLS_AT_ONCE} short calls at once", calls=CALLS_AT_ONCE),
)
PLOTTED_OPERATIONS = tuple(
    each for each in OPERATIONS if each.name in {SHORT_CALL.name, "READ", "WRITE", "long call", "long reply"}
)
"""The operations that plots show; tables compare the others with the short call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """The settings of both ends that decide how the data of calls travel.

    `name` is the variant's name in tables. `rpcrdma_version` and `extension` are values of the options with these
    names in `ConnectOptions` and `RdmaServerConfig`. `client_extensions` and `server_extensions` return new extensions.
    """

    name: str
    rpcrdma_version: str = "2"
    transport: TransportConfig
    extension: str = "off"
    plotted: bool = True
    """Whether plots have a curve for the variant; others have nearly the same latency as one of these."""
    client_extensions: Callable[[], Sequence[Extension]] = tuple
    server_extensions: Callable[[], Sequence[Extension]] = tuple

    def connect_options(self, provider: Provider) -> ConnectOptions:
        """Returns the client's options, with new extensions, for one connection over the RDMA provider `provider`."""
        return ConnectOptions(
            provider=provider,
            rpcrdma_version=self.rpcrdma_version,
            credential=_CREDENTIAL,
            transport=self.transport,
            extension=self.extension,
            extensions=self.client_extensions(),
        )

    def server_config(self, provider: Provider) -> RdmaServerConfig:
        """Returns a server's configuration, with new extension objects, to serve over the RDMA provider `provider`."""
        return RdmaServerConfig(
            provider=provider,
            rpcrdma_version=self.rpcrdma_version,
            transport=self.transport,
            extension=self.extension,
            extensions=self.server_extensions(),
        )


def _version_1(*, remote_invalidation: bool = True) -> TransportConfig:
    """Returns transport settings of version 1 with inline thresholds of 4096 octets, as Linux has them.

    `remote_invalidation` says whether replies may be sent by Send with Invalidate.
    """
    return TransportConfig(
        inline_send_octets=_MESSAGE_OCTETS,
        inline_receive_octets=_MESSAGE_OCTETS,
        remote_invalidation=remote_invalidation,
    )


def _version_2(in_messages_octets_max: int | None, *, remote_invalidation: bool = True) -> TransportConfig:
    return TransportConfig(
        offered_send_octets=_MESSAGE_OCTETS,
        offered_receive_octets=_MESSAGE_OCTETS,
        in_messages_octets_max=in_messages_octets_max,
        remote_invalidation=remote_invalidation,
    )


def _by_send(name: str, client_segment: int, server_segment: int) -> Variant:
    """Returns a variant, with this name, in which the round-trip extension of version 2 sends bulk data in Sends.

    `client_segment` and `server_segment` are the lengths, in octets, of the one segment for bulk data in each receive
    buffer of the client and of the server; 0: the receive buffers of this end have no such segment.
    """
    receive_octets = _HEAD_OCTETS + max(client_segment, server_segment)
    both = client_segment and server_segment

    def extensions(segment: int) -> Callable[[], Sequence[Extension]]:
        config = RoundTripConfig(preference=Preference.SEGMENTS, segment_octets=segment)
        return lambda: [RoundTrip(config, receive_octets=receive_octets).extension]

    return Variant(
        name=name,
        plotted=bool(both),
        transport=TransportConfig(
            offered_send_octets=receive_octets,
            offered_receive_octets=receive_octets,
            in_messages_octets_max=_ALL_IN_MESSAGES_OCTETS if both else 0,
        ),
        client_extensions=extensions(client_segment),
        server_extensions=extensions(server_segment),
    )


VARIANTS = (
    Variant(name="version 1", rpcrdma_version="1", transport=_version_1()),
    Variant(name="version 1, local invalidation", rpcrdma_version="1", transport=_version_1(remote_invalidation=False)),
    Variant(name="version 2", transport=_version_2(0), plotted=False),
    Variant(name="version 2, local invalidation", transport=_version_2(0, remote_invalidation=False), plotted=False),
    Variant(name="version 2, continued", transport=_version_2(_ALL_IN_MESSAGES_OCTETS)),
    _by_send("requests by Send, 4 KiB", 0, 4096),
    _by_send("responses by Send, 4 KiB", 4096, 0),
    _by_send("both by Send, 4 KiB", 4096, 4096),
    _by_send("both by Send, 8 KiB", 8192, 8192),
    Variant(name="defaults", rpcrdma_version="auto", extension="auto", transport=TransportConfig()),
)
"""The variants of `rpcrdma roundtrips`. Versions 1 and 2 use RDMA with messages of 4096 octets.

"defaults" has the library's default settings.
"""


def with_extension(name: str, make: Callable[[], Extension]) -> Variant:
    """Returns a variant for version 2 with an extension, under the name "version 2, NAME".

    `make` returns a new extension. It is called anew for each client's options and each server's configuration.
    """
    return Variant(
        name=f"version 2, {name}",
        transport=_version_2(0),
        client_extensions=lambda: [make()],
        server_extensions=lambda: [make()],
    )
