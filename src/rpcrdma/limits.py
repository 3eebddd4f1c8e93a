"""Bounds on the memory, the time and the places that a peer can claim, each with its reason."""

from __future__ import annotations

# ONC RPC, and ONC RPC over TCP

RPC_CREDENTIALS_REMEMBERED = 256
"""Decoded credential bodies that a dispatcher keeps: a body is at most 400 octets, and few callers talk at a time."""

CALL_STATUSES_MAX = 8
"""Statuses of one procedure besides success, from its definition or from RPC, with counts of their own; further
statuses count as "other". About as many occur for LOOKUP in practice. A peer that provokes every status takes no place
from other procedures."""

CALL_OUTCOMES_MAX = 512
"""Pairs of procedure and status with counts of their own: the 28 procedures of NFS and MOUNT with 16 statuses
each, success and the statuses of this side included. Only procedures that this side serves or calls count. A pair takes
some 1,400 octets, 4,600 where calls have waited, and 78 series of 180 octets at a metrics endpoint, so
METRICS_PAGE_OCTETS_MAX has room for as many pairs over RDMA and as many over TCP."""

GSS_TOKEN_OCTETS_MAX = 64 << 10
"""Octets of one token that makes a context: a Kerberos ticket that lists the groups of a large
directory has 64 KiB at most."""

GSS_CONTEXTS_MAX = 4096
"""Contexts of RPCSEC_GSS that a server keeps, a few KiB each: four for each of its usual 1,024 connections. Beyond
that the least recently used one ends; its client makes another one."""

GSS_PRINCIPAL_CONTEXTS_MAX = 256
"""Contexts of one principal: the machine credential of a cluster's nodes, or a user who is logged in on all of them."""

GSS_CREATING_MAX = 256
"""Contexts that wait for a further token of their makers, about whom nothing is proved. Kerberos makes a context
with one token, so none of its contexts waits."""

GSS_ADDRESS_CREATING_MAX = 16
"""Contexts of one address, or one network of IPv6, that wait for a further token: users of a large machine who begin at
the same moment."""

GSS_CREATION_S = 30.0
"""Seconds that making a context may take: the time of a client that asks a distant KDC between two tokens."""

GSS_IDLE_S = 3600.0
"""Seconds without a call after which a context ends: its client makes another one, as long as its ticket is valid."""

GSS_SHORT_OCTETS = 32 << 10
"""Octets that a checksum or an encryption takes in the event loop: 150 us for krb5p, 40 us for krb5i. More go to a
thread, which costs 40 us more, and leaves the event loop to other calls."""

GSS_WINDOW = 256
"""Sequence numbers behind the highest that a context still takes: twice the calls that a connection may have in flight,
since a context may be used on several connections."""

RPC_RECORD_OCTETS_MAX = (1 << 20) + (1 << 16)
"""Octets of one record: a READ or WRITE of 1 MiB and its headers. Programs with larger messages set their own limit."""

RPC_RECORD_SKIPPED_OCTETS_MAX = 64 << 20
"""Octets of an oversized record that are read and dropped so that its connection can continue: half a second of a
fast network. The first four octets of a text or TLS stream, read as a record header, announce more: such a
connection is closed."""

RPC_RECORD_FRAGMENTS_MAX = 1024
"""Fragments of one record: the smallest in use, 4,000 octets, make 280 of the largest record; empty ones count."""

RPC_RECORD_STEP_OCTETS = RPC_RECORD_OCTETS_MAX
"""Octets that a fragment header alone makes us allocate; more only as the data arrives."""

RPC_CONNECTIONS_MAX = 1024
"""Connections of RDMA to one server, and of TCP: fewer where the limit of open files does not allow both beside the
files that an NFS server opens."""

CONNECTIONS_OF_HOST_PARTS = 4
"""One part in this many of a server's places for connections is for one address at most, unless `connections_per_host`
says otherwise: four addresses have to act together to take all places by connections in use. Calls in progress follow:
128 on each of them."""

CONNECTIONS_OF_HOST_MIN = 16
"""Connections that one address has also where that part is less: a Linux client makes as many with nconnect=16."""

CONNECTIONS_KEPT_PARTS = 8
"""One part in this many of a server's places is never taken by a single address, or by the addresses of one network of
IPv6, so that others find a place. A network may have more than an address: all hosts of a cluster may be in one."""

