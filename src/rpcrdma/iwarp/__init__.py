"""A software RNIC: MPA (RFC 5044, 6581), DDP (RFC 5041) and RDMAP (RFC 5040) as a queue pair without I/O."""

from rpcrdma.iwarp.config import IwarpConfig, MpaRole, ReadyFrame
from rpcrdma.iwarp.queue_pair import IwarpQueuePair
from rpcrdma.iwarp.receiver import Scratch

__all__ = ["IwarpConfig", "IwarpQueuePair", "MpaRole", "ReadyFrame", "Scratch"]
