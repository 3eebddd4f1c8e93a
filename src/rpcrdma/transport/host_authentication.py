"""Mutual authentication of hosts by a TLS 1.3 handshake in the HOSTAUTH values of a connection.

docs/tls.md defines the values. Only the handshake of TLS is used: both sides show certificates and
prove possession of the keys. No data is encrypted, and the TLS connection is dropped afterwards. OpenSSL draws random
numbers and compares certificates with the clock; this module does neither, and does no I/O.
"""

from __future__ import annotations

import enum
import hashlib
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from rpcrdma import limits
from rpcrdma.errors import HostAuthenticationFailed
from rpcrdma.rpc.host_identity import HostIdentity, HostName, host_identity, is_named
from rpcrdma.transport.config import Role
from rpcrdma.transport.host_policy import TAKES_PART, HostPolicy
from rpcrdma.transport.host_refusals import HostCause, alert_in, cause_of, refused, refused_by_peer
from rpcrdma.wire.peer_text import printable

__all__ = [
    "TRANSITIONS",
    "AuthenticatorSource",
    "HandshakeInput",
    "HandshakeState",
    "HostAuthenticator",
    "prepare_context",
    "proved_host",
    "refusal_of",
]

_APPLICATION: Final = "rpcrdma-hostauth"
"""The ALPN name, so that a handshake for another protocol by a host with the same certificate is not accepted."""
_BINDING_LABEL: Final = b"rpcrdma host authentication"
_ANNOUNCEMENT: Final = b""
_END_MARK: Final = b""
_NAMES_SHOWN: Final = 4
_NAME_SHOWN: Final = 80


class HandshakeState(enum.Enum):
    """The state of one side in the mutual authentication of hosts by TLS."""

    WAITING = "waiting"
    """It waits for the peer's first message."""
    HANDSHAKE = "handshake"
    """The sides exchange flights of TLS."""
    CONFIRMING = "confirming"
    """Client: the server is authenticated, and has not accepted the client yet."""
    AUTHENTICATED = "authenticated"
    UNAUTHENTICATED = "unauthenticated"
    """Finished without authentication, as the policy of this side allows."""
    FAILED = "failed"
    """One side has refused the other."""


class HandshakeInput(enum.Enum):
    """An event that changes the `HandshakeState` of one side."""

    DECLINE = "decline"
    """This side does not authenticate: its policy is OFF, or OPTIONAL and the peer has sent no value."""
    TAKE_PART = "take part"
    """The peer has sent its first value, and this side's policy is not OFF."""
    FLIGHT = "flight"
    """A flight of the peer that is not the last one."""
    PROOF = "proof"
    """Client: the last flight of the server."""
    ACCEPT = "accept"
    """Server: the last flight of the client; client: the end mark."""
    FAIL = "fail"
    """This side refuses the peer, or has an alert from the peer."""


TRANSITIONS: Mapping[tuple[HandshakeState, HandshakeInput], HandshakeState] = {
    (HandshakeState.WAITING, HandshakeInput.DECLINE): HandshakeState.UNAUTHENTICATED,
    (HandshakeState.WAITING, HandshakeInput.TAKE_PART): HandshakeState.HANDSHAKE,
    (HandshakeState.HANDSHAKE, HandshakeInput.FLIGHT): HandshakeState.HANDSHAKE,
    (HandshakeState.HANDSHAKE, HandshakeInput.PROOF): HandshakeState.CONFIRMING,
    (HandshakeState.HANDSHAKE, HandshakeInput.ACCEPT): HandshakeState.AUTHENTICATED,
    (HandshakeState.CONFIRMING, HandshakeInput.ACCEPT): HandshakeState.AUTHENTICATED,
    **{(state, HandshakeInput.FAIL): HandshakeState.FAILED for state in HandshakeState},
}
"""The next state of a handshake for each state and input; other pairs cannot occur."""

_FINISHED: Final = frozenset({HandshakeState.AUTHENTICATED, HandshakeState.UNAUTHENTICATED})
_MANIFOLD: Final = frozenset({HostCause.UNKNOWN_ISSUER, HostCause.UNFIT, HostCause.NOT_TLS, HostCause.HANDSHAKE})
"""The causes for which the error message includes the details that OpenSSL gives."""
_ENDS: Final = _FINISHED | {HandshakeState.FAILED}
_BAD_RECORD: Final = "RECORD_LAYER_FAILURE"
"""The reason of OpenSSL 3.2 and later for a record that cannot be read; earlier versions have one for each fault."""
_BAD_CLEAR_RECORD: Final = "PACKET_LENGTH_TOO_LONG"
"""The reason of earlier versions for such a record before the cipher is chosen, where records are in the clear."""