RDMA_STARTING_MAX = 256
"""Connections of one listener that may be in their start-up: each takes a few round trips, so this is thousands a
second. A server with more than 1,024 places lets a quarter of them start: its clients may come back all at once, and a
server that is busy with many start-ups takes longer for each (docs/scale.md)."""

RDMA_STARTING_S = 2.0
"""Seconds after which a connection that is still in its start-up gives its place to another client. Each start-up takes
a few round trips, and waits for those that began before it."""

RDMA_RECEIVES_LOCKED_OCTETS_MAX = 4 << 30
"""Octets of receives over RDMA devices, for all connections of a server. They are locked from a peer's request on, by
default 5 or 7 MB each: 600 to 800 connections, twice as many as may be in their start-up. Beyond that the connection
that has been idle longest gives its place. Lower credits, or smaller messages, leave room for more connections."""

RDMA_IDLE_S = 3600.0
"""Seconds without any message before a connection without running calls is closed. Long, since not every client
connects again by itself. A connection to a dead machine ends within two minutes: by TCP's keep-alive, or by probes over
an InfiniBand or RoCE device. An iWARP device ends it when its TCP does: 16 minutes with siw."""

RPC_OUTSTANDING_CALLS_MAX = 128
"""Unanswered calls of one connection: as many as a Linux client keeps in flight by default."""

RPC_UNANSWERED_CALL_OCTETS_MAX = 8 << 20
"""Octets of the unanswered calls of one TCP connection before no more of it is read: 8 WRITEs of 1 MiB keep every
thread of a server busy."""

RPC_UNCOUNTED_CALL_OCTETS = 1 << 16
"""Octets of calls that a connection may hold before they count against the server's memory, over TCP or, in long or
unfinished messages, over RDMA: small calls then cost one addition, and 1024 connections hold at most 64 MiB uncounted.
"""

RPC_REVERSE_CALLS_MAX = 16
"""Calls of a server that are unanswered at one client over TCP; further ones wait. Linux clients take 16 over RDMA."""

RPC_UNSENT_REPLY_OCTETS_MAX = 4 << 20
"""Octets of replies that wait for the peer to read them before its further calls are left unread."""

RPC_IDLE_S = 360.0
"""Seconds without a whole record before a connection without running calls is closed; Linux servers wait as long."""

RPC_STALLED_S = 10.0
"""Seconds without progress after which a peer that leaves replies unread is cut off, if memory gets short."""

BUFFER_POOL_OCTETS_MAX = 64 << 20
"""Octets kept for reuse or in use, for results and for arguments each: 64 of 1 MiB."""

SERVER_WORKERS = 8
"""Threads in which handlers block in file systems at the same time; a Linux NFS server starts as many."""

BUFFER_OCTETS_MAX = 256 << 20
"""Octets in use altogether, pooled or not, for results and for arguments each, before all further calls wait."""

CONNECTION_TURN_S = 0.002
"""Seconds for which the event loop takes messages of one connection before the others have their turns: some forty
calls that are answered at once. A longer one ends the turn."""

CLIENT_FREE_PARTS = 8
"""A client may hold at most one eighth of the memory that no client holds, so a single client gets 28 MiB: enough to
keep any network busy. After 16 clients that take all they can get, 39 MiB are left, after 40 clients 2 MiB."""

CLIENT_FREE_PARTS_ARRIVED = 4
"""Like CLIENT_FREE_PARTS, for memory with messages that have arrived over RDMA. Such a message cannot wait and is
refused beyond the bound, so a client may hold more, one quarter: 28 MiB on a single connection, almost its own bound,
and 51 MiB for a single client. After 16 clients that take all they can get, 7 MiB are left."""

CONNECTIONS_FIRST_PARTS = 2
"""A connection that holds nothing is given its first share while more than one part in this many is free, even if
other connections of its address hold much. So 128 idle connections that hold 1 MiB of memory each delay no others of
their address, and other addresses have their shares of the half that is left."""

UNCOUNTED_RESULT_OCTETS = 1 << 12
"""Bulk results up to this size do not count against the server's memory: they take as much as a reply without bulk data
may, of which none is counted. The bounds on unsent replies hold for both."""

BULK_RESULT_OCTETS = 1 << 20
"""Octets that must be free before a call of a client that already holds some is run: the result of a READ of 1 MiB."""

