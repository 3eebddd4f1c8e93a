"""The change from the exports of running services to others, while they answer calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rpcrdma.nfs.export.access_terms import Export
from rpcrdma.nfs.export.joint_exports import JointExports, PlannedJoint
from rpcrdma.nfs.server.services import NfsServices

if TYPE_CHECKING:
    from rpcrdma.nfs.v4.server.service import Nfs4Service

__all__ = ["ExportsChange"]


class ExportsChange:
    """Other exports for running services, in three steps: `plan`, `install` and `retire`.

    An export of the same name and directory stays, with other terms; so do its handles, opens and locks. An export that
    is gone, or has another directory, answers STALE. Handles are valid again when it comes back.

    Args:
        services: the services of version 3 and MOUNT.
        nfs4: the service of version 4 over the same exports; None: it is not offered.
        exports: all exports from then on.
        stay: whether directories that are served stay without a look at their paths, which may lead elsewhere by now,
            or nowhere; then `exports` has each one that is served, with its directory.
    """

    def __init__(
        self, services: NfsServices, nfs4: Nfs4Service | None, exports: Sequence[Export], *, stay: bool = False
    ) -> None:
        self._services = services
        self._nfs4 = nfs4
        self._exports = exports
        self._stay = stay
        present = services.nfs.exports
        if not isinstance(present, JointExports) and any(export.url is not None for export in exports):
            present = JointExports([], present.parts.state, local=present)
        self._served = present
        self._planned: Any = None
        self.gone: set[Any] = set()
        """The trees that are served no more."""

    def plan(self) -> None:
        """Makes what the exports need, and puts unstable data of those that leave on the disk; changes nothing else.

        May block: for a worker thread.

        Raises:
            ValueError: two exports have one name.
            OSError: a directory or a URL cannot be exported, or data of a leaving export is lost. Nothing has changed.
        """
        planned = self._planned = self._served.plan(self._exports, stay=self._stay)
        pairs = [*planned.local, *planned.remote] if isinstance(planned, PlannedJoint) else planned
        leaving = set(self._served.trees) - {tree for tree, _ in pairs}
        try:
            self._commit(leaving)
        except BaseException:
            self.discard()
            raise

    def _commit(self, trees: set[Any]) -> None:
        if trees:
            self._services.nfs.local.parts.files.commit(trees)
            if self._nfs4 is not None:
                self._nfs4.commit(trees)

    def discard(self) -> None:
        """Closes what `plan` has made, in place of `install`."""
        self._served.discard(self._planned)

    def install(self, now_ns: int) -> None:
        """Serves the exports from the next call on; never waits: one step of the event loop.

        Args:
            now_ns: the time in nanoseconds since 1970.
        """
        self.gone = self._served.install(self._planned)
        self._services.nfs.exports = self._served
        self._services.mount.serve(self._served)
        if self._nfs4 is not None:
            self._nfs4.exports.serve(self._served, now_ns)

    def retire(self, *, close: bool) -> list[OSError]:
        """Ends what is left of the exports that are gone: revokes state on their files, and closes these; may block.

        May be called again: calls that began before `install` may have opened files since.

        Args:
            close: whether these calls have ended, so that nothing of their file systems stays open.

        Returns:
            The errors of the disk: data that clients have written since `plan` may be lost.
        """
        if not self.gone:
            return []
        failures: list[OSError] = []
        if self._nfs4 is not None:
            try:
                self._nfs4.commit(self.gone)
            except OSError as error:
                failures.append(error)
            self._nfs4.revoke_on(self.gone)
        self._services.mount.forget_gone()
        return [*failures, *self._served.retire(self.gone, close=close)]
