"""Limits of the protocol engineers' commands on input from a capture or a peer, each with its reason."""

from __future__ import annotations

# Decoding of captures and hex text

DISSECTED_FIELDS_MAX = 20_000
"""Annotated fields of one message, some 300 octets of memory each.

The largest header that this library reads has 6,000.
"""

DISSECTED_DEPTH_MAX = 64
"""Levels of fields within fields. XDR types that contain themselves may be nested as deep as the message is long."""

DISSECTED_MESSAGE_OCTETS_MAX = 1 << 20
"""Octets of one message that are decoded, and of all long messages of a connection whose calls have no reply yet.

Inline thresholds end at 256 KiB (RFC 8797), and long messages without bulk data are rarely longer.
"""

DISSECTED_FAULTS_MAX = 100
"""Faults that are reported for one message; further ones are of no use to a reader."""

DISSECTED_BUFFER_SEGMENTS_MAX = 1024
"""Segments of one receive buffer of the round-trip extension, which a few octets declare: 1 MiB in pages of 1 KiB."""

DISSECTED_OPERATIONS_MAX = 32
"""Operations in the name of a COMPOUND, which each RDMA operation of the call has in its text: clients send a dozen."""

CAPTURE_PACKET_OCTETS_MAX = 1 << 18
"""Octets of one captured packet: the largest that capture programs write."""

CAPTURE_INTERFACES_MAX = 4096
"""Interfaces of one section of a capture: more than a machine has."""

CAPTURE_VLAN_TAGS_MAX = 4
"""VLAN tags of one Ethernet frame: two are in use."""

CAPTURE_IPV6_EXTENSIONS_MAX = 8
"""Headers between IPv6 and TCP: each kind may stand there once or twice (RFC 8200 section 4.1)."""

CAPTURE_OUT_OF_ORDER_OCTETS_MAX = 4 << 20
"""Octets of one direction of a TCP connection that wait for a missing segment: a common receive window. A segment that
is missing for longer is missing in the capture."""

CAPTURE_OUT_OF_ORDER_SEGMENTS_MAX = 4096
"""TCP segments of one direction that wait for a missing one: `CAPTURE_OUT_OF_ORDER_OCTETS_MAX` in packets of 1 KiB."""

CAPTURE_CALLS_MAX = 4096
"""Unanswered calls of one connection that are remembered: far more than credits allow."""

CAPTURE_CALL_SEGMENTS_MAX = 1 << 16
"""Segments in the chunks of all unanswered calls of one connection, some 300 octets of memory each: 16 for a call."""

CAPTURE_CONNECTIONS_MAX = 1024
"""TCP connections of a capture that the decoder follows at the same time: the number that a listener accepts.

For a further connection, the decoder stops following the connection that was silent longest.
"""

CAPTURE_WAITING_PACKETS_MAX = 64
"""Packets of one direction of RoCEv2 that wait for a missing packet or for an Acknowledge of the other direction.

A sender repeats a missing packet at once. The Acknowledge shows the queue pair number of the other direction, and
requesters ask for an Acknowledge after a few packets.
"""

CAPTURE_ROCE_PAYLOAD_OCTETS_MAX = 4096
"""Octets of payload of one RoCEv2 packet: the largest path MTU of InfiniBand."""

CAPTURE_READS_MAX = 256
"""RDMA Reads of one direction of RoCEv2 whose responses have not ended: connections are set up with at most 255."""

CAPTURE_HELD_OCTETS_MAX = 64 << 20
"""Octets of all connections of a capture that wait for missing TCP segments: 16 times the limit of one direction."""

EXPLAINED_MESSAGES_MAX = 4096
"""Messages that are held until earlier calls have ended: more than the calls and RDMA operations that credits allow.
Beyond it, calls are shown in the order in which they end."""

EXPLAINED_HELD_OCTETS_MAX = 64 << 20
"""Octets of memory of the messages held for earlier calls, with their decoded fields.

A usual message takes some 10 KiB, a reply to READDIRPLUS some megabytes.
"""

EXPLAINED_PAGE_MESSAGES_MAX = 10_000
"""Messages on one HTML page, some 4 KiB of the page each: no reader looks at more."""

EXPLAINED_PAGE_FILE_OCTETS_MAX = 40 << 20
"""Octets of one HTML page without its style and script: browsers show a page of that size."""

EXPLAINED_PAGE_FIELDS_MAX = 300
"""Fields of one message that an HTML page shows; each takes some 130 octets of the page. Results of READDIRPLUS have
thousands."""

EXPLAINED_PAGE_OCTETS_MAX = 2048
"""Octets of one message that an HTML page shows as hex: twice the largest header of the inline thresholds in use."""

# Proxies

PROXY_HELD_OCTETS_MAX = 16 << 20
"""Octets of one direction that a proxy holds until their message is whole: 16 RDMA Writes of the size that NFS uses.

The proxy forwards the octets of longer messages as they arrive: rules neither drop nor change such a message.
"""

PROXY_DELAYED_OCTETS_MAX = 64 << 20
"""Octets of one direction that a proxy holds until their delay has passed: 0.1 s at 5 Gbit/s.

The proxy stops reading from that direction while it holds this number.
"""

# Scripted peers

RAW_MESSAGE_OCTETS_MAX = 1 << 20
"""Octets of an untagged message that a scripted peer joins from DDP segments: four times the largest inline threshold.

A longer message is an error of its sender, since no receive buffer is larger.
"""

RAW_PASSAGES_MAX = 1024
"""Passages (log entries) of a scripted conversation that are kept: the first quarter of this number and the last ones.

A check sends and receives 600 messages at most, but a peer may write 24 octets in each of a million RDMA Writes.
"""

RAW_PASSAGE_OCTETS_MAX = 1 << 15
"""Octets of one passage (log entry) that are kept: eight times the usual size of a message."""

RAW_WAITING_MAX = 1024
"""Messages that a scripted peer holds for later steps, and messages of one call: four times the need of any check."""

RAW_CALL_OCTETS_MAX = (1 << 20) + (1 << 16)
"""Octets of one call, or of one reply over TCP, that a scripted peer joins: READ or WRITE of 1 MiB, and headers."""

RAW_RECORD_FRAGMENTS_MAX = 1024
"""Fragments of one reply over TCP: the smallest in use, 4,000 octets, make 280 of the longest; empty ones count."""

# Checks of servers and clients

CHECK_SHOWN_OCTETS_MAX = 512
"""Octets of a message that reports of checks show: 16 lines of hex."""

CHECK_PASSAGES_MAX = 1 << 14
"""Passages (log entries) in one report, some 15 MB: twenty for each check of a server.

Of a check for which the rest of them does not suffice, the report has the first 8 and the last 8 passages only.
"""

CHECK_CONNECTIONS_MAX = 64
"""Connections that `check --listen` serves at once: a client under trial makes one or a few."""