RDMA_UNSENT_REPLY_OCTETS_MAX = 1 << 20
"""Bulk results of one RDMA connection that wait to be sent before its further calls are left waiting: one result of
1 MiB at a time is still in the processor's cache when it is sent."""

RDMA_STALLED_S = 30.0
"""Seconds in which a peer must have answered the RDMA Reads of one call, sent the rest of a message in pieces, and
taken one reply, while we hold memory for them: 35 KB/s. All connections share that memory. A duty that arises while the
time for another one runs may take up to twice as long."""

# Calls that must not run twice

REPLY_CACHE_ENTRIES_MAX = 16384
"""Answered calls remembered: all that 128 connections may have unanswered when they are lost together."""

REPLY_CACHE_OCTETS_MAX = 16 << 20
"""Octets of all replies remembered: 1 KiB for each call, where those of NFS that are kept take some 200 octets."""

REPLY_CACHE_REPLY_OCTETS_MAX = (1 << 20) + (1 << 16)
"""Octets of the largest reply remembered: a bulk result of 1 MiB with everything around it."""

REPLY_CACHE_REFUSED_OCTETS_MAX = 32 << 20
"""Octets of replies, for all connections, that exceeded the memory of their calls, and are held until the repeated
calls offer more, a round trip later: 7 of the largest that a client asks for by default. Without its reply such a
call fails, since it must not run twice."""

REPLY_CACHE_SMALL_OCTETS = 1024
"""Replies up to this size are dropped only after all larger ones: every reply without bulk data is this small, among
them every NFS reply to a call that changes something. REPLY_CACHE_ENTRIES_MAX of them fit into the cache."""

REPLY_CACHE_AGE_S = 120.0
"""Seconds for which an answered call is remembered: twice the default deadline of calls, and as long as Linux."""

# RPC-over-RDMA

CHUNK_SEGMENTS_MAX = 272
"""Segments of one chunk: 1 MiB and its headers in pages of 4 KiB, for peers that register page by page."""

EXTENSION_MESSAGES_REMEMBERED = 64
"""Messages of extensions of which it is remembered who sent them, in case the peer answers with an error."""

NEGOTIATION_S = 5.0
"""Seconds after which a client tries an older version on another connection, too, because a server has not answered the
first message of a version that it may not know: far more than a round trip, and short enough to be hardly noticed. Also
those in which hosts must have authenticated themselves, which takes three round trips and some milliseconds."""

SERVER_AGAIN_S = 900.0
"""Seconds after which a server that knew an older version only, or did not answer over RDMA devices, is asked for the
better one again. At worst it does not answer, so that connecting takes NEGOTIATION_S, or 1 s, longer: every 15 minutes
that is hardly noticed. For no longer than that new connections to a server that was replaced are not the best ones."""

SERVERS_KNOWN_MAX = 1024
"""Servers whose version, or silence, is remembered, some 500 octets each: more than a program talks to in
SERVER_AGAIN_S. Beyond them the one that was connected to longest ago is forgotten."""

REGISTRATIONS_KEPT_MAX = 4096
"""Registrations of pooled memory with RDMA devices, for all connections of a server, or of a client: 32 for each of 128
calls. Each takes an entry of the device's tables, of which rxe has 524,287."""

REGISTRATIONS_KEPT_OCTETS_MAX = 256 << 20
"""Octets of pooled memory that is registered, which stays locked: the pools for results and for arguments of two
connections, or 2 MiB for each of 128. The limit of locked memory counts a buffer once for each connection that it is
registered for."""

MEMORY_WINDOWS_KEPT_MAX = 256
"""Memory windows of one connection that wait for another call: two for each of RPC_OUTSTANDING_CALLS_MAX, one for an
argument and one for a result. A window takes no memory of ours, and rxe has 524,287."""

RECEIVE_SLABS_USED_MAX = 4
"""Slabs of 32 receive buffers, of one connection over an RDMA device, whose messages the application still uses, beyond
the posted ones: 16 items of 256 KiB in buffers of the default size. They stay locked: 4.5 MiB. Further messages are
copied from registered memory."""

READ_CHUNKS_MAX = 16
"""Read chunks of one call, Position Zero included: no known client sends more than two (RFC 8267 section 6.4.2)."""

