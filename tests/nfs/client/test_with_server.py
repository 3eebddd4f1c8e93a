"""The client against this project's own server, over TCP: mounting, and trees that come back as they were."""

from __future__ import annotations

import os
import pickle
import random
import re
import secrets
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from rpcrdma.aio.client.connect import ConnectOptions
from rpcrdma.aio.connections.tcp_connection import TcpConnection
from rpcrdma.aio.server.serve import serve
from rpcrdma.aio.server.tcp_server import TcpServer
from rpcrdma.aio.urls import Url, parse_url
from rpcrdma.errors import (
    CallTimeout,
    ConnectFailed,
    HostNotFound,
    LocalProtocolError,
    ProgramMismatch,
    ProgramUnavailable,
    RemoteProtocolError,
    RemoteSystemError,
    RpcError,
    TransportClosed,
)
from rpcrdma.nfs.client import FileOptions, NfsFilesystem, mount_client, nfs_open
from rpcrdma.nfs.client.mount_client import Mount, NoSuchExport, mount_export, mount_with, unmount
from rpcrdma.nfs.errors import NfsError
from rpcrdma.nfs.mount import MOUNT_V3, MOUNT_V3_Service, exportnode, groupnode, mountres3, mountres3_ok, mountstat3
from rpcrdma.nfs.port_mapper import PORT_MAPPER_V2_Service, mapping
from rpcrdma.nfs.server import Export, NfsServices, build_services, open_state
from rpcrdma.rpc.dispatch import Dispatcher
from support.cases import each_case
from support.simulated import not_simulated

pytestmark = pytest.mark.thorough


def names_in(directory: Path | str) -> list[str]:
    return sorted(path.name for path in Path(directory).iterdir())


@contextmanager
def offered(tmp_path: Path, *names: str) -> Iterator[NfsServices]:
    """The services that export tmp_path/export under `names`."""
    directory = tmp_path / "export"
    directory.mkdir(exist_ok=True)
    state = open_state(tmp_path / "state", secrets.token_bytes)
    exports = [Export(name=name, directory=directory, root_squash=False, synchronous=False) for name in names]
    services = build_services(exports, state=state)
    yield services
    services.nfs.close()
    state.close()


@asynccontextmanager
async def serving(tmp_path: Path, *names: str) -> AsyncIterator[int]:
    """Yields the port for TCP."""
    with offered(tmp_path, *names) as services:
        async with TcpServer(Dispatcher(services)) as server:
            await server.listen()
            yield server.port


@asynccontextmanager
async def opened(scheme: str, tmp_path: Path, name: str) -> AsyncIterator[NfsFilesystem]:
    """The export `name` of tmp_path/export, at one address."""
    with offered(tmp_path, name) as services:
        async with (
            serve(services, [f"{scheme}://127.0.0.1:0"]) as server,
            nfs_open(f"{server.listening[0]}{name}") as fs,
        ):
            yield fs


def make_tree(top: Path) -> None:
    choose = random.Random(7)
    for number in range(30):
        folder = top / f"d{number % 7}" / f"e{number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"f{number}").write_bytes(choose.randbytes(choose.choice([0, 1, 1000, 70_000])))
    (top / "big").write_bytes(choose.randbytes(2_500_001))
    (top / "d0" / "link").symlink_to("../big")
    os.utime(top / "big", ns=(1_000_000_007, 2_000_000_009))
    (top / "big").chmod(0o640)


def shape(top: Path) -> dict[str, Any]:
    return {
        str(path.relative_to(top)): (
            str(path.readlink())
            if path.is_symlink()
            else (path.stat().st_mode, path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else None)
        )
        for path in sorted(top.rglob("*"))
    }


@pytest.mark.providers("iwarp")
@pytest.mark.versions("1", "2", "2-rtr")
async def test_a_tree_goes_there_and_back(tmp_path: Path, scheme: str) -> None:
    make_tree(tmp_path / "tree")
    async with opened(scheme, tmp_path, "/") as fs:
        (await fs.upload_tree(tmp_path / "tree", "/copy")).check()
        (await fs.download_tree("/copy", tmp_path / "back")).check()
        assert (await fs.stat("/copy/big")).st_mtime_ns == 2_000_000_009
        into = bytearray(2_500_001)
        assert await fs.read_into("/copy/big", into) == len(into)
        assert into == (tmp_path / "tree" / "big").read_bytes()
        assert sorted(await fs.listdir("/copy")) == names_in(tmp_path / "tree")
        (await fs.rmtree("/copy")).check()
        assert await fs.listdir("/") == []
    assert shape(tmp_path / "back") == shape(tmp_path / "tree")


