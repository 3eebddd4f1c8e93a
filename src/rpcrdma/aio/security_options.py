"""The options of clients and servers that prove users with Kerberos."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rpcrdma.errors import RpcRdmaError
from rpcrdma.rpc.gss.flavors import SecurityFlavor, security_flavor

if TYPE_CHECKING:
    from rpcrdma.rpc.gss.mechanism import GssMechanism

__all__ = ["Kerberos", "KerberosKeys"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosKeys:
    """The keys with which a server proves itself to Kerberos clients."""

    keytab: Path | str | None = None
    """The keytab file; None: the system's, usually /etc/krb5.keytab, or that of KRB5_KTNAME."""
    mechanism: GssMechanism | None = None
    """A mechanism in place of Kerberos, for tests."""

    def made(self) -> GssMechanism:
        """Returns the field `mechanism` or, if that is None, a `KerberosMechanism` with the field `keytab`.

        Raises:
            UserAuthenticationFailed: the package `gssapi` is not installed, or does not work.
        """
        from rpcrdma.aio.kerberos import KerberosMechanism  # noqa: PLC0415 - ctypes and more, for those who need it

        return self.mechanism or KerberosMechanism(keytab=self.keytab)


@dataclass(frozen=True, slots=True)
class Kerberos:
    """Settings of calls under RPCSEC_GSS (RFC 2203) with Kerberos.

    Raises:
        ValueError: `flavor` is not one of krb5, krb5i and krb5p.
    """

    flavor: str = "krb5p"
    """krb5 proves the user and the headers, krb5i protects all octets from changes, krb5p also encrypts them."""
    principal: str | None = None
    """The client's principal; None: that of the tickets."""
    ccache: Path | str | None = None
    """The credential cache with the tickets; None: the system's, or that of KRB5CCNAME."""
    host: str | None = None
    """HOST in the server's principal nfs/HOST; None: the host of the URL."""
    mechanism: GssMechanism | None = None
    """A mechanism in place of Kerberos, for tests."""

    def __post_init__(self) -> None:
        if self.security.service is None:
            raise ValueError(f"{self.flavor!r} is no flavor of Kerberos: choose krb5, krb5i or krb5p")

    @property
    def security(self) -> SecurityFlavor:
        """The member of `SecurityFlavor` that the field `flavor` names."""
        return security_flavor(self.flavor)

    def lacks(self) -> str:
        """Returns why this client cannot prove its user, with the remedy if known; "" if it can. May block.

        The reason is that there is no valid ticket, or no package `gssapi` that works.
        """
        try:
            self.made().check_ticket()
        except RpcRdmaError as error:
            return str(error)
        return ""

    def made(self) -> GssMechanism:
        """Returns the field `mechanism`; if None, a `KerberosMechanism` with the fields `principal` and `ccache`.

        Raises:
            UserAuthenticationFailed: the package `gssapi` is not installed, or does not work.
        """
        from rpcrdma.aio.kerberos import KerberosMechanism  # noqa: PLC0415 - ctypes and more, for those who need it

        return self.mechanism or KerberosMechanism(principal=self.principal, ccache=self.ccache)
