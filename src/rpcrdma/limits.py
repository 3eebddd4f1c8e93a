"""Bounds on what a peer can make us hold or wait for; each default says why."""

from __future__ import annotations

# ONC RPC, and ONC RPC over TCP

RPC_CREDENTIALS_REMEMBERED = 256
"""Decoded credential bodies that a dispatcher keeps: a body is at most 400 octets, and few callers talk at a time."""

RPC_RECORD_OCTETS_MAX = (1 << 20) + (1 << 16)
"""Octets of one record: a READ or WRITE of 1 MiB with everything around it. Users set it for their own programs."""

RPC_RECORD_SKIPPED_OCTETS_MAX = 64 << 20
"""Octets of a record over its bound that are thrown away so that its connection can go on: half a second of a fast
network. Whatever is no RPC at all, text or TLS, announces more with its first four octets, and is not read on."""

RPC_RECORD_FRAGMENTS_MAX = 1024
"""Fragments of one record: the smallest in use, 4,000 octets, make 280 of the largest record; empty ones count."""

RPC_RECORD_STEP_OCTETS = RPC_RECORD_OCTETS_MAX
"""Octets that a fragment header alone makes us allocate; more only as the data arrives."""

RPC_CONNECTIONS_MAX = 1024
"""Connections to one listener's server: what a default limit of open files allows."""

RDMA_STARTING_MAX = 256
"""Connections of one listener that may be in their start-up: each takes a round trip, so this is thousands a second."""

RDMA_IDLE_S = 3600.0
"""Seconds without any message before a connection without running calls is closed. Long, since not every client
connects again by itself; what holds a connection to a dead machine is let go much sooner, by TCP."""

RPC_OUTSTANDING_CALLS_MAX = 128
"""Calls of one connection not yet answered: what a Linux client keeps in flight by default."""

RPC_UNANSWERED_CALL_OCTETS_MAX = 8 << 20
"""Octets of the unanswered calls of one TCP connection before no more of it is read: 8 WRITEs of 1 MiB keep every
thread of a server busy."""

RPC_UNCOUNTED_CALL_OCTETS = 1 << 16
"""Octets of calls that a TCP connection may hold without their being counted: small calls cost nothing but a sum then,
and 1024 connections hold 64 MiB in that way."""

RPC_REVERSE_CALLS_MAX = 16
"""Calls of a server that are unanswered at one client over TCP; further ones wait. Linux clients take 16 over RDMA."""

RPC_UNSENT_REPLY_OCTETS_MAX = 4 << 20
"""Replies that a peer does not read pile up to here before its further calls are left unread."""

RPC_IDLE_S = 360.0
"""Seconds without a whole record before a connection without running calls is closed; Linux servers wait as long."""

RPC_STALLED_S = 10.0
"""Seconds without progress after which a peer that leaves replies unread is cut off, if memory gets short."""

BUFFER_POOL_OCTETS_MAX = 64 << 20
"""Octets kept for reuse or in use, for results and for arguments each: 64 of 1 MiB."""

BUFFER_OCTETS_MAX = 256 << 20
"""Octets in use altogether, pooled or not, for results and for arguments each, before all further calls wait."""

CLIENT_FREE_PARTS = 8
"""One client may have one part in so many of what the others leave free. Of memory that is 28 MiB if it is alone,
enough to keep any network busy; 16 clients that take all they can get leave 39 MiB for others, 40 leave 2 MiB."""

CONNECTIONS_FIRST_PARTS = 2
"""A connection that holds nothing gets something while more than one part in so many is free, whatever the others of
its address hold. So 128 connections that hold 1 MiB of memory and do nothing delay no others of their address, and
other addresses have their shares of the half that is left."""

BULK_RESULT_OCTETS = 1 << 20
"""What there must be memory for before a call of a client that holds some is run: the result of a READ of 1 MiB."""

RDMA_UNSENT_REPLY_OCTETS_MAX = 1 << 20
"""Bulk results of one RDMA connection that wait to be sent before its further calls are left waiting: one result of
1 MiB at a time is still in the processor's cache when it is sent."""

RDMA_STALLED_S = 30.0
"""Seconds in which a peer must have answered the RDMA Reads of one call, and taken one reply, while we hold memory for
them: 35 KB/s. All connections share that memory."""

# Calls that must not run twice

REPLY_CACHE_ENTRIES_MAX = 16384
"""Answered calls remembered: all that 128 connections may have unanswered when they are lost together."""

REPLY_CACHE_OCTETS_MAX = 16 << 20
"""Replies remembered: 1 KiB for each of them, where those of NFS that are kept take some 200 octets."""

REPLY_CACHE_REPLY_OCTETS_MAX = (1 << 20) + (1 << 16)
"""The largest reply remembered: a bulk result of 1 MiB with everything around it."""

REPLY_CACHE_SMALL_OCTETS = 1024
"""The largest reply that is kept until no larger ones are left: all that hold no data, among them every reply of NFS
to a call that changes something. As many as are remembered fit in."""

REPLY_CACHE_AGE_S = 120.0
"""Seconds for which an answered call is remembered: twice the default deadline of calls, and what Linux does."""

REPLY_CACHE_STAMPED_OCTETS = 4096
"""Octets at either end of long data that the checksum of a call with a stamp covers: a microsecond's work. Linux
servers look at the first 256 octets of every call."""

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

