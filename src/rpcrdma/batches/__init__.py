"""Several RPC messages in one transmission of version 2, for streams of small calls: an experiment, off by default.

An extension like any other: it uses what `rpcrdma.transport` exports. No specification has it; the discussion of
round-trip latency in version 2 (draft-dnoveck-nfsv4-rpcrdma-rtissues section 4) names it as worth defining.

A message of the header type BATCH consists of a count, and for each RPC message of its length, its octets and what pads
them to a multiple of four. All are calls or all are replies, which RESPONSE says as well where the version has flags.
The header has the XID of the first one. None of them has chunks, and each would fit into a message by itself. A message
of this kind takes one credit, and never goes on in another one. The property of the same number, a word, says how many
RPC messages its sender takes in one; without it, or where it is 0, it is sent none.

A message of calls that is against these rules is refused as unreadable (BAD_XDR), with its XID, and none of its calls
runs: that error about the first call stands for all that went with it.
"""

from rpcrdma.batches.extension import NAME, batches_extension, with_batches

__all__ = ["NAME", "batches_extension", "with_batches"]
