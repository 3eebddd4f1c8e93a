"""The key, the index of places, the cache of open things and the seal of handles, each alone."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from rpcrdma.nfs.export import server_state
from rpcrdma.nfs.export.file_handle import IDENTITY_MAX, HandleSeal, export_identity, kernel_handle, object_identity
from rpcrdma.nfs.export.linux_calls import birth_and_mount
from rpcrdma.nfs.export.mount_table import MountTable
from rpcrdma.nfs.export.object_cache import ObjectCache
from rpcrdma.nfs.export.server_state import DELETED, FORMAT, NameInDirectory, PlaceIndex, StatePlace, open_state
from rpcrdma.nfs.export.tree import Refused
from rpcrdma.nfs.server import Export, build_services
from rpcrdma.nfs.v3 import nfsstat3
from rpcrdma.nfs.v3.server.procedures import status_of
from support.cases import each_case

KEY = bytes(range(32))


def test_the_key_is_made_once_and_kept_private_and_lost_data_changes_the_verifier(tmp_path: Path) -> None:
    first = open_state(tmp_path / "new" / "state", os.urandom)
    second = open_state(tmp_path / "new" / "state", os.urandom)
    assert first.key == second.key
    seen = {first.write_verifier, second.write_verifier}
    for _ in range(5):
        second.data_lost()
        seen.add(second.write_verifier)
    assert len(seen) == 7
    assert stat.S_IMODE((tmp_path / "new" / "state" / "file-handle.key").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "new" / "state").stat().st_mode) == 0o700
    for state in (first, second):
        state.close()
        state.close()
    files = {path.name for path in (tmp_path / "new" / "state").iterdir()}
    assert files == {"file-handle.key", "format", "places.sqlite3"}


def test_a_directory_of_an_older_version_is_upgraded_and_one_of_a_newer_version_is_refused_untouched(
    tmp_path: Path,
) -> None:
    format_file = tmp_path / "format"
    open_state(tmp_path, os.urandom).close()
    assert format_file.read_text() == f"{FORMAT}\n"
    key = (tmp_path / "file-handle.key").read_bytes()
    format_file.unlink()
    upgraded = open_state(tmp_path, os.urandom)
    upgraded.close()
    assert (upgraded.key, format_file.read_text()) == (key, f"{FORMAT}\n")
    (tmp_path / "file-handle.key").unlink()
    format_file.write_text(f"{FORMAT + 1}\n")
    with pytest.raises(OSError, match=rf"has format {FORMAT + 1}, .*up to {FORMAT}: install the version"):
        open_state(tmp_path, os.urandom)
    assert not (tmp_path / "file-handle.key").exists()


@each_case("content", [b"", b"0", b"-1", b"1.0", b"\xb2", b"9" * 5000, b"1\n2"])
def test_a_format_that_is_no_number_is_refused_with_the_remedy(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "format").write_bytes(content)
    with pytest.raises(OSError, match="holds no number of a format: remove it"):
        open_state(tmp_path, os.urandom)


def test_a_directory_without_a_format_is_used_where_only_its_key_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_state(tmp_path, os.urandom).close()
    (tmp_path / "format").unlink()

    def refuse(number: int) -> Callable[..., None]:
        def write(*_: object) -> None:
            raise OSError(number, os.strerror(number))

        return write

    for number in (errno.EROFS, errno.EACCES):
        monkeypatch.setattr("rpcrdma.nfs.export.server_state._make_file", refuse(number))
        open_state(tmp_path, os.urandom).close()
    monkeypatch.setattr("rpcrdma.nfs.export.server_state._make_file", refuse(errno.EIO))
    with pytest.raises(OSError, match="Input/output"):
        open_state(tmp_path, os.urandom)


def test_a_server_exports_no_directory_that_holds_its_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "a:").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    with closing(open_state(tmp_path / "top" / "state")) as state:
        for source in (
            tmp_path,
            tmp_path / "top",
            tmp_path / "top/state",
            tmp_path / "link",
            f"dir::file://{tmp_path}",
            # As fsspec reads them, too.
            *("file://~", "local:~/top", f"simplecache::file:{tmp_path}", f"file://{tmp_path}/a://../.."),
        ):
            export = {"url": source, "read_only": True} if isinstance(source, str) else {"directory": source}
            with pytest.raises(OSError, match="contains the directory of the server's state"):
                build_services([Export(name="/a", **export)], state=state)
    place = StatePlace(tmp_path / "top" / "state")
    assert not place.is_shown_by(tmp_path / "top" / "state" / "x")
    assert not place.is_shown_by("s3://b/")
    assert place.is_shown_by(f"{tmp_path}::memory://")
    # Another place where the file system is mounted; a file system that is mounted within the export.
    mounts = [(b"8:1", "/", "/"), (b"8:1", "/srv/with space", str(tmp_path / "top")), (b"8:2", "/", "/")]
    for second, exposed in ((mounts[1], True), (mounts[2], False)):
        answers = iter([second, mounts[0]])
        monkeypatch.setattr(MountTable, "_mount", lambda *_, answers=answers: next(answers))
        assert StatePlace(tmp_path / "top" / "state").is_shown_by(Path("/srv")) is exposed


def test_the_mounts_of_many_exports_are_read_once_until_one_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fd = os.open(tmp_path, os.O_PATH)
    number = birth_and_mount(fd)[1]
    os.close(fd)
    table = tmp_path / "mountinfo"
    monkeypatch.setattr("rpcrdma.nfs.export.mount_table._TABLE", table)
    table.write_text(f"{number} 1 8:1 /a\\040b {tmp_path} rw - ext4 x rw\n")
    mounts = MountTable()
    assert mounts.place_of(tmp_path / "c") == (b"8:1", "/a b/c")
    table.write_text("")
    assert mounts.place_of(tmp_path) == (b"8:1", "/a b")
    table.write_text("77 1 8:2 / /mnt rw - ext4 x rw\n")
    assert mounts.file_system_of(77) == b"8:2"
    assert mounts.file_system_of(78) == b""
    assert mounts.place_of(tmp_path / "c") == (b"", str(tmp_path / "c"))


def test_an_overlayfs_is_asked_elsewhere_as_any_of_its_layers_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers = {name: tmp_path / name for name in ("disk", "a b", "c:d", "e,f")}
    for each in layers.values():
        each.mkdir()
    table = tmp_path / "mountinfo"
    monkeypatch.setattr("rpcrdma.nfs.export.mount_table._TABLE", table)
    monkeypatch.setattr(
        "rpcrdma.nfs.export.mount_table.is_asked_elsewhere", lambda fd: Path(f"/proc/self/fd/{fd}").readlink() in remote
    )
    for kind, options, expected in (
        ("overlay", "lowerdir={top}/disk:{top}/a\\040b,upperdir={top}/disk,workdir=/w", "a b"),
        ("overlay", "lowerdir={top}/c\\134:d::/gone:disk,upperdir={top}/disk", "c:d"),
        ("overlay", "lowerdir+={top}/disk,lowerdir+={top}/e\\134\\054f,uuid=on", "e,f"),
        ("overlay", "upperdir={top}/a\\040b,lowerdir={top}/disk", "a b"),
        ("ext4", "lowerdir={top}/disk", None),
    ):
        table.write_text(f"77 1 8:2 / /mnt rw master:1 - {kind} x rw,{options.format(top=tmp_path)}\n")
        for name, path in layers.items():
            remote = {path}
            found = MountTable().has_layer_elsewhere(77)
            assert found is (name == expected or (name == "disk" and kind == "overlay" and "disk" in options)), options


def test_keys_are_unpredictable_by_default(tmp_path: Path) -> None:
    opened = [open_state(tmp_path / name) for name in ("one", "other")]
    for state in opened:
        state.close()
    assert len({bytes(32), *(state.key for state in opened)}) == 3
    assert opened[0].write_verifier != opened[1].write_verifier


def test_a_key_that_others_may_read_or_replace_is_refused(tmp_path: Path) -> None:
    open_state(tmp_path, os.urandom).close()
    (tmp_path / "file-handle.key").chmod(0o640)
    with pytest.raises(PermissionError, match="chmod 600"):
        open_state(tmp_path, os.urandom)
    # A link in place of the key is not followed.
    (tmp_path / "elsewhere").write_bytes(bytes(32))
    (tmp_path / "file-handle.key").unlink()
    (tmp_path / "file-handle.key").symlink_to("elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        open_state(tmp_path, os.urandom)


@each_case("octets", [0, 31, 33])
def test_a_key_of_another_length_is_refused(tmp_path: Path, octets: int) -> None:
    open_state(tmp_path, os.urandom).close()
    (tmp_path / "file-handle.key").write_bytes(bytes(octets))
    with pytest.raises(OSError, match="no key"):
        open_state(tmp_path, os.urandom)


@each_case("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_no_key(tmp_path: Path, make: Callable[[Path, int], None]) -> None:
    make(tmp_path / "file-handle.key", 0o600)
    with pytest.raises(OSError, match=r"file-handle\.key is no file: remove it"):
        open_state(tmp_path, os.urandom)
    with suppress(IsADirectoryError):
        (tmp_path / "file-handle.key").unlink()


def test_places_are_kept_over_a_restart(tmp_path: Path) -> None:
    index = PlaceIndex(tmp_path / "places")
    index.remember(b"1", b"root", b"one")
    index.remember(b"2", b"1", b"two")
    index.remember(b"2", b"root", b"moved")
    index.forget(b"1")
    index.close()
    again = PlaceIndex(tmp_path / "places")
    assert again.find(b"1") is None
    assert again.find(b"2") == NameInDirectory(b"root", b"moved")
    again.close()


@each_case(
    ("change", "place"),
    [
        (lambda index: index.remember(b"1", b"root", b"new"), NameInDirectory(b"root", b"new")),
        (lambda index: index.forget(b"1"), None),
        (lambda index: index.forget(b"1", deleted=True), DELETED),
    ],
)
def test_what_changes_while_the_database_is_read_is_not_put_back(
    change: Callable[[PlaceIndex], None], place: NameInDirectory | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = PlaceIndex(tmp_path / "places")
    index.remember(b"1", b"root", b"old")
    index.flush()
    index._recent.clear()

    def check_late(*row: object) -> bool:
        change(index)
        index.flush()
        return True

    monkeypatch.setattr(server_state, "_is_place", check_late)
    assert index.find(b"1") == place
    monkeypatch.undo()
    index.flush()
    assert index.find(b"1") == place
    index.close()


def test_places_are_nobody_elses_business(tmp_path: Path) -> None:
    index = PlaceIndex(tmp_path / "places")
    index.remember(b"object", b"parent", b"a name")
    index.flush()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    index.close()
    assert modes["places"] == 0o600
    assert set(modes.values()) == {0o600}


def test_what_memory_forgets_the_database_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rpcrdma.nfs.export.server_state.NFS_PLACES_IN_MEMORY_MAX", 10)
    monkeypatch.setattr("rpcrdma.nfs.export.server_state.NFS_PLACES_UNWRITTEN_MAX", 20)
    index = PlaceIndex(tmp_path / "places")
    for number in range(100):
        index.remember(b"%d" % number, b"root", b"n%d" % number)
        if index.needs_flush:
            index.flush()
    assert len(index._recent) <= 10
    assert len(index._unwritten) <= 20
    assert [index.find(b"%d" % number) for number in range(100)] == [
        NameInDirectory(b"root", b"n%d" % n) for n in range(100)
    ]
    index.close()


def test_the_database_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rpcrdma.nfs.export.server_state.NFS_PLACES_MAX", 50)
    monkeypatch.setattr("rpcrdma.nfs.export.server_state.NFS_PLACES_IN_MEMORY_MAX", 1)
    index = PlaceIndex(tmp_path / "places")
    for number in range(200):
        index.remember(b"%d" % number, b"root", b"x")
        index.flush()
    assert index._rows <= 50
    assert index.find(b"0") is None
    assert index.find(b"199") is not None
    index.close()


def damaged(path: Path, how: str) -> None:
    """A database of many places, of which something is broken."""
    if how == "no database":
        path.write_bytes(b"not a database at all" * 100)
        return
    index = PlaceIndex(path)
    for number in range(2000):
        index.remember(b"%d" % number, b"root", b"one" if number == 1 else b"n" * 100)
    index.close()
    database = sqlite3.connect(path)
    if how == "another table":
        database.executescript("DROP TABLE place; CREATE TABLE place (what TEXT)")
    elif how == "other rows":
        database.execute("UPDATE place SET parent = 7, name = 'text' WHERE object != ?", (b"1",))
    database.commit()
    database.close()
    if how == "pages":
        octets = bytearray(path.read_bytes())
        octets[4096:] = b"\xa5" * (len(octets) - 4096)
        path.write_bytes(octets)
    elif how == "cut":
        os.truncate(path, 5000)


@each_case("how", ["no database", "another table", "pages", "cut"])
def test_a_damaged_database_is_put_aside_with_a_warning(
    how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / f"places of {how}"
    damaged(path, how)
    caplog.clear()
    index = PlaceIndex(path)
    assert index.find(b"3") is None
    index.remember(b"1", b"root", b"one")
    index.close()
    again = PlaceIndex(path)
    assert again.find(b"1") == NameInDirectory(b"root", b"one")
    again.close()
    (told,) = caplog.messages
    assert f"{path} is damaged (" in told
    assert path.with_name(f"{path.name}.damaged").exists()


def test_an_empty_database_is_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "places").touch()
    PlaceIndex(tmp_path / "places").close()
    assert caplog.messages == []


@each_case(("renamed", "told"), [(True, "is damaged"), (False, "does without")])
def test_damage_that_is_met_later_is_told_once(
    renamed: bool, told: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged(tmp_path / "rows", "other rows")
    index = PlaceIndex(tmp_path / "rows")
    assert [index.find(b"%d" % number) for number in (1, 2)] == [NameInDirectory(b"root", b"one"), None]
    index.close()
    index = PlaceIndex(tmp_path / "places")
    assert index._database is not None
    index._database.close()
    index._database = sqlite3.connect(tmp_path / "rows", check_same_thread=False)
    index._database.executescript("DROP TABLE place")
    if not renamed:
        # As in a directory that can only be read.
        monkeypatch.setattr(Path, "replace", lambda *_: (tmp_path / "absent").stat())
    for _ in range(3):
        assert index.find(b"2") is None
    index.close()
    (message,) = caplog.messages
    assert told in message


def test_a_full_state_directory_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    index = PlaceIndex(tmp_path / "places")
    assert index._database is not None
    pages = index._database.execute("PRAGMA page_count").fetchone()[0]
    index._database.execute(f"PRAGMA max_page_count = {pages}")
    for number in range(2000):
        index.remember(b"%d" % number, b"root", b"n" * 100)
        if not number % 100:
            index.flush()
    index.close()
    assert caplog.messages == [
        f"{tmp_path / 'places'}: database or disk is full; until the server is restarted it does without"
    ]
    # What is in memory is still known.
    assert index.find(b"1999") == NameInDirectory(b"root", b"n" * 100)


def test_a_state_directory_that_stands_still_keeps_only_those_waiting_who_read_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop notes places, and threads write them out, while another thread waits for the disk."""
    monkeypatch.setattr("rpcrdma.nfs.export.server_state.NFS_PLACES_UNWRITTEN_MAX", 10)
    index = PlaceIndex(tmp_path / "places")
    with index._database_lock:
        for number in range(100):
            index.remember(b"%d" % number, b"root", b"x")
            index.forget(b"%d" % (number - 1))
            index.flush()
        assert index.find(b"99") == NameInDirectory(b"root", b"x")
        assert len(index._unwritten) == 20
    index.close()


