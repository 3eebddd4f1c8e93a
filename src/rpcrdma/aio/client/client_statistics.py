"""A client's counters, and the statistics of its calls, at one moment."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from rpcrdma.rpc.call_statistics import OperationStatistics
from rpcrdma.transport import TransportStatistics

__all__ = ["ClientStatistics"]


@dataclass(slots=True, kw_only=True)
class ClientStatistics(TransportStatistics):
    """The statistics of a client at one moment (`Connection.statistics`): RDMA counters and, over any transport, calls.

    The counters are the sums over all RDMA connections that were made; over TCP they are 0.
    """

    operations: tuple[OperationStatistics, ...] = ()
    """The calls that were made and have ended, by procedure and status; empty without `ConnectOptions.count_calls`.

    NULL calls by which the client itself asks whether the server is there are included."""
    answered: tuple[OperationStatistics, ...] = ()
    """The server's calls to the services of this client, by procedure and status; empty without
    `ConnectOptions.count_calls`."""

    @classmethod
    def of(
        cls,
        counters: TransportStatistics,
        operations: tuple[OperationStatistics, ...],
        answered: tuple[OperationStatistics, ...],
    ) -> ClientStatistics:
        """Returns statistics with the RDMA `counters`, and the calls that the client has made and answered.

        `operations` are the calls made, `answered` the server's calls to this client, both by procedure and status.
        """
        return cls(**asdict(counters), operations=operations, answered=answered)