REPLY_OCTETS_MAX = (4 << 20) + (1 << 16)
"""Octets that a call exposes for its result, and for each item placed directly: what a READ of 4 MiB takes. So much
memory is set aside for each call whose result could have more."""
CALL_ATTEMPTS_MAX = 4
"""How often a call is sent that is refused in each form: once plainly, and once for each kind of chunk."""

OFFERED_OCTETS_MAX = (1 << 20) + (1 << 18)
"""What a refusal may make us offer for a result or a reply, whatever the caller expected: as much as a responder here
takes of a call."""

SPARE_RECEIVES = 8
"""Receives beyond those that credits ask for: messages that are discarded or refused take one, too."""

RECEIVE_BUFFERS_KEPT_MAX = 256
"""Buffers for incoming Sends kept for reuse: 1 MiB, and more than arrive together between two looks at the queue."""

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
"""Directory entries that a search for objects looks at: about two seconds. What it does not meet counts as gone."""

NFS_SEARCH_OCTETS_MAX = 64 << 20
"""Octets of the names that a search keeps, so that one serves for all handles: 24 octets and the name for each."""

NFS_SEARCH_REST_NS = 20_000
"""Nanoseconds without another search for each entry that the last one looked at, ten times what that took: lost handles
cost a tenth of one processor at the most."""

NFS_SEARCH_FREE_ENTRIES = 500
"""Entries of a search that is not worth saving: a millisecond."""

NFS_GONE_MAX = 65536
"""Handles of objects known to be deleted, so that asking again costs nothing."""

NFS_LISTING_OCTETS_MAX = 48 << 20
"""Octets of the names held for listings, of all directories together and of one: 24 octets and the name for each, so a
million names of 25 octets. A call with a cookie that is not among what is held reads its whole directory; one that
holds fewer names is read again only when it has changed."""

NFS_CALLERS_MAX = 1024
"""Identities prepared to act as."""

NFS_MOUNTS_MAX = 1024
"""Entries of the MOUNT program's list of who mounted what; informative, the oldest go first."""

# NFS client

NFS_COMMITS_IN_VAIN_MAX = 3
"""COMMITs of one file that may answer that the server has lost data before it is written FILE_SYNC, where each WRITE is
kept or refused: three restarts within one copy are bad luck, more are a server in trouble or one that lies."""

NFS_LISTED_NAMES_MAX = 10_000_000
"""Names that a directory may have before listing it ends in an error: what ext4 can hold, and an hour of its server's
work. A server that lists without end is found out in that way."""

NFS_LISTED_NAMES_HELD_MAX = 1_000_000
"""Names that a call holds all at once (`listdir`, `walk`): 60 MB of short ones, 320 MB of the longest."""

NFS_LISTED_NAMES_KNOWN_MAX = 50_000
"""Names of one listing that are remembered, so that none is told twice if it has to start over: 20 MB of the longest.
Larger directories cannot be started over."""

NFS_TREE_DEPTH_MAX = 2048
"""Directories below each other that are entered: paths of Linux, of 4,096 octets, name nothing deeper."""

NFS_TREE_PENDING_MAX = 50_000
"""Directories of a tree that are known and not yet entered, some 1,200 octets each: 60 MB."""

NFS_COPY_DIRECTORIES_OPEN_MAX = 512
"""Directories that a copy has open on this side, one a level and some more: half of the descriptors that a process may
have by default."""

NFS_TREE_FAILURES_MAX = 1000
"""Failures that the report on a tree keeps: enough to see what is wrong; the rest is counted."""

NFS_TREE_FAILURES_OCTETS_MAX = 1 << 20
"""Octets of their paths: 1 KiB for each; a path of a deep tree takes up to half a mebibyte."""

# Watching directories

NFS_WATCH_SUBSCRIPTIONS_MAX = 256
"""Subscriptions of all clients together, each with a descriptor of its directory: a quarter of what a process may have
by default."""

NFS_WATCH_CONNECTION_SUBSCRIPTIONS_MAX = 16
"""Subscriptions of one connection: as many as the calls back that a client takes at once."""

NFS_WATCH_DIRECTORIES_MAX = 65536
"""Directories watched for all subscriptions: about 1 KiB of the kernel's memory each."""

NFS_WATCH_SUBSCRIPTION_DIRECTORIES_MAX = 8192
"""Directories watched for one subscription: what Linux lets a user watch at the least."""

NFS_WATCH_SCAN_ENTRIES_MAX = 200_000
"""Directory entries looked at when a subscription starts or a tree appears in it: half a second, in which other
subscriptions wait."""

NFS_WATCH_CHANGES_MAX = 1024
"""Changes of one subscription that wait to be acknowledged: 10 s of 100 a second; more become one: rescan."""

NFS_WATCH_CHANGES_OCTETS_MAX = 128 << 10
"""Octets of their paths: 128 for each."""

NFS_WATCH_BATCH_OCTETS_MAX = 16 << 10
"""Octets of one batch of changes; less where the client takes smaller messages."""

NFS_WATCH_GATHER_S = 0.02
"""Seconds in which changes gather after the first one, so that what repeats is told once; not felt by people."""

NFS_WATCH_REPLY_S = 20.0
"""Seconds after which a batch that was not acknowledged is sent again."""

NFS_WATCH_KEPT_S = 120.0
"""Seconds for which a subscription outlives its connection: as long as replies are remembered."""

NFS_WATCH_UNREAD_CHANGES_MAX = 65536
"""Changes that a client's program has not asked for yet, some 300 octets each; more become one: rescan."""