@not_simulated
async def test_memory_is_its_owners_again_when_a_read_returns(tmp_path: Path, scheme: str) -> None:
    """Memory in use by a connection can neither be resized nor freed, and is not given out without a copy."""
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "file").write_bytes(bytes(3_000_000))
    async with opened(scheme, tmp_path, "/") as fs:
        into = bytearray(3_000_000)
        assert await fs.read_into("/file", into) == len(into)
        into.clear()


@not_simulated
async def test_every_operation_does_on_the_disk_what_it_says(tmp_path: Path, scheme: str) -> None:
    top = tmp_path / "export"
    async with opened(scheme, tmp_path, "/data") as fs:
        assert (fs.export, fs.listed_exports) == ("/data", {"/data"})
        await fs.mkdir("a/b/c", parents=True)
        await fs.write_bytes("a/b/file", b"hello", permissions=0o600)
        await fs.link("a/b/file", "a/hard")
        await fs.symlink("b/file", "a/soft")
        await fs.rename("a/b/c", "a/c")
        await fs.chmod("a/soft", 0o640)
        await fs.utime("a/hard", ns=(5, 6_000_000_007))
        async with await fs.open("a/soft", "r+b") as file:
            await file.pwrite(b"J", 0)
            await file.truncate(4)
        async with await fs.open("a/new", "xb", permissions=0o644) as file:
            await file.write(b"new")
        with pytest.raises(FileExistsError):
            await fs.open("a/new", "xb")
        assert await fs.read_bytes("a/hard") == b"Jell"
        assert await fs.readlink("a/soft") == "b/file"
        assert {entry.name: entry.is_dir() async for entry in fs.scandir("a")} == {
            "b": True,
            "c": True,
            "hard": False,
            "soft": False,
            "new": False,
        }
        assert await fs.access("a/new", os.R_OK | os.W_OK)
        assert (await fs.statvfs()).f_blocks > 0
        assert (await fs.stat("a/hard")).st_ino == (top / "a/hard").stat().st_ino
        with pytest.raises(IsADirectoryError):
            await fs.open("a")
        with pytest.raises(NfsError, match="not empty"):
            await fs.rmdir("a")
        await fs.unlink("a/new")
        await fs.rmdir("a/c")
    assert (top / "a/hard").read_bytes() == b"Jell"
    assert (top / "a/b/file").stat().st_mode & 0o777 == 0o640
    assert names_in(top / "a") == ["b", "hard", "soft"]


@pytest.mark.providers("iwarp")
@pytest.mark.versions("1", "2-rtr")
async def test_a_long_list_of_exports_comes_from_the_address_of_nfs(tmp_path: Path, scheme: str) -> None:
    """Over RDMA as a long reply."""
    names = [f"/a/long/name/of/an/export/{number}" for number in range(300)]
    with offered(tmp_path, *names) as services:
        async with (
            serve(services, [f"{scheme}://127.0.0.1:0"]) as server,
            nfs_open(f"{server.listening[0]}{names[-1]}") as fs,
        ):
            assert (fs.export, fs.listed_exports) == (names[-1], set(names))