def test_a_database_that_fails_or_cannot_be_opened_is_done_without(tmp_path: Path) -> None:
    index = PlaceIndex(tmp_path / "places")
    index.remember(b"1", b"root", b"one")
    database = sqlite3.connect(tmp_path / "places")
    database.execute("DROP TABLE place")
    database.close()
    assert index.find(b"2") is None
    index.flush()
    assert index.find(b"1") == NameInDirectory(b"root", b"one")
    index.remember(b"3", b"root", b"three")
    index.close()
    index = PlaceIndex(tmp_path / "absent" / "places")
    index.remember(b"1", b"root", b"one")
    assert index.find(b"1") == NameInDirectory(b"root", b"one")
    index.close()


class Item:
    def __init__(self, handle: bytes) -> None:
        self.handle = handle
        self.used = True


def test_the_cache_prefers_what_is_used() -> None:
    out: list[bytes] = []
    cache: ObjectCache[Item] = ObjectCache(10, lambda item: out.append(item.handle))
    for number in range(200):
        if b"hot" not in cache.held:
            cache.put(Item(b"hot"))
        cache.held[b"hot"].used = True
        cache.put(Item(b"%d" % number))
        assert len(cache.held) <= 10
    assert out.count(b"hot") <= 20
    assert len(out) >= 190


