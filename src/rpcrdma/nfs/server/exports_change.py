"""The change from the exports of running services to others, while they answer calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rpcrdma.nfs.export.access_terms import Export
from rpcrdma.nfs.server.services import NfsServices

if TYPE_CHECKING:
    from rpcrdma.nfs.v4.server.service import Nfs4Service

__all__ = ["ExportsChange"]


class ExportsChange:
    """A change of the exports of running services to other exports, in three steps: `plan`, `install` and `retire`.

    An export of the same name and directory stays, with other terms; so do its handles, and its opens and locks as long
    as version 4 serves it. The handles of an export that is gone, or has another directory, are answered with
    NFS3ERR_STALE or NFS4ERR_STALE; they are valid again when the export is served again.

    Args:
        services: the services of version 3 and MOUNT.
        nfs4: the service of version 4 over the same exports; None: it is not offered.
        exports: all exports from then on.
        stay: whether a served export keeps its open directory although its path may lead elsewhere, or nowhere, by now;
            then `exports` has to contain each served export with its directory, which is not checked.
    """

    def __init__(
        self, services: NfsServices, nfs4: Nfs4Service | None, exports: Sequence[Export], *, stay: bool = False
    ) -> None:
        self._services = services
        self._nfs4 = nfs4
        self._exports = exports
        self._stay = stay
        self._served = services.nfs.exports
        self._planned: Any = None
        self.gone: set[Any] = set()
        """The exported trees that are no longer served; empty before `install`."""
        self.closed: set[Any] = set()
        """The exported trees that stay, but not for version 4; empty before `plan`."""

    def plan(self) -> None:
        """Opens the trees of new exports, and commits unstable data of exports that will end; serves nothing new yet.

        An export that version 4 will not serve any more counts as one that ends.

        May block for the disk: to be called in a worker thread. Raises ValueError if two exports have one name, and
        OSError if a directory or a URL cannot be exported, or data of an export that will end is lost; after an error
        the trees that were opened are closed again.
        """
        planned = self._planned = self._served.plan(self._exports, stay=self._stay)
        leaving = set(self._served.trees) - {tree for tree, _ in planned}
        self.closed = {tree for tree, export in planned if 4 in tree.export.versions and 4 not in export.versions}
        try:
            self._commit(leaving | self.closed)
        except BaseException:
            self.discard()
            raise

    def _commit(self, trees: set[Any]) -> None:
        if trees:
            self._served.parts.files.commit(trees)
            if self._nfs4 is not None:
                self._nfs4.commit(trees)

    def discard(self) -> None:
        """Closes the trees that `plan` opened; to be called instead of `install`, to give the change up."""
        self._served.discard(self._planned)

    def install(self, now_ns: int) -> None:
        """Serves the planned exports, and no others, from the next call on.

        Never blocks; to be called in the event loop.

        Args:
            now_ns: the time in nanoseconds since 1970, which becomes the time of the pseudo file system of version 4.
        """
        self.gone = self._served.install(self._planned)
        if self._nfs4 is not None:
            self._nfs4.exports.renew(now_ns)

    def retire(self, *, close: bool) -> list[OSError]:
        """Revokes the opens, locks and delegations of version 4 on files of the exports that ended; closes the files.

        To be called after `install`, and again after the calls that began before it, which may have opened files since.
        May block. Also revokes the state on exports that stay for version 3 alone, unless another change since then
        has given them back to version 4. In the list of mounts of MOUNT, drops those of exports no longer served.

        Args:
            close: whether the calls that began before `install` have ended, so that the directories of the exports that
                ended are closed as well.

        Returns:
            The errors of the disk: data that clients have written since `plan` may be lost. Empty: no data is lost.
        """
        ended = self.gone | {tree for tree in self.closed if 4 not in tree.export.versions}
        if not ended:
            return []
        failures: list[OSError] = []
        if self._nfs4 is not None:
            # Of a client that may not use the export any more it could not be given back, and would stay for ever.
            try:
                self._nfs4.commit(ended)
            except OSError as error:
                failures.append(error)
            self._nfs4.revoke_on(ended)
        self._services.mount.forget_gone()
        failures += self._served.retire(self.gone, close=close)
        if close and self._nfs4 is not None:
            # Of clients that a sweep has ended.
            self._nfs4.close_ended()
        return failures
