"""The shared part of `get` and `put`: counts, progress, and the report of failures."""

from __future__ import annotations

import argparse
import contextlib
import errno
import posixpath
import re
import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sized
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rpcrdma.cli.remote import TOLD_MAX, Failures
from rpcrdma.commands import CommandParser, ExitStatus, add_json, console
from rpcrdma.commands.options import add_exclude
from rpcrdma.commands.progress import Advance

if TYPE_CHECKING:
    from rpcrdma.nfs.client.trees.not_carried import Lost
    from rpcrdma.nfs.client.trees.tree_copy import CopyReport

__all__ = ["Copies", "add_copy_options", "naming_partial_files"]

_NOT_CARRIED = {
    "holes": "holes",
    "hard_links": "hard links",
    "times": "times outside 1970 to 2106",
    "extended_attributes": "extended attributes",
    "owners": "owners or groups",
    "special_bits": "set-user-ID, set-group-ID or sticky bits",
}


def add_copy_options(parser: CommandParser, exact_modes: str) -> None:
    """Adds the options that `rpcrdma get` and `rpcrdma put` share to `parser`; `exact_modes` is the help text of -p."""
    add = parser.add_argument
    add("-r", "--recursive", action="store_true", help="accepted for habit: trees are always copied")
    add("-p", "--preserve", dest="exact_modes", action="store_true", help=exact_modes)
    add("--sparse", action="store_true", help="leave holes in the copies in place of blocks of zeros")
    add(
        "--resume",
        action="store_true",
        help="skip files that exist with the size and mtime of their originals; keep the partial copy of a large file "
        "when the copy is interrupted, and continue it while size and mtime of the original are the same",
    )
    add(
        "-T",
        "--no-target-directory",
        dest="own_name",
        action="store_true",
        help="treat DEST as the copy itself, not as a directory to copy into: the command, repeated, continues the "
        "copy of a tree",
    )
    add_exclude(parser, "leave out entries of trees")
    add_json(parser, "the totals as one JSON object, with the failures and the entries left out")


@contextlib.contextmanager
def naming_partial_files(args: argparse.Namespace) -> Iterator[None]:
    """With --resume in `args`, adds a note to a CancelledError or KeyboardInterrupt that leaves the `with` block.

    The note says that partial copies stay, and how to continue them. Every exception propagates; exceptions that derive
    from `Exception` get no note.
    """
    try:
        yield
    except BaseException as error:
        # asyncio is not imported for --help: a cancellation is no Exception.
        if args.resume and not isinstance(error, Exception):
            again = "the same command continues it, that of a tree with -T"
            error.add_note(f"with --resume the partial copy of a large file stays (.rpcrdma-*.part); {again}")
        raise


