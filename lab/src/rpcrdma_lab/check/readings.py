"""Answers that differ from the expected one by another interpretation of an unclear text, or as known peers give them.

Patterns of the catalogue name them; a peer that gives such an answer differs from this library's interpretation.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

__all__ = ["READINGS", "Reading"]


class Reading(NamedTuple):
    """Another interpretation of an unclear specification.

    `text` describes its behaviour and, after a semicolon, that of this library; `citation` names the unclear or
    supporting texts, and known peers.
    """

    text: str
    citation: str


READINGS: Mapping[str, Reading] = MappingProxyType(
    {
        "ended-without-terminate": Reading(
            "the connection ends without a Terminate; we send one for each error below RPC-over-RDMA",
            "RFC 5040 section 6.2.1 recommends it of errors of MPA, section 7.1 lists the messages of which it is "
            "demanded; TCP may lose it at a reset",
        ),
        "other-terminate-code": Reading(
            "the Terminate has another code than ours, such as that of a catastrophic error; we name the error",
            "RFC 5040 section 4.8 does not say when these codes are used",
        ),
        "message-awaited": Reading(
            "a segment ahead of its turn is placed, and its message waits for the others; we report it",
            "RFC 5041 section 7.1 has a window of legal numbers and offsets, in which placement may be out of order",
        ),
        "filled-memory-stays-open": Reading(
            "memory that an RDMA Read has filled can be written by its tag afterwards; we revoke the tag with the Read",
            "RFC 5040 section 8.1.1 demands that tags can be revoked, and sets the upper layer no time",
        ),
        "terminate-nibbles-swapped": Reading(
            "the Terminate has layer and type, and the octets of its flags, in the places of each other",
            "Linux siw, drivers/infiniband/sw/siw/iwarp.h: bit fields of struct iwarp_terminate",
        ),
        "unenhanced-rejected": Reading(
            "a start-up without queue depths is rejected by the upper layer; we accept it",
            "RFC 6581 section 10 demands an unenhanced reply, RFC 5044 section 7.1.2 permits R in it",
        ),
        "markers-rejected": Reading(
            "a start-up that demands markers is rejected; we insert them",
            "RFC 5044 section 4.3 demands them of all senders; Linux siw makes none",
        ),
        "depth-not-negotiated": Reading(
            "a depth of 0x3FFF is answered with an own depth; we answer 0x3FFF",
            "RFC 6581 section 9.1; Linux siw takes it for a number",
        ),
        "short-message-refused": Reading(
            "a message of fewer than 28 octets is refused with RDMA_ERROR; we discard it",
            "RFC 8166 section 4.5, against the 20 octets of its own RDMA_ERROR; Linux svcrdma answers ERR_CHUNK",
        ),
        "long-private-data-refused": Reading(
            "512 octets of private data end the connection; we accept them",
            "RFC 5044 section 7.1.2 rule 9 for a receiver with smaller buffers",
        ),
        "ended-after-error": Reading(
            "the connection ends in place of an error, or after an answer; we keep it",
            "RFC 8166 section 4.5 demands the error and says nothing of the connection",
        ),
        "ended-after-broken-reply": Reading(
            "the connection ends after a reply that has to be discarded; we keep it, and take the right reply",
            "RFC 8166 section 4.5 demands that it is discarded and says nothing of the connection",
        ),
        "ended-after-reverse-call": Reading(
            "the connection ends at a reverse call; we discard it, and keep the connection",
            "RFC 8167 section 6 has the caller wait for the client's readiness, and says nothing of the connection",
        ),
        "long-message-without-payload-discarded": Reading(
            "RDMA_NOMSG whose chunks hold no call is discarded as a reply to no call; we refuse it",
            "RFC 8166 section 4.5 demands an error of a Call alone, and nothing in RDMA_NOMSG tells the direction",
        ),
        "descending-positions-refused": Reading(
            "a Read list whose Positions descend is refused; we take its chunks in the order of the stream",
            "RFC 8166 section 3.4.5 does not order the Positions of a Read list",
        ),
        "long-read-chunk-cut": Reading(
            "of a Read chunk that is longer than its count the rest is passed over; we refuse it",
            "RFC 8166 section 3.4.5.2 binds the requester alone",
        ),
        "short-chunk-answered": Reading(
            "a result that does not fit its chunk is answered with SYSTEM_ERR; we answer ERR_CHUNK",
            "RFC 8166 section 4.5.4 has ERR_CHUNK and the end of the connection, RFC 5531 section 9 SYSTEM_ERR for "
            "faults of the server; Linux svcrdma",
        ),
        "unused-chunk-ignored": Reading(
            "a chunk that the procedure has no item for is passed over; we answer ERR_CHUNK",
            "RFC 8166 section 6.1, and A.1 of version 2's drafts, speak of reduced items, and of no chunk that stands "
            "for none; Linux svcrdma",
        ),
        "chunks-of-a-piece-ignored": Reading(
            "the chunk lists of a message with MORE are passed over; we refuse it with INVAL_FLAG",
            "draft-ietf-nfsv4-rpcrdma-version-two-00 section 6.3.2.2 demands empty lists, and names no reaction",
        ),
        "rest-of-a-broken-call-refused": Reading(
            "the rest of a call that another message has broken is refused; we drop it",
            "draft-ietf-nfsv4-rpcrdma-version-two-01 section 6.2.2.2 drops it, and -00 says nothing of it",
        ),
        "ended-after-requester-error": Reading(
            "the connection ends after RDMA2_ERROR of a requester; we discard the error",
            "draft-ietf-nfsv4-rpcrdma-version-two-00 section 6.4.3 forbids it, and names no reaction",
        ),
        "empty-write-chunk-refused": Reading(
            "a Write chunk without segments is refused; we return its item inline",
            "RFC 8166 section 4.3.2.3; Linux svcrdma answers ERR_CHUNK",
        ),
        "chunk-list-too-complex": Reading(
            "a second Write chunk is refused; we return it unused",
            "RFC 8267 section 6.4.2 lets a server refuse what is too complex; Linux svcrdma takes one",
        ),
        "flags-refused-as-type": Reading(
            "unknown flags are refused with INVAL_HTYPE; we answer INVAL_FLAG",
            "draft-ietf-nfsv4-rpcrdma-version-two-00 section 6.4.3, against its section 6.3.2.2",
        ),
        "other-report": Reading(
            "the Report Error has other fields than those that section 9.5 lists for the fault",
            "draft-dnoveck-nfsv4-rpcrdma-rtrext-01 section 9.5 does not number transmissions, nor order the faults",
        ),
        "error-in-place-of-report": Reading(
            "a faulty group is refused with RDMA2_ERROR; we send a Report Error",
            "draft-dnoveck-nfsv4-rpcrdma-rtrext-01 section 5.4 has an end without support of continuation do so",
        ),
    }
)
"""Readings by the names that patterns of checks have."""