WRITE_CHUNKS_MAX = 16
"""Write chunks of one call; Linux servers accept one (RFC 8267 section 6.4.2)."""

CALL_OCTETS_PULLED_MAX = (1 << 20) + (1 << 18)
"""Octets that the Read chunks of one call make a responder hold: a WRITE of 1 MiB and its headers."""

CONNECTION_OCTETS_PULLED_MAX = 4 << 20
"""Octets pulled for unanswered calls of one connection; further calls wait, and hold only their headers meanwhile. A
single call may hold more where `TransportConfig.call_octets_pulled_max` allows it. The memory of four WRITEs of 1 MiB
is used again while it is in the processor's cache: 16 at a time take a tenth less processor time than with 32 MiB."""

CONNECTION_MESSAGE_OCTETS_MAX = 32 << 20
"""Octets of the messages in which unanswered calls of one connection came, small ones not counted, and of the one that
comes in pieces or in a group; a further long call is refused for good. 256 calls of the largest message that we offer
to receive take 16 MiB, as many as any client of ours sends; as much again is left for messages in pieces. Those of all
connections of a server count against BUFFER_OCTETS_MAX for arguments."""

REPLY_OCTETS_MAX = (4 << 20) + (1 << 16)
"""Octets that a call exposes for its result, and for each item placed directly: as many as a READ of 4 MiB takes. A
call whose result could be longer exposes this much, and no more when the responder asks for it. A server reserves at
most this much for each placed item in the result of a call that must not run twice."""

CONTINUED_OCTETS_MAX = RPC_RECORD_OCTETS_MAX
"""Octets of a message that comes in pieces: as many as the same message may have over TCP. A connection assembles one
at a time, and memory for it is taken only as it arrives. A client that gets replies in pieces posts receives for as
many octets."""

UNSENT_REFUSALS_MAX = 256
"""Refusals of messages that are no calls, waiting for the peer to give credits for them: twice the calls that a client
may have sent at once by default. Each holds a few words."""

CONTINUED_PIECES_MAX = 2048
"""Pieces of a message that comes in pieces: the smallest that fill a message, of 1,024 octets, make 1,128 of the
longest; empty ones count."""

PROPERTIES_MAX = 256
"""Transport properties in one message: six are defined, and unknown ones have to be passed over."""

CALL_ATTEMPTS_MAX = 4
"""How often a call is sent if the responder refuses one form of it after another: once plainly, and once for each kind
of chunk."""

SPARE_RECEIVES = 8
"""Receives posted beyond the credits granted: messages that are discarded or refused use up a receive, too."""

HOST_AUTHENTICATION_OCTETS_MAX = 64 << 10
"""Octets of TLS records by which a peer authenticates itself: a chain of four certificates with RSA keys of 4096 bits
takes 8 KiB, with ML-DSA-87 36 KiB, and a key share of ML-KEM-768, which OpenSSL sends from version 3.5 on, 1.2 KiB.
The connections that may be starting hold 16 MiB of them."""

HOST_AUTHENTICATION_VALUES_MAX = 3
"""Values of a peer after its announcement: of the client at most three flights, if the server asks for another group of
keys; of the server two, and the end mark."""

TLS_HANDSHAKES_MAX = 256
"""TLS handshakes of a server over TCP that are not finished: a handshake takes a server 1 ms of processor time and
120 KB, so these are 30 MB. More of them come from clients that do not finish theirs. For a newcomer the oldest one
ends, of the client with most."""

TLS_HANDSHAKE_S = 10.0
"""Seconds for a TLS handshake over TCP, from the reply that offers it: two round trips, and the time of tlshd, which
Linux starts for each handshake."""

TLS_HANDSHAKE_OCTETS_MAX = 128 << 10
"""Octets of TLS records of a peer before its handshake is finished: HOST_AUTHENTICATION_OCTETS_MAX of certificates, and
what comes along with its last message."""

TLS_TURN_RECORDS_MAX = 64
"""TLS records of one connection that are decrypted in a turn of the event loop: a change of keys takes 25 microseconds,
so these are CONNECTION_TURN_S. 64 KiB of data, which are read at once, come in as few as four."""

TLS_UNSENT_OCTETS_MAX = 256 << 10
"""Octets of TLS that wait for the socket before the connection ends: 82 KiB of data that are encrypted at once, and the
answers to 6,000 changes of keys that the peer has left unread. A change is needed once in 2^24 records."""