class Copies:
    """The progress, totals and failures of the copies that one `rpcrdma get` or `rpcrdma put` makes.

    `advance` shows the progress: it is called with the octets and files copied since its last call. `at_server`:
    whether the copies are at the server (put), not on this machine (get).
    """

    def __init__(self, advance: Advance, *, at_server: bool = False) -> None:
        self.files = 0
        self.directories = 0
        self.symlinks = 0
        self.octets = 0
        self.excluded = 0
        self.kept = 0
        self.hard_links = 0
        self.not_carried: Counter[str] = Counter()
        self.failed: list[dict[str, Any]] = []
        """The `--json` objects of failures, up to the bound."""
        self.failures = Failures(self.failed)
        self._failures_left_out = 0
        self.skipped: list[str] = []
        self._skipped_left_out = 0
        self._files: set[str] = set()
        """Copies of single files: a later source may not replace one."""
        self._advance = advance
        self._at_server = at_server
        self._start = time.perf_counter()

    @property
    def status(self) -> ExitStatus:
        """The exit status of the command so far; DONE while no copy has failed."""
        return self.failures.status

    @contextlib.contextmanager
    def telling_the_end(self) -> Iterator[None]:
        """A context that reports an OSError (not of standard output) or RpcRdmaError as a failure, and suppresses it.

        The error is printed and added to the failures, so that the report has the copies made before it, too.
        """
        from rpcrdma.errors import RpcRdmaError  # noqa: PLC0415

        try:
            with self.failures:
                yield
        except RpcRdmaError as error:
            self.failures.tell(error)

    @contextlib.contextmanager
    def naming_missing_directory(self, dest: str) -> Iterator[None]:
        """Adds a note to a FileNotFoundError at the target's side in the context: the command that makes the parent.

        `dest`: the destination, whose parent it is.
        """
        from rpcrdma.nfs.errors import ServerPathError  # noqa: PLC0415

        try:
            yield
        except FileNotFoundError as error:
            if isinstance(error, ServerPathError) is self._at_server:
                above = posixpath.dirname(dest.rstrip("/"))
                missing = "" if error.filename == above else "its directory is missing: "
                error.add_note(f"{missing}make it by {self._making(above)}")
            raise

    def _making(self, directory: str) -> str:
        """Returns the command with which a user makes a directory at the target's side."""
        if self._at_server:
            return f"rpcrdma mkdir -p {self.failures.url_of(directory)}"
        return f"mkdir -p {shlex.quote(directory)}"

    def settings(self, args: argparse.Namespace) -> dict[str, Any]:
        """Returns keyword arguments for a method of `NfsFilesystem` that copies a file or tree, such as `upload`.

        They are a new `progress` function, and `sparse` and `resume` as the options in `args` say.
        """
        return {"progress": self.progress(), "sparse": args.sparse, "resume": args.resume}

    def progress(self) -> Callable[[int, int], None]:
        """Returns a function (files, octets) for one copy, to be called with its totals so far, that shows progress."""
        done = done_files = 0

        def advance(files: int, octets: int) -> None:
            nonlocal done, done_files
            self._advance(octets - done, files - done_files)
            done, done_files = octets, files

        return advance

    def place(self, args: argparse.Namespace, sources: int, dest: str, *, directory: bool) -> bool:
        """Returns whether each copy is made in the directory `dest`, by the name of its source.

        False: there is one source, and `dest` is the path of its copy, as `dest` is no directory or -T was given.
        `sources` is the number of sources. `directory`: whether `dest` is a directory.

        Raises:
            OSError: ENOTDIR: there are several sources, and `dest` is no directory or -T was given.
        """
        if sources == 1:
            return directory and not args.own_name
        if args.own_name:
            raise self._unfit(errno.ENOTDIR, "cannot be the name of several copies (-T)", dest)
        if not directory:
            raise self._unfit(errno.ENOTDIR, "is not a directory, which several copies need", dest)
        return True

    def _unfit(self, number: int, text: str, path: str) -> OSError:
        from rpcrdma.nfs.errors import ServerPathError  # noqa: PLC0415

        url = self.failures.url
        if not self._at_server or url is None:
            return OSError(number, text, path)
        error = ServerPathError(number, text, path)
        error.found_at(replace(url, path=self.failures.export + path))
        return error

    def take_file_place(self, dest: str, target: str, *, directory: bool, taken: bool) -> None:
        """Records the path `target` as that of the copy of a single file, which no later source may have.

        Args:
            dest: the destination as the user has named it.
            target: the path of the copy: `dest`, or a path in it.
            directory: whether `dest` is a directory.
            taken: whether `target` is a directory.

        Raises:
            OSError: EISDIR: `target` is a directory. ENOTDIR: `dest` ends with a slash and is no directory. EEXIST:
                `target` is the copy of an earlier source.
        """
        if taken:
            raise self._unfit(errno.EISDIR, "is a directory, which a file cannot replace", target)
        if dest.endswith("/") and not directory:
            error = self._unfit(errno.ENOTDIR, "is no directory", dest)
            error.add_note(f"leave out the slash, or make it by {self._making(dest)}")
            raise error
        if target in self._files:
            raise self._unfit(errno.EEXIST, "is the copy of an earlier source already", target)
        self._files.add(target)

    def tell_where_resumed(self, args: argparse.Namespace, dest: str, target: str) -> None:
        """With --resume in `args`, prints a hint that the copy of a tree is `target`, and not the directory `dest`.

        The caller has found that `dest` exists, and `target` in it does not. If the user has meant `dest` itself as the
        copy to resume, -T makes it that: the hint says so.
        """
        if args.resume:
            console.talk(f"hint: {dest} is a directory, so the copy is {target}; with -T the copy is {dest} itself")

    def add_file(self, octets: int, lost: Lost, *, sparse: bool) -> None:
        """Adds a copied file of `octets` octets to the totals; `lost` are properties of its original that it lacks.

        `sparse`: --sparse has made holes in the copy, so that a loss of the original's holes is not counted.
        """
        self.files += 1
        self.octets += octets
        self.not_carried.update(kind.value for kind in lost if not (sparse and kind.value == "holes"))

    def add_tree(self, report: CopyReport, *, in_url: bool = False) -> None:
        """Adds the report on a copied tree to the totals, and prints its failures and the entries left out.

        Failures alone change the exit status: from DONE to the status of the first failure, and to PROTOCOL_VIOLATION
        if any failure has that status. Entries left out are no file, directory or symbolic link. Up to 20 (TOLD_MAX)
        failures and 20 such entries are printed, and the numbers of the others. `in_url`: the paths of the report are
        paths in an export, and are printed as URLs.
        """
        from rpcrdma.commands.failures import as_json  # noqa: PLC0415

        failures = self.failures
        named, shown = (failures.in_url, failures.url_of) if in_url else (str, str)
        self.files += report.files
        self.directories += report.directories
        self.symlinks += report.symlinks
        self.octets += report.octets
        self.excluded += report.excluded
        self.kept += report.kept
        self.hard_links += report.hard_links
        self.not_carried.update({kind.value: count for kind, count in report.not_carried.items()})
        skipped = [named(path) for path in report.skipped]
        self.skipped += skipped
        self._skipped_left_out += report.skipped_total - len(skipped)
        for path in report.skipped[:TOLD_MAX]:
            console.talk(f"warning: {shown(path)} was left out: it is not a file, directory or symbolic link")
        _tell_rest("left out", report.skipped_total, skipped)
        for index, failure in enumerate(report.failures):
            failures.name_as_in_url(failure.error)
            facts = as_json(failure.error)
            path = named(failure.path)
            facts |= {"path": path, "message": _naming(shown(failure.path), facts["message"])}
            if failures.status is ExitStatus.DONE or facts["exit_status"] == ExitStatus.PROTOCOL_VIOLATION:
                failures.status = ExitStatus(facts["exit_status"])
            self.failed.append(facts)
            if index < TOLD_MAX:
                console.error(facts["message"], facts["hint"] or "", in_report=True)
        self._failures_left_out += report.failures_total - len(report.failures)
        _tell_rest("not copied", report.failures_total, report.failures)

    def report(self, args: argparse.Namespace) -> int:
        """Prints a warning about lost properties of files, if any, and the totals; returns the exit status.

        With --json the totals are JSON on standard output; else, if files were copied and standard error is a terminal,
        one line there.
        """
        seconds = time.perf_counter() - self._start
        facts: dict[str, Any] = {
            "files": self.files,
            "directories": self.directories,
            "symlinks": self.symlinks,
            "bytes": self.octets,
            "seconds": round(seconds, 3),
            "bytes_per_s": round(self.octets / seconds),
            "not_carried": {kind: self.not_carried[kind] for kind in _NOT_CARRIED},
            "failures": self.failed,
            "failures_total": len(self.failed) + self._failures_left_out,
            "excluded": self.excluded,
            "kept": self.kept,
            "hard_links": self.hard_links,
            "skipped": [{"path": path} for path in self.skipped],
            "skipped_total": len(self.skipped) + self._skipped_left_out,
        }
        if self.not_carried:
            counts = [(text, self.not_carried[kind]) for kind, text in _NOT_CARRIED.items()]
            parts = ", ".join(f"{text} ({count:,})" for text, count in counts if count)
            console.talk(f"warning: copies over NFSv3 lose properties of the originals: {parts}")
        if args.json:
            console.json_line(facts)
        elif sys.stderr.isatty() and self.files:
            links = f" ({self.hard_links:,} of them links to others)" if self.hard_links else ""
            console.talk(
                f"{console.counted(self.files, 'file')}{links}, "
                f"{console.readable_octets(self.octets)} in {seconds:.2f} s, "
                f"{console.readable_rate(self.octets, seconds)}"
            )
        return self.failures.status


def _naming(path: str, message: str) -> str:
    """Returns `message` with the readable form of `path` and a colon in front; unchanged if it has that form already.

    `readable_path` makes the form, and shortens long paths. Where the form is a part of a longer path or word in
    `message`, it does not count. If `message` begins with the path's last name and a colon, the form replaces the name.
    """
    from rpcrdma.commands.failures import readable_path  # noqa: PLC0415

    name, shown = path.rpartition("/")[2], readable_path(path)
    names_it = re.search(rf"(?<![\w/.-]){re.escape(shown)}(?![\w/-])", message)
    return message if names_it else f"{shown}: {message.removeprefix(name + ': ')}"


def _tell_rest(what: str, total: int, listed: Sized) -> None:
    more = total - min(TOLD_MAX, len(listed))
    if more:
        console.talk(f"and {more:,} more {what}")