def test_the_cache_returns_what_is_replaced_or_idle_and_never_evicts_what_it_is_given() -> None:
    cache: ObjectCache[Item] = ObjectCache(10)
    first = Item(b"1")
    assert (cache.put(first), cache.put(Item(b"2"))) == (None, None)
    assert cache.put(Item(b"1")) is first
    cache = ObjectCache(1)
    for number in range(5):
        cache.put(Item(b"%d" % number))
        assert b"%d" % number in cache.held
    cache: ObjectCache[Item] = ObjectCache(10)
    for number in range(4):
        cache.put(Item(b"%d" % number))
    assert cache.drop_idle() == []
    cache.held[b"1"].used = True
    assert [item.handle for item in cache.drop_idle()] == [b"0", b"2", b"3"]
    assert cache.drop(b"absent") is None
    assert [item.handle for item in cache.drop_all()] == [b"1"]


def test_a_handle_says_to_its_own_key_what_it_was_made_from() -> None:
    seal = HandleSeal(KEY)
    for identity in (b"\x03", b"\0" * IDENTITY_MAX):
        handle = seal.close(export_identity("/x"), 1 << 63, identity)
        assert len(handle) <= 64
        assert seal.open(handle) == (export_identity("/x"), 1 << 63, identity)
    handle = HandleSeal(KEY).close(b"abcd", 7, b"\x03")
    assert HandleSeal(KEY[::-1]).open(handle) is None
    assert HandleSeal(KEY).open(handle) is not None
    with pytest.raises(ValueError, match="16 to 64"):
        HandleSeal(b"short")


