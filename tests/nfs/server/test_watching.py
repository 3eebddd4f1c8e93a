"""Watched directories on loopback sockets, over RDMA and over TCP: nothing is missed, or the watcher is told so."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import shutil
from pathlib import Path

import pytest

from rpcrdma.aio.client.connect import ConnectOptions, connect
from rpcrdma.aio.server.serve import serve
from rpcrdma.aio.urls import parse_url
from rpcrdma.errors import TransportClosed
from rpcrdma.nfs import watch
from rpcrdma.nfs.client import Change, ChangeKind, nfs_open, watching
from rpcrdma.nfs.server import change_journal, directory_watcher, inotify_thread, open_state
from rpcrdma.nfs.server.watch_service import WatchService
from rpcrdma.nfs.watch import SUBSCRIBE, WATCH_V1
from rpcrdma.transport import TransportConfig
from support.waiting import until
from support.watch_rig import Replica, build, hostile, reconnected, serving, subscription, take, take_until, words

pytestmark = pytest.mark.thorough

over_both = pytest.mark.providers("iwarp")
K = ChangeKind


@pytest.fixture
def _halves_find_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the kernel takes between the two halves of a renaming."""
    monkeypatch.setattr(inotify_thread, "_SECOND_HALF_S", 60)


@over_both
@pytest.mark.usefixtures("_halves_find_each_other")
async def test_changes_arrive_in_order_with_renamings_in_one(tmp_path: Path, scheme: str) -> None:
    async with serving(tmp_path, scheme) as rig, rig.watching() as changes:
        (rig.top / "a").write_text("content")
        (rig.top / "a").rename(rig.top / "b")
        (rig.top / "b").unlink()
        (rig.top / "d").mkdir()
        rig.hear()
        assert await take(changes, 4) == [
            Change(K.CREATED, "a"),
            Change(K.RENAMED, "a", "b"),
            Change(K.REMOVED, "b"),
            Change(K.CREATED, "d", is_directory=True),
        ]
        (rig.top / "d").chmod(0o700)
        (rig.top / "d" / "below").touch()
        (rig.top / "last").touch()
        rig.hear()
        assert words(await take(changes, 2)) == ["attributes d", "created last"]


@pytest.mark.usefixtures("_halves_find_each_other")
async def test_what_clients_do_is_told_as_well_also_of_a_read_only_export(tmp_path: Path) -> None:
    async with serving(tmp_path, "tcp") as rig, rig.watching(recursive=True) as changes:
        async with nfs_open(f"{rig.url}/", mount_port=rig.mount_port) as fs:
            await fs.mkdir("d")
            await fs.write_bytes("d/f", b"content")
            await fs.rename("d/f", "g")
        told = await take_until(changes, "renamed d/f g")
        # The server's own work on a new object is told as well, unless its creation has not been told yet.
        made = [change for change in told if change.split()[0] not in {"changed", "attributes"}]
        assert made == ["created d", "created d/f", "renamed d/f g"]
    async with serving(tmp_path, "tcp", read_only=True) as rig, rig.watching() as changes:
        (rig.top / "h").touch()
        assert words(await take(changes, 1)) == ["created h"]


def disturb(top: Path, outside: Path, choose: random.Random) -> None:
    """Changes a tree, or its surroundings."""
    directories = [Path(directory) for directory, _, _ in os.walk(top)]
    where = choose.choice(directories)
    path = where / choose.choice("abcde")
    other = choose.choice(directories) / choose.choice("abcde")
    action = choose.choice(["file", "file", "directory", "directory", "rename", "rename", "remove", "out", "in"])
    try:
        if action == "file":
            path.write_bytes(b"content")
        elif action == "directory":
            (path / "x" / "y").mkdir(parents=True)
        elif action == "rename":
            path.rename(other)
        elif action == "remove":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        elif action == "out":
            path.rename(outside / secrets.token_hex(4))
        else:
            choose.choice(sorted(outside.iterdir()) or [path]).rename(path)
    except OSError:
        pass


