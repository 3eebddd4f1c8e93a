"""From events of watched directories to changes: pairs, trees that move, and events that come late."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.nfs.export.tree import Refused
from rpcrdma.nfs.server import directory_watcher
from rpcrdma.nfs.server.directory_events import DirectoryEvent, Happening, Renaming, has_open_renaming, paired
from rpcrdma.nfs.server.directory_watcher import DirectoryWatcher, TooManyDirectories, WatchedTree, watch_status_of
from rpcrdma.nfs.watch import watch_change, watch_kind, watch_status
from rpcrdma.rpc.auth import AuthSys
from support.cases import each_case

CREATED, REMOVED, CHANGED = Happening.CREATED, Happening.REMOVED, Happening.CHANGED
FROM, TO, ATTRIBUTES, GONE = Happening.MOVED_FROM, Happening.MOVED_TO, Happening.ATTRIBUTES, Happening.GONE
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only a server that runs as root acts as its callers")


class Notifier:
    """Watches by inode number; the kernel's check of permissions is that of opening."""

    def __init__(self) -> None:
        self.watched: set[int] = set()
        self.fails_with: int | None = None

    def add(self, link: bytes) -> int:
        if self.fails_with is not None:
            raise OSError(self.fails_with, os.strerror(self.fails_with))
        fd = os.open(link, os.O_RDONLY | os.O_DIRECTORY)
        try:
            watch = os.fstat(fd).st_ino
        finally:
            os.close(fd)
        self.watched.add(watch)
        return watch

    def remove(self, watch: int) -> None:
        self.watched.remove(watch)


class Sink:
    def __init__(self) -> None:
        self.told: list[str] = []

    def add(self, change: watch_change) -> None:
        kind = change.kind.name.removeprefix("WATCH_").lower()
        arrow = f" {change.target}" if change.kind is watch_kind.WATCH_RENAMED else ""
        self.told.append(f"{kind} {change.path}{'/' if change.is_directory else ''}{arrow}")

    def lose(self) -> None:
        self.told.append("rescan")

    def end(self, status: watch_status) -> None:
        self.told.append(f"ended {status.name.removeprefix('WATCHERR_')}")


class Rig:
    """Watches `top`; tests act on the disk and hand in the kernel's events."""

    def __init__(self, server: Any, top: Path) -> None:
        self.server = server
        self.top = top
        self.notifier = Notifier()
        self.watcher = DirectoryWatcher(server.services.nfs.exports, self.notifier)

    def open(self, *, recursive: bool = True, path: str = "", sink: Sink | None = None, uid: int = 0) -> Sink:
        sink = sink or Sink()
        handle = self.server.lookup(self.server.mount(), *path.split("/") if path else ())
        self.tree = self.watcher.open(handle, Blocking(uid), sink, recursive=recursive)  # type: ignore[arg-type]
        return sink

    def watch(self, path: str = "") -> int:
        return (self.top / path).stat().st_ino

    def event(self, happening: Happening, path: str, *, directory: bool = False, cookie: int = 0) -> DirectoryEvent:
        where, _, name = path.rpartition("/")
        return DirectoryEvent(self.watch(where), happening, name, directory, cookie)


class Blocking:
    may_block = True
    peer = "127.0.0.1"

    def __init__(self, uid: int) -> None:
        self.credential = AuthSys(uid=uid, gid=uid)


@pytest.fixture
def rig(server: Any, tree: Path) -> Rig:
    return Rig(server, tree)


def moved(watch: int, happening: Happening, name: str, cookie: int) -> DirectoryEvent:
    return DirectoryEvent(watch, happening, name, cookie=cookie)


def test_two_halves_of_a_renaming_are_one_wherever_they_stand() -> None:
    there, here = moved(1, FROM, "a", 7), moved(2, TO, "b", 7)
    between = DirectoryEvent(1, CHANGED, "c")
    other = moved(1, FROM, "d", 8)
    assert list(paired([there, between, other, here])) == [Renaming(there, here), between, other]
    assert list(paired([here])) == [here]
    assert has_open_renaming([there, between])
    assert not has_open_renaming([there, between, here])


def test_only_the_directory_itself_is_watched_unless_it_is_recursive(rig: Rig) -> None:
    rig.open(recursive=False)
    assert rig.notifier.watched == {rig.watch()}
    rig.watcher.close(rig.tree)
    assert rig.notifier.watched == set()
    rig.open()
    assert rig.notifier.watched == {rig.watch(), rig.watch("a"), rig.watch("a/b")}