def test_objects_without_kernel_handles_are_told_by_their_birth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(_fd: int) -> None:
        raise OSError(95, "not supported")

    monkeypatch.setattr("rpcrdma.nfs.export.file_handle.name_to_handle", unsupported)
    fds = []
    for name in ("one", "two"):
        (tmp_path / name).touch()
        fds.append(os.open(tmp_path / name, os.O_PATH))
    (one, mount), (two, other) = (object_identity(fd) for fd in fds)
    assert one[0] in {2, 3}
    assert mount == other
    assert one[0] == two[0]
    assert kernel_handle(one) is None
    for fd in fds:
        os.close(fd)


def test_long_kernel_handles_are_digested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rpcrdma.nfs.export.linux_calls import KernelHandle

    monkeypatch.setattr("rpcrdma.nfs.export.file_handle.name_to_handle", lambda _fd: KernelHandle(1, b"x" * 128, 5))
    identity, mount = object_identity(0)
    assert len(identity) <= IDENTITY_MAX
    assert (identity[0], mount, kernel_handle(identity)) == (1, 5, None)


@each_case(
    ("error", "status"),
    [
        (OSError(13, "x"), nfsstat3.NFS3ERR_ACCES),
        (OSError(24, "x"), nfsstat3.NFS3ERR_JUKEBOX),
        (OSError(9999, "x"), nfsstat3.NFS3ERR_IO),
        (OSError("no number"), nfsstat3.NFS3ERR_SERVERFAULT),
        (Refused(errno.EROFS), nfsstat3.NFS3ERR_ROFS),
    ],
)
def test_errors_have_their_status(error: Exception, status: nfsstat3) -> None:
    assert status_of(error) == status
