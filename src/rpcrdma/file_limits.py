"""Bounds on the memory and the time that a file can claim, each with its reason: captures, definitions, JSON."""

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
"""TCP connections of a capture that are followed at a time, as many as a listener here takes; of more, the one that was
silent longest is given up."""

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
"""Fields of one message that an HTML page shows, some 130 octets each: as many as `EXPLAINED_PAGE_OCTETS_MAX` octets
hold. The results of READDIRPLUS have thousands."""

EXPLAINED_PAGE_OCTETS_MAX = 2048
"""Octets of one message that an HTML page shows as hex: two header sizes of the largest inline thresholds in use."""

# Compiling interface definitions, of which some come from others

XDR_FILE_OCTETS_MAX = 64 << 20
"""Octets of a file that the compiler's commands read: forty times the longest specification, of NFSv4.1."""

XDR_DEFINITION_CHARACTERS_MAX = 1 << 19
"""Characters of a definition, after the preprocessor: three times the longest one, of NFSv4.2, and at most some ten
seconds of a compiler whose time grows with them."""

XDR_NAME_CHARACTERS_MAX = 1000
"""Characters of a name in a definition: names in generated code consist of several of them."""

XDR_CLASSES_NESTED_MAX = 64
"""Structures and unions within each other, in place or by name, and typedefs of typedefs: compiler, codecs and readers
of JSON take some frames for each level, of which Python has 1,000. Definitions in use have a dozen levels."""

XDR_ITEMS_NESTED_MAX = 16
"""Arrays and pointers within each other without a structure between them: Python has at most 20 nested loops."""

XDR_UNION_TYPES_MAX = 100
"""Types in the annotation of a union's value: Python parses each alternative one level deeper. With more it is Any."""

XDR_BOUND_PRAGMAS_MAX = 256
"""`pragma bound` lines: each can make the compiler measure all types once more. NFSv3 has a dozen."""

XDR_REMARKS_MAX = 100
"""Errors or warnings of one definition that are told, the first ones by place: people read no more of them."""

XDR_NAMES_COMPARED_MAX = 2000
"""Names among which the hint for an unknown one is looked for: some milliseconds."""

XDR_PREPROCESSOR_S = 20.0
"""Seconds that a C preprocessor may take: files that include each other twice keep it busy for ever."""

JSON_CLASSES_WALKED_MAX = 10_000
"""Structures and unions that are walked through to show the form of a type's documents, or the places of their opaque
data: one that occurs twice in each of twenty levels occurs a million times. NFSv4.1's largest type takes some hundreds.
"""

JSON_FILE_OCTETS_MAX = 256 << 20
"""Octets of a JSON document, and of a file that stands for opaque data in one: all of it is held in memory. Servers of
this library take arguments of 1 MiB by default."""