@not_simulated
async def test_a_server_of_nfs_alone_is_asked_for_mount_at_its_usual_port(
    tmp_path: Path, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with offered(tmp_path, "/data") as services:
        mounting = [service for service in services if service is not services.nfs]
        async with (
            serve([services.nfs], [f"{scheme}://127.0.0.1:0"]) as server,
            serve(mounting, ["tcp://127.0.0.1:0"]) as mountd,
        ):
            monkeypatch.setattr(mount_client, "MOUNT_PORT", parse_url(mountd.listening[0]).port)
            async with nfs_open(f"{server.listening[0]}/data") as fs:
                assert await fs.listdir() == []
            with pytest.raises(FileNotFoundError) as caught:
                await nfs_open(f"{server.listening[0]}/other")
            assert caught.value.__notes__[-1].startswith(
                f"MOUNT was answered by {parse_url(mountd.listening[0]).authority}; if "
            )


class _Nfs:
    """A connection whose calls of MOUNT, and with `down` all, fail with `refusal`."""

    lost = True

    def __init__(self, refusal: Exception, *, down: bool = False) -> None:
        self.refusal = refusal
        self.down = down
        self.asked: list[str] = []

    async def call(self, procedure: Any, args: Any, **options: Any) -> None:
        self.asked.append(procedure.name)
        if self.down or procedure.program == MOUNT_V3.number:
            raise self.refusal


@each_case(
    "refusal",
    [
        ProgramUnavailable(),
        ProgramMismatch(1, 1),
        RemoteSystemError(),
        RemoteProtocolError("ERR_CHUNK"),
        TransportClosed("the peer closed the connection"),
        CallTimeout("no reply"),
    ],
)
async def test_any_refusal_of_mount_by_a_server_that_answers_nfs_leads_to_other_ports(
    monkeypatch: pytest.MonkeyPatch, refusal: Exception
) -> None:
    nfs: Any = _Nfs(refusal)
    async with TcpServer(Dispatcher([_Mountd("/")])) as mountd:
        await mountd.listen()
        monkeypatch.setattr(mount_client, "MOUNT_PORT", mountd.port)
        url = Url(scheme="rdma", host="127.0.0.1", port=1, path="/")
        assert (await mount_export(url, ConnectOptions(), nfs)).port == mountd.port
        assert nfs.asked[0] == "MOUNTPROC3_NULL", "a list without a bound is not what a stranger is asked for first"
        if not isinstance(refusal, RpcError):
            down: Any = _Nfs(refusal, down=True)
            with pytest.raises(type(refusal), match=str(refusal)):
                await mount_export(url, ConnectOptions(), down)


@not_simulated
async def test_a_server_that_is_down_is_what_the_error_is_about(scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        nobody_listens = listening.getsockname()[1]
    async with TcpServer(Dispatcher([_Mountd("/data")])) as mountd:
        await mountd.listen()
        for port in (None, mountd.port):
            with pytest.raises(ConnectFailed, match=f"127.0.0.1:{nobody_listens}: connection refused") as caught:
                await nfs_open(f"{scheme}://127.0.0.1:{nobody_listens}/data", mount_port=port)
            assert "MOUNT" not in str(caught.value)
            assert "--" not in str(caught.value)


async def test_a_lost_connection_is_not_waited_for_in_order_to_unmount() -> None:
    nfs: Any = _Nfs(AssertionError("called"))
    mounted = Mount(export="/", handle=b"", directory="/")
    await unmount(Url(scheme="rdma", host="127.0.0.1", port=1), mounted, ConnectOptions(), nfs)
    assert nfs.asked == []


async def test_the_longest_export_that_the_path_is_in_is_mounted(tmp_path: Path) -> None:
    async with serving(tmp_path, "/", "/data", "/data/deep") as port:
        for path, export, directory in (
            ("/", "/", "/"),
            ("", "/", "/"),
            ("/other/x", "/", "/other/x"),
            ("/data", "/data", "/"),
            ("/data/", "/data", "/"),
            ("/data/sub/file", "/data", "/sub/file"),
            ("/data/deep", "/data/deep", "/"),
            ("/database", "/", "/database"),
            ("//data//sub/", "/data", "/sub/"),
            ("/data/.", "/data", "/."),
        ):
            url = Url(scheme="tcp", host="127.0.0.1", port=port, path=path)
            mounted = await mount_export(url, ConnectOptions(), mount_port=port)
            assert (mounted.export, mounted.directory, mounted.port) == (export, directory, port), path


async def test_a_path_of_no_export_is_not_found(tmp_path: Path) -> None:
    names = [f"/e{number}" for number in range(10)]
    async with serving(tmp_path, *names) as port:
        with pytest.raises(FileNotFoundError) as raised:
            await nfs_open(f"tcp://127.0.0.1:{port}/none/x")
        for error in (raised.value, pickle.loads(pickle.dumps(raised.value))):
            assert isinstance(error, NoSuchExport)
            assert (error.filename, error.exports) == ("/none/x", tuple(names))
            assert error.__notes__ == [f"the server exports {', '.join(names[:8])} and 2 more"]


async def test_a_url_of_no_object_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    (tmp_path / "export" / "d").mkdir(parents=True)
    (tmp_path / "export" / "d" / "nowhere").symlink_to("gone")
    (tmp_path / "export" / "file").touch()
    async with serving(tmp_path, "/data") as port:
        url = f"tcp://127.0.0.1:{port}/data"
        for path, kind in (
            ("/missing", FileNotFoundError),
            ("/missing/below", FileNotFoundError),
            ("/d/nowhere", FileNotFoundError),
            ("/file/below", NotADirectoryError),
        ):
            with pytest.raises(kind, match=f"'{re.escape(url + path)}'"):
                await nfs_open(url + path)


async def test_a_handle_of_another_server_is_told(tmp_path: Path) -> None:
    service = _Mountd("/data")
    async with serving(tmp_path, "/data") as nfs_port, TcpServer(Dispatcher([service])) as mountd:
        await mountd.listen()
        said = (
            f"the NFS server at 127.0.0.1:{nfs_port} does not know the handle of /data that MOUNT at "
            f"127.0.0.1:{mountd.port} gave"
        )
        with pytest.raises(ConnectFailed, match=said):
            await nfs_open(f"tcp://127.0.0.1:{nfs_port}/data", mount_port=mountd.port)
        # The URL's own word counts.
        async with nfs_open(f"tcp://127.0.0.1:{nfs_port}/data?mountport={nfs_port}", mount_port=mountd.port) as fs:
            assert await fs.listdir() == []


async def test_a_url_may_name_a_file(tmp_path: Path) -> None:
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "file").write_bytes(b"abc")
    async with serving(tmp_path, "/") as port, nfs_open(f"tcp://127.0.0.1:{port}/file") as fs:
        assert fs.directory == "/file"
        assert fs.url == f"tcp://127.0.0.1:{port}/file"
        assert await fs.read_bytes(".") == b"abc"


class _Mountd(MOUNT_V3_Service):
    """Allows MNT of the paths in `allowed`, all with the same `handle` or each with its own; lists nothing."""

    def __init__(
        self, *allowed: str, status: mountstat3 = mountstat3.MNT3ERR_NOENT, handle: bytes | None = None
    ) -> None:
        self.allowed = allowed
        self.handle = handle
        self.status = status
        self.asked: list[str] = []
        self.left: list[str] = []

    def mnt(self, args: str, context: Any) -> mountres3:
        self.asked.append(args)
        if args in self.allowed:
            return mountres3(mountstat3.MNT3_OK, mountres3_ok(self.handle or args.encode(), [1]))
        return mountres3(self.status, None)

    def umnt(self, args: str, context: Any) -> None:
        self.left.append(args)

    def export(self, args: None, context: Any) -> list[exportnode]:
        return []


class _PortMapper(PORT_MAPPER_V2_Service):
    def __init__(self, port: int) -> None:
        self.port = port

    def getport(self, args: mapping, context: Any) -> int:
        return self.port if args == mapping(100005, 3, 6, 0) else 0


async def test_a_server_that_lists_nothing_is_asked_from_the_longest_path_up() -> None:
    service = _Mountd("/srv/data")
    async with TcpServer(Dispatcher([service])) as server:
        await server.listen()
        async with await TcpConnection.connect("127.0.0.1", server.port) as caller:
            mounted = await mount_with(caller, "/srv/data/sub/file")
    assert (mounted.export, mounted.directory) == ("/srv/data", "/sub/file")
    assert service.asked == ["/srv/data/sub/file", "/srv/data/sub", "/srv/data"]


@each_case(
    ("status", "admitted", "kind", "told"),
    [
        (mountstat3.MNT3ERR_SERVERFAULT, [], OSError, None),
        (
            mountstat3.MNT3ERR_ACCES,
            [],
            PermissionError,
            'or without TLS with a certificate (ConnectOptions(xprtsec="mtls")); its log may have the reason',
        ),
        (mountstat3.MNT3ERR_ACCES, ["db1", "*"], PermissionError, "refuses /data to this host or user, to ports"),
        (
            mountstat3.MNT3ERR_ACCES,
            ["192.0.2.0/24", "db1"],
            PermissionError,
            "the server exports /data to 192.0.2.0/24, db1 alone",
        ),
        (
            mountstat3.MNT3ERR_ACCES,
            [f"db{number}" for number in range(10)],
            PermissionError,
            "the server exports /data to db0, db1, db2, db3, db4, db5, db6, db7 and 2 more alone",
        ),
    ],
)
async def test_a_refusal_to_mount_has_its_errno_and_tells_whom_the_server_admits(
    status: mountstat3, admitted: list[str], kind: type[OSError], told: str | None
) -> None:
    class Mountd(_Mountd):
        def export(self, args: None, context: Any) -> list[exportnode]:
            return [exportnode("/data", [groupnode(name) for name in admitted])]

    async with TcpServer(Dispatcher([Mountd(status=status)])) as server:
        await server.listen()
        with pytest.raises(kind) as caught:
            await nfs_open(f"tcp://127.0.0.1:{server.port}/data")
        assert caught.value.filename == "/data"
        assert told is None or [told in note for note in caught.value.__notes__] == [True]


@each_case(("scheme", "host"), [("rdma", "no.such.host.invalid"), ("tcp", "no.such.host.invalid"), ("tcp", "no..host")])
async def test_a_host_name_without_an_address_is_what_the_error_is_about(
    scheme: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = socket.getaddrinfo

    def no_name_server(host: str, *how: Any, **more: Any) -> Any:
        """In place of asking one, which may take its time."""
        if host == "no.such.host.invalid":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real(host, *how, **more)

    monkeypatch.setattr(socket, "getaddrinfo", no_name_server)
    with pytest.raises(HostNotFound) as caught:
        await nfs_open(f"{scheme}://{host}/data")
    where, _, remedy = str(caught.value).rpartition("; ")
    assert where.startswith(f"cannot connect to {host}:")
    assert "codec" not in where
    assert remedy == "check the host name"
    with pytest.raises(LocalProtocolError):
        nfs_open("http://host/")


async def test_the_port_mapper_is_asked_last(monkeypatch: pytest.MonkeyPatch) -> None:
    service = _Mountd("/")
    async with TcpServer(Dispatcher([service])) as mountd, TcpServer(Dispatcher([])) as other:
        await mountd.listen()
        await other.listen()
        async with TcpServer(Dispatcher([_PortMapper(mountd.port)])) as mapper:
            await mapper.listen()
            monkeypatch.setattr(mount_client, "PORT_MAPPER_PORT", mapper.port)
            monkeypatch.setattr(mount_client, "MOUNT_PORT", other.port)
            url = Url(scheme="rdma", host="127.0.0.1", port=1, path="/")
            assert (await mount_export(url, ConnectOptions())).port == mountd.port


async def test_nobody_who_mounts_is_an_error_that_says_where_it_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    async with TcpServer(Dispatcher([])) as other, TcpServer(Dispatcher([_PortMapper(0)])) as mapper:
        await other.listen()
        await mapper.listen()
        monkeypatch.setattr(mount_client, "PORT_MAPPER_PORT", mapper.port)
        monkeypatch.setattr(mount_client, "MOUNT_PORT", other.port)
        url = Url(scheme="rdma", host="127.0.0.1", port=1, path="/")
        with pytest.raises(ConnectFailed, match=r"does not offer the program.*not registered there"):
            await mount_export(url, ConnectOptions())
        monkeypatch.setattr(mount_client, "PORT_MAPPER_PORT", 1)
        with pytest.raises(ConnectFailed, match="port mapper: connection refused"):
            await mount_export(url, ConnectOptions())


async def test_closing_unmounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mount_client, "_UNMOUNT_S", 60)
    service = _Mountd("/data")
    async with serving(tmp_path, "/") as nfs_port, TcpServer(Dispatcher([service])) as server:
        await server.listen()
        url = f"tcp://127.0.0.1:{nfs_port}/data"
        service.handle = (await mount_export(parse_url(url), ConnectOptions(), mount_port=nfs_port)).handle
        async with nfs_open(url, mount_port=server.port, options=ConnectOptions(), files=FileOptions()):
            assert service.left == []
        assert service.left == ["/data"]