def test_what_happens_below_is_told_with_its_path(rig: Rig) -> None:
    sink = rig.open()
    rig.watcher.take(
        [
            rig.event(CHANGED, "a/b/deep.txt"),
            rig.event(ATTRIBUTES, "hello.txt"),
            rig.event(REMOVED, "a/old"),
            DirectoryEvent(rig.watch(), ATTRIBUTES, None, True),
            DirectoryEvent(rig.watch("a"), ATTRIBUTES, None, True),
            DirectoryEvent(999, CREATED, "nobody's"),
        ]
    )
    assert sink.told == ["changed a/b/deep.txt", "attributes hello.txt", "removed a/old", "attributes /"]
    # A directory that moves takes its watches along.
    events = [rig.event(FROM, "a", directory=True, cookie=1), rig.event(TO, "moved", directory=True, cookie=1)]
    (rig.top / "a").rename(rig.top / "moved")
    rig.watcher.take([*events, rig.event(CHANGED, "moved/b/deep.txt")])
    assert sink.told[4:] == ["renamed a/ moved", "changed moved/b/deep.txt"]


def test_what_leaves_the_watched_tree_is_no_longer_heard_of(rig: Rig, tmp_path: Path) -> None:
    sink = rig.open()
    events = [rig.event(FROM, "a", directory=True, cookie=1), rig.event(CREATED, "a/b/secret")]
    (rig.top / "a").rename(tmp_path / "outside")
    rig.watcher.take(events)
    assert sink.told == ["removed a/"]
    assert rig.notifier.watched == {rig.watch()}


def test_what_comes_from_outside_is_told_with_all_that_is_in_it(rig: Rig, tmp_path: Path) -> None:
    sink = rig.open()
    (tmp_path / "new" / "inner").mkdir(parents=True)
    (tmp_path / "new" / "inner" / "file").touch()
    (tmp_path / "new").rename(rig.top / "new")
    late = rig.event(CREATED, "new/inner/file")
    rig.watcher.take([rig.event(TO, "new", directory=True, cookie=1)])
    assert sink.told == ["created new/", "created new/inner/", "created new/inner/file"]
    # The kernel's own word comes after it was found, and is not told again; later on it is news.
    rig.watcher.take([late])
    rig.watcher.take([rig.event(REMOVED, "new/inner/file"), late])
    assert sink.told[3:] == ["removed new/inner/file", "created new/inner/file"]


def test_a_directory_renamed_before_it_could_be_looked_through_is_found(rig: Rig) -> None:
    sink = rig.open()
    (rig.top / "second" / "inner").mkdir(parents=True)
    rig.watcher.take(
        [
            rig.event(CREATED, "first", directory=True),
            rig.event(FROM, "first", directory=True, cookie=1),
            rig.event(TO, "second", directory=True, cookie=1),
        ]
    )
    assert sink.told == ["created first/", "renamed first/ second", "created second/inner/"]
    rig.watcher.settled()
    rig.watcher.take([rig.event(CREATED, "second/inner/file")])
    assert sink.told[3:] == ["created second/inner/file"]


def test_an_overflow_watches_anew_before_it_is_told(rig: Rig) -> None:
    sink = rig.open()
    shutil.rmtree(rig.top / "a")
    (rig.top / "c").mkdir()
    rig.watcher.take([DirectoryEvent(-1, Happening.OVERFLOW)])
    assert sink.told == ["rescan"]
    assert rig.notifier.watched == {rig.watch(), rig.watch("c")}


def test_each_subscription_of_a_directory_has_its_own_paths(rig: Rig) -> None:
    whole = rig.open()
    first = rig.tree
    below = rig.open(path="a")
    event = rig.event(CREATED, "a/b/file")
    rig.watcher.take([event])
    assert (whole.told, below.told) == (["created a/b/file"], ["created b/file"])
    rig.watcher.close(first)
    rig.watcher.take([event])
    assert (len(whole.told), len(below.told)) == (1, 2)
    assert rig.notifier.watched == {rig.watch("a"), rig.watch("a/b")}
    # A renaming between two subscriptions is half of it to each.
    (rig.top / "c").mkdir()
    one, other = rig.open(path="a/b"), rig.open(path="c")
    rig.watcher.take([rig.event(FROM, "a/b/x", cookie=1), rig.event(TO, "c/y", cookie=1)])
    assert (one.told, other.told) == (["removed x"], ["created y"])


@pytest.mark.parametrize("how", ["removed", "moved out"])
def test_the_end_of_the_directory_ends_the_subscription(rig: Rig, tmp_path: Path, how: str) -> None:
    sink = rig.open(path="a/b")
    event = rig.event(CREATED, "a/b/secret")
    if how == "removed":
        shutil.rmtree(rig.top / "a")
    else:
        # Of a directory above nothing is heard.
        (rig.top / "a").rename(tmp_path / "outside")
    rig.watcher.take([event])
    assert sink.told == ["ended STALE"]
    assert rig.notifier.watched == set()


