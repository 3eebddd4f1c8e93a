"""Holds the paths of settings of `rpcrdma serve` against this machine, also those that this user cannot examine."""

from __future__ import annotations

import functools
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rpcrdma.cli.daemon_threads import DaemonThreads
from rpcrdma.cli.settings.effective import Effective
from rpcrdma.cli.settings.file import Mistake
from rpcrdma.commands import describe
from rpcrdma.commands.failures import readable_path
from rpcrdma.limits import PATH_ANSWERS_S

if TYPE_CHECKING:
    from rpcrdma.nfs.export.server_state import StatePlace

__all__ = ["FILES_OF_HOSTS", "PATHS", "PathLooks"]

FILES_OF_HOSTS: Final = ("tls-cert", "tls-key", "tls-ca")
"""The settings that name files with certificates and keys of hosts."""
PATHS: Final = ("state-dir", "admin", "keytab", "access-log")
"""The other settings of a server that name a file or directory."""


class PathLooks:
    """Looks at paths of settings of the server in threads, all at once, as soon as the object is made.

    The methods wait for the answers until PATH_ANSWERS_S (30) seconds after the object was made. The state directory is
    always among the paths.

    Args:
        found: the settings. Those without a path, such as "off", are not looked at; nor are mistaken ones, which have
            their defaults.
        names: the names of the settings whose paths are checked by `faults`.
        threads: the threads. A path that has not answered an earlier look of theirs is not asked again.

    Raises:
        OSError: no further thread can be started.
    """

    def __init__(self, found: Effective, names: Iterable[str], threads: DaemonThreads) -> None:
        self._found = found
        self._ends_s = time.monotonic() + PATH_ANSWERS_S
        self._looks: dict[str, Future[str]] = {}
        for name in names:
            path = found.server[name].value
            if isinstance(path, Path) and name not in found.mistaken_settings:
                look = functools.partial(_UNFIT[name], path.absolute())
                self._looks[name] = threads.ask((name, path), look)
        self._place: Future[StatePlace] | None = None
        if "state-dir" not in found.mistaken_settings:
            state = found.server["state-dir"].value
            self._place = threads.ask(("place", state), functools.partial(_place_of_state, state))

    def faults(self, names: Iterable[str]) -> Iterator[Mistake]:
        """Yields a mistake for each setting in `names` whose path does not answer or is of no use to a server.

        Settings whose paths this object does not look at are left out. May block.
        """
        for name in names:
            if (look := self._looks.get(name)) is None:
                continue
            if not self._has_answered(look):
                yield self._silence(name)
                continue
            try:
                text = look.result()
            except OSError as error:
                text = f"{describe(error)[0]}; let this user look there, or name another path"
            if text:
                yield Mistake(self._found.server[name].origin, text)

    def place_of_state(self) -> StatePlace | Mistake | None:
        """Returns where the state directory is, to find exports with it; a mistake if it does not answer; may block.

        None: the value of the setting is mistaken.
        """
        if self._place is None:
            return None
        return self._place.result() if self._has_answered(self._place) else self._silence("state-dir")

    def _has_answered(self, look: Future[Any]) -> bool:
        wait((look,), max(self._ends_s - time.monotonic(), 0))
        return look.done()

    def _silence(self, name: str) -> Mistake:
        path, place = self._found.server[name]
        silent = f"{path.absolute()} does not answer within {PATH_ANSWERS_S:g} s"
        return Mistake(place, f"{silent}; mend its file system, or set another {name}")


def _place_of_state(directory: Path) -> StatePlace:
    from rpcrdma.nfs.export.server_state import StatePlace  # noqa: PLC0415 - the database takes its time

    return StatePlace(directory)


def _status(path: Path, *, follow_symlinks: bool = True) -> os.stat_result | None:
    """Returns the status of the file at a path; None if there is no file.

    Raises:
        OSError: it cannot be examined, as below a directory that this user may not search.
    """
    try:
        return path.stat(follow_symlinks=follow_symlinks)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _is_directory(path: Path) -> bool:
    status = _status(path)
    return status is not None and stat.S_ISDIR(status.st_mode)


def _unfit_for_state(directory: Path) -> str:
    """Returns why a server cannot make or use the directory of its state, and the remedy; "" if it can.

    Raises:
        OSError: a file or directory cannot be examined.
    """
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
    """Returns why a server cannot make an admin socket at a path, and the remedy; "" if it can.

    A socket that is there already is no obstacle.

    Raises:
        OSError: a file or directory cannot be examined.
    """
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
    """Returns why a server cannot write a log to the file at a path, and the remedy; "" if it can.

    Raises:
        OSError: a file or directory cannot be examined.
    """
    status = _status(path)
    if status is not None and not stat.S_ISREG(status.st_mode):
        return f"{path} is no regular file; name another one"
    if status is None and not _is_directory(path.parent):
        return f"there is no directory {path.parent}; make it"
    there, rights = (path.parent, os.W_OK | os.X_OK) if status is None else (path, os.W_OK)
    return "" if os.access(there, rights) else f"this user may not write to {there}; allow it, or name another file"


def _unreadable(what: str) -> Callable[[Path], str]:
    """Returns a function of a path, which returns why this user cannot read the file there, with a remedy, or "".

    The function raises OSError if the file cannot be examined. `what`: words for such a file, such as "a keytab".
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
