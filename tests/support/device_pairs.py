"""Pairs of queue pairs of an RDMA device, for the suite of providers."""

from __future__ import annotations

import dataclasses
import select
import time

from rpcrdma.testing.pair_under_test import Deviations, PairParts
from rpcrdma.verbs.binding import Binding, ConnectionIdentifier, EventChannel, ManagerEvent, ManagerEventKind
from rpcrdma.verbs.device_memory import has_windows
from rpcrdma.verbs.device_queue_pair import DeviceQueuePair
from rpcrdma.verbs.device_registrations import KeptRegistrations

__all__ = ["DEVICE_DEVIATIONS", "IWARP_DEVIATIONS", "DevicePairs"]

_EVENT_S = 60.0
DEVICE_DEVIATIONS = Deviations(
    pads_private_data="a request and its answer have a fixed length in InfiniBand's connection manager",
    hides_faults="InfiniBand answers a missing receive with a negative acknowledgement that only the sender sees, and "
    "reports an invalidation that failed only where it failed",
    cannot_invalidate_remotely="a peer can invalidate memory windows alone, which this device has not",
    cannot_abandon="a device that lets a peer write would write to the memory itself",
)
IWARP_DEVIATIONS = dataclasses.replace(
    DEVICE_DEVIATIONS,
    pads_private_data="",
    tells_of_no_fault="siw reports a Terminate as the end of the connection, and work as flushed; the end that asked "
    "for a refused RDMA Read or invalidation hears nothing",
    reads_without_right="siw checks that an RDMA Read names live memory and stays within, but no right to read "
    "(siw_check_sgl_tx, which siw_qp_sq_proc_tx calls for a Read Response)",
    cannot_invalidate_remotely="",
    hides_invalidation="siw invalidates any memory of the protection domain, and its part of rdma-core leaves the "
    "flags of a completion empty (copy_cqe)",
)
"""Those of siw, Linux's software iWARP."""


class DevicePairs:
    """Makes pairs of connected queue pairs, of which one exists at a time.

    `address` is the device's. All data has arrived when nothing has happened for `quiet_s`.
    """

    def __init__(
        self, binding: Binding, address: str, quiet_s: float, deviations: Deviations = DEVICE_DEVIATIONS
    ) -> None:
        self._binding = binding
        self._quiet_s = quiet_s
        self._deviations = deviations
        self._channel: EventChannel = binding.EventChannel()
        self._listener: ConnectionIdentifier = self._channel.identifier()
        self._listener.bind(address, 0)
        self._listener.listen(8)
        self._kept = KeptRegistrations()
        self._ends: dict[ConnectionIdentifier, DeviceQueuePair] = {}

    def make(
        self,
        *,
        private_data: bytes = b"",
        inbound_reads: tuple[int, int] = (32, 32),
        outbound_reads: tuple[int, int] = (32, 32),
    ) -> PairParts:
        """A pair of which the initiator has asked the responder for the connection."""
        self.close()
        identifier = self._channel.identifier()
        identifier.resolve_address(*self._listener.local, 0, 2000)
        self._await(ManagerEventKind.ADDRESS_RESOLVED, identifier)
        identifier.resolve_route(2000)
        self._await(ManagerEventKind.ROUTE_RESOLVED, identifier)
        domain = identifier.domain()
        near = DeviceQueuePair(self._binding, identifier, domain, self._kept, private_data, None)
        near.inbound_reads = min(near.inbound_reads, inbound_reads[0])
        near.outbound_reads = min(near.outbound_reads, outbound_reads[0])
        near.flush()
        request = self._await(ManagerEventKind.CONNECT_REQUEST, self._listener)
        far_domain = request.identifier.domain()
        far = DeviceQueuePair(self._binding, request.identifier, far_domain, self._kept, b"", request)
        far.inbound_reads = min(far.inbound_reads, inbound_reads[1])
        far.outbound_reads = min(far.outbound_reads, outbound_reads[1])
        self._ends = {identifier: near, request.identifier: far}
        deviations = self._deviations
        if has_windows(domain.device):
            deviations = dataclasses.replace(deviations, cannot_invalidate_remotely="")
        return PairParts(near, near.pd, far, far.pd, self._progress, deviations)

    def _await(self, kind: ManagerEventKind, of: ConnectionIdentifier) -> ManagerEvent:
        until = time.monotonic() + _EVENT_S
        while time.monotonic() < until:
            select.select([self._channel], [], [], 1)
            for fields in self._channel.events():
                event = ManagerEvent(*fields)
                if of not in (event.identifier, event.listener):
                    # Of the pair before, which a check may still hold.
                    continue
                if event.kind == kind:
                    return event
                raise OSError(abs(event.status), f"{ManagerEventKind(event.kind).name} instead of {kind.name}")
        raise OSError(f"no {kind.name} within {_EVENT_S:g} s")

    def _progress(self) -> None:
        until = time.monotonic() + _EVENT_S
        descriptors = [self._channel.fileno(), *(end.fileno() for end in self._ends.values())]
        ready = True
        while ready or (time.monotonic() < until and not all(end.idle for end in self._ends.values())):
            # The suite uses handles that no Send has told of: their windows are bound before anything else is sent.
            for end in [end for end in self._ends.values() if end.binds and not end.idle] or self._ends.values():
                end.flush()
            ready = bool(select.select(descriptors, [], [], self._quiet_s)[0])
            for fields in self._channel.events():
                event = ManagerEvent(*fields)
                if event.identifier in self._ends:
                    self._ends[event.identifier].on_event(event)
            for end in self._ends.values():
                while end.poll():
                    pass

    def close(self) -> None:
        """Ends the pair that was made last."""
        for identifier, end in self._ends.items():
            end.abort("the check is over")
            end.release()
            identifier.close()
        self._ends = {}
