"""Bounds of a server on its exports, each with its reason: what clients can make it hold of file systems."""

from __future__ import annotations

# NFS server over a local directory

NFS_CHANGES_COUNTED_MAX = 16_384
"""Objects whose changes within one tick of the file system's clock are counted: some 4 MiB. When a count is dropped,
the `change` attribute of its object falls back to the plain change time, so that clients read the object again."""
NFS_OBJECTS_OPEN_MAX = 4096
"""Objects whose O_PATH descriptors are kept; the server takes at most a quarter of the descriptors it may have."""

NFS_FILES_OPEN_MAX = 512
"""Files kept open for READ and WRITE; at most an eighth of the descriptors."""

NFS_LEASES_MAX = 10_000
"""Files with a lease, each with a descriptor: the number of delegations that a server allows
(`NFS4_DELEGATIONS_TOTAL_MAX`), and at most one for each 32 descriptors of the process."""

NFS_LEASE_STALLED_S = 2.0
"""Seconds after which a local writer goes on if the owner of a lease has not looked at it: the writer may be the very
thread of the owner's event loop."""

NFS_PLACES_IN_MEMORY_MAX = 65536
"""Places of objects in memory, some 300 octets each; handles of objects known to be deleted are among them, so that
their further use needs no search."""

NFS_PLACES_UNWRITTEN_MAX = 4096
"""Places that wait to be written to the database together: a few milliseconds of work."""

NFS_PLACES_MAX = 2_000_000
"""Places in the database, some 100 octets each; the oldest are dropped first."""

NFS_SEARCH_ENTRIES_MAX = 1_000_000
"""Directory entries that a search for objects looks at: about two seconds. An object that it does not meet counts as
gone until the next search."""

NFS_SEARCH_OCTETS_MAX = 64 << 20
"""Octets of the names that a search keeps, so that one search serves all handles: 24 octets and the name for each."""

NFS_SEARCH_REST_NS = 20_000
"""Nanoseconds of rest after a search for each entry that it looked at: ten times as long as the look took, so that
searches for lost handles take at most a tenth of one processor."""

NFS_SEARCH_FREE_ENTRIES = 500
"""A search of no more entries than this needs no rest after it: it takes a millisecond."""

NFS_LISTING_OCTETS_MAX = 48 << 20
"""Octets of the names held for listings, of all directories together and of one: 24 octets and the name for each, so a
million names of 25 octets. A call whose cookie is not among the names held reads its whole directory; a directory
with fewer names is read again only when it has changed."""

NFS_CALLERS_MAX = 1024
"""Callers' identities (uid, gid, groups) that are kept prepared for file access, and users with known groups."""

NFS_DECISIONS_MAX = 1024
"""Origins of calls, with their principals, whose rule of an export is remembered: those of as many connections as a
server has. Beyond that the rules are looked through again."""

NFS_MOUNTS_MAX = 1024
"""Entries of the MOUNT program's list of mounts (client and directory); the list only informs, and the oldest are
dropped first."""

# NFS server over file systems of fsspec

NFS_FSSPEC_VALID_S = 5.0
"""Seconds for which a server uses an answer of a file system of fsspec: with NFS's own 3 to 60 s they hardly count, and
an object store is asked for an object that is in steady use 12 times a minute."""

NFS_FSSPEC_OBJECTS_MAX = 32_768
"""Objects of exported file systems of fsspec whose state is in memory: 800 octets each, 5 KB with the longest paths.
Others are asked for again."""

NFS_FSSPEC_PATH_OCTETS_MAX = 4096
"""Octets of a path below the root of such an export: that of Linux; keys of S3 and its like have 1,024."""

NFS_FSSPEC_LISTED_MAX = 1_000_000
"""Entries of one directory of such a file system: its library holds them all, about 1 GB. A larger directory cannot be
listed, and the log says so."""

NFS_FSSPEC_LISTINGS_OCTETS_MAX = 96 << 20
"""Octets of the names and attributes held for listings of such file systems, of all directories together and of one:
58 octets and the name for each, so a million names of 40 octets."""

NFS_FSSPEC_BLOCKS_OCTETS_MAX = 128 << 20
"""Octets of data of such file systems that are kept in memory: the read-ahead of 16 sequential readers. The ranges that
are being fetched, one by each worker and each read-ahead thread, add at most 40 MiB."""

NFS_FSSPEC_AHEAD_OCTETS_MAX = 8 << 20
"""Octets that are fetched ahead of one reader in sequence: half of them take 40 ms at 100 MB/s, the time to the first
octet of the next range."""

NFS_FSSPEC_AHEAD_FETCHES_MAX = 4
"""Fetches ahead at a time, each in a thread of its own, of all files together: half of the workers."""

NFS_FSSPEC_READERS_MAX = 1024
"""Files of which the end of the last read is remembered, some 300 octets each."""

NFS_FSSPEC_INSTANCES_MAX = 12
"""Connections of one export that are kept for file systems whose library serves one thread at a time: one for each
worker and each fetch ahead."""
