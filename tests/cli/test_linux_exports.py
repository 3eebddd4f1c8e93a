"""Lines of exports(5) become tables that admit no more hosts, and grant no more, than the lines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rpcrdma.cli.export_options import ExportedRule
from rpcrdma.cli.main import build_parser
from rpcrdma.cli.settings.effective import effective
from rpcrdma.cli.settings.linux_exports import in_toml
from rpcrdma.cli.settings.table import OF_EXPORTS
from support.cases import each_case

if TYPE_CHECKING:
    from support.commands import Command

OF_OWN_EXPORTS = """\
[defaults]
access = "rw"
squash = "none"
anonuid = 0
anongid = 0
sec = ["krb5", "sys"]
sync = false
reserved-port = false
"""
"""What the configuration file grants to its own exports, and not to those of the lines."""
OF_LINUX = {"squash": "root", "anonuid": 65534, "anongid": 65534, "sec": ["sys"], "sync": True, "reserved-port": True}
"""The terms of an export unless its line says otherwise."""


@each_case(
    ("line", "keys", "told"),
    [
        ("/a", {"access": "ro"}, []),
        ("/a *(rw,sync,no_subtree_check,insecure)", {"access": "rw", "sync": True, "reserved-port": False}, []),
        (
            "/a h(ro,insecure) n(rw)",
            {"access": "none", "rules": [(["h"], {"access": "ro"}), (["n"], {"access": "rw"})]},
            ["insecure for some clients of /a cannot be expressed; none has it"],
        ),
        ("/a host(rw)", {"access": "rw", "hosts": ["host"]}, []),
        ("/a (rw,mp)", {"access": "rw", "mount-point": True}, []),
        (
            "/a (sec=krb5p,rw,no_root_squash,sync,mp)",
            {"access": "rw", "squash": "none", "sec": ["krb5p"], "sync": True, "mount-point": True},
            [],
        ),
        ("/a (rw,mp=/b)", None, ["the option mp=/b cannot", "no client of /a"]),
        ("/a (rw,mountpoint=/a/)", {"access": "rw", "mount-point": True}, []),
        ("/a (rw,refer=/a@h)", None, ["the option refer=/a@h cannot", "no client of /a"]),
        ("/a (rw,xprtsec=ssl)", None, ["the option xprtsec=ssl cannot", "no client of /a"]),
        (
            "/a h(ro,mountpoint) n(rw)",
            {"access": "none", "mount-point": True, "rules": [(["h"], {"access": "ro"}), (["n"], {"access": "rw"})]},
            [],
        ),
        ("/a 10.0.0.1/255.255.0.0(ro)", {"access": "ro", "hosts": ["10.0.0.0/16"]}, []),
        ("/a h1(rw) h2(rw) h1(rw)", {"access": "rw", "hosts": ["h1", "h2"]}, []),
        (
            "/a -rw,async h1 h2(ro)",
            {"access": "none", "sync": False, "rules": [(["h1"], {"access": "rw"}), (["h2"], {"access": "ro"})]},
            [],
        ),
        (
            "/a (all_squash,anonuid=-2,anongid=7)",
            {"access": "ro", "squash": "all", "anonuid": 4294967294, "anongid": 7},
            [],
        ),
        ("/a (rw,no_root_squash,sec=krb5p:krb5i)", {"access": "rw", "squash": "none", "sec": ["krb5p", "krb5i"]}, []),
        # Linux has two flags, and that for all users holds.
        ("/a (all_squash,no_root_squash)", {"access": "ro", "squash": "all"}, []),
        ("/a -all_squash (root_squash,anonuid=7)", {"access": "ro", "squash": "all", "anonuid": 7}, []),
        ("/a (no_root_squash,all_squash,no_all_squash)", {"access": "ro", "squash": "none"}, []),
        ("/a (xprtsec=mtls:tls)", {"access": "ro", "xprtsec": "tls"}, []),
        ("/a \\\n h(rw) # *(rw)", {"access": "rw", "hosts": ["h"]}, []),
        ("/a (rw,crossmnt,fsid=0)", {"access": "rw"}, ["the option crossmnt cannot", "the option fsid=0 cannot"]),
        ("/a (rw,fsid=7,anonuid=x)", {"access": "rw"}, ["the option anonuid=x cannot"]),
        ("/a (rw,anonuid=-1)", {"access": "rw"}, ["the option anonuid=-1 cannot"]),
        # Names go before addresses and networks, and these before all: the first one that fits a client holds for it.
        ("/a *(rw) 10.0.0.0/8(ro)", {"access": "rw", "rules": [(["10.0.0.0/8"], {"access": "ro"})]}, []),
        (
            "/a *(ro,all_squash,anonuid=7) 10.0.0.0/8(rw) h1(rw,no_root_squash) h2(rw,no_root_squash)",
            {
                "access": "ro",
                "squash": "all",
                "anonuid": 7,
                "rules": [
                    (["h1", "h2"], {"access": "rw", "squash": "none", "anonuid": 65534}),
                    (["10.0.0.0/8"], {"access": "rw", "squash": "root", "anonuid": 65534}),
                ],
            },
            [],
        ),
        (
            "/a h(rw,sec=krb5p) n(rw)",
            {
                "access": "none",
                "rules": [(["h"], {"access": "rw", "sec": ["krb5p"]}), (["n"], {"access": "rw", "sec": ["sys"]})],
            },
            [],
        ),
        ("/a 10.0.0.0/8(ro) 10.1.0.0/16(rw)", {"access": "ro", "hosts": ["10.0.0.0/8"]}, ["10.1.0.0/16 is a part of"]),
        ("/a 10.0.0.0/8(ro) 10.1.0.1(rw)", {"access": "ro", "hosts": ["10.0.0.0/8"]}, ["10.1.0.1 is a part of"]),
        (
            "/a h(rw,async) n(ro)",
            {"access": "none", "sync": True, "rules": [(["h"], {"access": "rw"}), (["n"], {"access": "ro"})]},
            ["async for some clients of /a cannot be expressed; none has it"],
        ),
        # A directory may stand on several lines, in any spelling.
        ("/a h1(rw)\n/a/ h2(rw) h1(rw)", {"access": "rw", "hosts": ["h1", "h2"]}, []),
        ("/a *(ro)\n/a h(rw,sync)", {"access": "ro", "rules": [(["h"], {"access": "rw"})], "sync": True}, []),
        (
            "/a -rw h1\n/a h1(ro) h2\n/a @group",
            {"access": "none", "rules": [(["h1"], {"access": "rw"}), (["h2"], {"access": "ro"})]},
            ["3: h1 is a part of h1 before it; its", "4: the netgroup @group"],
        ),
        (
            "/a h(rw,insecure)\n/a n(rw,insecure,crossmnt)\n/a m(ro)",
            {"access": "none", "rules": [(["h", "n"], {"access": "rw"}), (["m"], {"access": "ro"})]},
            ["insecure for some clients of /a cannot", "3: the option crossmnt cannot"],
        ),
        # A client that is left out does not fall under a wider one.
        (
            "/a 10.0.0.5(ro,sec=des) *(rw,insecure)",
            {"access": "rw", "reserved-port": False, "rules": [(["10.0.0.5"], {"access": "none"})]},
            ["sec=des: 'des' is no security flavor"],
        ),
        (
            "/a *(rw)\n/a h(rw,refer=/a@h) n(rw)",
            {"access": "rw", "rules": [(["h"], {"access": "none"})]},
            ["3: the option refer=/a@h cannot"],
        ),
        (
            "/a @group(ro) 10.0.0.0/8(rw) *(rw)",
            {"access": "rw", "hosts": ["10.0.0.0/8"]},
            ["the netgroup @group", "* may have hosts of @group"],
        ),
        ("/a *.example(ro) *(rw)", None, ["the pattern *.example", "* may have hosts of *.example", "no client of /a"]),
        ("/a *.example(rw) *(ro)", {"access": "ro"}, ["the pattern *.example"]),
        ("/a gss/krb5(ro) *(rw)", {"access": "rw"}, ["gss/krb5 cannot"]),
        (
            "/a 10.0.0.1(rw) fe80::1%eth0(ro) fe80::/10(rw) h(rw)",
            {"access": "rw", "hosts": ["h", "10.0.0.1"]},
            ["'fe80::1%eth0': rules do not tell", "fe80::/10 may have hosts of fe80::1%eth0"],
        ),
        # Linux compares the last octet.
        ("/a 10.0.0.0/0.0.0.255(rw)", None, ["10.0.0.0/0.0.0.255 is no network", "no client of /a"]),
        # Nothing is served to more hosts than the line has.
        ("/a h1,h2(rw)", None, ["h1,h2 is left out: exports(5) has no lists", "no client of /a"]),
        ("/a h_1(rw) 010.0.0.1", {"access": "rw", "hosts": ["h_1"]}, ["'010.0.0.1' is no host"]),
        ("/a @group(rw)", None, ["the netgroup @group", "no client of /a"]),
        ("/a *.example(rw)", None, ["the pattern *.example", "no client of /a"]),
        ("/a gss/krb5(rw)", None, ["gss/krb5 cannot", "no client of /a"]),
        ("/a 1.2.3.4/99(rw)", None, ["1.2.3.4/99 is no network", "no client of /a"]),
        ("/a *(sec=sys,ro,sec=krb5,rw)", None, ["ro after sec= is for some", "no client of /a"]),
        ("/a *(sec=des)", None, ["sec=des: 'des' is no security flavor", "no client of /a"]),
        ("a *(rw)", None, ["a is not the path of a directory"]),
        # A comment ends with its line, and begins only where a word could.
        ("/a (rw) # old \\\nb 1.2.3.4(rw)", {"access": "rw"}, ["3: b is not the path of a directory"]),
        ("/a 1.2.3.4(rw)#*(rw)", {"hosts": ["1.2.3.4"], "access": "rw"}, []),
        ("/a 1.2.3.4#(rw)", None, ["'1.2.3.4#' is no host", "no client of /a"]),
        ('/a "1.2.3.4#"(rw)', None, ["'\"1.2.3.4#\"' is no host", "no client of /a"]),
        ('"/a *(rw)', None, ["a quotation mark has no counterpart"]),
        ('/a 1.2.3.4(ro) \\\n"#"(rw)', {"hosts": ["1.2.3.4"], "access": "ro"}, ["'\"#\"' is no host"]),
        ("/a\\377 *(rw)", None, ["/a\\377 is not the path of a directory"]),
        (f"/{'a' * 256} *(rw)", None, [f"'/{'a' * 59}...' is not a name for an export: shorten"]),
    ],
)
def test_lines_of_exports_5_become_exports(
    tmp_path: Path, line: str, keys: dict[str, object] | None, told: list[str]
) -> None:
    text, faults = in_toml(f"# first\n{line}\n", "exports")
    # The second line, unless another number precedes the text.
    expected = [each if each[:1].isdigit() and each[1:2] == ":" else f"2: {each}" for each in told]
    shown = [str(fault).removeprefix("exports:") for fault in faults]
    assert [line[: len(each)] for line, each in zip(shown, expected, strict=True)] == expected
    file = tmp_path / "c.toml"
    file.write_text(OF_OWN_EXPORTS + text)
    found = effective(build_parser().parse_args(["serve", "--config", str(file)]))
    assert found.faults == []
    wanted = [] if keys is None else [("/a", Path("/a"), OF_LINUX | keys)]
    named = {setting.dest: setting.name for setting in OF_EXPORTS}
    assert [
        (
            each.name,
            each.source,
            {
                named[dest]: _plain(getattr(each, dest))
                for dest in each.origins
                if dest in named and each.origins[dest] != "default"
            }
            | ({"rules": [_rule(rule, each) for rule in each.rules]} if each.rules else {}),
        )
        for each in found.exports
    ] == wanted


def _rule(rule: ExportedRule, export: ExportedRule) -> tuple[object, dict[str, object]]:
    """The hosts of a rule, and its own terms."""
    own = {dest for dest, origin in rule.origins.items() if origin != export.origins.get(dest)} - {"", "hosts"}
    return rule.hosts, {dest: _plain(getattr(rule, dest)) for dest in own}


def _plain(value: object) -> object:
    return [str(flavor) for flavor in value] if isinstance(value, tuple) else value


def test_paths_of_exports_5_may_have_spaces_and_any_letters() -> None:
    text, faults = in_toml('"/srv/a b" h(rw)\n/srv/\\303\\251\\040x h\n"/srv/a# b"h h\n', "exports")
    assert faults == []
    assert [line for line in text.splitlines() if line.startswith("directory")] == [
        'directory = "/srv/a b"',
        'directory = "/srv/é x"',
        'directory = "/srv/a# bh"',
    ]


def test_config_exports_fails_if_it_has_left_something_out(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "exports"
    file.write_text("/a (rw)\n")
    assert command.done("config", "exports", str(file)).text.endswith("sync = true\nreserved-port = true\n")
    file.write_text("/a (rw,crossmnt)\n")
    ran = command.run("config", "exports", str(file))
    assert (ran.status, ran.err) == (1, f"warning: {file}:1: the option crossmnt cannot be expressed; it is left out\n")
