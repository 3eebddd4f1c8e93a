"""Authorities and the certificates that they issue to hosts, fit and unfit, as PEM files."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from rpcrdma.transport import Role
from rpcrdma.transport.host_authentication import prepare_context

__all__ = ["BOTH_USES", "CLIENT_USE", "SERVER_USE", "Authority", "tls_context"]

SERVER_USE = ExtendedKeyUsageOID.SERVER_AUTH
CLIENT_USE = ExtendedKeyUsageOID.CLIENT_AUTH
BOTH_USES = (SERVER_USE, CLIENT_USE)
_DAY = dt.timedelta(days=1)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general_name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.UniformResourceIdentifier(text) if ":" in text else x509.DNSName(text)


class Authority:
    """Its certificate is the file `path`; those it issues are in the same directory, each with its key."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        self._directory = directory
        self._name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._issued = 0
        now = dt.datetime.now(dt.UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(_name(name))
            .issuer_name(_name(name))
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 10 * _DAY)
            .not_valid_after(now + 10 * _DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.path = directory / f"{name}.pem"
        self.path.write_bytes(certificate.public_bytes(Encoding.PEM))

    def issue(
        self,
        *names: str,
        subject: str = "a host",
        days: tuple[float, float] = (-1, 1),
        uses: Sequence[x509.ObjectIdentifier] = BOTH_USES,
        more: Sequence[x509.GeneralName] = (),
    ) -> Path:
        """A PEM file with key and certificate, for DNS names, IP addresses and URIs, valid from and to `days`."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(_name(subject))
            .issuer_name(_name(self._name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + days[0] * _DAY)
            .not_valid_after(now + days[1] * _DAY)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        )
        general_names = [*map(_general_name, names), *more]
        if general_names:
            builder = builder.add_extension(x509.SubjectAlternativeName(general_names), critical=False)
        self._issued += 1
        path = self._directory / f"{self._name}-{self._issued}.pem"
        path.write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            + builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)
        )
        return path


def tls_context(role: Role, certificate: Path | None, authority: Path) -> ssl.SSLContext:
    """As the options make it; without a certificate for a client that has none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT if role is Role.CLIENT else ssl.PROTOCOL_TLS_SERVER)
    if certificate is not None:
        context.load_cert_chain(certificate)
    context.load_verify_locations(authority)
    return prepare_context(context, role)