RTR_ITEMS_MAX = 16
"""Items of one message that the round-trip extension places; also directions for the placement of its response, and
sets of them. There can be as many chunks of either kind."""

RTR_SEGMENT_NUMBERS_MAX = 1024
"""Segments of receive buffers that one item is spread over: 1 MiB in segments of 1 KiB, 4 KiB of header."""

RTR_BUFFER_SEGMENTS_MAX = 272
"""Segments of one receive buffer: 1 MiB and its headers in pages of 4 KiB. Each takes some 150 octets while the
connection lasts."""

RTR_BUFFER_RUNS_MAX = 4
"""Runs of segments of one length in a receive buffer that is filled by Sends; usual buffers have one. To find a layout
for buffers with more could take a second, for each message of another size."""

RTR_BUFFER_STRUCTURES_KEPT_MAX = 16
"""Receive buffer structures that connections share: clients of one kind all have the same. The largest take 40 KiB
each."""

RTR_TRANSMISSIONS_MAX = 8
"""Transmissions of one request that are taken, and of one response that are sent: 256 KiB in receive buffers of the
default size. One more costs as much as RDMA does. So much memory a peer can fill with a group that it does not end."""

RTR_LAYOUTS_TRIED_MAX = 256
"""Header lengths for which the layout of a message in a peer's receive buffers is tried. If the segments have different
lengths, the number of segments that a message takes depends on their beginning. Segments of one length take one
try. A message without a layout after all tries goes by RDMA."""

RTR_SLAB_BUFFERS = 16
"""Receive buffers with adjacent placeable segments: 512 KiB of the default size, so that recently used ones may still
be in processor caches. An item that is kept keeps all of these."""

RTR_SLABS_MAX = 128
"""Slabs of all connections: 64 MiB of the default size. A message that has arrived in part, or an item of a call that
waits, keeps a whole one from others; beyond them each receive buffer lies alone, and keeps nothing but itself."""

RTR_SLABS_KEPT_MAX = 16
"""Slabs of RTR_SLAB_BUFFERS that were used up, and are used again when nothing in them is needed any more."""

ABANDONED_CALLS_MAX = 1024
"""Calls of one connection in version 2 that were given up and are not answered: each is kept for a late reply, with its
arguments. More of them show a peer that drops calls and grants their credits again; the connection ends then."""

UNREAD_SENDS_MAX = 4096
"""Sends that a peer may leave unread at once because it gave so many credits: 16 MiB of messages of the usual size."""

RECEIVE_BUFFERS_KEPT_MAX = 256
"""Buffers for incoming Sends kept for reuse: more than arrive between two polls of the queue; 9 MiB of the
default size."""

RESULT_OCTETS_KEPT_MAX = 16 << 20
"""Octets that a client's connection keeps for further results, or a server for further calls over TCP: as many as 16
calls of 1 MiB have in flight. A client's connection that is idle at a deadline of its timer, such as that of the
keep-alive call, gives them up."""

GRANTED_OCTETS_MAX = 4 << 20
"""Octets of receive buffers that the credits of one connection stand for, if messages can be large: 113 buffers of the
default size, and half of the octets that calls over one TCP connection may hold."""

# The access log of NFS

AUDIT_RECORDS_MAX = 4096
"""Records of the access log that wait for the disk, some 400 octets each; further ones are lost: no call waits."""

# NFS client

EXPORTS_ASKED_MAX = 256
"""Exports of a server's list that are asked for one by one, for their security flavors, attributes or space. A server
rarely has as many, and the list of a hostile one has 65,536, each with calls that may take their whole time limit."""

NFS_DEFERRED_S = 200.0
"""Seconds for which an operation is tried again that the server defers (NFS3ERR_JUKEBOX). The grace period after a
restart lasts a lease, 90 s in our server and in Linux, and while clients reclaim up to two; 20 s more are for the
server's start and for the delay of the last try."""

NFS_COMMITS_IN_VAIN_MAX = 3
"""COMMITs of one file that may report lost data (a changed verifier) before the client changes to FILE_SYNC, where each
WRITE is kept or refused: three restarts within one copy are bad luck, more are a server in trouble."""

NFS_LISTED_NAMES_MAX = 10_000_000
"""Names of a directory beyond which listing it ends in an error: the most that ext4 can hold, and an hour of work for
its server. The listing of a server that never sends its end stops here."""