# In each version: the two tests behind this one.
@pytest.mark.parametrize("scheme", ["rdma-iwarp-1", "tcp"], indirect=True)
async def test_a_replica_that_follows_the_changes_is_right_whatever_is_cut(tmp_path: Path, scheme: str) -> None:
    choose = random.Random(11)
    (tmp_path / "outside").mkdir()
    async with serving(tmp_path, scheme) as rig, rig.watching(recursive=True) as changes:
        replica = Replica(rig.top)
        following = asyncio.ensure_future(replica.follow(changes))
        for step in range(250):
            disturb(rig.top, tmp_path / "outside", choose)
            if step % 10 == 0:
                await rig.thread.run(lambda _: None)
            if step % 30 == 15:
                before = changes.reconnects
                rig.cut.cut()
                if step % 60 == 15:
                    await reconnected(changes, before)
        (rig.top / "the last one").touch()
        await until(lambda: "the last one" in replica.paths)
        assert replica.paths == replica.real()
        # Four were waited for, and the last cut came after them.
        await reconnected(changes, 4)
        assert replica.rescans == 0
        following.cancel()


@over_both
@pytest.mark.usefixtures("_halves_find_each_other")
async def test_what_happens_while_the_connection_is_away_is_told_afterwards(tmp_path: Path, scheme: str) -> None:
    told: list[int] = []
    async with serving(tmp_path, scheme) as rig, rig.watching(on_reconnected=lambda: told.append(1)) as changes:
        (rig.top / "a").touch()
        assert words(await take(changes, 1)) == ["created a"]
        rig.cut.refuses = True
        rig.cut.cut()
        (rig.top / "b").touch()
        (rig.top / "b").rename(rig.top / "c")
        rig.hear()
        rig.cut.refuses = False
        assert words(await take(changes, 2)) == ["created b", "renamed b c"]
        await until(lambda: bool(told))
        assert changes.reconnects == 1
        assert rig.watch.subscriptions == 1


@over_both
async def test_a_watched_server_stops_at_once_and_asks_for_a_rescan_when_started_again(
    tmp_path: Path, scheme: str
) -> None:
    async with serving(tmp_path, scheme) as rig, rig.watching() as changes:
        (rig.top / "a").touch()
        assert words(await take(changes, 1)) == ["created a"]
        await rig.watch.close()
        # The watched calls have ended: there is nothing to wait for.
        await rig.server.close(drain_s=3600)
        (rig.top / "b").touch()
        state = open_state(tmp_path / "state", secrets.token_bytes)
        services = build(rig.top, state)
        service = WatchService(services.nfs.exports)
        async with serve([*services, service], [f"{scheme}://127.0.0.1:0"]) as again:
            rig.cut.target = parse_url(again.listening[0]).port
            assert words(await take(changes, 1)) == ["rescan"]
            (rig.top / "c").touch()
            assert words(await take(changes, 1)) == ["created c"]
            await changes.close()
            await service.close()
        services.nfs.close()
        state.close()


@pytest.mark.usefixtures("each_version")
async def test_more_changes_than_are_kept_become_a_rescan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_journal.ChangeJournal.__init__, "__kwdefaults__", {"entries_max": 5, "octets_max": 9999})
    async with serving(tmp_path, "rdma") as rig, rig.watching() as changes:
        rig.cut.refuses = True
        rig.cut.cut()
        for number in range(20):
            (rig.top / str(number)).touch()
        rig.hear()
        rig.cut.refuses = False
        assert words(await take(changes, 1)) == ["rescan"]
        (rig.top / "a").touch()
        assert words(await take(changes, 1)) == ["created a"]


