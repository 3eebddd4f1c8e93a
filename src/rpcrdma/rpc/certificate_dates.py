"""The end of the validity of certificates in PEM, for warnings: Python's `ssl` has it of peers' certificates alone."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime
from typing import Final

__all__ = ["first_expiry_s"]

_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
_VERSION: Final = 0xA0
"""The tag of the version, which the first version leaves out."""
_UTC_TIME: Final = 0x17
"""The tag of a time with a year of two digits, 1950 to 2049 (RFC 5280 section 4.1.2.5.1)."""


def first_expiry_s(pem: str) -> float:
    """Returns the earliest time at which one of the certificates in a text expires, in seconds since 1970 (UTC).

    Args:
        pem: the certificates in PEM, such as a host's and those of its authorities; other text is ignored.

    Raises:
        ValueError: the text has no certificate, or a broken one.
    """
    try:
        return min(_not_after_s(base64.b64decode(block)) for block in _PEM.findall(pem))
    except IndexError as error:
        raise ValueError("a certificate is cut short") from error


def _not_after_s(certificate: bytes) -> float:
    """Returns notAfter of a certificate in DER (RFC 5280 section 4.1), in seconds since 1970 (UTC).

    Raises:
        IndexError: the certificate is cut short.
        ValueError: the time has another form than RFC 5280 permits.
    """
    signed = _elements(_elements(certificate)[0][1])[0][1]
    fields = [content for tag, content in _elements(signed) if tag != _VERSION]
    tag, text = _elements(fields[3])[1]
    digits = text.decode("ascii")
    if tag == _UTC_TIME:
        digits = ("20" if digits < "50" else "19") + digits
    return datetime.strptime(digits, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()


def _elements(data: bytes) -> list[tuple[int, bytes]]:
    """Returns (tag, content) of each element in the concatenation of DER elements `data`; tags must have one octet.

    If `data` ends within the last element's content, the content is returned as far as it is there.

    Raises:
        IndexError: `data` ends with a tag, without its length.
    """
    found, at = [], 0
    while at < len(data):
        tag, length, at = data[at], data[at + 1], at + 2
        if length & 0x80:
            octets = length & 0x7F
            length, at = int.from_bytes(data[at : at + octets], "big"), at + octets
        found.append((tag, data[at : at + length]))
        at += length
    return found