@pytest.mark.parametrize("how", ["quiet", "told"])
def test_the_end_is_noticed_without_changes(rig: Rig, how: str) -> None:
    sink = rig.open(path="a/b")
    gone = DirectoryEvent(rig.watch("a/b"), GONE)
    shutil.rmtree(rig.top / "a")
    if how == "quiet":
        rig.watcher.confine()
        rig.watcher.confine()
    else:
        rig.watcher.take([gone, gone])
    assert sink.told == ["ended STALE"]


def test_watches_that_the_kernel_ended_are_not_ended_again(rig: Rig) -> None:
    sink = rig.open()
    gone = DirectoryEvent(rig.watch("a/b"), GONE)
    rig.notifier.watched.discard(gone.watch)
    rig.watcher.take([gone])
    rig.watcher.close(rig.tree)
    assert rig.notifier.watched == set()
    assert sink.told == []


def test_bounds_refuse_at_first_and_end_later(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_watcher, "NFS_WATCH_SUBSCRIPTION_DIRECTORIES_MAX", 2)
    with pytest.raises(TooManyDirectories) as refused:
        rig.open()
    assert watch_status_of(refused.value) is watch_status.WATCHERR_NOSPC
    assert rig.notifier.watched == set()
    monkeypatch.setattr(directory_watcher, "NFS_WATCH_SUBSCRIPTION_DIRECTORIES_MAX", 3)
    sink = rig.open()
    (rig.top / "c").mkdir()
    rig.watcher.take([rig.event(CREATED, "c", directory=True)])
    assert sink.told == ["created c/", "ended NOSPC"]
    assert rig.notifier.watched == set()
    # Entries looked at are bounded.
    monkeypatch.setattr(directory_watcher, "NFS_WATCH_SCAN_ENTRIES_MAX", 4)
    with pytest.raises(TooManyDirectories):
        rig.open()
    rig.open(recursive=False)
    # The bound of the kernel itself is told of.
    rig.notifier.fails_with = errno.ENOSPC
    with pytest.raises(OSError) as failed:  # noqa: PT011 - the errno is tested
        rig.open()
    assert watch_status_of(failed.value) is watch_status.WATCHERR_NOSPC


@each_case(
    ("error", "status"),
    [
        (Refused(errno.ESTALE), watch_status.WATCHERR_STALE),
        (Refused(errno.EAGAIN), watch_status.WATCHERR_JUKEBOX),
        (Refused(errno.EROFS), watch_status.WATCHERR_IO),
        (PermissionError(errno.EACCES, ""), watch_status.WATCHERR_ACCES),
        (OSError("without a number"), watch_status.WATCHERR_IO),
    ],
)
def test_each_refusal_has_its_status(error: Exception, status: watch_status) -> None:
    assert watch_status_of(error) is status


def test_only_directories_are_watched(rig: Rig) -> None:
    with pytest.raises(Refused, match="NOTDIR"):
        rig.open(path="hello.txt")
    with pytest.raises(Refused, match="NOTDIR"):
        rig.open(path="link")
    # Who comes back is admitted anew.
    rig.watcher.admit(rig.server.mount(), Blocking(0))  # type: ignore[arg-type]
    with pytest.raises(Refused, match="EBADFD"):
        rig.watcher.admit(b"no handle", Blocking(0))  # type: ignore[arg-type]


@AS_ROOT
def test_directories_that_the_caller_may_not_list_are_not_watched(rig: Rig) -> None:
    (rig.top / "a").chmod(0o711)
    with pytest.raises(PermissionError):
        rig.open(path="a", uid=1000)
    sink = rig.open(uid=1000)
    assert rig.notifier.watched == {rig.watch()}
    (rig.top / "a").chmod(0o755)
    rig.watcher.take([rig.event(ATTRIBUTES, "a", directory=True)])
    assert sink.told == ["attributes a/", "created a/b/", "created a/b/deep.txt"]
    (rig.top / "a").chmod(0o711)
    rig.watcher.take([rig.event(ATTRIBUTES, "a", directory=True), rig.event(CREATED, "a/b/secret")])
    assert sink.told[3:] == ["attributes a/"]


@AS_ROOT
@each_case(("mode", "told"), [(0o744, []), (0o711, ["ended ACCES"])])
def test_permissions_that_are_taken_away_end_what_they_allowed(rig: Rig, mode: int, told: list[str]) -> None:
    rig.top.chmod(0o777)
    sink = rig.open(uid=1000)
    late = rig.event(CREATED, "a/b/secret")
    rig.top.chmod(mode)
    rig.watcher.take([DirectoryEvent(rig.watch(), ATTRIBUTES, None, True), late])
    assert sink.told == ["attributes /", *told]
    assert isinstance(rig.tree, WatchedTree)
    assert rig.tree.closed is bool(told)


