"""Holds the paths of settings of `rpcrdma serve` against this machine, also those that this user cannot examine."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from rpcrdma.cli.settings.effective import Effective
from rpcrdma.cli.settings.file import Mistake
from rpcrdma.commands import describe
from rpcrdma.commands.failures import readable_path

__all__ = ["FILES_OF_HOSTS", "PATHS", "faults_of_paths"]

FILES_OF_HOSTS: Final = ("tls-cert", "tls-key", "tls-ca")
"""The settings that name files with certificates and keys of hosts."""
PATHS: Final = ("state-dir", "admin", "keytab", "access-log")
"""The other settings of a server that name a file or directory."""


def faults_of_paths(found: Effective, names: Iterable[str]) -> Iterator[Mistake]:
    """Yields a mistake for each setting of the server in `names` whose path a server could not use; may block.

    Settings without a path, such as "off", have none; nor have mistaken ones, in whose place the default is.
    """
    for name in names:
        path, place = found.server[name]
        if not isinstance(path, Path) or name in found.mistaken_settings:
            continue
        try:
            text = _UNFIT[name](path.absolute())
        except OSError as error:
            text = f"{describe(error)[0]}; let this user look there, or name another path"
        if text:
            yield Mistake(place, text)


def _status(path: Path, *, follow_symlinks: bool = True) -> os.stat_result | None:
    """Returns the status of the file at a path; None: there is none.

    Raises:
        OSError: that cannot be known, as below a directory that this user may not search.
    """
    try:
        return path.stat(follow_symlinks=follow_symlinks)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _is_directory(path: Path) -> bool:
    status = _status(path)
    return status is not None and stat.S_ISDIR(status.st_mode)


def _unfit_for_state(directory: Path) -> str:
    """Returns why a server cannot make or use the directory of its state, and the remedy; "": it can."""
    there = (directory, *directory.parents)
    place = next(each for each in there if _status(each, follow_symlinks=False) is not None)
    if not _is_directory(place):
        return f"{place} is no directory, so that it cannot hold the state; set another state-dir"
    if not os.access(place, os.W_OK | os.X_OK):
        return f"this user may not write to {place}; allow it, or set another state-dir"
    from rpcrdma.nfs.export.server_state import check_state  # noqa: PLC0415 - the database takes its time

    try:
        check_state(directory)
    except OSError as error:
        if error.errno is None:
            # The text has a remedy.
            return str(error)
        raise
    return ""


def _unfit_for_socket(path: Path) -> str:
    """Returns why a server cannot listen at an admin socket, and the remedy; "": it can, or did already."""
    from rpcrdma.aio.server.admin_socket import unfit_name  # noqa: PLC0415 - only for a path of the user's own

    if cause := unfit_name(path):
        return f"{readable_path(path)}: {cause}; name another path"
    if not _is_directory(path.parent):
        return f"there is no directory {path.parent} for the socket; make it"
    status = _status(path, follow_symlinks=False)
    if status is not None and not stat.S_ISSOCK(status.st_mode):
        return f"{path} is no socket; remove it, or name another path"
    if not os.access(path.parent, os.W_OK | os.X_OK):
        return f"this user may not write to {path.parent}; allow it, or name another path"
    return ""


def _unfit_for_log(path: Path) -> str:
    """Returns why a server cannot write a log to the file at a path, and the remedy; "": it can."""
    status = _status(path)
    if status is not None and not stat.S_ISREG(status.st_mode):
        return f"{path} is no regular file; name another one"
    if status is None and not _is_directory(path.parent):
        return f"there is no directory {path.parent}; make it"
    there, rights = (path.parent, os.W_OK | os.X_OK) if status is None else (path, os.W_OK)
    return "" if os.access(there, rights) else f"this user may not write to {there}; allow it, or name another file"


def _unreadable(what: str) -> Callable[[Path], str]:
    """Returns a function that returns why this user cannot read the file at a path, with a remedy; "" if it can.

    `what`: the words for such a file, with "a".
    """

    def unfit(path: Path) -> str:
        status = _status(path)
        if status is not None and not stat.S_ISREG(status.st_mode):
            return f"{path} is no regular file; name {what}"
        return "" if os.access(path, os.R_OK) else f"{path} cannot be read; name {what} that this user may read"

    return unfit


_UNFIT: Final[Mapping[str, Callable[[Path], str]]] = {
    "state-dir": _unfit_for_state,
    "admin": _unfit_for_socket,
    "keytab": _unreadable("a keytab"),
    "access-log": _unfit_for_log,
    **dict.fromkeys(FILES_OF_HOSTS, _unreadable("a file in PEM")),
}
