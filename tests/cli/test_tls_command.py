"""`--xprtsec` and the certificates for it, on commands that connect and on `serve`."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rpcrdma.aio.host_options import NO_TLS_OVER_RDMA
from rpcrdma.cli import serve_protection
from rpcrdma.cli.main import build_parser, main
from rpcrdma.cli.settings.effective import effective
from rpcrdma.commands.failures import describe
from rpcrdma.commands.options import connect_options
from rpcrdma.errors import AuthError
from rpcrdma.rpc.auth import AuthStat
from support.cases import each_case
from support.host_pair import Hosts
from support.waiting import until

if TYPE_CHECKING:
    from support.commands import Command, StartServer


@each_case("prefix", ["tls", "host"])
def test_both_names_of_the_certificate_options_mean_the_same(prefix: str) -> None:
    given = [f"--{prefix}-cert=c", f"--{prefix}-key=k", f"--{prefix}-ca=a", f"--{prefix}-name=n"]
    options = connect_options(build_parser().parse_args(["ls", "--xprtsec=mtls", *given, "tcp://h/"]))
    hosts = options.host_authentication
    assert (options.xprtsec, options.mount_in_clear, hosts.wanted.value) == ("mtls", False, "off")
    assert (hosts.certificate, hosts.key, hosts.authorities, hosts.names) == (Path("c"), Path("k"), Path("a"), ("n",))


@pytest.mark.journey
def test_files_go_over_tls_and_exports_ask_for_it(
    start: StartServer, capfd: pytest.CaptureFixture[str], hosts: Hosts, tmp_path: Path
) -> None:
    """One export for everybody, one for TLS, one for hosts with a certificate; RDMA has no TLS."""
    for name in ("open", "secret", "closed"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text(name)
    ca = ["--tls-ca", str(hosts.authority.path)]
    exports = [f"--export=secret={tmp_path}/secret:xprtsec=tls", f"--export=closed={tmp_path}/closed:xprtsec=mtls"]
    certificate = hosts.authority.issue("127.0.0.1")
    with start(tmp_path / "open", tmp_path / "state", *exports, "--tls-cert", str(certificate), *ca) as served:
        tcp, rdma = served.urls["tcp"], served.urls["rdma"]
        tls = ["--xprtsec", "tls", *ca]
        mtls = ["--xprtsec", "mtls", *ca, "--tls-cert", str(hosts.client)]

        def cat(url: str, *options: str) -> str | int:
            status = main(["cat", *options, url])
            said = capfd.readouterr()
            return status or said.out

        assert cat(f"{tcp}/a") == "open"
        assert main(["cat", f"{tcp}/secret/a"]) == 1
        # MOUNT refuses /secret, and / has no such file: NFS would deny the permission.
        assert "no such file or directory" in capfd.readouterr().err
        assert cat(f"{tcp}/a", *tls) == "open"
        assert cat(f"{tcp}/secret/a", *tls) == "secret"
        assert cat(f"{tcp}/closed/a", *tls) == 1
        assert cat(f"{tcp}/closed/a", *mtls) == "closed"
        assert cat(f"{rdma}/secret/a", "--mount-port", tcp.rpartition(":")[2]) == 1
        assert main(["ping", "-c", "1", *mtls, tcp]) == 0
        assert capfd.readouterr().out.endswith("RPC over TCP in TLS\nhost: 127.0.0.1 (commonName=a host)\n")
        assert main(["ls", *tls, f"{rdma}/"]) == 2
        assert "RPC over RDMA has no TLS" in capfd.readouterr().err
        assert served.stop() == 0
    refused = [event for event in served.events if event["event"] == "refused"]
    assert [(event["export"], event["xprtsec"]) for event in refused][:2] == [("/secret", "tls"), ("/closed", "mtls")]
    assert {event["name"]: event["xprtsec"] for event in served.events if event["event"] == "exported"} == {
        "/": "none", "/secret": "tls", "/closed": "mtls",
    }  # fmt: skip


@pytest.mark.thorough
def test_mount_in_the_clear_gives_handles_that_nfs_in_the_clear_refuses(
    start: StartServer, capfd: pytest.CaptureFixture[str], hosts: Hosts, tmp_path: Path
) -> None:
    """As between Linux hosts, whose MOUNT has no TLS."""
    (tmp_path / "open").mkdir()
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "a").write_text("secret")
    certificate = hosts.authority.issue("127.0.0.1")
    options = ["--mount-in-clear", "--tls-cert", str(certificate), "--export", f"secret={tmp_path}/secret:xprtsec=tls"]
    with start(tmp_path / "open", tmp_path / "state", *options) as served:
        url = f"{served.urls['tcp']}/secret/a"
        tls = ["--xprtsec", "tls", "--tls-ca", str(hosts.authority.path)]
        assert main(["cat", "--mount-in-clear", *tls, url]) == 0
        assert capfd.readouterr().out == "secret"
        assert main(["cat", url]) == 1
        assert "permission denied" in capfd.readouterr().err
        assert served.stop() == 0
    secured = [event for event in served.events if event["event"] == "secured"]
    assert len(secured) == 1, "NFS alone is in TLS"


def test_calls_in_the_clear_are_told_what_is_missing() -> None:
    message, hint, status = describe(AuthError(AuthStat.AUTH_TOOWEAK))
    assert message == "the server refused the call: the responder refused the credential: AUTH_TOOWEAK"
    assert hint == (
        "it asks for more protection: TLS (--xprtsec tls), TLS with a certificate of this host "
        "(--xprtsec mtls --tls-cert FILE), or Kerberos (--sec krb5p)"
    )
    assert status == 1
    assert describe(AuthError(AuthStat.AUTH_BADCRED))[1] == ""


def test_options_of_serve_that_do_not_fit_together_are_refused(command: Command, hosts: Hosts, tmp_path: Path) -> None:
    certificate = ["--tls-cert", str(hosts.server)]
    for options, error, hint in (
        (["--xprtsec", "tls"], "TLS takes a certificate of this host", "name its files (--tls-cert, --tls-key)"),
        (
            ["--xprtsec", "mtls", *certificate],
            "there are no authorities that may vouch for clients",
            "name the file of theirs (--tls-ca)",
        ),
        (
            ["--xprtsec", "tls", *certificate, "--listen", "rdma://127.0.0.1:0"],
            "--xprtsec is for tcp://: RPC over RDMA has no TLS",
            f"leave out --listen rdma://, or {NO_TLS_OVER_RDMA.partition('; ')[2]}",
        ),
    ):
        ran = command.run("serve", "--state-dir", str(tmp_path / "state"), *options, str(tmp_path / "data"))
        assert (ran.status, ran.err.splitlines()) == (2, [f"error: {error}", f"hint: {hint}"])


@pytest.mark.req("NF-4")
def test_by_default_a_server_with_tls_alone_does_not_listen_on_rdma() -> None:
    parse = build_parser().parse_args
    for options, listens in (
        ([], ["rdma://127.0.0.1:20049", "tcp://127.0.0.1:20048"]),
        (["--xprtsec", "tls"], ["tcp://127.0.0.1:20048"]),
        (
            ["--xprtsec", "tls", "--export", "pub=/pub:xprtsec=none"],
            ["rdma://127.0.0.1:20049", "tcp://127.0.0.1:20048"],
        ),
    ):
        args = parse(["serve", *options, "--export", "a=/a"])
        effective(args).put_into(args)
        assert serve_protection.listen_at(args) == listens
        assert "4" in args.nfs


def test_the_weakest_export_decides_which_calls_are_answered_at_all() -> None:
    for options, least in (
        (["--xprtsec=mtls", "--export=a=/a"], "mtls"),
        (["--xprtsec=mtls", "--export=a=/a:xprtsec=tls"], "tls"),
        (["--xprtsec=mtls", "--export=a=/a", "--mount-in-clear"], "none"),
        (["--export=a=/a:xprtsec=tls", "--export=b=/b"], "none"),
    ):
        args = build_parser().parse_args(["serve", *options])
        assert serve_protection.least_protection(effective(args).exports) == least


@pytest.mark.thorough
def test_sighup_has_the_certificates_read_again(
    start: StartServer, capfd: pytest.CaptureFixture[str], hosts: Hosts, tmp_path: Path
) -> None:
    """A server that was started with a terminal which is there does not stop, nor one without a terminal."""
    (tmp_path / "data").mkdir()
    certificate = tmp_path / "server.pem"
    certificate.write_bytes(hosts.authority.issue("127.0.0.1", subject="the first").read_bytes())
    with start(tmp_path / "data", tmp_path / "state", "--tls-cert", str(certificate)) as served:
        ping = ["ping", "-c", "1", "--xprtsec", "tls", "--tls-ca", str(hosts.authority.path), served.urls["tcp"]]
        assert main(ping) == 0
        assert "commonName=the first" in capfd.readouterr().out
        certificate.write_bytes(hosts.authority.issue("127.0.0.1", subject="the second").read_bytes())
        served.process.send_signal(signal.SIGHUP)
        asyncio.run(until(lambda: "certificates" in [event["event"] for event in served.events]))
        assert main(ping) == 0
        assert "commonName=the second" in capfd.readouterr().out
        certificate.write_text("nothing")
        served.process.send_signal(signal.SIGHUP)
        asyncio.run(until(lambda: "error" in [event["event"] for event in served.events]))
        assert main(ping) == 0
        assert "commonName=the second" in capfd.readouterr().out
        assert served.stop() == 0
    told = [event for event in served.events if event["event"] == "error"]
    assert "(the certificates that were read before stay in use)" in told[0]["error"]["message"]


def test_the_port_mapper_is_not_asked_in_the_clear(capfd: pytest.CaptureFixture[str]) -> None:
    for words in (["call", "tcp://127.0.0.1", "nfs3.x", "NFSPROC3_NULL"], ["programs", "tcp://127.0.0.1"]):
        assert main([words[0], "--xprtsec", "tls", *words[1:]]) == 3
        assert "error: the port mapper has no TLS\nhint: " in capfd.readouterr().err
