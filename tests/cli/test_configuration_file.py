"""The configuration file of `serve`: every value has its line, and every mistake is told with it, all at once."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest

from debian_package import configuration
from rpcrdma.cli.settings import toml_lines
from rpcrdma.cli.settings.file import read_configuration
from rpcrdma.cli.settings.table import NAME_OF_EXPORT, OF_EXPORTS, OF_RULES, OF_SERVER, SOURCES_OF_EXPORT
from rpcrdma.cli.settings.toml_lines import key_lines, line_of
from rpcrdma.commands.setting import Renewal
from rpcrdma.file_limits import CONFIGURATION_FILES_MAX, CONFIGURATION_OCTETS_MAX
from rpcrdma.nfs.export.access_terms import ANONYMOUS
from rpcrdma.nfs.export.export_limits import NFS_FSSPEC_VALID_S
from support.cases import each_case
from support.open_files import open_files

TEXT, NUMBER, SECONDS, SWITCH = "a text in quotes", "a whole number", "a number", "true or false"
ACCOUNT = "a name in quotes, or a whole number"
LIST, SIZE = 'a list such as ["..."]', 'a size such as "64Mi"'
SERVER = {
    **dict.fromkeys(
        ("nfs", "admin", "state-dir", "keytab", "provider", "rpcrdma-version", "extension", "metrics", "register"), TEXT
    ),
    **dict.fromkeys(("tls-cert", "tls-key", "tls-ca", "host-auth", "log-level"), TEXT),
    **dict.fromkeys(("busy-poll", "workers", "connections", "connections-per-host", "calls-per-host"), NUMBER),
    "listen": LIST,
    "tls-name": LIST,
    "access-log": TEXT,
    "audit": LIST,
    "idle-timeout": SECONDS,
    "memory": SIZE,
    "crc": SWITCH,
}
EXPORT = {
    "access": TEXT,
    "squash": TEXT,
    "xprtsec": TEXT,
    "anonuid": ACCOUNT,
    "anongid": ACCOUNT,
    "sync": SWITCH,
    "mount-in-clear": SWITCH,
    "sec": LIST,
    "hosts": LIST,
    "transports": LIST,
    "versions": LIST,
    "hidden": SWITCH,
    "reserved-port": SWITCH,
    "fsspec-valid": SECONDS,
    "mount-point": SWITCH,
    "missing": TEXT,
    "groups": TEXT,
}
WRONG = {
    TEXT: {"3": "a whole number", "true": "true or false", '["a"]': "a list"},
    NUMBER: {'"3"': "a text", "3.0": "a number", "false": "true or false", "1979-05-27": "a time"},
    SECONDS: {'"3"': "a text", "true": "true or false"},
    SWITCH: {'"yes"': "a text", "1": "a whole number"},
    LIST: {'"a"': "a text", "{ a = 1 }": "a table"},
    ACCOUNT: {"3.0": "a number", "false": "true or false"},
    SIZE: {"1.5": "a number", "[1]": "a list"},
}
GOOD = '[[export]]\nname = "/a"\ndirectory = "/srv/a"\n'


def faults_of(tmp_path: Path, text: str) -> list[str]:
    """The mistakes of a file, without its folder."""
    file = tmp_path / "c.toml"
    file.write_text(text)
    return [str(fault).removeprefix(f"{tmp_path}/") for fault in read_configuration(file).faults]


def test_a_value_of_another_type_is_told_for_each_key(tmp_path: Path) -> None:
    assert set(SERVER) == {setting.name for setting in OF_SERVER}
    assert set(EXPORT) == {setting.name for setting in OF_EXPORTS}
    for head, settings in (("", SERVER), ("[defaults]", EXPORT), (GOOD, {**EXPORT, "name": TEXT})):
        line = head.count("\n") + 2
        for key, wanted in settings.items():
            for value, found in WRONG[wanted].items():
                text = f"{head.replace('name =', '# ') if key == 'name' else head}\n{key} = {value}\n"
                first = faults_of(tmp_path, text)[0]
                assert first == f"c.toml:{line}: {key} is {found}; write {wanted}"


@each_case(
    ("text", "told"),
    [
        ("squish = 1", "1: unknown key 'squish'; did you mean squash?"),
        ("wokers = 1", "1: unknown key 'wokers'; did you mean workers?"),
        ("zzz = 1", "1: unknown key 'zzz'; rpcrdma config show lists the known ones"),
        ("[defaults.more]", "1: unknown key 'more'; rpcrdma config show lists the known ones"),
        ('squash = "all"', "1: squash belongs to an export; write it below [[export]] or [defaults]"),
        (GOOD + "workers = 2", "4: workers belongs to the server; write it above the first line in brackets"),
        (GOOD + "connections-per-host = 2", "4: connections-per-host belongs to the server; write it above the first"),
        ("calls-per-host = 0", "1: calls-per-host: '0' is not a number of at least 1"),
        ("workers = 0", "1: workers: '0' is not a number of at least 1"),
        ("busy-poll = 2000000", "1: busy-poll: '2000000' is not a number of microseconds from 0 to 1000000"),
        ("idle-timeout = -1", "1: idle-timeout: '-1' is not a positive number of seconds, nor 0 for never"),
        ("idle-timeout = nan", "1: idle-timeout: 'nan' is not a positive number of seconds, nor 0 for never"),
        ("memory = 1024", "1: memory: '1024' is too small; allow at least 8Mi"),
        ('memory = "much"', "1: memory: 'much' is not a size: write 500000, 50M or 64Mi"),
        ('metrics = "9400"', "1: metrics: '9400' is not HOST:PORT: write 127.0.0.1:9400 or [::1]:9400"),
        *(
            (f'metrics = "{text}"', f"1: metrics: '{text}' is not HOST:PORT: write 127.0.0.1:9400 or [::1]:9400")
            for text in ("::1:9400", "[::1:9400", "::1]:9400", "[]:9400", "[h]:9400x")
        ),
        ('nfs = "2"', '1: nfs is \'2\'; write "3,4", "3" or "4"'),
        ('keytab = ""', "1: keytab is empty; write a text"),
        ('keytab = "a\\u0000"', "1: keytab has a null character; write a text"),
        ('tls-name = ["*.a"]', "1: tls-name: '*.a' is not the name of a host"),
        ("listen = []", "1: listen is empty; leave it out for the default"),
        ('listen = ["tcp://a", "tcp://a"]', "1: listen has 'tcp://a' twice; leave one out"),
        ("listen = [1]", "1: an item of listen is a whole number; write a text in quotes"),
        ('[defaults]\nsec = ["krb5", "des"]', "2: sec: 'des' is no security flavor: choose from"),
        ('[defaults]\nsec = ["krb5:sys"]', "2: sec has 'krb5:sys'; write each item in quotes of its own"),
        ('[defaults]\naccess = "no"', '2: access is \'no\'; write "rw", "ro" or "none"'),
        ("[defaults]\nanonuid = -2", "2: anonuid: '-2' is no user of this machine, and no number from 0 to 4294967294"),
        ("[defaults]\nanongid = 4294967295", "2: anongid: '4294967295' is no group of this machine, and no number"),
        ('[defaults]\nanonuid = "no such user"', "2: anonuid: 'no such user' is no user of this machine"),
        ("[defaults]\nversions = [3, 5]", "2: versions is '5'; write 3 or 4"),
        ('[defaults]\ntransports = ["udp"]', '2: transports is \'udp\'; write "tcp" or "rdma"'),
        ('[defaults]\nprincipals = ["*@A"]', "2: principals belongs to a rule; write it below [[export.rule]]"),
        ("[[rule]]", "1: unknown key 'rule'; rpcrdma config show lists the known ones"),
        (GOOD + "rule = 1", "4: rule is no array of tables; write [[export.rule]] before each rule of the export"),
        (GOOD + '[[export.rule]]\nname = "/b"', "5: name belongs to an export; write it below [[export]]"),
        *(
            (GOOD + f'hosts = ["h", "{host}"]', f"4: hosts: '{host}' is no host: write an address")
            for host in (
                "010.0.0.1",
                "10.1",
                "0x7f000001",
                "10.0.0.0/33",
                "10.0.0.0/0.0.0.255",
                "*.example.org",
                "@group",
                "[::1]",
                "a b",
            )
        ),
        (GOOD + 'hosts = ["fe80::1%lo"]', "4: hosts: 'fe80::1%lo': rules do not tell interfaces apart"),
        (GOOD + "[[export.rule]]\nhots = []", "5: unknown key 'hots'; did you mean hosts?"),
        (
            GOOD + "[[export.rule]]\nsync = false",
            "5: sync belongs to an export; write it below [[export]] or [defaults]",
        ),
        (GOOD + '[[export.rule]]\n[[export.rule]]\nprincipals = ["a"]', "6: principals: 'a' is no principal: write"),
        (GOOD + '[[export.rule]]\ncertificates = ["*.a"]', "5: certificates: '*.a' is not the name of a host"),
        (
            '[[export]]\nname = "/a"\nurl = "s3://b"\n[[export.rule]]\naccess = "rw"',
            '5: a url is exported read-only; leave out access, or write "ro"',
        ),
        ("read-only = true", '1: read-only is an option of the command line; write access = "ro" below [[export]]'),
        (GOOD + "no-root-squash = true", '4: no-root-squash is an option of the command line; write squash = "none"'),
        (GOOD + 'allow = ["a"]', "4: allow is an option of the command line; write hosts below [[export]]"),
        ('[[export]]\nname = "/a"\ndirectory = "~/a"', "3: directory: '~/a': ~ is not expanded here; write the whole"),
        (".".join(["a"] * 260_000) + " = 1", "1: a key has more than 64 names; write tables instead"),
        ("\n[" + ".".join(["a"] * 65) + "]", "2: a key has more than 64 names; write tables instead"),
        ("# " + "." * 65 + "\n" + f'keytab = "{"a." * 65}"\nz = 1', "3: unknown key 'z'; rpcrdma config show lists"),
        ("defaults = 1", "1: defaults is no table; write [defaults], and its keys below"),
        ("\n[[exports]]", "2: unknown key 'exports'; did you mean export?"),
        ("\n[export.more]", "2: export is no array of tables; write [[export]] before each export"),
        ("[export]", "1: export is no array of tables; write [[export]] before each export"),
        ('[[export]]\ndirectory = "/a"', '1: an export has no name; write name = "/NAME", or "/" for the root'),
        ('[[export]]\nname = "a"\ndirectory = "/a"', "2: name: 'a' is not the name of an export; write /a"),
        ('[[export]]\nname = "/../a"\ndirectory = "/a"', "2: name: '/../a' is not the name of an export; write /NAME"),
        *(
            (
                f'[[export]]\nname = "/a{rest}"\ndirectory = "/a"',
                f"2: name: '/a{shown} is not a name for an export: {remedy}",
            )
            for rest, shown, remedy in (
                ("\\n", "\\n'", "remove its control characters"),
                ("n" * 255, "n" * 58 + "...'", "shorten the part of 256 octets to 255"),
                ("/nnn" * 256, "/nnn" * 14 + "/n...'", "shorten its 1026 octets to 1024"),
            )
        ),
        ('[[export]]\nname = "/a"', '1: an export has no directory; write directory = "/..."'),
        (GOOD + 'url = "s3://b"', "1: an export has both a directory and a url; keep one"),
        ('[[export]]\nname = "/a"\nurl = "/a"', "3: url: '/a' is no URL; write PROTOCOL://PATH, or directory"),
        (
            '[[export]]\nname = "/a"\nurl = "s3://b"\naccess = "rw"',
            '4: a url is exported read-only; leave out access, or write "ro"',
        ),
        (
            '[[export]]\nname = "/a"\nurl = "s3://b"\nmount-point = true',
            "4: mount-point is for a directory; leave it out beside a url",
        ),
        (GOOD + "fsspec-valid = 1", "4: fsspec-valid is for a url; leave it out beside a directory"),
        (
            'workers = 1\nnfs = "3"\nworkers = 2\n',
            "3: this is no TOML, column 12: cannot overwrite a value; give each key once",
        ),
        ("nfs = v3", "1: this is no TOML, column 7: invalid value; write texts in quotes"),
        ("a = [1,\n", "1: this is no TOML: invalid value"),
        ("= 1", "1: this is no TOML, column 1: invalid statement"),
        ("a = " + "[" * 5000 + "]" * 5000, "1: lists or tables are nested too deeply; write them flat"),
        ("workers = " + "1" * 5000, "1: this is no TOML: exceeds the limit (4300 digits)"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_a_remedy(tmp_path: Path, text: str, told: str) -> None:
    (found,) = faults_of(tmp_path, text)
    assert found.startswith(f"c.toml:{told}") or found.replace("end of document", "") == told, found


def test_all_mistakes_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "exports.d").mkdir()
    (tmp_path / "exports.d" / "b.toml").write_text("workers = 3\n" + GOOD)
    (tmp_path / "exports.d" / "a.toml").write_text("[[export]\n")
    (tmp_path / "exports.d" / ".c.toml").write_text("no TOML")
    (tmp_path / "exports.d" / "c.toml~").write_text("no TOML")
    assert faults_of(tmp_path, "workers = 0\nx = 1\n[defaults]\nsync = 1\n") == [
        "c.toml:1: workers: '0' is not a number of at least 1",
        "c.toml:2: unknown key 'x'; rpcrdma config show lists the known ones",
        "c.toml:4: sync is a whole number; write true or false",
        "exports.d/a.toml:1: this is no TOML, column 9: expected ']]' at the end of an array declaration",
        "exports.d/b.toml:1: 'workers' is no key of files in exports.d; write [[export]] tables alone",
    ]


def test_a_file_that_cannot_be_read_is_a_mistake(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"

    def told() -> list[str]:
        return [str(fault).removeprefix(f"{file}") for fault in read_configuration(file).faults]

    assert told() == [": the file cannot be read: no such file or directory"]
    file.write_bytes(b'# one\nkeytab = "\xff"\n')
    assert told() == [":2: octet 0xff is not UTF-8; save the file as UTF-8"]
    file.write_bytes(b"#" * (CONFIGURATION_OCTETS_MAX + 1))
    assert told() == [
        (
            f": the file cannot be read: it has more than {CONFIGURATION_OCTETS_MAX} octets; "
            "split it into files in exports.d"
        )
    ]
    file.write_bytes(b"#" * CONFIGURATION_OCTETS_MAX)
    assert told() == []
    file.unlink()
    os.mkfifo(file)
    assert told() == [": the file cannot be read: it is no regular file; name one"]
    file.unlink()
    file.mkdir()
    opened = open_files()
    assert told() == [": the file cannot be read: it is no regular file; name one"]
    assert open_files() <= opened


def test_the_number_of_files_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "exports.d").mkdir()
    for number in range(CONFIGURATION_FILES_MAX + 1):
        (tmp_path / "exports.d" / f"{number}.toml").touch()
    assert faults_of(tmp_path, "") == [
        (
            f"exports.d: there are {CONFIGURATION_FILES_MAX + 1} files, more than {CONFIGURATION_FILES_MAX}; "
            "put several exports in one file"
        )
    ]


def test_values_have_their_lines_and_paths_begin_at_the_file(tmp_path: Path) -> None:
    (tmp_path / "exports.d").mkdir()
    (tmp_path / "exports.d" / "a.toml").write_text('[[export]]\nname = "/b"\nurl = "s3://b"\n')
    file = tmp_path / "c.toml"
    file.write_text(
        'crc = false\nstate-dir = "state"\n[[export]]\r\nname = "/"\ndirectory = "../d"\nsec = [\n"krb5" ]\n'
    )
    found = read_configuration(file)
    assert found.faults == []
    assert found.server == {"crc": (False, f"{file}:1"), "state-dir": (tmp_path / "state", f"{file}:2")}
    own, more = found.exports
    assert (own.name, own.source) == ("/", tmp_path / "../d")
    assert own.origins == {"": f"{file}:3", "name": f"{file}:4", "directory": f"{file}:5", "sec": f"{file}:6"}
    places = {key: f"{tmp_path}/exports.d/a.toml:{line}" for key, line in (("", 1), ("name", 2), ("url", 3))}
    assert (more.name, more.source, more.origins) == ("/b", "s3://b", places)


DOCUMENT = '''\
"a b" = """
[[no]]
key = 1"""
'c' = { d = 1, e = [ "]" ] } # [[no]]
f.g = [
  1, # ]
  "\\"]", '\\',
]
[t]
h = \'\'\'
x = 1\'\'\'
[[u]]
i = 1
[[u.v]]
i = "#"
[[u]]
[[u.v]]
[[u.v]]
i = 2
[w."x.y"]
z = 1
'''


def test_each_key_of_a_document_has_its_line() -> None:
    tomllib.loads(DOCUMENT)
    lines = key_lines(DOCUMENT)
    assert lines == {
        ("a b",): 1,
        ("c",): 4,
        ("f",): 5,
        ("f", "g"): 5,
        ("t",): 9,
        ("t", "h"): 10,
        ("u",): 12,
        ("u", 0): 12,
        ("u", 0, "i"): 13,
        ("u", 0, "v"): 14,
        ("u", 0, "v", 0): 14,
        ("u", 0, "v", 0, "i"): 15,
        ("u", 1): 16,
        ("u", 1, "v"): 17,
        ("u", 1, "v", 0): 17,
        ("u", 1, "v", 1): 18,
        ("u", 1, "v", 1, "i"): 19,
        ("w",): 20,
        ("w", "x.y"): 20,
        ("w", "x.y", "z"): 21,
    }
    assert (line_of(lines, ("c", "e", 0)), line_of(lines, ("u", 2)), line_of(lines, ())) == (4, 12, 1)


@each_case(
    "text",
    [
        'a = """\nb = 1\n"""\nc = 2\n',
        'a = """x"""\nb = """"x" """\nc = "" # "\nd = \'\'\'\n#\'\'\'\ne = 1',
        'a = [ # [\n"]",\n]\nb = ["[", "#"] # ]\nc = [1, 2]\r\nd = [["]"], [],\n]\ne = 1',
        'a = "x # y" # z = 1\nb = \'#\'\nc = "\\\\"\nd = "\\"["\ne = "="\n',
        'a = { b = "}" }\nc.d = 1\n"e" = "f = 1"\n g\t=\t1979-05-27T07:32:00Z',
        " # a = 1\n\n\t\n[a]#]\nb = 1\n  [[c]]\nb = 1 # [d]\n",
    ],
)
def test_usual_lines_are_counted_as_their_pieces_would_be(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tomllib.loads(text)
    counted = key_lines(text)
    monkeypatch.setattr(toml_lines, "_USUAL_LINE", re.compile(r"(?!)"))
    assert key_lines(text) == counted


def test_a_reload_applies_each_setting_of_its_class() -> None:
    # `RunningServer` applies these by name.
    names = {each: [setting.name for setting in OF_SERVER if setting.renewal is each] for each in Renewal}
    assert names[Renewal.HANG_UP] == [
        "listen", "connections", "connections-per-host", "calls-per-host", "idle-timeout", "access-log", "audit",
        "log-level",
    ]  # fmt: skip
    assert names[Renewal.INCREASE] == ["memory"]
    of_exports = (NAME_OF_EXPORT, *SOURCES_OF_EXPORT, *OF_EXPORTS, *OF_RULES)
    assert {setting.renewal for setting in of_exports} == {Renewal.HANG_UP}


def test_defaults_of_the_table_are_those_of_an_export() -> None:
    defaults = {setting.name: setting.default for setting in OF_EXPORTS}
    assert (defaults["anonuid"], defaults["anongid"]) == (ANONYMOUS, ANONYMOUS)
    assert defaults["fsspec-valid"] == NFS_FSSPEC_VALID_S


def test_values_of_the_installed_file_are_taken_except_for_words_that_stand_for_one(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text(re.sub(r"^#(?=[\[a-z])", "", configuration(), flags=re.MULTILINE))
    (fault,) = read_configuration(file).faults
    assert fault.text.startswith("metrics: 'HOST:PORT' is not")


def test_each_key_has_a_text_and_one_meaning() -> None:
    every = [*OF_SERVER, *OF_EXPORTS, NAME_OF_EXPORT, *SOURCES_OF_EXPORT]
    assert len({setting.name for setting in every}) == len(every)
    assert [setting.name for setting in every if not (setting.file_help or setting.help)] == []
