"""`serve --check`: settings with which a server would not start, and paths that this user cannot examine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rpcrdma.cli.host_names import HostNames
from rpcrdma.cli.main import build_parser
from rpcrdma.cli.settings.effective import effective
from rpcrdma.cli.settings.rules import faults_of_hosts
from support.cases import each_case
from support.functions_entered import functions_entered

if TYPE_CHECKING:
    from support.commands import Command
    from support.host_pair import Hosts

ONE = '[[export]]\nname = "/one"\ndirectory = "one"\n'
HEAD = 'listen = ["tcp://127.0.0.1:0"]\nstate-dir = "state"\n'
LONG = "a" * 256
"""A name that no file can have."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "one").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    return tmp_path / "c.toml"


def checked(command: Command, file: Path, text: str, *, status: int = 2) -> list[str]:
    """Returns the lines that a check prints about a file with `text`, without its folder."""
    file.write_text(text)
    ran = command.run("serve", "--config", str(file), "--check")
    assert (ran.status, ran.text) == (status, ""), ran.err
    # The certificates of tests last for a day.
    lines = ran.err.replace(f"{file.parent}/", "").splitlines()
    return [line for line in lines if not line.endswith("renew the certificate")]


@each_case("setting", ["state-dir", "admin", "access-log", "keytab", "tls-cert", "tls-key", "tls-ca"])
def test_a_path_that_cannot_be_examined_is_a_mistake_beside_the_others(
    command: Command, file: Path, setting: str
) -> None:
    for path, cause in (
        (LONG, "its name has 256 octets, more than 85" if setting == "admin" else "file name too long"),
        (f"{LONG}/below", "file name too long"),
        ("loop/below", "too many levels of symbolic links"),
    ):
        told = checked(command, file, f'{setting} = "{path}"\n{ONE}workers = 0\n')
        (found,) = [line for line in told if cause in line]
        assert found.startswith("error: c.toml:1: ")
        assert "; " in found
        assert "error: c.toml:5: workers belongs to the server; write it above the first line in brackets" in told


def test_a_directory_that_cannot_be_examined_is_a_mistake_of_its_export(command: Command, file: Path) -> None:
    for path, cause in ((LONG, "file name too long"), ("loop", "too many levels of symbolic links")):
        text = HEAD + ONE.replace('"one"', f'"{path}"')
        told = f"c.toml:3: {path}: {cause}; make the directory, or name another one"
        assert checked(command, file, text, status=0) == [f"warning: {told}"]
        ran = command.run("serve", "--check", "--export", f"a={file.parent}/{path}:b")
        assert ran.status == 2
        assert ran.err.startswith("error: command line: ")
        assert command.done("config", "unit", "--config", str(file)).text


@each_case(
    ("settings", "told"),
    [
        ("connections = 1000000000000", ["too few open files are allowed for 1000000000000 connections"]),
        ('tls-key = "k"', ["the certificate of the key is missing; name its file (tls-cert)"]),
        ('tls-ca = "k"', ["a server that judges hosts by authorities takes a certificate of its own; name its files"]),
        (
            'tls-name = ["client.example"]',
            ["there are no authorities that may vouch for the names of clients; name the file of theirs (tls-ca)"],
        ),
        *(
            (
                f'host-auth = "{choice}"',
                [
                    "host authentication takes a certificate of this host; name its files (tls-cert, tls-key)",
                    "host authentication takes authorities that may vouch for clients; name the file of theirs",
                ],
            )
            for choice in ("required", "optional")
        ),
        ('host-auth = "off"', []),
    ],
)
def test_a_setting_without_another_that_it_takes_is_told_by_the_check_and_by_the_start(
    command: Command, file: Path, settings: str, told: list[str]
) -> None:
    (file.parent / "k").touch()
    lines = checked(command, file, f"{settings}\n{HEAD}{ONE}", status=2 if told else 0)
    assert len(lines) == len(told)
    for line, start in zip(lines, told, strict=True):
        assert line.startswith(f"error: c.toml:1: {start}")
    if told:
        ran = command.run("serve", "--config", str(file))
        assert (ran.status, ran.err.replace(f"{file.parent}/", "").splitlines()) == (2, lines)


def test_a_check_and_a_refused_start_leave_the_capture_of_the_running_server(command: Command, file: Path) -> None:
    (file.parent / "a.pcap").write_text("kept")
    words = ["serve", "--config", str(file), "--pcap", str(file.parent / "a.pcap")]
    for listen, told in (("tcp://127.0.0.1:0", ""), ("rdma://127.0.0.1:0?provider=verbs", "error: {}:1: pcap records")):
        file.write_text(HEAD.replace("tcp://127.0.0.1:0", listen) + ONE)
        ran = command.run(*words, "--check")
        assert (ran.status, ran.err.startswith(told.format(file))) == (2 if told else 0, True), ran.err
    assert command.run(*words).status == 2
    assert (file.parent / "a.pcap").read_text() == "kept"


def test_certificates_are_judged_at_the_lines_of_their_files(command: Command, file: Path, hosts: Hosts) -> None:
    certificate, authorities = f'tls-cert = "{hosts.server}"\n', f'tls-ca = "{hosts.authority.path}"\n'
    (file.parent / "empty.pem").touch()
    told = checked(command, file, f'{certificate}tls-ca = "empty.pem"\nconnections = 1000000000000\n{HEAD}{ONE}')
    assert told.pop(0).startswith("error: c.toml:3: too few open files are allowed for")
    assert told == [
        "error: c.toml:2: host authentication: empty.pem holds no certificate in PEM; name a file that does (tls-ca)"
    ]
    told = checked(command, file, f'{certificate}{authorities}rpcrdma-version = "1"\n{HEAD}{ONE}')
    assert [line.partition("; ")[0] for line in told] == [
        "error: c.toml:3: host authentication: it is required, and version 1 of RPC-over-RDMA has none"
    ]
    names = f'{certificate}{authorities}tls-name = ["client.example"]\n{HEAD}{ONE}'
    assert checked(command, file, f'{names}xprtsec = "mtls"\n', status=0) == []
    assert checked(command, file, names, status=0) == [], "host authentication is required"
    assert checked(command, file, f'{names}xprtsec = "tls"\n', status=0) == [
        'warning: c.toml:3: a client without a certificate needs none of these names; ask for one: xprtsec = "mtls"'
    ]


