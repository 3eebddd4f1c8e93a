"""Acting as the caller: the file system identity of the calling thread, for the length of a `with` block.

A server that runs as root takes on the caller's user, group and supplementary groups, so the kernel judges every
access. None of its capabilities is in effect meanwhile, unless the caller is root: not those over files, which the
kernel takes away by itself, and not CAP_SYS_RESOURCE, with which quotas and reserved blocks would not apply. Root
(unless the export trusts it) and calls without AUTH_SYS act as the anonymous user. A server that does not run as root
does everything as its own user.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Protocol

from rpcrdma.limits import NFS_CALLERS_MAX
from rpcrdma.nfs.server.export import Export
from rpcrdma.nfs.server.linux_calls import (
    set_thread_capabilities,
    set_thread_gid,
    set_thread_groups,
    set_thread_uid,
    thread_capabilities,
    thread_groups,
)
from rpcrdma.rpc.auth import AuthSys, Credential

__all__ = ["CallerIdentity", "Callers", "ServingUser", "SwitchedCaller"]

_ASK = 0xFFFFFFFF
"""No identity: to the kernel this number means that nothing is to be changed."""


class CallerIdentity(Protocol):
    """The identity with which the calling thread acts inside a `with` block; blocks do not nest."""

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


class _Server:
    """The server's own identity, to which threads return after a block."""

    __slots__ = ("capabilities", "gid", "groups", "powerless", "uid")

    def __init__(self) -> None:
        self.uid = os.geteuid()
        self.gid = os.getegid()
        self.groups = thread_groups(tuple(os.getgroups()))
        self.capabilities = thread_capabilities()
        self.powerless = thread_capabilities(effective=False)


class SwitchedCaller:
    """A caller whose identity threads take on."""

    __slots__ = ("_groups", "_server", "_verified", "gid", "gids", "uid")

    def __init__(self, uid: int, gid: int, gids: tuple[int, ...], server: _Server) -> None:
        self.uid = uid
        self.gid = gid
        self.gids = gids
        self._groups = thread_groups(gids)
        self._server = server
        self._verified = False

    def __enter__(self) -> None:
        try:
            set_thread_groups(self._groups)
            set_thread_gid(self.gid)
            set_thread_uid(self.uid)
            if self.uid:
                set_thread_capabilities(self._server.powerless)
            if not self._verified:
                self._verify()
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        server = self._server
        # A process may always take its own user and group; taking the user changes capabilities, which are restored.
        set_thread_uid(server.uid)
        set_thread_gid(server.gid)
        set_thread_capabilities(server.capabilities)
        set_thread_groups(server.groups)

    def _verify(self) -> None:
        # The kernel silently ignores users that the namespace does not map, which would leave the thread root.
        if set_thread_uid(_ASK) != self.uid or set_thread_gid(_ASK) != self.gid:
            raise PermissionError(1, f"user {self.uid}, group {self.gid}: this user namespace does not map them")
        self._verified = True


class Callers:
    """Finds the identity for each call."""

    def __init__(self) -> None:
        self.switches = os.geteuid() == 0
        self._user = ServingUser()
        self._server = _Server() if self.switches else None
        self._known: dict[tuple[int, int, tuple[int, ...]], SwitchedCaller] = {}

    def of(self, credential: Credential, export: Export) -> CallerIdentity:
        """The identity with which a call with this credential acts in this export."""
        server = self._server
        if server is None:
            return self._user
        identity = _squashed(credential, export)
        caller = self._known.get(identity)
        if caller is None:
            if len(self._known) >= NFS_CALLERS_MAX:
                self._known.clear()
            caller = self._known[identity] = SwitchedCaller(*identity, server)
        return caller


def _squashed(credential: Credential, export: Export) -> tuple[int, int, tuple[int, ...]]:
    anonymous_uid, anonymous_gid = export.anonymous_uid, export.anonymous_gid
    if not isinstance(credential, AuthSys) or export.all_squash:
        return anonymous_uid, anonymous_gid, ()
    uid, gid, gids = credential.uid, credential.gid, credential.gids
    if export.root_squash:
        if uid == 0:
            return anonymous_uid, anonymous_gid, ()
        if gid == 0:
            gid = anonymous_gid
        if 0 in gids:
            gids = tuple(other for other in gids if other)
    if _ASK in {uid, gid, *gids}:
        return anonymous_uid, anonymous_gid, ()
    return uid, gid, gids