def prepare_context(context: ssl.SSLContext, role: Role, application: str = _APPLICATION) -> ssl.SSLContext:
    """Prepares a context for host authentication: TLS 1.3 alone, the peer must show a certificate, one ALPN name.

    `context`: the context, with certificate, key and authorities; it is changed. `role`: the role of this end, for
    which the context must be made. `application`: the ALPN name. Returns `context`, which itself does not check host
    names: `proved_host` compares them.

    Raises:
        ValueError: the context is for the other role, or does not allow TLS 1.3.
    """
    fit = ssl.PROTOCOL_TLS_CLIENT if role is Role.CLIENT else ssl.PROTOCOL_TLS_SERVER
    if context.protocol not in {fit, ssl.PROTOCOL_TLS}:
        raise ValueError(f"the SSL context is not for a {role.value}; make it with ssl.{fit.name}")
    if context.maximum_version not in {ssl.TLSVersion.MAXIMUM_SUPPORTED, ssl.TLSVersion.TLSv1_3}:
        raise ValueError("the SSL context does not allow TLS 1.3; leave its maximum_version as it is")
    # Names are compared here: there may be several, a server has some of clients, and common names do not count.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols([application])
    if role is Role.SERVER:
        context.num_tickets = 0
    return context


class _Tls:
    """One end of a TLS handshake in memory.

    `incoming` takes the peer's records, `outgoing` has those for the peer, and `of` is the TLS object between them.
    """

    __slots__ = ("incoming", "of", "outgoing")

    def __init__(self, context: ssl.SSLContext, role: Role) -> None:
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.of = context.wrap_bio(self.incoming, self.outgoing, server_side=role is Role.SERVER)


class HostAuthenticator:
    """One side of the mutual authentication of hosts by a TLS 1.3 handshake, for one connection.

    For octets of the peer it raises only `HostAuthenticationFailed`: then its `alert`, unless empty, is the last
    HOSTAUTH value to send, and the connection ends.

    Args:
        context: from `prepare_context`; None with the policy OFF.
        role: the role of this end.
        policy: whether the hosts authenticate.
        names: the names of which the peer's certificate must have one; empty: any host with a certificate of the
            authorities.
    """

    __slots__ = ("_context", "_names", "_octets", "_peer", "_policy", "_role", "_state", "_tls", "_values")

    def __init__(
        self, context: ssl.SSLContext | None, role: Role, policy: HostPolicy, names: Sequence[HostName] = ()
    ) -> None:
        assert context is not None or policy is HostPolicy.OFF
        self._context = context
        self._role = role
        self._policy = policy
        self._names = names
        self._state = HandshakeState.WAITING
        self._tls: _Tls | None = None
        self._values = 0
        self._octets = 0
        self._peer: HostIdentity | None = None

    @property
    def state(self) -> HandshakeState:
        """The state of this side in the handshake."""
        return self._state

    @property
    def required(self) -> bool:
        """Whether a connection without host authentication is refused."""
        return self._policy is HostPolicy.REQUIRED

    @property
    def finished(self) -> bool:
        """Whether the hosts are authenticated, or by this side's policy need not authenticate: calls may follow."""
        return self._state in _FINISHED

    @property
    def peer(self) -> HostIdentity | None:
        """The identity of the peer's host; None unless it is authenticated."""
        return self._peer if self._state is HandshakeState.AUTHENTICATED else None

    def announce(self) -> bytes | None:
        """Returns the HOSTAUTH value for a client's first message: an empty one; None at a server or by policy OFF."""
        return None if self._policy is HostPolicy.OFF or self._role is Role.SERVER else _ANNOUNCEMENT

    def begin(self, announced: bytes | None) -> bytes | None:
        """Decides by the policy and the peer's first value whether the hosts authenticate, and starts the handshake.

        `announced`: the first HOSTAUTH value of the peer; None if it has sent none. Returns the value to send: a server
        an empty one, a client its first flight of TLS; None if the hosts do not authenticate.

        Raises:
            HostAuthenticationFailed: the policy refuses the peer, or the value is an alert or, unless OFF, not empty.
        """
        try:
            return self._begin(announced)
        except HostAuthenticationFailed:
            self._move(HandshakeInput.FAIL)
            raise

    def receive(self, value: bytes) -> bytes | None:
        """Continues the handshake with one value of the peer: a whole flight of TLS records, or the empty end mark.

        Returns the value to send; None if nothing is to be sent.

        Raises:
            HostAuthenticationFailed: the peer refuses or is not accepted, the handshake fails, or no value is expected.
        """
        try:
            return self._receive(value)
        except HostAuthenticationFailed:
            self._move(HandshakeInput.FAIL)
            raise

    def _begin(self, announced: bytes | None) -> bytes | None:
        alert = None if announced is None else alert_in(announced)
        if alert is not None:
            raise refused_by_peer(alert)
        takes_part = TAKES_PART[self._policy, announced is not None]
        if takes_part is None:
            raise refused(HostCause.ABSENT)
        if not takes_part:
            self._move(HandshakeInput.DECLINE)
            return None
        if announced != _ANNOUNCEMENT:
            raise refused(HostCause.UNEXPECTED, "the first one must be empty")
        assert self._context is not None
        self._move(HandshakeInput.TAKE_PART)
        self._tls = tls = _Tls(self._context, self._role)
        if self._role is Role.SERVER:
            return _ANNOUNCEMENT
        self._advance(tls.of)
        return tls.outgoing.read()

    def _receive(self, value: bytes) -> bytes | None:
        alert = alert_in(value)
        if alert is not None:
            raise refused_by_peer(alert)
        tls = self._tls
        if tls is None:
            raise refused(HostCause.UNEXPECTED, "none is awaited")
        self._count(value)
        if self._state is HandshakeState.CONFIRMING:
            self._confirm(tls, value)
            return None
        if not value:
            raise refused(HostCause.UNEXPECTED, "an empty one within the handshake")
        tls.incoming.write(value)
        complete = self._advance(tls.of)
        answer = tls.outgoing.read()
        if tls.incoming.pending or not (complete or answer):
            raise refused(HostCause.UNEXPECTED, "it is not one whole flight")
        if not complete:
            self._move(HandshakeInput.FLIGHT)
            return answer
        if tls.of.selected_alpn_protocol() != _APPLICATION:
            raise refused(HostCause.OTHER_USE)
        self._peer = proved_host(tls.of, _BINDING_LABEL, self._names)
        if self._role is Role.CLIENT:
            self._move(HandshakeInput.PROOF)
            return answer
        self._move(HandshakeInput.ACCEPT)
        return _END_MARK

    def _count(self, value: bytes) -> None:
        self._values += 1
        self._octets += len(value)
        for count, most, unit in (
            (self._values, limits.HOST_AUTHENTICATION_VALUES_MAX, "values"),
            (self._octets, limits.HOST_AUTHENTICATION_OCTETS_MAX, "octets"),
        ):
            if count > most:
                raise refused(HostCause.TOO_LONG, f"more than {most} {unit}")

    def _advance(self, tls: ssl.SSLObject) -> bool:
        """Continues the handshake with the records that were received and are in the TLS object's input.

        Returns whether the handshake is complete at this side.

        Raises:
            HostAuthenticationFailed: the handshake has failed.
        """
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            raise refusal_of(error, tls) from None
        return True

    def _confirm(self, tls: _Tls, value: bytes) -> None:
        if value == _END_MARK:
            self._move(HandshakeInput.ACCEPT)
            return
        tls.incoming.write(value)
        try:
            tls.of.read(1)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            raise refusal_of(error, tls.of) from None
        raise refused(HostCause.UNEXPECTED, "records after the handshake")

    def _move(self, moved: HandshakeInput) -> None:
        self._state = TRANSITIONS[self._state, moved]
        if self._state in _ENDS:
            # OpenSSL holds 40 to 60 KB for it.
            self._tls = None