@AS_ROOT
def test_what_may_be_reached_again_is_watched_again(rig: Rig) -> None:
    (rig.top / "a").chmod(0o744)
    sink = rig.open(uid=1000)
    assert rig.notifier.watched == {rig.watch(), rig.watch("a")}
    for mode, watched in ((0o755, True), (0o744, False), (0o755, True)):
        (rig.top / "a").chmod(mode)
        rig.watcher.take([rig.event(ATTRIBUTES, "a", directory=True)])
        assert (rig.watch("a/b") in rig.notifier.watched) is watched
    assert sink.told.count("created a/b/deep.txt") == 2


def test_names_that_are_no_text_pass_through_and_links_are_not_entered(rig: Rig, tmp_path: Path) -> None:
    sink = rig.open()
    strange = rig.top / os.fsdecode(b"\xff\xfe")
    strange.mkdir()
    (strange / "inner").touch()
    rig.watcher.take([rig.event(CREATED, "\udcff\udcfe", directory=True)])
    assert sink.told == ["created \udcff\udcfe/", "created \udcff\udcfe/inner"]
    (tmp_path / "outside").mkdir()
    (rig.top / "out").symlink_to(tmp_path / "outside")
    rig.watcher.take([rig.event(CREATED, "out")])
    # A liar could say that it is a directory.
    rig.watcher.take([rig.event(CREATED, "out", directory=True)])
    assert sink.told[2:] == ["created out", "created out/"]
    assert rig.notifier.watched == {rig.watch(each) for each in ("", "a", "a/b", strange.name)}


def renaming(rig: Rig, old: str, new: str, cookie: int = 5) -> list[DirectoryEvent]:
    """Renames a directory of the top; the two events of it."""
    (rig.top / old).rename(rig.top / new)
    top = rig.watch()
    return [DirectoryEvent(top, FROM, old, True, cookie), DirectoryEvent(top, TO, new, True, cookie)]


def test_what_was_made_below_a_directory_that_was_renamed_at_once_is_looked_through_there(rig: Rig) -> None:
    """The events come when the directory has its new name; that below it is then nowhere to be found under the old."""
    (rig.top / "p" / "inner").mkdir(parents=True)
    sink = rig.open()
    made = [rig.event(CREATED, "p/inner/e", directory=True)]
    (rig.top / "p" / "inner" / "e" / "x").mkdir(parents=True)
    rig.watcher.take([*made, *renaming(rig, "p", "q"), *renaming(rig, "q", "r", 6)])
    assert sink.told == ["created p/inner/e/", "renamed p/ q", "renamed q/ r", "created r/inner/e/x/"]
    later = rig.event(CREATED, "r/inner/e/x/later")
    rig.watcher.take([later])
    assert sink.told[4:] == ["created r/inner/e/x/later"]


@pytest.mark.parametrize("ends", ["removed", "moved out", "settled", "overflow"])
def test_a_directory_that_is_gone_is_not_looked_for_again(rig: Rig, ends: str) -> None:
    (rig.top / "p").mkdir()
    sink = rig.open()
    made = rig.event(CREATED, "p/e", directory=True)
    rig.watcher.take([made])
    assert rig.tree._missing == {"p/e"}
    if ends == "settled":
        rig.watcher.settled()
    elif ends == "overflow":
        rig.watcher.take([DirectoryEvent(-1, Happening.OVERFLOW, None)])
    elif ends == "removed":
        rig.watcher.take([rig.event(REMOVED, "p/e", directory=True)])
    else:
        rig.watcher.take([rig.event(FROM, "p", directory=True, cookie=9)])
    assert rig.tree._missing == set()
    assert sink.told[0] == "created p/e/"


def test_directories_that_are_gone_are_as_many_as_may_be_watched(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_watcher, "NFS_WATCH_SUBSCRIPTION_DIRECTORIES_MAX", 3)
    sink = rig.open()
    rig.watcher.take([rig.event(CREATED, f"e{number}", directory=True) for number in range(3)])
    assert not rig.tree.closed
    rig.watcher.take([rig.event(CREATED, "e3", directory=True)])
    assert sink.told[-1] == "ended NOSPC"


@AS_ROOT
def test_directories_that_may_not_be_listed_are_not_looked_for_again(rig: Rig) -> None:
    rig.top.chmod(0o755)
    (rig.top / "closed").mkdir(mode=0o700)
    rig.open(uid=1234)
    assert rig.tree._missing == set()
