"""Arguments, results and whole replies under RPCSEC_GSS (RFC 2203 sections 5.3.2.2, 5.3.2.3 and 5.3.3.4).

The bodies of integrity and privacy hold the sequence number and the octets of arguments or results, as one item that is
not DDP-eligible (RFC 8166 section 8.2.2.3): nothing in them is recorded as a bulk item.
"""

from __future__ import annotations

from typing import NamedTuple

from rpcrdma.errors import DecodeError
from rpcrdma.rpc.auth import AuthFlavor, OpaqueAuth
from rpcrdma.rpc.gss.flavors import GssService
from rpcrdma.rpc.gss.mechanism import GssContext
from rpcrdma.rpc.message import REPLY_HEADER_OCTETS, AcceptStat, ReplyStat, auth_octets
from rpcrdma.wire.buffers import Buffer
from rpcrdma.xdr.codec import BulkItem, Decoder, Encoder, Payload, padding

__all__ = [
    "ACCEPT_STAT_AT",
    "CONTENT_AT",
    "SealedBody",
    "body_octets_max",
    "decode_body",
    "encode_body",
    "protected_reply",
]

CONTENT_AT = 4
"""The offset of arguments or results in the octets of an opened body: behind the sequence number."""

ACCEPT_STAT_AT = 20
"""The offset of accept_stat in a reply whose verifier is empty."""

_VERIFIER_AT = 12
"""The offset of the verifier in an accepted reply."""

_OPAQUE_MAX = 0xFFFFFFFF


def encode_body(enc: Encoder, context: GssContext, service: GssService, sequence: int, content: Buffer) -> None:
    """Appends rpc_gss_integ_data or rpc_gss_priv_data to `enc`, with the octets of arguments or results.

    Args:
        enc: the encoder.
        context: makes the checksum or encrypts.
        service: PRIVACY encrypts; each other value adds a checksum.
        sequence: the sequence number of the call.
        content: the encoded arguments or results.

    Raises:
        GssFailure: the context has ended.
    """
    data = b"".join((sequence.to_bytes(4, "big"), content))
    if service is GssService.PRIVACY:
        enc.opaque(context.wrap(data), _OPAQUE_MAX, "databody_priv")
    else:
        enc.opaque(data, _OPAQUE_MAX, "databody_integ")
        enc.opaque(context.mic(data), _OPAQUE_MAX, "checksum")


class SealedBody(NamedTuple):
    """A received body under integrity or privacy: `data` as sent, and the checksum, which is None under privacy."""

    data: bytes
    checksum: bytes | None

    def open(self, context: GssContext, sequence: int) -> bytes:
        """Returns the plain octets of the body, verified or decrypted (RFC 2203 sections 5.3.2.2 and 5.3.2.3).

        The plain octets are the sequence number and, from the offset `CONTENT_AT` on, the encoded arguments or results.

        Args:
            context: the context of the call.
            sequence: the sequence number of the call, which the body must repeat.

        Raises:
            DecodeError: the body has another sequence number, or is too short for one.
            GssFailure: the body was changed, or the context has ended.
        """
        data, checksum = self
        if checksum is None:
            data = context.unwrap(data)
        else:
            context.verify(data, checksum)
        inner = Decoder(data).u32("seq_num")
        if inner != sequence:
            raise DecodeError("seq_num", 0, str(sequence), str(inner), rfc="2203 5.3.2.2")
        return data


def decode_body(dec: Decoder, service: GssService) -> SealedBody:
    """Decodes rpc_gss_integ_data or, under PRIVACY, rpc_gss_priv_data; returns copies of the protected octets.

    `dec` is at the start of the body, which must extend to the end of the message.

    Raises:
        ReducedIneligibleItem: the body is whole, but a chunk came with it.
        DecodeError: the body does not decode to its end, such as for lack of a part that came in a chunk.
    """
    if service is GssService.PRIVACY:
        wrapped = _opaque(dec, "databody_priv")
        dec.done("databody_priv")
        return SealedBody(wrapped, None)
    data = _opaque(dec, "databody_integ")
    checksum = _opaque(dec, "checksum")
    dec.done("databody_integ")
    return SealedBody(data, checksum)


def body_octets_max(service: GssService, content: int, mic_octets: int, wrap_octets: int) -> int:
    """Returns the most octets that encoded arguments or results have once they are protected by a service.

    Args:
        service: the service; NONE adds nothing.
        content: octets of the plain arguments or results, a multiple of 4.
        mic_octets: octets of a checksum.
        wrap_octets: octets that encryption adds.
    """
    if service is GssService.NONE:
        return content
    if service is GssService.PRIVACY:
        return 4 + _padded(CONTENT_AT + content + wrap_octets)
    return 4 + CONTENT_AT + content + 4 + _padded(mic_octets)


def protected_reply(reply: Payload, context: GssContext, service: GssService, sequence: int) -> Payload:
    """Returns an encoded reply with its RPCSEC_GSS verifier, and with the results protected by `service`.

    Args:
        reply: the reply, with an empty verifier; a denied reply is returned unchanged.
        context: makes the checksum of the verifier, and protects the results.
        service: the protection of the results of a SUCCESS reply; other accepted replies only get the verifier.
        sequence: the number that the verifier covers: the call's sequence number or, for the reply that finishes a
            context, the length of the window.

    Raises:
        GssFailure: the context has ended.
        MemoryError: there is no memory for the protected reply.
    """
    head = reply.reduced[:REPLY_HEADER_OCTETS]
    if int.from_bytes(head[8:_VERIFIER_AT], "big") != ReplyStat.MSG_ACCEPTED:
        return reply
    verifier = OpaqueAuth(AuthFlavor.RPCSEC_GSS, context.mic(sequence.to_bytes(4, "big")))
    front = bytes(head[:_VERIFIER_AT]) + auth_octets(verifier, "verifier")
    if service is GssService.NONE or int.from_bytes(head[ACCEPT_STAT_AT:], "big") != AcceptStat.SUCCESS:
        more = len(front) - ACCEPT_STAT_AT
        items = [BulkItem(item.at + more, item.position + more, item.data) for item in reply.items]
        verified = Payload(front + reply.reduced[ACCEPT_STAT_AT:], items)
        verified.begun = reply.begun
        return verified
    enc = Encoder()
    enc.reduced += front + head[ACCEPT_STAT_AT:]
    encode_body(enc, context, service, sequence, reply.joined()[REPLY_HEADER_OCTETS:])
    return enc


def _opaque(dec: Decoder, field: str) -> bytes:
    """Decodes variable-length opaque data, which only the end of the message bounds.

    Raises:
        DecodeError: the data are cut short.
    """
    length = dec.count(_OPAQUE_MAX, field)
    data = dec.octets(length, field)
    dec.skip_padding(length, field)
    return data


def _padded(length: int) -> int:
    return length + padding(length)