NFS_LISTED_NAMES_HELD_MAX = 1_000_000
"""Names that a call holds all at once (`listdir`, `walk`): 60 MB of short ones, 320 MB of the longest."""

EVENT_LINES_MAX = 1000
"""Events of `serve --json`, and lines of standard error, that wait for their reader: 300 KB of usual ones each. An
address causes 120 a minute at most."""

FSSPEC_KNOWN_FILES_MAX = 4096
"""Files of one server whose attributes `rpcrdma.fsspec` remembers for a moment, the latest of a listing: 6 MB. As many
directories are remembered whose files are asked for one by one."""

FSSPEC_HELD_OCTETS_MAX = 64 << 20
"""Octets of files that `rpcrdma.fsspec` keeps for the next opening: 64 of the largest files that are kept whole."""

NFS_LISTED_NAMES_KNOWN_MAX = 50_000
"""Names of one listing that are remembered, so that a listing that starts over reports none twice: 20 MB of the
longest. Listings of larger directories cannot start over."""

NFS_TREE_DEPTH_MAX = 2048
"""Directories below each other that are entered: paths of Linux, of 4,096 octets, name nothing deeper."""

NFS_TREE_PENDING_MAX = 50_000
"""Directories of a tree that are known and not yet entered, some 1,200 octets each: 60 MB."""

NFS_COPY_DIRECTORIES_OPEN_MAX = 512
"""Directories that a copy has open on this side, one a level and some more: half of the descriptors that a process may
have by default."""

NFS_COPY_LINKED_FILES_MAX = 200_000
"""Copied files of a tree that may have further names, which are to become links, some 600 octets each: 120 MB."""

NFS_COPY_LINKED_OCTETS_MAX = 32 << 20
"""Octets of memory of the paths of the NFS_COPY_LINKED_FILES_MAX files: 160 for each; a path of a deep tree takes up to
two mebibytes."""

NFS_TREE_FAILURES_MAX = 1000
"""Failures that the report on a tree keeps: enough to find the cause; the rest is counted."""

NFS_TREE_FAILURES_OCTETS_MAX = 1 << 20
"""Octets of memory of the paths in the failures of a report: 1 KiB for each; a path of a deep tree takes up to two
mebibytes."""

# NFS version 4

NFS4_COMPOUND_OPERATIONS_MAX = 64
"""Operations of a COMPOUND that are decoded, and that a session allows: Linux asks for 8."""

NFS4_KINDS_OF_CALLS_MAX = 64
"""Sequences of operations with counts of their own, which take places of CALL_OUTCOMES_MAX: a Linux client has some 40.
Further ones are counted by their first operation that tells something, so that a client that sends many does not hide
the calls of others. And sets of attributes whose encoding is prepared: it has some ten."""

NFS4_CALL_LAYOUT_OCTETS_MAX = 512
"""Octets of the arguments of COMPOUNDs whose layout is remembered, one for each multiple of 4: a path of ten names."""

NFS4_PSEUDO_CALLS_MAX = 256
"""Pages of directories that are read to list the exports of a server: it rarely has as many directories above its
exports, and an exported root with many directories and no file would be walked."""

NFS4_DEFERRED_TRIES_MAX = 7
"""Further tries of a client's call whose first operation, such as SEQUENCE, the server defers (NFS4ERR_DELAY): with
waits from 0.1 s on that double, 12.7 s, or less than the call's time limit. No grace period defers such an operation,
only a server short of memory."""

NFS4_CALL_NAME_OCTETS_MAX = 40
"""Octets of the name of a sequence of operations, "OPEN+GETFH+ACCESS+GETATTR": twice those of a procedure of version 3,
so that METRICS_PAGE_OCTETS_MAX has room for them. Further operations are left out."""

# Statistics over HTTP

METRICS_CONNECTIONS_MAX = 32
"""Connections to a metrics endpoint: several Prometheus servers, with their retries. A connection carries one request;
beyond them the oldest connection ends."""

METRICS_REQUEST_OCTETS_MAX = 8 << 10
"""Octets of a request up to its empty line: RFC 9112 section 3 wants 8,000 for its first line; Prometheus sends 300."""

METRICS_REQUEST_S = 5.0
"""Seconds for a request to arrive: it is one segment, which TCP has sent again twice by then."""

