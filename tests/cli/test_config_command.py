"""`serve --config`, `serve --check` and `config`: which values take effect, and all that a check finds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rpcrdma.cli.main import build_parser
from rpcrdma.cli.settings import check
from rpcrdma.cli.settings.effective import effective
from rpcrdma.cli.settings.table import OF_EXPORTS, OF_SERVER
from rpcrdma.file_limits import CONFIGURATION_FAULTS_MAX
from support.cases import each_case

if TYPE_CHECKING:
    from support.commands import Command

FILE = """\
provider = "iwarp"
listen = ["tcp://127.0.0.1:0"]
log-level = "debug"
tls-name = ["a.example", "b.example"]
[defaults]
sync = false
sec = ["krb5", "sys"]
[[export]]
name = "/one"
directory = "one"
[[export]]
name = "/two"
directory = "one"
access = "ro"
sync = true
hosts = ["192.0.2.0/24"]
squash = "all"
anonuid = 7
"""

STARTING = FILE.replace("tls-name", "# tls-name")
"""The file without names of hosts, for which there are no authorities."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "one").mkdir()
    path = tmp_path / "c.toml"
    path.write_text(FILE)
    return path


def test_the_command_line_goes_before_the_file_and_the_file_before_the_default(file: Path) -> None:
    def values(*options: str) -> dict[str, tuple[object, str]]:
        found = effective(build_parser().parse_args([*options, "serve", "--config", str(file)]))
        return {name: (value, origin.removeprefix(f"{file}:")) for name, (value, origin) in found.server.items()}

    found = values()
    assert (found["provider"], found["workers"]) == (("iwarp", "1"), (8, "default"))
    assert found["tls-name"] == (["a.example", "b.example"], "4")
    # An option that a client has as well may stand before the command, also with the default as its value.
    assert values("--provider", "auto")["provider"] == ("auto", "command line")
    assert values("--tls-name", "c")["tls-name"] == (["c"], "command line"), "a list replaces the file's"
    assert values("--log-level", "error")["log-level"] == ("error", "command line")
    assert values("-v")["log-level"] == (None, "command line")


def test_an_export_has_its_own_terms_else_the_defaults(file: Path) -> None:
    def exports(*options: str) -> list[tuple[object, ...]]:
        found = effective(build_parser().parse_args(["serve", "--config", str(file), *options])).exports
        return [(each.name, each.access, each.sync, each.squash, each.anonuid, tuple(each.hosts)) for each in found]

    assert exports() == [("/one", "rw", False, "root", 65534, ()), ("/two", "ro", True, "all", 7, ("192.0.2.0/24",))]
    # An option is one of the defaults; --read-only is a promise for all exports.
    assert exports("--no-root-squash", "--read-only", "--allow", "10.0.0.1") == [
        ("/one", "ro", False, "none", 65534, ("10.0.0.1",)),
        ("/two", "ro", True, "all", 7, ("192.0.2.0/24",)),
    ]
    assert exports("--export", "x=/x") == [("/x", "rw", False, "root", 65534, ())], "exports replace the file's"
    assert exports("/y")[0][0] == "/"


def test_every_setting_of_a_file_has_its_option_or_none(file: Path) -> None:
    text = build_parser(whole=True)._subparsers._group_actions[0].choices["serve"].format_help()
    without = {setting.name for setting in (*OF_SERVER, *OF_EXPORTS) if setting.long_option is None}
    assert without == {
        "anonuid", "anongid", "groups", "mount-point", "missing", "transports", "versions", "hidden", "reserved-port",
    }  # fmt: skip
    # From Python 3.13 on a comma follows an option that has another spelling.
    shown = set(text.replace(",", " ").split())
    assert [s.name for s in (*OF_SERVER, *OF_EXPORTS) if s.long_option and s.long_option not in shown] == []


