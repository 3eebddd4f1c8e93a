"""The rights of one caller in one export, which the methods of trees take, and the identities in which threads act."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from rpcrdma.rpc.auth import AuthNone, Credential

if TYPE_CHECKING:
    from rpcrdma.nfs.export.access_terms import ExportTerms
    from rpcrdma.rpc.gss.flavors import SecurityFlavor
    from rpcrdma.rpc.host_identity import CallOrigin
    from rpcrdma.rpc.service import CallContext

__all__ = ["Admitting", "CallerIdentity", "Grant", "ServingUser"]


class CallerIdentity(Protocol):
    """The user as whom a thread accesses files inside `with identity:`; such blocks must not nest.

    `__enter__` gives the calling thread the identity, or raises OSError or `service.WorkerNeeded` (see
    `SwitchedCaller`). `__exit__` gives the thread the server's own identity again, also after an error.
    """

    @property
    def uid(self) -> int:
        """The number of the user whose rights the kernel checks inside the `with` block."""

    def __enter__(self) -> object: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class ServingUser:
    """The identity of a server that accesses files as its own user for every caller; `uid` is its effective user."""

    __slots__ = ("uid",)

    def __init__(self) -> None:
        self.uid = os.geteuid()

    def __enter__(self) -> None:
        """Does nothing, since every thread already acts as the server's user."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Does nothing, since `__enter__` changed nothing; lets errors of the block pass."""


@dataclass(slots=True, eq=False)
class Grant:
    """The rights of one caller in one export, by the export's rule that admits the call.

    A grant by `HostAdmission.check` is valid for each call that has the very same terms, origin and credential
    (compared by identity), by a version of NFS that the export serves.

    Attributes:
        identity: the identity with which a thread accesses files for the caller, after squashing.
        read_only: whether changes are refused.
        credential: the credential of the call; AUTH_NONE by default.
        terms, origin: the terms of the export and the origin of the call; None: the grant belongs to no particular
            export or call.
    """

    identity: CallerIdentity
    _: KW_ONLY
    read_only: bool = False
    credential: Credential = field(default_factory=AuthNone)
    terms: ExportTerms | None = None
    origin: CallOrigin | None = None


class Admitting(Protocol):
    """The methods of `tree.Tree` that decide which calls may use an export, by its terms.

    `context` is the call that is being answered, and `version` the version of NFS, 3 or 4. If `admit` or `admit_mount`
    returns None, it is called again in a worker thread, where it may block.
    """

    def admit(self, context: CallContext, version: int) -> Grant | None:
        """Checks that the export is open to a call by `version` of NFS, and returns the caller's rights.

        Returns None in the event loop if the check may block, or any use of the export's objects, as in FUSE.

        Raises:
            Refused: EACCES: the export is closed to this host, caller, version or kind of connection, which is logged;
                EAGAIN: the caller's groups cannot be looked up now.
            CredentialTooWeak: the export asks for another security flavor; this is logged.
        """

    def admit_mount(self, context: CallContext, version: int) -> Grant | None:
        """Checks a call of MOUNT or SECINFO, over any transport, from any port; returns the caller's rights.

        The call may have any security flavor; `version` is that of its clients: 3 for MOUNT, 4 for SECINFO. Returns
        None in the event loop if the check may block, or any use of the export's objects. Raises Refused: EACCES, which
        is logged: the export is closed to the host or `version`, or the connection is less protected than each rule for
        the host asks, and MOUNT in the clear is not allowed; EAGAIN: the caller's groups cannot be looked up now.
        """

    def flavors(self, context: CallContext) -> Sequence[SecurityFlavor]:
        """Returns the security flavors with which callers of this call's host may use it, the preferred one first.

        Raises Refused: EACCES: the export is closed to the host; this is logged.
        """