METRICS_ANSWER_S = 30.0
"""Seconds in which an answer is made and read: 24 KB/s for one of usual size."""

METRICS_PAGE_OCTETS_MAX = 16 << 20
"""Octets of one answer of a metrics endpoint: some 180 octets for each series, of which a server of NFS has some 4,000,
and 80,000 if its clients provoke every error that they can, over both transports."""

METRICS_SERVERS_MAX = 64
"""Servers with metrics of their own at a client, by the URLs to which its program has connected; further servers share
theirs. The procedures of NFS, with one error each, make 3,500 series for each server."""

# The admin socket

ADMIN_CONNECTIONS_MAX = 8
"""Connections to the admin socket of a server, all of its owner: several scripts at once; a further one is closed."""

ADMIN_REQUEST_OCTETS_MAX = 4 << 10
"""Octets of a request: it names a client or a host, of at most 1 KiB."""

ADMIN_REQUEST_S = 5.0
"""Seconds for a request to arrive, which the command sends as soon as it is connected."""

ADMIN_ANSWER_S = 30.0
"""Seconds in which an answer is read; that of a thousand clients has 400 KB."""

ADMIN_ANSWER_OCTETS_MAX = 16 << 20
"""Octets of an answer that the command takes: 4 KiB for each of NFS4_CLIENTS_MAX clients."""

ADMIN_CONNECTIONS_AT_ONCE = 64
"""Connections of clients whose counts the event loop reads for the administrator before it answers calls again: 0.1 ms
of work."""

# Registering at rpcbind

RPCBIND_ANSWERS_S = 3.0
"""Seconds for all answers of this machine's rpcbind to one look at its list, which takes a thousandth of that. The
start and the end of a server wait this long for an rpcbind that hangs."""

RPCBIND_OTHER_SERVER_S = 1.0
"""Seconds for servers of the same user, at all addresses in the list of rpcbind, to accept a connection. On this
machine they take a thousandth of that. The rest of RPCBIND_ANSWERS_S is left to rpcbind."""

RPCBIND_LOOK_S = 60.0
"""Seconds between two looks at the list of rpcbind. After the death of rpcbind no client finds the server until the
next one."""

# Looking up names of hosts in the configuration of a server

HOST_NAME_ANSWERS_S = 5.0
"""Seconds for the answers to all names that are looked up at a time: as long as the system's resolver waits for one
name server. A start, a check or a reload waits so long where no name server answers."""

HOST_NAMES_AT_ONCE = 16
"""Names that are looked up at the same time: each takes a thread, as long as a minute where no name server answers."""

HOST_NAME_VALID_S = 1800.0
"""Seconds for which the addresses of a name are used, as Linux's server does: after that it is looked up again."""

# Looking at the directories and stores of exports in the configuration of a server

EXPORT_ANSWERS_S = 5.0
"""Seconds for the directory or store of an export to answer, before a start, a check or a reload goes on without it:
local disks and near stores take less. One that takes longer is served as soon as it has answered."""

EXPORT_NEEDED_ANSWERS_S = 30.0
"""Seconds for an export without which a server does not start, or a reload is refused: disks that sleep, file systems
that are mounted when they are first used, and servers that start again have answered by then."""

PATH_ANSWERS_S = 30.0
"""Seconds for the file system of the state directory, or of a certificate, keytab or log, to answer: as many as for an
export that is needed, for the same reasons. A check looks at both at once, and ends before CONFIGURATION_READ_S. What
applying a reload asks of these paths then has as long each: the log, certificates and the note for the next run."""

EXPORTS_CHANGE_S = 60.0
"""Seconds for a reload to open new exports, and to put data of exports that end on their disk: some GB at the pace of a
disk. After that a file system counts as one that does not answer; a later reload finds what is on the disk by then."""

CONFIGURATION_READ_S = 60.0
"""Seconds for a reload to read the configuration and to look at what that names: twice the time that an export may
take to answer. A file system that holds the files of the server does not answer then."""

# Asking a server for its programs

PROBED_PROGRAMS_MAX = 256
"""Programs at ports that `rpcrdma programs` asks because a port mapper lists them: several times as many as a busy
server has."""

PROBED_VERSIONS_MAX = 32
"""Versions of a program that `rpcrdma programs` asks because the program's refusal names them: no program has had ten.
"""