def test_config_show_names_each_origin(command: Command, file: Path) -> None:
    ran = command.done("config", "show", "--config", str(file), "--workers", "3", "--metrics", "[::1]:9400")
    rows = [line.split() for line in ran.text.replace(f"{file}:", "line ").splitlines()]
    for row in (
        'provider "iwarp" line 1',
        'tls-name ["a.example", "b.example"] line 4',
        "workers 3 command line",
        'metrics "[::1]:9400" command line',
        "memory 268435456 default",
        "keytab (the system's, /etc/krb5.keytab) default",
        "idle-timeout (3600 for RDMA, 360 for TCP) default",
        "tls-cert - default",
        'sec ["krb5", "sys"] line 7',
        'name "/one" line 9',
        f'directory "{file.parent}/one" line 10',
        'hosts ["192.0.2.0/24"] line 16',
    ):
        assert row.split() in rows
    told = json.loads(command.done("config", "show", "--json", "--config", str(file)).text)
    assert told["server"]["listen"] == {"value": ["tcp://127.0.0.1:0"], "origin": f"{file}:2"}
    assert told["exports"][1]["terms"]["anonuid"] == {"value": 7, "origin": f"{file}:18"}
    assert told["exports"][1]["origin"] == f"{file}:11"


def test_a_user_without_a_home_has_to_name_the_directory_of_the_state(
    command: Command, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr("os.geteuid", lambda: 12345)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    ran = command.run("config", "show", str(file.parent))
    assert (ran.status, ran.err) == (
        1,
        "error: this user has no home directory for the server's state\nhint: name one with --state-dir\n",
    )
    command.done("config", "show", "--state-dir", "/state", str(file.parent))


def test_an_option_before_the_word_serve_has_the_values_that_servers_take(command: Command, file: Path) -> None:
    before = ["--sec", "krb5p", "--tls-cert", "credential:c", "--tls-name", "h.example"]
    of_show = json.loads(command.done(*before, "config", "show", "--json", str(file.parent)).text)
    assert of_show["defaults"]["sec"] == {"value": ["krb5p"], "origin": "command line"}
    assert of_show["server"]["tls-cert"]["value"] == "credential:c"
    ran = command.run(*before, "serve", "--check", str(file.parent))
    assert "command line: credential:c is for a service of systemd" in ran.err
    ran = command.run("--tls-name", "*", "serve", "--check", str(file.parent))
    assert (ran.status, ran.err.startswith("error: argument --tls-name: '*' is not the name of a host; ")) == (2, True)


def test_a_check_tells_all_that_this_machine_lacks(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    (tmp_path / "in" / "below").mkdir(parents=True)
    file.write_text(
        """\
keytab = "none.keytab"
state-dir = "in/below"
workers = 0
[[export]]
name = "/absent"
directory = "absent"
[[export]]
name = "/in"
directory = "in"
squash = "none"
hosts = ["host.invalid"]
[[export]]
name = "/in"
directory = "in/below"
squash = "none"
[[export]]
name = "/url"
url = "file:///srv"
xprtsec = "tls"
"""
    )
    ran = command.run("serve", "--config", str(file), "--check")
    assert (ran.status, ran.text) == (2, "")
    here = f"{tmp_path}/"
    told = ran.err.replace(here, "").splitlines()
    unknown = next(line for line in told if "host.invalid" in line)
    assert unknown.startswith("warning: c.toml:11: host.invalid: neither an address, a network nor a host name (")
    assert unknown.endswith("; correct the name, or write its address")
    told.remove(unknown)
    holds_state = (
        "the export /in has the directory of the server's state, in/below; set state-dir to one that is not exported"
    )
    assert told == [
        "error: c.toml:3: workers: '0' is not a number of at least 1",
        "error: c.toml:12: the name /in is that of an earlier export (c.toml:7); give each its own",
        "warning: c.toml:4: absent: no such file or directory; make the directory, or name another one",
        'warning: c.toml:15: squash "none" lets every host act as root in /in; name hosts, or ask for krb5 or mtls',
        f"error: c.toml:7: {holds_state}",
        f"error: c.toml:12: {holds_state}",
        "warning: c.toml:12: in/below lies within the export /in, whose terms hold for it as well; compare both",
        "error: c.toml:19: TLS takes a certificate of this host; name its files (tls-cert, tls-key)",
        "error: c.toml:1: none.keytab cannot be read; name a keytab that this user may read",
    ]


@each_case(
    ("settings", "told"),
    [
        ('url = "nosuch://srv"', "5: nosuch://srv: fsspec knows no protocol 'nosuch'; correct it, or name a directory"),
        ('url = "zip::nosuch://u:p@srv"', "5: zip::nosuch://u:...@srv: fsspec knows no protocol 'nosuch'; correct it"),
        ('url = "zip::archive.zip"', ""),
        ('url = "zip::file:///archive.zip"', ""),
        ('directory = "one"\n#', ""),
    ],
)
def test_a_check_names_a_url_whose_package_is_missing(command: Command, file: Path, settings: str, told: str) -> None:
    file.write_text(f'listen = ["tcp://127.0.0.1:0"]\nstate-dir = "state"\n\n\n[[export]]\nname = "/x"\n{settings}\n')
    ran = command.run("serve", "--config", str(file), "--check")
    assert ran.status == (2 if told else 0), ran.err
    assert told in ran.err
    assert not (file.parent / "state").exists(), "a check changes nothing"


def test_the_state_is_exported_neither_by_a_symbolic_link_nor_at_the_start(command: Command, file: Path) -> None:
    (file.parent / "link").symlink_to(file.parent)
    for source in ('directory = "link"', 'directory = "one/.."', 'directory = "."', f'url = "file://{file.parent}"'):
        export = f'[[export]]\nname = "/x"\n{source}\n'
        file.write_text(f'listen = ["tcp://127.0.0.1:0"]\nstate-dir = "state"\n{export}')
        for options in ([], ["--check"]):
            ran = command.run("serve", "--config", str(file), *options)
            assert ran.status == 2, source
            assert f"c.toml:3: the export /x has the directory of the server's state, {file.parent}/state; " in ran.err
    state = str(file.parent / "link" / "state")
    ran = command.run("serve", "--state-dir", state, "--listen", "tcp://127.0.0.1:0", str(file.parent))
    assert ran.status == 2
    told = f"error: command line: the export / has the directory of the server's state, {file.parent}/state; "
    assert ran.err == told + "set --state-dir to one that is not exported\n"


def test_a_check_looks_at_an_export_whose_table_has_mistakes(command: Command, file: Path) -> None:
    file.write_text(
        """\
state-dir = "state"
[[export]]
name = "/a"
directory = "gone"
access = "wr"
hosts = ["host.invalid"]
[[export]]
directory = "lost"
[[export]]
name = "/a"
url = "file:///gone"
missing = "fail"
"""
    )
    ran = command.run("serve", "--config", str(file), "--check")
    told = [line.replace(f"{file.parent}/", "").partition(" (")[0] for line in ran.err.splitlines()]
    store = "cannot export file:///gone: nothing is there"
    assert (ran.status, told[:3], sorted(told[3:])) == (
        2,
        [
            'error: c.toml:5: access is \'wr\'; write "rw", "ro" or "none"',
            'error: c.toml:7: an export has no name; write name = "/NAME", or "/" for the root',
            "error: c.toml:9: the name /a is that of an earlier export",
        ],
        [
            f"error: c.toml:9: {store}; check that the store runs and has this directory, or correct the URL",
            "warning: c.toml:2: gone: no such file or directory; make the directory, or name another one",
            "warning: c.toml:6: host.invalid: neither an address, a network nor a host name",
            "warning: c.toml:7: lost: no such file or directory; make the directory, or name another one",
        ],
    )


def test_a_server_names_its_files_by_whole_paths(command: Command, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("a = 1\n")
    monkeypatch.chdir(file.parent)
    assert command.run("serve", "--config", file.name).err.startswith(f"error: {file}:1: ")
    assert command.run("serve", "--config", file.name, "--check").err.startswith(f"error: {file.name}:1: ")


def test_a_check_finds_a_state_directory_that_cannot_be_made_or_used(command: Command, file: Path) -> None:
    (file.parent / "taken").touch()
    for state, place in (("taken", "taken"), ("taken/below/state", "taken")):
        ran = command.run("serve", "--check", "--state-dir", str(file.parent / state), str(file.parent / "one"))
        at = file.parent / place
        assert ran.status == 2
        told = f"error: command line: {at} is no directory, so that it cannot hold the state; set another state-dir\n"
        assert ran.err == told
    newer = file.parent / "newer"
    newer.mkdir()
    (newer / "format").write_text("99\n")
    ran = command.run("serve", "--check", "--state-dir", str(newer), str(file.parent / "one"))
    assert ran.status == 2
    assert ran.err.startswith(
        f"error: command line: {newer} has format 99, and this version of rpcrdma knows formats up"
    )


RULES = """\
state-dir = "state"
[[export]]
name = "/r"
directory = "one"
access = "none"
squash = "all"
[[export.rule]]
hosts = ["10.0.0.0/8", "h"]
access = "rw"
squash = "none"
[[export.rule]]
principals = ["*@LAB"]
sec = ["krb5p"]
hosts = ["*"]
"""


def test_a_rule_has_its_own_terms_else_those_of_the_export(command: Command, file: Path) -> None:
    file.write_text('[defaults]\nhosts = ["192.0.2.0/24"]\nanonuid = 7\n' + RULES.partition("\n")[2])
    args = build_parser().parse_args(["serve", "--config", str(file)])
    (export,) = effective(args).exports
    assert [(each.access, each.squash, each.anonuid, each.hosts) for each in (*export.rules, export)] == [
        ("rw", "none", 7, ["10.0.0.0/8", "h"]),
        ("none", "all", 7, ["*"]),
        ("none", "all", 7, ["192.0.2.0/24"]),
    ]
    shown = command.done("config", "show", "--config", str(file)).text.replace(f"{file}:", "line ")
    rows = [line.split() for line in shown.partition("[[export]]")[2].splitlines() if line]
    assert rows[rows.index(["[[export.rule]]", "line", "9"]) :] == [
        ["[[export.rule]]", "line", "9"],
        ["access", '"rw"', "line", "11"],
        ["squash", '"none"', "line", "12"],
        ["hosts", '["10.0.0.0/8",', '"h"]', "line", "10"],
        ["[[export.rule]]", "line", "13"],
        ["sec", '["krb5p"]', "line", "15"],
        ["hosts", '["*"]', "line", "16"],
        ["principals", '["*@LAB"]', "line", "14"],
    ]
    told = json.loads(command.done("config", "show", "--json", "--config", str(file)).text)
    rules = told["exports"][0]["rules"]
    assert [rule["origin"] for rule in rules] == [f"{file}:9", f"{file}:13"]
    assert rules[0]["terms"]["anonuid"] == {"value": 7, "origin": f"{file}:3"}
    # A promise for all exports is one for all their rules.
    args = build_parser().parse_args(["serve", "--config", str(file), "--read-only"])
    (export,) = effective(args).exports
    assert [each.access for each in (*export.rules, export)] == ["ro", "none", "none"]


@each_case(
    ("rules", "told"),
    [
        ("", []),
        ('[[export.rule]]\nhosts = ["h", "10.1.0.0/16"]', ["15: no call can match this rule behind that of c.toml:7"]),
        ('[[export.rule]]\nhosts = ["10.0.0.7"]\nprincipals = ["a@B"]\nsec = ["krb5"]', ["15: no call can match"]),
        ('[[export.rule]]\nhosts = ["10.0.0.0/7"]', []),
        ('[[export.rule]]\nhosts = ["i"]', []),
        ('[[export.rule]]\nprincipals = ["a@LAB"]\nsec = ["krb5"]', ["15: no call can match this rule behind that of"]),
        ('[[export.rule]]\nprincipals = ["a@B"]\nsec = ["krb5"]', []),
        ("[[export.rule]]\n[[export.rule]]", ["16: no call can match this rule behind that of c.toml:15"]),
        (
            '[[export.rule]]\naccess = "ro"\nhosts = ["i"]\nprincipals = ["a@B"]',
            ['18: principals take a proof by Kerberos; add sec = ["krb5p"], krb5i or krb5'],
        ),
        ('[[export.rule]]\ncertificates = ["a"]', ["16: no host can prove a certificate; set tls-ca and tls-cert"]),
    ],
)
def test_rules_that_no_call_can_match_are_mistakes(file: Path, rules: str, told: list[str]) -> None:
    file.write_text(RULES + rules)
    found = effective(build_parser().parse_args(["serve", "--config", str(file)])).faults
    assert [fault.place for fault in found] == [f"{file}:{text.partition(':')[0]}" for text in told]
    texts = [fault.text.replace(f"{file.parent}/", "") for fault in found]
    assert [
        text for text, start in zip(texts, told, strict=True) if not text.startswith(start.partition(": ")[2])
    ] == []


def test_a_check_doubts_rules_that_trust_every_host_and_versions_that_are_not_served(
    command: Command, file: Path
) -> None:
    hosts = ['["0.0.0.0/1"]', '["::/0"]', '["192.0.2.7", "0.0.0.0/0"]', '["*"]']
    rule = '[[export.rule]]\naccess = "ro"\nsquash = "none"\nhosts = '
    more = "".join(f"{rule}{each}\n" for each in hosts)
    file.write_text('nfs = "4"\n' + RULES + more + '[[export]]\nname = "/3"\ndirectory = "one"\nversions = [3]\n')
    ran = command.run("serve", "--config", str(file), "--check")
    told = [
        line.replace(f"{file}:", "")
        for line in ran.err.splitlines()
        if "lies within" not in line and " h: " not in line
    ]
    doubt = 'squash "none" lets every host act as root in /r; name hosts, or ask for krb5 or mtls'
    assert told == [
        *(f"warning: {line}: {doubt}" for line in (22, 26, 30)),
        "error: 35: no version of /3 is served, since nfs is 4; change one of both",
    ]


def test_a_check_doubts_a_rule_that_trusts_every_host_by_the_squash_of_an_export_that_does_not(
    command: Command, file: Path
) -> None:
    rules = '[[export.rule]]\nhosts = ["0.0.0.0/0"]\n[[export.rule]]\nhosts = ["::/0"]\n'
    file.write_text(
        f'[[export]]\nname = "/r"\ndirectory = "one"\nsquash = "none"\naccess = "ro"\nhosts = ["::1"]\n{rules}'
    )
    told = [line for line in command.run("serve", "--config", str(file), "--check").err.splitlines() if "root" in line]
    assert told == [
        f'warning: {file}:4: squash "none" lets every host act as root in /r; name hosts, or ask for krb5 or mtls'
    ]


def test_a_long_key_is_not_printed_whole(command: Command, file: Path) -> None:
    file.write_text("x" * 900_000 + " = 1\n")
    ran = command.run("serve", "--config", str(file), "--check")
    assert ran.status == 2
    assert len(ran.err) < 700
    assert ran.err.endswith("config show lists the known ones\n")


def test_a_check_as_json_is_one_object(command: Command, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text('metrics = "127.0.0.1:0"\n' + STARTING)
    monkeypatch.setattr(check, "is_installed", lambda package: package != "prometheus_client")
    for words in (["--check"], []):
        ran = command.run("serve", "--config", str(file), *words)
        told = f"error: {file}:1: metrics takes the package prometheus-client; pip install prometheus-client\n"
        assert (told in ran.err, ran.status) == (True, 2)
    file.write_text(STARTING)
    for there in (False, True):
        # The file has a rule of Kerberos.
        monkeypatch.setattr(check, "is_installed", lambda package, there=there: there or package != "gssapi")
        ran = command.run("serve", "--config", str(file), "--check")
        assert ("error: " + f"{file}:7: Kerberos takes the package gssapi; " in ran.err, ran.status) == (
            (False, 0) if there else (True, 2)
        )
        if not there:
            started = command.run("serve", "--config", str(file))
            assert (started.err.splitlines()[-1], started.status) == (ran.err.splitlines()[-1], 2)
    ran = command.run("serve", "--config", str(file), "--check", "--json")
    assert ran.status == 0
    (fault,) = json.loads(ran.text)["faults"]
    assert (fault["place"], fault["severity"]) == (f"{file}:11", "warning")
    assert json.loads(ran.text)["ok"] is True
    file.write_text("a = 1\nb = 1\n")
    ran = command.run("serve", "--config", str(file), "--check", "--json")
    told = json.loads(ran.text)
    assert (ran.status, told["ok"], [fault["place"] for fault in told["faults"]]) == (
        2,
        False,
        [f"{file}:1", f"{file}:2"],
    )


def test_a_server_does_not_start_with_a_mistake_in_its_file(
    command: Command, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "is_installed", lambda package: True)
    file.write_text(STARTING + "".join(f"x{number} = 1\n" for number in range(CONFIGURATION_FAULTS_MAX + 5)))
    ran = command.run("serve", "--config", str(file))
    assert ran.status == 2
    assert len(ran.err.splitlines()) == CONFIGURATION_FAULTS_MAX + 1
    assert ran.err.splitlines()[-1] == "and 5 more"
    file.write_text("")
    ran = command.run("serve", "--config", str(file))
    assert (ran.status, ran.err.splitlines()[0]) == (
        2,
        f"error: {file}: there is no export; write [[export]], or name a directory",
    )


@pytest.mark.thorough
@each_case(
    ("setting", "told", "remedy", "checked"),
    [
        ('state-dir = "c.toml/state"', "cannot use the state directory: ", "name another place with state-dir", 2),
        ('access-log = "none/log"', "cannot write the access log: ", "user may write (access-log)", 2),
        ('listen = ["tcp://192.0.2.1:1"]', "cannot listen at tcp://192.0.2.1:1: ", "of this machine", 0),
        ('metrics = "192.0.2.1:1"', "cannot offer metrics at 192.0.2.1:1: ", "choose another address", 0),
        ('admin = "none/socket"', "", "or name another path (admin PATH)", 2),
        ('admin = "/"', "cannot listen at /: there is no name of a socket", "or name another path (admin PATH)", 2),
    ],
)
def test_a_start_that_fails_by_a_setting_of_the_file_names_its_line_and_its_key(
    command: Command, file: Path, setting: str, told: str, remedy: str, checked: int
) -> None:
    settings = ['listen = ["tcp://127.0.0.1:0"]', 'state-dir = "state"', 'admin = "off"']
    key = setting.partition(" ")[0]
    settings = [each for each in settings if not each.startswith(key)]
    file.write_text("\n".join([*settings, setting, '[[export]]\nname = "/a"\ndirectory = "one"\n']))
    ran = command.run("serve", "--config", str(file))
    complaint, hint = ran.err.splitlines()
    assert (ran.status, complaint.startswith(f"error: {file}:{len(settings) + 1}: {told}")) == (1, True), complaint
    assert hint.startswith("hint: ")
    assert hint.endswith(remedy)
    assert command.run("serve", "--config", str(file), "--check").status == checked


@each_case("config", [False, True])
def test_tls_without_a_certificate_is_told_at_the_start_where_it_is_asked_for(
    command: Command, file: Path, config: bool
) -> None:
    file.write_text('[[export]]\nname = "/a"\ndirectory = "one"\nxprtsec = "tls"\n')
    words = ["--config", str(file)] if config else ["--xprtsec", "tls", str(file.parent)]
    ran = command.run("serve", *words)
    told = "TLS takes a certificate of this host"
    assert (ran.status, ran.err) == (
        2,
        f"error: {file}:4: {told}; name its files (tls-cert, tls-key)\n"
        if config
        else f"error: {told}\nhint: name its files (--tls-cert, --tls-key)\n",
    )
