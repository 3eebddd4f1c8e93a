"""Bounds of the protocol engineers' commands on the claims of a capture or a peer, each with its reason."""

from __future__ import annotations

# Decoding of captures and hex text

DISSECTED_FIELDS_MAX = 20_000
"""Annotated fields of one message, some 300 octets each: the largest header that this side reads has 6,000."""

DISSECTED_DEPTH_MAX = 64
"""Levels of fields within fields: types that contain themselves may be nested as deep as the message is long."""

DISSECTED_MESSAGE_OCTETS_MAX = 1 << 20
"""Octets of one message that are looked at, and of all long messages of a connection whose calls have no reply yet:
inline thresholds end at 256 KiB (RFC 8797), and long messages without bulk data are rarely longer."""

DISSECTED_FAULTS_MAX = 100
"""Faults reported of one message: more help no reader."""

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
"""Segments among them: that many octets in packets of 1 KiB."""

CAPTURE_CALLS_MAX = 4096
"""Unanswered calls of one connection that are remembered: far more than credits allow."""

CAPTURE_CALL_SEGMENTS_MAX = 1 << 16
"""Segments in the chunks of those calls, some 300 octets each: 16 for each call."""

CAPTURE_CONNECTIONS_MAX = 1024
"""TCP connections of a capture that the decoder follows at a time: the number that a listener accepts. For another it
stops following the connection that was silent longest."""

CAPTURE_WAITING_PACKETS_MAX = 64
"""Packets of one direction of RoCEv2 that wait for a missing one, which a sender repeats at once, or for an Acknowledge
that shows the queue pair of the other direction. Requesters ask for one after a few packets."""

CAPTURE_ROCE_PAYLOAD_OCTETS_MAX = 4096
"""Octets of payload of one RoCEv2 packet: the largest path MTU of InfiniBand."""

CAPTURE_READS_MAX = 256
"""RDMA Reads of one direction of RoCEv2 whose responses have not ended: connections are set up with at most 255."""

CAPTURE_HELD_OCTETS_MAX = 64 << 20
"""Octets of all connections that wait for missing segments: 16 connections that miss as much as one may."""

EXPLAINED_MESSAGES_MAX = 4096
"""Messages that are held until earlier calls have ended: more than the calls and RDMA operations that credits allow.
Beyond it, calls are shown in the order in which they end."""

EXPLAINED_HELD_OCTETS_MAX = 64 << 20
"""Octets of those messages with their fields: a usual message takes some 10 KiB, one of READDIRPLUS some megabytes."""

EXPLAINED_PAGE_MESSAGES_MAX = 10_000
"""Messages of one HTML page, some 4 KiB each: no reader looks at more."""

EXPLAINED_PAGE_FILE_OCTETS_MAX = 40 << 20
"""Octets of one HTML page without its style and script: browsers show a page of that size."""

EXPLAINED_PAGE_FIELDS_MAX = 300
"""Fields of one message that an HTML page shows; each takes some 130 octets of the page. Results of READDIRPLUS have
thousands."""

EXPLAINED_PAGE_OCTETS_MAX = 2048
"""Octets of one message that an HTML page shows as hex: two header sizes of the largest inline thresholds in use."""

# Proxies

PROXY_HELD_OCTETS_MAX = 16 << 20
"""Octets of one direction that a proxy holds until their message is whole: 16 RDMA Writes of the size that NFS uses.
More are forwarded without a look at them."""

PROXY_DELAYED_OCTETS_MAX = 64 << 20
"""Octets of one direction that a proxy holds until their delay has passed: 0.1 s at 5 Gbit/s. The proxy reads no
further ones meanwhile."""

# Scripted peers

RAW_MESSAGE_OCTETS_MAX = 1 << 20
"""Octets of an untagged message that a scripted peer joins from its segments: four times the largest inline threshold
that private data can tell. A longer one is a mistake of the other side, whatever buffers it was promised."""

RAW_PASSAGES_MAX = 1024
"""Passages of a scripted conversation that are kept, the first quarter and the last ones: a check sends and hears some
600 at most. A peer may write 24 octets in each of a million RDMA Writes."""

RAW_PASSAGE_OCTETS_MAX = 1 << 15
"""Octets of a passage that are kept: eight times the usual size of a message."""

RAW_WAITING_MAX = 1024
"""Messages that a scripted peer holds for later steps, and messages of one call: four times what a check asks for."""

RAW_CALL_OCTETS_MAX = (1 << 20) + (1 << 16)
"""Octets of one call, or of one reply over TCP, that a scripted peer joins: READ or WRITE of 1 MiB, and headers."""

RAW_RECORD_FRAGMENTS_MAX = 1024
"""Fragments of one reply over TCP: the smallest in use, 4,000 octets, make 280 of the longest; empty ones count."""

# Checks of servers and clients

CHECK_SHOWN_OCTETS_MAX = 512
"""Octets of a message that reports of checks show: 16 lines of hex."""

CHECK_PASSAGES_MAX = 1 << 14
"""Passages in one report, some 15 MB: twenty for each check of a server. Then a check has its first and last ones."""

CHECK_CONNECTIONS_MAX = 64
"""Connections that `check --listen` serves at once: a client under trial makes one or a few."""
