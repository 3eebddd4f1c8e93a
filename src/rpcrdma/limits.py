"""Bounds on what a peer can make us hold or wait for; each default says why."""

from __future__ import annotations

# ONC RPC, and ONC RPC over TCP

RPC_CREDENTIALS_REMEMBERED = 256
"""Decoded credential bodies that a dispatcher keeps: a body is at most 400 octets, and few callers talk at a time."""

RPC_RECORD_OCTETS_MAX = (1 << 20) + (1 << 16)
"""Octets of one record: a READ or WRITE of 1 MiB with everything around it."""

RPC_RECORD_FRAGMENTS_MAX = 1024
"""Fragments of one record: the smallest in use, 4,000 octets, make 280 of the largest record; empty ones count."""

RPC_RECORD_STEP_OCTETS = RPC_RECORD_OCTETS_MAX
"""Octets that a fragment header alone makes us allocate; more only as the data arrives."""

RPC_CONNECTIONS_MAX = 1024
"""Connections to one listener's server: what a default limit of open files allows."""

RPC_OUTSTANDING_CALLS_MAX = 128
"""Calls of one connection not yet answered: what a Linux client keeps in flight by default."""

RPC_UNSENT_REPLY_OCTETS_MAX = 4 << 20
"""Replies that a peer does not read pile up to here before its further calls are left unread."""

RPC_IDLE_S = 360.0
"""Seconds without a whole record before a connection without running calls is closed; Linux servers wait as long."""

RPC_STALLED_S = 10.0
"""Seconds without progress after which a peer that leaves replies unread is cut off, if memory gets short."""

BUFFER_POOL_OCTETS_MAX = 64 << 20
"""Octets kept for reuse or in use by handlers: 64 results of 1 MiB."""

BUFFER_OCTETS_MAX = 512 << 20
"""Octets in use by handlers altogether, pooled or not, before further requests fail."""

RDMA_UNSENT_REPLY_OCTETS_MAX = 1 << 20
"""Bulk results of one RDMA connection that wait to be sent before its further calls are left waiting: one result of
1 MiB at a time is still in the processor's cache when it is sent."""

RDMA_STALLED_S = 30.0
"""Seconds in which a peer must have answered the RDMA Reads of one call, and taken one reply, while we hold memory for
them: 35 KB/s. All connections share that memory."""

# RPC-over-RDMA

CHUNK_SEGMENTS_MAX = 272
"""Segments of one chunk: 1 MiB and its headers in pages of 4 KiB, for peers that register page by page."""

READ_CHUNKS_MAX = 16
"""Read chunks of one call, Position Zero included: no known client sends more than two (RFC 8267 section 6.4.2)."""

WRITE_CHUNKS_MAX = 16
"""Write chunks of one call; Linux servers accept one (RFC 8267 section 6.4.2)."""

CALL_OCTETS_PULLED_MAX = (1 << 20) + (1 << 18)
"""Octets that the Read chunks of one call make a responder hold: a WRITE of 1 MiB with everything around it."""

CONNECTION_OCTETS_PULLED_MAX = 32 << 20
"""Octets pulled for unanswered calls of one connection; further calls wait with nothing but their headers."""

SPARE_RECEIVES = 8
"""Receives beyond those that credits ask for: messages that are discarded or refused take one, too."""

# NFS server over a local directory

NFS_OBJECTS_OPEN_MAX = 4096
"""Objects whose O_PATH descriptors are kept; the server takes at most a quarter of the descriptors it may have."""

NFS_FILES_OPEN_MAX = 512
"""Files kept open for READ and WRITE; at most an eighth of the descriptors."""

NFS_PLACES_IN_MEMORY_MAX = 65536
"""Places of objects in memory, some 300 octets each."""

NFS_PLACES_UNWRITTEN_MAX = 4096
"""Places that wait to be written to the database together: a few milliseconds of work."""

NFS_PLACES_MAX = 2_000_000
"""Places in the database, some 100 octets each; the oldest go first."""

NFS_SEARCH_ENTRIES_MAX = 1_000_000
"""Directory entries that a search for one object looks at before its handle counts as stale: about two seconds."""

NFS_GONE_MAX = 65536
"""Handles known to be stale, so that asking again does not cost another search."""

NFS_LISTING_ENTRIES_MAX = 100_000
"""Directory entries held for listings that go on, of all directories together, and of one listing's window."""

NFS_CALLERS_MAX = 1024
"""Identities prepared to act as."""

NFS_MOUNTS_MAX = 1024
"""Entries of the MOUNT program's list of who mounted what; informative, the oldest go first."""
