"""Kerberos of MIT, with a KDC that the tests start: each service over each transport, and the words of its refusals."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pwd
import random
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import fsspec
import pytest
from realm import NEEDED, Realm, realm_at

import rpcrdma.sync
from cutting_proxy import CuttingProxy
from rpcrdma.aio.client.connect import ConnectOptions
from rpcrdma.aio.drivers.capture import PacketCapture
from rpcrdma.aio.kerberos import KerberosMechanism, local_user
from rpcrdma.aio.security_options import Kerberos, KerberosKeys
from rpcrdma.aio.server.rdma_server import RdmaServerConfig
from rpcrdma.aio.server.serve import ServeOptions, serve
from rpcrdma.aio.urls import parse_url
from rpcrdma.cli.main import main as command
from rpcrdma.errors import UserAuthenticationFailed
from rpcrdma.nfs import v3
from rpcrdma.nfs.client import nfs_open
from rpcrdma.nfs.server import Export, build_services, open_state
from rpcrdma.rpc.gss.flavors import SecurityFlavor
from rpcrdma.rpc.gss.mechanism import GssFailure

gssapi = pytest.importorskip("gssapi", reason="needs the package gssapi: make interop", exc_type=ImportError)

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not all(Path(program).exists() for program in NEEDED), reason="needs a KDC, kadmin and kinit: make interop"
    ),
]

MIB = 1 << 20
FLAVORS = ("krb5", "krb5i", "krb5p")
TRANSPORTS = ("tcp", "1", "2", "rtr")


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    with pytest.MonkeyPatch.context() as patch, realm_at(tmp_path_factory.mktemp("realm")) as found:
        for name, value in found.environment.items():
            patch.setenv(name, value)
        patch.setenv("KRB5CCNAME", found.tickets("alice"))
        yield found


@asynccontextmanager
async def serving(
    realm: Realm, directory: Path, transport: str = "tcp", *, ports: tuple[int, int] = (0, 0), **settings: Any
) -> AsyncIterator[str]:
    """The URL of a server whose one export asks for Kerberos."""
    version = {"tcp": "auto", "rtr": "2"}.get(transport, transport)
    state = open_state(directory.parent / "state", os.urandom)
    flavors = tuple(SecurityFlavor[name.upper()] for name in FLAVORS)
    services = build_services([Export(name="/", directory=directory, security=flavors)], state=state)
    options = ServeOptions(
        security=flavors,
        kerberos=KerberosKeys(keytab=realm.keytab),
        rdma=RdmaServerConfig(rpcrdma_version=version),
        drain_s=1.0,
    )
    listen = [f"tcp://localhost:{ports[0]}", f"rdma://localhost:{ports[1]}"]
    try:
        async with serve(services, listen, options=options) as server:
            tcp, rdma = (parse_url(url) for url in server.listening)
            yield (
                f"tcp://localhost:{tcp.port}"
                if transport == "tcp"
                else f"rdma://localhost:{rdma.port}?mountport={tcp.port}"
            )
    finally:
        services.nfs.close()
        state.close()


def options_of(transport: str, flavor: str | None, **settings: Any) -> ConnectOptions:
    version = {"tcp": "auto", "rtr": "2"}.get(transport, transport)
    extension = "rtr" if transport == "rtr" else "auto"
    return ConnectOptions(rpcrdma_version=version, extension=extension, security=flavor, **settings)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    found = tmp_path / "export"
    found.mkdir()
    found.chmod(0o777)
    tmp_path.chmod(0o755)
    return found


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("flavor", FLAVORS)
def test_files_come_back_whole_and_belong_to_the_user_of_the_ticket(
    realm: Realm, directory: Path, transport: str, flavor: str
) -> None:
    data = random.Random(7).randbytes(2 * MIB + 3)

    async def main() -> None:
        async with (
            serving(realm, directory, transport) as url,
            nfs_open(url, options=options_of(transport, flavor)) as fs,
        ):
            await fs.write_bytes("file", data)
            assert await fs.read_bytes("file") == data
            assert fs.connection.principal == "alice@LAB.TEST"

    asyncio.run(main())
    assert (directory / "file").read_bytes() == data
    if os.geteuid() == 0:
        assert (directory / "file").stat().st_uid == pwd.getpwnam("daemon").pw_uid


def test_without_a_word_the_client_takes_the_flavor_that_the_server_prefers(realm: Realm, directory: Path) -> None:
    async def main() -> None:
        async with serving(realm, directory) as url, nfs_open(url) as fs:
            assert fs.connection.principal == "alice@LAB.TEST"

    asyncio.run(main())


@pytest.mark.req("OR-10")
def test_contexts_have_neither_replay_detection_nor_sequencing_of_the_mechanism(realm: Realm) -> None:
    initiator, acceptor = KerberosMechanism().initiate("localhost"), KerberosMechanism(keytab=realm.keytab).accept()
    token = acceptor.step(initiator.step(None))
    initiator.step(token)
    assert initiator.complete
    assert acceptor.complete
    flag = gssapi.RequirementFlag
    for context in (initiator, acceptor):
        flags = context._context.actual_flags
        assert flags & flag.mutual_authentication
        assert not flags & (flag.replay_detection | flag.out_of_sequence_detection)
    # So a message that comes twice is taken by the mechanism, and the window of RPCSEC_GSS decides.
    mic = initiator.mic(b"header")
    acceptor.verify(b"header", mic)
    acceptor.verify(b"header", mic)
    assert len(mic) <= KerberosMechanism.mic_octets_max
    for length in (0, 1, 15, 16, 17, MIB):
        wrapped = initiator.wrap(bytes(length))
        assert len(wrapped) <= length + KerberosMechanism.wrap_octets_max
        assert acceptor.unwrap(wrapped) == bytes(length)
    changed = bytearray(initiator.wrap(b"secret"))
    changed[-1] ^= 1
    with pytest.raises(GssFailure):
        acceptor.unwrap(bytes(changed))
    with pytest.raises(GssFailure, match="not encrypted"):
        acceptor.unwrap(initiator._context.wrap(b"clear", False).message)


def test_principals_become_users_by_the_rules_of_the_system(realm: Realm) -> None:
    daemon, root = pwd.getpwnam("daemon"), pwd.getpwnam("root")
    alice = local_user("alice@LAB.TEST")
    assert alice is not None
    assert (alice.uid, alice.gid) == (daemon.pw_uid, daemon.pw_gid)
    found = local_user("root@LAB.TEST")
    assert found is not None
    assert found.uid == root.pw_uid
    for principal in ("bob@LAB.TEST", "alice@OTHER.TEST", "nfs/localhost@LAB.TEST", "host/node@LAB.TEST", "@", ""):
        assert local_user(principal) is None, principal


def failure(realm: Realm, directory: Path, flavor: str | None = "krb5", host: str = "localhost") -> str:
    """The words for a client of which something is wrong."""

    async def main() -> str:
        async with serving(realm, directory) as url:
            with pytest.raises(UserAuthenticationFailed) as failed:
                async with nfs_open(url.replace("localhost", host), options=options_of("tcp", flavor)) as fs:
                    await fs.listdir(".")
            return str(failed.value)

    return asyncio.run(main())


def test_a_refusal_with_a_status_that_nobody_knows_is_named_by_its_numbers() -> None:
    mechanism = KerberosMechanism()
    for major in (0, 0x70000, 0xFFF00000, 0xFFFFFFFF):
        for minor in (0, 12345, 0xFFFFFFFF):
            told = mechanism.explained(major, minor, "host")
            assert told.startswith("the server refuses the ticket")
            assert "; " not in told, "which would stand before a remedy"
            assert (f"code {minor:#x} of Kerberos" in told) == bool(minor)
    assert "No credentials were supplied" in mechanism.explained(0x70000, 0, "host")


def test_a_client_without_a_ticket_is_told_to_get_one(
    realm: Realm, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{realm.folder}/none")
    assert failure(realm, directory) == "no ticket; run kinit"
    told = failure(realm, directory, None)
    assert told.startswith("tcp://localhost:")
    assert told.endswith("/ asks for krb5, krb5i, krb5p: no ticket; run kinit")


def test_a_ticket_that_has_ended_is_named(realm: Realm, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = realm.tickets("alice", lifetime="1s")
    monkeypatch.setenv("KRB5CCNAME", cache)
    deadline_s = time.monotonic() + 60
    while not Kerberos("krb5").lacks():
        assert time.monotonic() < deadline_s
    assert failure(realm, directory) == "the ticket has expired; run kinit"


def test_a_server_that_the_realm_does_not_know_is_named(realm: Realm, directory: Path) -> None:
    assert failure(realm, directory, host="127.0.0.1").startswith("the realm has no principal nfs/127.0.0.1; add it")


def test_a_server_of_a_realm_that_does_not_trust_the_clients_is_named(
    realm: Realm, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "krb5.conf"
    own = (realm.folder / "krb5.conf").read_text()
    config.write_text(f"{own}[domain_realm]\n    localhost = OTHER.TEST\n")
    monkeypatch.setenv("KRB5_CONFIG", str(config))
    # The KDC of the client's realm has neither the server nor a way to its realm.
    assert failure(realm, directory).startswith("the realm has no principal nfs/localhost; add it")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as other users")
def test_users_reach_what_they_may_and_users_without_an_account_and_hosts_are_nobody(
    realm: Realm, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    realm.add_user("bob")
    realm.add_service("host/node", realm.folder / "node.keytab")
    node = f"FILE:{realm.folder}/tickets-node"
    realm.run("kinit", "-k", "-t", str(realm.folder / "node.keytab"), "host/node", KRB5CCNAME=node)
    (directory / "secret").write_bytes(b"of root")
    (directory / "secret").chmod(0o600)

    async def main() -> None:
        async with serving(realm, directory) as url:
            caches = {"alice": realm.tickets("alice"), "bob": realm.tickets("bob"), "node": node}
            for name, cache in caches.items():
                kerberos = Kerberos("krb5p", ccache=cache)
                async with nfs_open(url, options=ConnectOptions(security=kerberos)) as fs:
                    await fs.write_bytes(name, b"")
                    with pytest.raises(PermissionError):
                        await fs.read_bytes("secret")

    asyncio.run(main())
    owners = {name: (directory / name).stat().st_uid for name in ("alice", "bob", "node")}
    assert owners == {"alice": pwd.getpwnam("daemon").pw_uid, "bob": 65534, "node": 65534}


def test_a_token_that_was_cut_makes_no_context(realm: Realm) -> None:
    token = KerberosMechanism().initiate("localhost").step(None) or b""
    for bad in [*(token[:end] for end in range(0, len(token), 7)), token * 2]:
        context = KerberosMechanism(keytab=realm.keytab).accept()
        with pytest.raises(GssFailure):
            context.step(bad)
        assert not context.complete


def test_a_server_without_the_key_of_its_principal_is_named(realm: Realm, directory: Path, tmp_path: Path) -> None:
    realm.add_service("nfs/other", tmp_path / "other.keytab")
    only_other = Realm.__new__(Realm)
    only_other.keytab = tmp_path / "other.keytab"
    said = failure(only_other, directory)
    assert said == "the server has no key for nfs/localhost; add one to its keytab: kadmin -q 'ktadd nfs/localhost'"


def test_a_server_whose_keytab_is_older_than_the_key_of_the_realm_is_named(realm: Realm, directory: Path) -> None:
    realm.add_service("nfs/renewed", realm.folder / "old.keytab")
    realm.add_service("nfs/renewed", realm.folder / "new.keytab")
    old = Realm.__new__(Realm)
    old.keytab = realm.folder / "old.keytab"

    async def main() -> None:
        async with serving(old, directory) as url:
            with pytest.raises(UserAuthenticationFailed) as failed:
                await nfs_open(url, options=ConnectOptions(security=Kerberos("krb5", host="renewed")))
            assert str(failed.value).startswith("the server's key for nfs/renewed is not the realm's present one")

    asyncio.run(main())


def served_by_command(realm: Realm, directory: Path, *before: str, **environment: str) -> Any:
    command = [*before, "rpcrdma", "serve", str(directory), "--sec", "krb5p:krb5i", "--keytab", str(realm.keytab)]
    command += ["--listen", "tcp://localhost:0", "--listen", "rdma://localhost:0", "--json", "--stop-at-eof"]
    command += ["--state-dir", str(realm.folder / "state")]
    return subprocess.Popen(
        command,
        env=os.environ | environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextlib.contextmanager
def command_serving(realm: Realm, directory: Path, *before: str, **environment: str) -> Iterator[tuple[str, str]]:
    """The URLs of `rpcrdma serve`, for TCP and for RDMA, with the name that the realm knows."""
    server = served_by_command(realm, directory, *before, **environment)
    try:
        tcp, rdma = (parse_url(json.loads(server.stdout.readline())["url"]).port for _ in range(2))
        yield f"tcp://localhost:{tcp}", f"rdma://localhost:{rdma}?mountport={tcp}"
    finally:
        _, said = server.communicate(timeout=60)
        assert "Traceback" not in said


@pytest.fixture(autouse=True)
def path_of_the_command(monkeypatch: pytest.MonkeyPatch, rpcrdma_command: str) -> None:
    monkeypatch.setenv("PATH", f"{Path(rpcrdma_command).parent}:{os.environ['PATH']}")


def test_clocks_that_differ_are_told_with_the_minutes(realm: Realm, directory: Path) -> None:
    with command_serving(realm, directory, "faketime", "-f", "+7m", FAKETIME_DONT_FAKE_MONOTONIC="1") as (tcp, _):
        done = subprocess.run(["rpcrdma", "ls", tcp], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 3
    assert "error: the clocks of this machine and of the server differ by 7 minutes" in done.stderr
    assert "hint: set them" in done.stderr


def test_a_server_without_keys_does_not_start_and_says_why(realm: Realm, directory: Path, tmp_path: Path) -> None:
    without = Realm.__new__(Realm)
    without.keytab, without.folder = tmp_path / "none.keytab", realm.folder
    server = served_by_command(without, directory)
    _, said = server.communicate(timeout=60)
    assert server.returncode == 1
    event = json.loads(said) if said.startswith("{") else {}
    assert "no key of Kerberos in" in said, event
    assert "kadmin -q 'ktadd -k" in said


def test_a_server_that_linux_clients_cannot_reach_for_contexts_says_so(realm: Realm, directory: Path) -> None:
    command = ["rpcrdma", "serve", str(directory), "--sec", "krb5", "--keytab", str(realm.keytab), "--stop-at-eof"]
    command += ["--state-dir", str(realm.folder / "state"), "--listen", "tcp://localhost:0"]
    for more, told in ([], False), (["--listen", "rdma://localhost:0"], True):
        done = subprocess.run([*command, *more], input="", capture_output=True, text=True, check=True, timeout=60)
        assert ("over TCP at port 2049: add --listen tcp://HOST" in done.stderr) is told


def test_commands_show_flavor_and_principal(realm: Realm, directory: Path, tmp_path: Path) -> None:
    (directory / "file").write_bytes(b"content")
    (directory / "file").chmod(0o644)

    def run(*words: str) -> str:
        done = subprocess.run(["rpcrdma", *words], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    with command_serving(realm, directory) as (tcp, rdma):
        assert run("cat", rdma.replace("?", "/file?")) == "content"
        assert run("exports", tcp) == "/  *  sec=krb5p:krb5i\n"
        assert "security: krb5i as alice@LAB.TEST" in run("ping", "-c", "1", "--sec", "krb5i", rdma)
        assert "alice@LAB.TEST is proved to nfs/localhost, with krb5p" in run("ls", "-v", rdma)
        refused = subprocess.run(
            ["rpcrdma", "ls", "--sec", "sys", tcp], capture_output=True, text=True, check=False, timeout=60
        )
    assert refused.returncode == 3
    assert "/ asks for krb5p, krb5i, not for sys" in refused.stderr


@pytest.mark.parametrize("scheme", ["tcp", "rdma"])
def test_programs_without_an_event_loop_and_fsspec_prove_their_user(realm: Realm, directory: Path, scheme: str) -> None:
    with command_serving(realm, directory) as (tcp, rdma):
        url = tcp if scheme == "tcp" else rdma
        with rpcrdma.sync.nfs_open(url, options=ConnectOptions(security="krb5p")) as fs:
            fs.write_bytes("sync", b"by sync")
            assert fs.connection.principal == "alice@LAB.TEST"
        protocol, target = "nfstcp" if scheme == "tcp" else "rdma", parse_url(url)
        path = f"{protocol}://localhost:{target.port}/fsspec"
        storage: dict[str, Any] = {"mountport": target.mount_port, "options": {"security": "krb5p"}}
        with fsspec.open(path, "wb", **storage) as file:
            file.write(b"by fsspec")
        with fsspec.open(path.replace("fsspec", "sync"), **storage) as file:
            assert file.read() == b"by sync"
        storage["options"] = {"security": "sys"}
        with pytest.raises(UserAuthenticationFailed, match="asks for krb5p, krb5i, not for sys"):
            fsspec.open(path, **storage).open()
    assert (directory / "fsspec").read_bytes() == b"by fsspec"


@pytest.mark.parametrize("transport", ["tcp", "2"])
def test_a_copy_goes_on_over_cut_connections_and_comes_whole(realm: Realm, directory: Path, transport: str) -> None:
    data = random.Random(8).randbytes(24 * MIB + 1)

    async def main() -> None:
        async with serving(realm, directory, transport) as url:
            target = parse_url(url)
            proxy = CuttingProxy([target.port], 3, 10 * MIB, 14 * MIB)
            proxy.start()
            try:
                mount_port = target.mount_port or target.port
                through = f"{target.scheme}://localhost:{proxy.ports[0]}?mountport={mount_port}"
                options = options_of(transport, "krb5p", reconnect_delay_max_s=0.1)
                async with nfs_open(through, options=options) as fs:
                    await fs.write_bytes("file", data)
                    assert await fs.read_bytes("file") == data
                    assert fs.connection.reconnects
            finally:
                proxy.stop()

    asyncio.run(main())
    assert (directory / "file").read_bytes() == data


@pytest.mark.parametrize("transport", ["tcp", "2"])
def test_a_server_that_restarts_gets_a_new_context(realm: Realm, directory: Path, transport: str) -> None:
    async def main() -> None:
        async with contextlib.AsyncExitStack() as stack:
            async with serving(realm, directory, transport) as url:
                target = parse_url(url)
                tcp = target.port if transport == "tcp" else target.mount_port
                ports = (tcp or 0, target.port if transport != "tcp" else 0)
                options = options_of(transport, "krb5i", reconnect_delay_max_s=0.1)
                fs = await stack.enter_async_context(nfs_open(url, options=options))
                await fs.write_bytes("file", b"before")
            async with serving(realm, directory, transport, ports=ports):
                assert await fs.read_bytes("file") == b"before"
                await fs.connection.call(v3.NULL, None)
                await stack.aclose()

    asyncio.run(main())


def dissected(capture: Path, *options: str) -> tuple[list[str], str]:
    """Wireshark's summary of each frame, and its dump of all octets, decrypted ones included."""
    words = ["tshark", "-r", str(capture), *options]
    lines, dump = (
        subprocess.run([*words, *more], capture_output=True, text=True, check=True, timeout=120).stdout
        for more in ([], ["-x"])
    )
    return lines.splitlines(), dump


