"""The rights of one caller in one export, which the methods of trees take, and the identities in which threads act."""

from __future__ import annotations

import os
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from rpcrdma.rpc.auth import AuthNone, Credential

if TYPE_CHECKING:
    from rpcrdma.nfs.export.access_terms import ExportTerms
    from rpcrdma.rpc.host_identity import CallOrigin

__all__ = ["CallerIdentity", "Grant", "ServingUser"]


class CallerIdentity(Protocol):
    """An identity with which a thread acts inside a `with` block; blocks do not nest."""

    @property
    def uid(self) -> int:
        """The user for whom the kernel judges each access."""

    def __enter__(self) -> object: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class ServingUser:
    """The user that the server runs as, for every caller."""

    __slots__ = ("uid",)

    def __init__(self) -> None:
        self.uid = os.geteuid()

    def __enter__(self) -> None:
        """Does nothing: threads already have this identity."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Does nothing."""


class Grant:
    """The rights that an export gives to a call, by the first of its rules that matches.

    They hold for all calls with the same terms, origin and credential, which are compared by identity.

    Attributes:
        identity: the identity in which a thread acts for the caller, as the rule squashes it.
        read_only: whether changes are refused.
        credential: the caller's credential.
        terms, origin: the terms of the export and the origin of the call; None: of no export, or for every call.
    """

    __slots__ = ("credential", "identity", "origin", "read_only", "terms")

    def __init__(
        self,
        identity: CallerIdentity,
        *,
        read_only: bool = False,
        credential: Credential | None = None,
        terms: ExportTerms | None = None,
        origin: CallOrigin | None = None,
    ) -> None:
        self.identity = identity
        self.read_only = read_only
        self.credential = credential or AuthNone()
        self.terms = terms
        self.origin = origin