async def test_what_the_server_or_the_program_cannot_keep_becomes_a_rescan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path, "tcp", kept_s=0.05) as rig, rig.watching(recursive=True) as changes:
        (rig.top / "a").touch()
        assert words(await take(changes, 1)) == ["created a"]
        # A fault of the server.
        with monkeypatch.context() as patched:
            patched.setattr(directory_watcher.WatchedTree, "happened", lambda *_: 1 // 0)
            (rig.top / "b").touch()
            assert words(await take(changes, 1)) == ["rescan"]
        # A client that stays away too long.
        rig.cut.refuses = True
        rig.cut.cut()
        await until(lambda: rig.watch.subscriptions == 0)
        rig.cut.refuses = False
        assert words(await take(changes, 1)) == ["rescan"]
        # A program that does not read.
        before = changes._got
        with monkeypatch.context() as patched:
            patched.setattr(watching, "NFS_WATCH_UNREAD_CHANGES_MAX", 3)
            for number in range(10):
                (rig.top / str(number)).touch()
            await until(lambda: changes._got == before + 10)
        unread = words(await take(changes, len(changes._unread)))
        assert unread[0] == "rescan"
        assert len(unread) <= 3
        # Events that the kernel lost.
        await rig.thread.run(lambda _: flood(rig.top))
        (rig.top / "d").mkdir()
        replica = Replica(rig.top)
        following = asyncio.ensure_future(replica.follow(changes))
        await until(lambda: replica.rescans > 0)
        (rig.top / "d" / "below").touch()
        await until(lambda: "d/below" in replica.paths)
        following.cancel()
    assert "told to rescan" in caplog.text


def flood(top: Path) -> None:
    """More events than the kernel keeps, while no reader takes them."""
    count = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text()) + 10
    one, other = top / "one", top / "other"
    one.touch()
    for _ in range(count // 2 + 1):
        one.rename(other)
        one, other = other, one


@pytest.mark.usefixtures("each_version")
async def test_long_paths_travel_or_become_a_rescan(tmp_path: Path) -> None:
    async with serving(tmp_path, "rdma") as rig, rig.watching(recursive=True) as changes:
        deep = rig.top
        for _ in range(10):
            deep /= "d" * 200
        deep.mkdir(parents=True)
        (deep / "f").touch()
        assert len((await take(changes, 11))[-1].path) > 2000
        # Two of such paths are more than one message of version 1 holds.
        (deep / "f").rename(deep / "g")
        assert changes._connection is not None
        agreed = changes._connection.negotiated
        assert agreed is not None
        (change,) = await take(changes, 1)
        assert change.kind is (K.RESCAN if agreed.version == 1 else K.RENAMED)


@pytest.mark.usefixtures("each_version")
async def test_the_end_of_a_directory_is_an_error_to_who_watches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inotify_thread, "_CONFINE_S", 0.02)
    (tmp_path / "export" / "d").mkdir(parents=True)
    async with serving(tmp_path, "rdma") as rig, rig.watching("d") as changes:
        (rig.top / "d").rmdir()
        with pytest.raises(OSError, match="d"):
            await take(changes, 1)
        with pytest.raises(OSError, match="d"):
            await take(changes, 1)
        await until(lambda: rig.watch.subscriptions == 0)


async def test_what_cannot_be_watched_says_why(tmp_path: Path) -> None:
    async with serving(tmp_path, "tcp") as rig:
        (rig.top / "file").touch()
        with pytest.raises(NotADirectoryError):
            async with rig.watching("file"):
                pass
        with pytest.raises(FileNotFoundError):
            async with rig.watching("nothing"):
                pass
        async with (
            serve(rig.services, ["tcp://127.0.0.1:0"]) as without,
            nfs_open(f"{without.listening[0]}/") as fs,
        ):
            with pytest.raises(OSError, match="does not offer"):
                async with fs.watch():
                    pass


@pytest.mark.usefixtures("each_version")
async def test_leaving_the_block_ends_the_subscription_and_its_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_GOODBYE_S", 60)
    async with serving(tmp_path, "rdma") as rig:
        async with rig.watching(recursive=True) as changes:
            assert rig.watch.subscriptions == 1
        assert rig.watch.subscriptions == 0
        assert [each async for each in changes] == []
        assert await rig.thread.run(lambda watcher: watcher.directories) == 0
        async with connect(rig.url, WATCH_V1, options=ConnectOptions(reconnect=False)) as connection:
            await connection.call(watch.NULL, None)
            rig.cut.cut()
            with pytest.raises(TransportClosed):
                await connection.wait_reconnected(0)


@over_both
async def test_a_caller_knows_how_much_fits_without_chunks(tmp_path: Path, scheme: str) -> None:
    async with (
        serving(tmp_path, scheme) as rig,
        hostile(rig, lambda batch: batch.first, transport=TransportConfig(inline_receive_octets=1024)) as (
            connection,
            client,
        ),
    ):
        await connection.call(SUBSCRIBE, subscription(rig))
        (held,) = rig.watch._subscriptions.values()
        assert held.client is not None
        room = held.client.arguments_octets_max
        agreed = connection.negotiated
        in_messages = agreed is not None and agreed.version == 1
        assert room == 1024 - 28 - 40 if in_messages else room > 1 << 20
        for number in range(30):
            (rig.top / f"{number:0100}").touch()
        await until(lambda: len(client.batches) >= (4 if in_messages else 1))