AuthenticatorSource: TypeAlias = Callable[[], HostAuthenticator]
"""A function that creates the authenticator of a new connection."""


def proved_host(
    tls: ssl.SSLObject, binding_label: bytes, names: Sequence[HostName], *, wildcards: bool = True
) -> HostIdentity:
    """Returns the identity that the peer of a finished handshake has proved by its certificate.

    Args:
        tls: the finished TLS 1.3 handshake.
        binding_label: octets that make the channel binding specific to one use.
        names: the names of which the certificate must have one; empty: any.
        wildcards: whether a wildcard in the certificate matches any first label of a DNS name.

    Raises:
        HostAuthenticationFailed: the peer is another host, or has no usable certificate.
    """
    # TLS 1.3 has no tls-unique: the value of that name is here the client's Finished message at both ends, since
    # no session is ever resumed.
    finished = tls.get_channel_binding("tls-unique")
    try:
        certificate = tls.getpeercert()
    except ValueError as error:
        raise refused(HostCause.UNFIT, str(error)) from None
    if not certificate or not finished:
        raise refused(HostCause.NO_CERTIFICATE)
    identity = host_identity(certificate, hashlib.sha256(binding_label + finished).digest())
    if names and not is_named(identity, names, wildcards=wildcards):
        wanted = _listed([name.name for name in names])
        raise refused(HostCause.WRONG_NAME, f"its certificate names {_listed(identity.names)}, not {wanted}")
    return identity


def refusal_of(error: ssl.SSLError, tls: ssl.SSLObject) -> HostAuthenticationFailed:
    """Returns the exception for OpenSSL's `error` in the handshake `tls`, whether this side or the peer has refused."""
    reason = error.reason or ""
    if reason == _BAD_RECORD and tls.cipher() is None:
        reason = _BAD_CLEAR_RECORD
    _, alert, name = reason.partition("ALERT_")
    if alert:
        return refused_by_peer(name)
    cause = cause_of(reason, getattr(error, "verify_code", None))
    detail = getattr(error, "verify_message", None) or reason.replace("_", " ").lower()
    return refused(cause, detail if cause in _MANIFOLD else "")


def _listed(names: Sequence[str]) -> str:
    """Formats names for people: the first 80 characters of the first 4, and how many more there are.

    Characters that are not printable are escaped (`printable`). Returns "no host" if `names` is empty.
    """
    shown = ", ".join(printable(name[:_NAME_SHOWN]) for name in names[:_NAMES_SHOWN])
    return (shown or "no host") + (f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else "")
