"""The class of paths that universal-pathlib makes of our URLs; it finds it by its entry point.

The server is the drive of a path, as the bucket is of a path of s3.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Any, Self

from fsspec import get_filesystem_class
from upath import UPath
from upath._flavour import WrappedFileSystemFlavour
from upath.types import JoinablePathLike

from rpcrdma.fsspec.servers import PROTOCOLS, split_path
from rpcrdma.fsspec.waiting import sync

__all__ = ["NfsUPath"]


class _ServerFlavour(WrappedFileSystemFlavour):
    """Splits and joins paths for universal-pathlib, whose own class takes HOST of `HOST:PORT/PATH` for a scheme."""

    def splitdrive(self, path: JoinablePathLike) -> tuple[str, str]:
        return split_path(self.strip_protocol(path))


class NfsUPath(UPath):
    """The class of `UPath("rdma://server/data")`, and of nfstcp:// URLs, with the methods of `pathlib.Path`."""

    __slots__ = ()

    def __str__(self) -> str:
        url, scheme = super().__str__(), f"{self.protocol}://"
        return f"{url}/" if url.startswith(scheme) and "/" not in url.removeprefix(scheme) else url

    @property
    def path(self) -> str:
        """The path for fsspec: "SERVER/PATH", or "SERVER/" for the top of a server; the base class omits that slash."""
        path = super().path
        return path if "/" in path else f"{path}/"

    @property
    def parts(self) -> Sequence[str]:
        """The anchor (drive and root) and the names of the path; of a relative path the names alone.

        The base class would omit a directory that has the server's name.
        """
        if not self.is_absolute():
            return super().parts
        names = self.parser.splitdrive(self.path)[1].split("/")
        return (self.anchor, *filter(None, names))

    def rename(self, target: Any, **kwargs: Any) -> Self:
        """Renames the object to `target` as `os.rename` does, so never into an existing directory `target`.

        Calls `RdmaFileSystem.mv` instead between servers and exports, where that copies the object and then removes it,
        and with any `kwargs`. `mv` takes the object into an existing directory `target`.

        Args:
            target: a path, or a text: "/PATH" at this server, a URL, or "SERVER/PATH" with the server of this path.
            kwargs: `recursive` for `mv`, and others that `mv` ignores; universal-pathlib deprecates them.

        Returns:
            `target` as a path, also if the object is in that directory now; this path if `target` equals it.

        Raises:
            OSError: the object is missing, the server refuses, or `mv` has not copied the contents of a directory.
            ValueError: `target` has another scheme than this path.
            RuntimeError: `target` is relative.
        """
        if isinstance(target, str) and target.startswith("/"):
            target = self.joinpath(target)
        elif isinstance(target, str) and target.startswith((f"{self.protocol}://", self.anchor)):
            target = self.with_segments(target)
        if isinstance(target, type(self)) and target.protocol == self.protocol and target != self and not kwargs:
            try:
                sync(self.fs.loop, self.fs._mv_file, self.path, target.path)  # noqa: SLF001 - fsspec's name for it
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
            else:
                return target
        renamed: Self = super().rename(target, **kwargs)
        return renamed


for _protocol in PROTOCOLS:
    _flavour = _ServerFlavour(get_filesystem_class(_protocol), netloc_is_anchor=True, root_marker_override="")
    # universal-pathlib keeps one flavour for each protocol, and joins paths by it whatever their class says. It was
    # made without our file system if the first URL of the program was `simplecache::rdma://...`.
    _kept = WrappedFileSystemFlavour.from_protocol(_protocol)
    _kept.__class__ = _ServerFlavour
    vars(_kept).update(vars(_flavour))
