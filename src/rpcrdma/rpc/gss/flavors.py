"""Security flavors as users and MOUNT name them: mechanism and service in one number (RFC 2623 section 2.3)."""

from __future__ import annotations

import enum
from typing import Final

__all__ = ["KERBEROS_OID", "SECURITY_NAMES", "GssService", "SecurityFlavor", "security_flavor"]


KERBEROS_OID: Final = bytes.fromhex("2a864886f712010202")
"""The object identifier of Kerberos version 5, 1.2.840.113554.1.2.2, without tag and length, as Linux sends it."""


class GssService(enum.IntEnum):
    """rpc_gss_service_t (RFC 2203 section 5.3.1): the protection of arguments and results."""

    NONE = 1
    """The caller is proved, and so is the header of each call and reply."""
    INTEGRITY = 2
    PRIVACY = 3


class SecurityFlavor(enum.IntEnum):
    """Security flavors by the numbers of MOUNT (RFC 2623 section 2.3.1); calls carry flavor 0, 1 or 6."""

    NONE = 0
    SYS = 1
    KRB5 = 390003
    KRB5I = 390004
    KRB5P = 390005

    @property
    def service(self) -> GssService | None:
        """The protection of calls by RPCSEC_GSS; None for NONE and SYS."""
        return _SERVICES.get(self)

    def __str__(self) -> str:
        return self.name.lower()


_SERVICES: Final = {
    SecurityFlavor.KRB5: GssService.NONE,
    SecurityFlavor.KRB5I: GssService.INTEGRITY,
    SecurityFlavor.KRB5P: GssService.PRIVACY,
}

SECURITY_NAMES: Final = tuple(str(flavor) for flavor in SecurityFlavor if flavor is not SecurityFlavor.NONE)
"""The names that options take, as `mount` and /etc/exports have them."""


def security_flavor(text: str) -> SecurityFlavor:
    """Returns the security flavor that a user has named: "sys", "krb5", "krb5i" or "krb5p".

    Raises:
        ValueError: the text is none of these, such as "KRB5" in capitals; the message lists the names.
    """
    if text not in SECURITY_NAMES:
        raise ValueError(f"{text!r} is no security flavor: choose from {', '.join(SECURITY_NAMES)}")
    return SecurityFlavor[text.upper()]
