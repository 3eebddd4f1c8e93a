"""Bounds on what clients of NFS version 4.1 and 4.2 can make a server keep or do, each with its reason."""

from __future__ import annotations

# State of clients of NFS version 4.1

NFS4_CLIENTS_MAX = 4096
"""Records of clients, 2 KiB each: four for each of 1,024 connections. A host may have half of those that others leave.
A further one takes the place of the oldest unconfirmed one, of the one without a lease for longest, or of one that
holds nothing at the host with most records; without any of these it waits."""

NFS4_UNCONFIRMED_CLIENTS_MAX = 1024
"""Clients without a session yet, which takes a round trip. The oldest one of the host with most of them ends."""

NFS4_LEASE_S = 90.0
"""Seconds for which a client's state is kept without a word from it; Linux servers have the same."""

NFS4_COURTESY_S = 86400.0
"""Seconds for which the state of a silent client is kept as long as nobody wants it: a laptop's night, as on Linux."""

NFS4_SESSIONS_MAX = 16
"""Sessions of one client: Linux has one, a client of several processes perhaps one each."""

NFS4_SLOTS_MAX = 64
"""Slots of one session, the calls that it may have in flight: Linux asks for 64."""

NFS4_KEPT_REPLY_OCTETS_MAX = 8 << 10
"""Octets of a reply that a slot keeps for a repeat: Linux asks for 7,584, and needs some 500."""

NFS4_SLOT_OCTETS = 192
"""Octets of a slot without its reply."""

NFS4_SLOTS_OCTETS_MAX = 140 << 20
"""Octets of all slots with the replies that they may keep: 2 KiB for 64 slots of 1,024 sessions. A host may have half
of those that others leave, and a session gets one part in 1,024 of what its host may still have, so that later ones
get less, and the last of it serves thousands more. A host without a session gets one slot in any case: 9 MiB more for
hosts with all records of clients."""

NFS4_HELD_MAX = 16384
"""Opens, lock owners on files and delegations of one client, 1 KiB each: four times what a busy desktop has open."""

NFS4_HELD_TOTAL_MAX = 100_000
"""Opens, lock owners on files and delegations of all clients, or an eighth of the server's descriptors if that is less,
since an open file takes up to three. A host may hold half of those that others leave, so that none takes the last ones
by many clients."""

NFS4_DELEGATIONS_MAX = 2_000
"""Read delegations of one client: more files than a build reads again and again."""

NFS4_DELEGATIONS_TOTAL_MAX = 10_000
"""Read delegations of all clients; a host may hold half of those that others leave. On local directories each file with
delegations has a lease with a descriptor (`NFS_LEASES_MAX`), so that a server with few descriptors gives fewer."""

NFS4_DELEGATIONS_PARTS = 4
"""The states that the server may hold (`NFS4_HELD_TOTAL_MAX`) divided by the delegations that it may give: clients keep
these for long, and would have no room for opens."""

NFS4_DELEGATE_AGAIN_S = 10.0
"""Seconds after a recall in which no client gets a delegation of the same file: two clients that compete for it would
spend their time with recalls."""

NFS4_RECALLED_FILES_MAX = 1024
"""Files whose last recall is remembered for `NFS4_DELEGATE_AGAIN_S`; beyond them the oldest is forgotten."""

NFS4_RECALLS_MAX = 256
"""Clients with a recall in flight, which may not answer it for 10 s; the recalls of further clients wait for these. The
clients of a host may have half of those that others leave, so that many of one that do not answer delay no other's."""

NFS4_RANGES_MAX = 4096
"""Ranges that one lock owner has locked in one file: a database with a lock for each of its busy pages."""

NFS4_RANGES_TOTAL_MAX = 100_000
"""Locked ranges of all clients, 150 octets each. A host may lock half of those that others leave, so that none takes
the last ones."""

NFS4_RANGE_OWNERS_MAX = 4096
"""Lock owners with ranges of one file: each LOCK looks at all of them, 1 us each."""

NFS4_OWNERS_AT_ONCE = 64
"""Lock owners with ranges of a file in memory (tmpfs), and opens of any file, at which a LOCK or an OPEN looks in the
event loop: 64 such operations of a call take 4 ms. A worker thread looks at more."""

NFS4_STATEIDS_AT_ONCE = 64
"""Stateids of one TEST_STATEID that the event loop looks up: 64 such operations of a call take 4 ms, and Linux asks for
one at a time. A worker thread looks up more, of which the definition allows 1,024, and lets the lock go in between."""

NFS4_ENDED_AT_ONCE = 64
"""States of a client that end in one go where its lease has passed, it has restarted, it closes a file of many lock
owners, or an administrator revokes them, 1 ms of work; calls of others go on before the next ones."""

# Calls of NFS version 4.2

NFS4_FREED_AT_ONCE_OCTETS = 4 << 20
"""Octets of a file in memory (tmpfs) that the event loop frees with its last name, 1 ms; a thread frees more."""

NFS4_COPY_OCTETS_MAX = 64 << 20
"""Octets of all COPYs of a COMPOUND: half a second of a slow disk's time, so that a client's call is answered long
before it repeats it, and others wait no longer for a thread. The client asks for the rest in further calls."""

NFS4_XATTR_OCTETS_MAX = 64 << 10
"""Octets of the value of an extended attribute: XATTR_SIZE_MAX of Linux, which no file system exceeds there."""

NFS4_XATTR_NAME_OCTETS_MAX = 250
"""Octets of the name of an extended attribute: XATTR_NAME_MAX of Linux without the prefix "user."."""

NFS4_READ_PLUS_PARTS_MAX = 64
"""Data and holes in the result of one READ_PLUS, each of which takes two looks at the file's blocks, 2 us together. A
client asks for the rest."""
