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
    """The keys with which a server accepts contexts."""

    keytab: Path | str | None = None
    """None: the system's, usually /etc/krb5.keytab, or the one that KRB5_KTNAME names."""
    mechanism: GssMechanism | None = None
    """Another mechanism instead of Kerberos: for tests."""

    def made(self) -> GssMechanism:
        """The mechanism.

        Raises:
            UserAuthenticationFailed: the package `gssapi` is not installed.
        """
        from rpcrdma.aio.kerberos import KerberosMechanism  # noqa: PLC0415 - ctypes and more, for those who need it

        return self.mechanism or KerberosMechanism(keytab=self.keytab)


@dataclass(frozen=True, slots=True)
class Kerberos:
    """Calls under RPCSEC_GSS with Kerberos.

    Raises:
        ValueError: `flavor` is not one of krb5, krb5i and krb5p.
    """

    flavor: str = "krb5p"
    """krb5 proves the user and the headers, krb5i protects all octets from changes, krb5p also encrypts them."""
    principal: str | None = None
    """The client's principal; None: that of the tickets."""
    ccache: Path | str | None = None
    """Where the tickets are; None: where the system has them, or KRB5CCNAME says."""
    host: str | None = None
    """The name of the server in its principal nfs/HOST; None: as in the URL."""
    mechanism: GssMechanism | None = None
    """Another mechanism instead of Kerberos: for tests."""

    def __post_init__(self) -> None:
        if self.security.service is None:
            raise ValueError(f"{self.flavor!r} is no flavor of Kerberos: choose krb5, krb5i or krb5p")

    @property
    def security(self) -> SecurityFlavor:
        """The flavor."""
        return security_flavor(self.flavor)

    def lacks(self) -> str:
        """The reason why calls cannot be made: cause and remedy; "" if they can. May block."""
        try:
            self.made().check_ticket()
        except RpcRdmaError as error:
            return str(error)
        return ""

    def made(self) -> GssMechanism:
        """The mechanism.

        Raises:
            UserAuthenticationFailed: the package `gssapi` is not installed.
        """
        from rpcrdma.aio.kerberos import KerberosMechanism  # noqa: PLC0415 - ctypes and more, for those who need it

        return self.mechanism or KerberosMechanism(principal=self.principal, ccache=self.ccache)