DATA = b"clear" * 20


def captured(realm: Realm, directory: Path, transport: str, path: Path) -> Path:
    """A file is written and read under the flavor that the capture's name says."""
    capture = PacketCapture(path)

    async def main() -> None:
        options = options_of(transport, path.stem, capture=capture)
        async with serving(realm, directory, transport) as url, nfs_open(url, options=options) as fs:
            await fs.write_bytes("file", DATA)
            assert await fs.read_bytes("file") == DATA

    asyncio.run(main())
    capture.close()
    return path


@pytest.mark.parametrize("transport", ["1", "2"])
def test_explain_reads_arguments_and_results_that_are_not_sealed(
    realm: Realm, directory: Path, tmp_path: Path, transport: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for flavor in ("krb5", "krb5i", "krb5p"):
        capture = captured(realm, directory, transport, tmp_path / f"{flavor}.pcap")
        assert command(["explain", "--json", str(capture)]) == 0
        calls = {call["procedure"]: call for call in map(json.loads, capsys.readouterr().out.splitlines())}
        write, read = calls["NFS_V3 WRITE"], calls["NFS_V3 READ"]
        notes = [note for message in write["messages"] for note in message["notes"]]
        if flavor == "krb5p":
            assert write["arguments"] is read["results"] is None
            assert "the arguments are private (RPCSEC_GSS)" in notes
        else:
            assert write["arguments"]["data"] == DATA.hex()
            assert read["results"]["resok"]["count"] == len(DATA)
            assert not any("do not follow" in note for note in notes)


@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark: make interop")
@pytest.mark.parametrize("transport", ["1", "2"])
def test_wireshark_reads_what_is_protected_from_changes_and_with_the_keytab_what_is_encrypted(
    realm: Realm, directory: Path, tmp_path: Path, transport: str
) -> None:
    encrypted = captured(realm, directory, transport, tmp_path / "krb5p.pcap")
    secret, dump = dissected(encrypted)
    assert "clear" not in dump
    if transport != "1":
        # It knows the headers of version 1 alone.
        return
    assert not any("FSINFO Call, FH" in line for line in secret)
    clear, dump = dissected(encrypted, "-K", str(realm.keytab), "-o", "kerberos.decrypt:TRUE")
    assert "clear" in dump
    assert any("WRITE Call, FH" in line and f"Len: {len(DATA)}" in line for line in clear)
    whole, dump = dissected(captured(realm, directory, transport, tmp_path / "krb5i.pcap"))
    assert "clear" in dump
    assert any("WRITE Reply" in line and f"Len: {len(DATA)}" in line for line in whole)
    assert not [line for line in [*clear, *whole] if "Malformed" in line]