def test_a_path_of_the_wrong_kind_is_a_mistake(command: Command, file: Path) -> None:
    for setting, told in (
        ('admin = "/"', "/: there is no name of a socket at its end; name another path"),
        ('admin = "one"', "one is no socket; remove it, or name another path"),
        ('keytab = "one"', "one is no regular file; name a keytab"),
        ('access-log = "one"', "one is no regular file; name another one"),
        ('access-log = "none/log"', "there is no directory none; make it"),
    ):
        assert checked(command, file, f"{setting}\n{HEAD}{ONE}") == [f"error: c.toml:1: {told}"]
    state = file.parent / "state"
    state.mkdir()
    (state / "file-handle.key").write_bytes(bytes(7))
    (state / "file-handle.key").chmod(0o600)
    told = "state/file-handle.key has 7 octets, no key of 32: remove it to get a new one"
    assert checked(command, file, HEAD + ONE) == [f"error: c.toml:2: {told}"]


def test_all_settings_are_checked_if_there_is_no_export(command: Command, file: Path) -> None:
    assert checked(command, file, f'{HEAD}keytab = "none"\n') == [
        "error: c.toml: there is no export; write [[export]], or name a directory",
        "error: c.toml:3: none cannot be read; name a keytab that this user may read",
    ]


RULES = """\
[[export.rule]]
[[export.rule]]
principals = ["a@B"]
[[export.rule]]
certificates = ["host.example"]
"""
OF_RULES = [
    "error: c.toml:9: no call can match this rule behind that of c.toml:8; move it up, or leave it out",
    'error: c.toml:10: principals take a proof by Kerberos; add sec = ["krb5p"], krb5i or krb5',
    "error: c.toml:11: no call can match this rule behind that of c.toml:8; move it up, or leave it out",
    'error: c.toml:12: no host can prove a certificate; set tls-ca and tls-cert, and xprtsec = "mtls" for TCP',
]
"""The mistakes of the rules behind seven other lines."""


@each_case(
    ("first", "seventh", "told", "of_rules"),
    [
        ("#", "#", [], OF_RULES),
        ("#", 'access = "maybe"', ["error: c.toml:7: access is 'maybe'"], OF_RULES),
        ("#", "squosh = 1", ["error: c.toml:7: unknown key 'squosh'; did you mean squash?"], OF_RULES),
        ("workers = 0", "#", ["error: c.toml:1: workers: '0' is not a number"], OF_RULES),
        # Nothing is said about values that are not known.
        ("#", 'hosts = ["10.1"]', ["error: c.toml:7: hosts: '10.1' is no host"], [OF_RULES[1], OF_RULES[3]]),
        ("#", "hots = 1", ["error: c.toml:7: unknown key 'hots'; did you mean hosts?"], [OF_RULES[1], OF_RULES[3]]),
        ("#", "sec = 1", ["error: c.toml:7: sec is a whole number"], [OF_RULES[0], *OF_RULES[2:]]),
        ("defaults.sec = 1", "#", ["error: c.toml:1: sec is a whole number"], [OF_RULES[0], *OF_RULES[2:]]),
        ("tls-ca = 1", "#", ["error: c.toml:1: tls-ca is a whole number"], OF_RULES[:3]),
    ],
)
def test_mistakes_of_rules_are_told_beside_others(
    command: Command, file: Path, first: str, seventh: str, told: list[str], of_rules: list[str]
) -> None:
    lines = checked(command, file, f"{first}\n{HEAD}{ONE}{seventh}\n{RULES}")
    assert [line for line in lines if line in OF_RULES] == of_rules
    others = [line for line in lines if line not in OF_RULES]
    assert [line[: len(each)] for line, each in zip(others, told, strict=True)] == told


def test_a_mistaken_setting_of_a_file_leads_to_no_mistake_about_another(command: Command, file: Path) -> None:
    for setting, told in (
        ("tls-cert = 1", "tls-cert is a whole number; write a text in quotes"),
        ("state-dir = 1", "state-dir is a whole number; write a text in quotes"),
        ('access-log = 1\naudit = ["mount"]', "access-log is a whole number; write a text in quotes"),
    ):
        text = f'{setting}\nlisten = ["tcp://127.0.0.1:0"]\n{ONE}xprtsec = "tls"\n'
        line = text.count("\n")
        lacking = [f"error: c.toml:{line}: TLS takes a certificate of this host; name its files (tls-cert, tls-key)"]
        follows = [] if setting.startswith("tls") else lacking
        assert checked(command, file, text) == [f"error: c.toml:1: {told}", *follows]


def test_the_hosts_without_an_address_of_many_rules_are_found_without_comparing_each_rule_with_each(file: Path) -> None:
    counts = []
    for number in (50, 200):
        rules = "".join(f'[[export.rule]]\nhosts = ["h{each}"]\naccess = "ro"\n' for each in range(number))
        file.write_text(ONE + rules)
        (export,) = effective(build_parser().parse_args(["serve", "--config", str(file)])).exports
        counts.append(functions_entered(lambda export=export: list(faults_of_hosts(export, HostNames()))))
    assert counts[1] < 5 * counts[0]
