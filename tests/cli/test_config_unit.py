"""`config unit`: the drop-in of systemd has the paths and rights that the exports need, and no others."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from rpcrdma.cli.export_sources import ExportSources
from rpcrdma.cli.main import build_parser
from rpcrdma.cli.settings import check, mount_units, unit
from rpcrdma.cli.settings.effective import effective
from support.cases import each_case

if TYPE_CHECKING:
    from support.commands import Command

HOME = "/" + "home"


def export(name: str, directory: str, more: str = "") -> str:
    return f'[[export]]\nname = "/{name}"\ndirectory = "{directory}"\n{more}\n'


def lines_of(command: Command, file: Path, text: str) -> list[str]:
    """The lines of the drop-in, without those that are the same for all, or that the place of the file causes."""
    file.write_text(text)
    lines = command.done("config", "unit", "--config", file.name).text.splitlines()
    assert [line for line in lines if line in {"[Unit]", "[Service]"}] == ["[Unit]", "[Service]"]
    assert lines[lines.index("[Service]") + 1] == "ReadWritePaths=", "/srv of the unit may lie within an export"
    return [line for line in lines if line not in {"", "[Unit]", "[Service]", "ReadWritePaths="}]


MUST = 'missing = "fail"\n'
MOUNTED = frozenset(map(Path, ("/srv", "/srv/a", "/srv/a b%i/x", "/srv/a/b", HOME, "/mnt")))
SRV_A = ["Wants=srv.mount", "After=srv.mount", "Wants=srv-a.mount", "After=srv-a.mount"]


@each_case(
    ("text", "expected"),
    [
        (export("a", "/srv/a", MUST), ["RequiresMountsFor=/srv/a", "ReadWritePaths=-/srv/a"]),
        # One that may be missing neither keeps the server from its start nor stops it.
        (export("a", "/srv/a"), [*SRV_A, "ReadWritePaths=-/srv/a"]),
        (export("a", "/var/a"), ["ReadWritePaths=-/var/a"]),
        (
            export("a", "/srv/a") + export("b", "/srv/a/b/c", MUST),
            ["RequiresMountsFor=/srv/a/b/c", *SRV_A, "ReadWritePaths=-/srv/a"],
        ),
        (
            export("a", "/srv/a b%i/x/y"),
            ["Wants=srv.mount", "After=srv.mount", r"Wants=srv-a\x20b\x25i-x.mount", r"After=srv-a\x20b\x25i-x.mount",
             'ReadWritePaths="-/srv/a b%%i/x/y"'],
        ),
        (export("a", "/srv/a", f'{MUST}access = "ro"'), ["RequiresMountsFor=/srv/a", "ReadOnlyPaths=-/srv/a"]),
        ('[[export]]\nname = "/u"\nurl = "memory://x"', []),
        # A path within an export would be a mount point there, and the wider access decides.
        (
            export("a", "/var/a", 'access = "ro"') + export("b", "/var/a/b/c") + export("ab", "/var/ab"),
            ["ReadWritePaths=-/var/a", "ReadWritePaths=-/var/ab"],
        ),
        (export("a", "/srv/a b%i", MUST), ['RequiresMountsFor="/srv/a b%%i"', 'ReadWritePaths="-/srv/a b%%i"']),
        (
            export("h", f"{HOME}/h"),
            [f"Wants={HOME[1:]}.mount", f"After={HOME[1:]}.mount", f"ReadWritePaths=-{HOME}/h", "ProtectHome=no"],
        ),
        (export("h", "/homes"), ["ReadWritePaths=-/homes"]),
        (export("t", "/var/tmp/t"), ["ReadWritePaths=-/var/tmp/t", "PrivateTmp=no"]),
        (export("r", "/"), ["ReadWritePaths=-/", "ProtectHome=no", "PrivateTmp=no"]),
        (
            f'tls-cert = "{HOME}/s.pem"\nstate-dir = "/var/other"\n' + export("a", "/var/a", 'access = "ro"'),
            ["RequiresMountsFor=/var/other", "ReadWritePaths=-/var/other", "ReadOnlyPaths=-/var/a", "ProtectHome=no"],
        ),
        # What the server writes itself: logrotate renames a log, so its directory is written.
        (
            'access-log = "/var/log/rpcrdma/access.log"\nadmin = "/run/own/a.sock"\n' + export("a", "/var/a"),
            ["RequiresMountsFor=/run/own", "RequiresMountsFor=/var/log/rpcrdma", "ReadWritePaths=-/var/a",
             "ReadWritePaths=-/run/own", "ReadWritePaths=-/var/log/rpcrdma"],
        ),
        (
            'access-log = "/var/a/log/access.log"\nadmin = "off"\n' + export("a", "/var/a"),
            ["ReadWritePaths=-/var/a"],
        ),
        ('access-log = "journal"\n' + export("a", "/var/a"), ["ReadWritePaths=-/var/a"]),
        (
            export("a", "/var/a") + export("b", "/var/b", 'access = "ro"\nsquash = "none"'),
            ["ReadWritePaths=-/var/a", "ReadOnlyPaths=-/var/b",
             "CapabilityBoundingSet=CAP_CHOWN CAP_FOWNER CAP_FSETID CAP_MKNOD",
             "PrivateDevices=no", "DevicePolicy=closed", "DeviceAllow=char-* m", "DeviceAllow=block-* m"],
        ),
    ],
)  # fmt: skip
def test_a_drop_in_has_what_the_exports_need(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, expected: list[str]
) -> None:
    file = tmp_path / "c.toml"
    monkeypatch.chdir(tmp_path)
    # The file of these tests lies below /tmp, those of servers do not.
    monkeypatch.setattr(Path, "absolute", lambda path: Path("/etc/rpcrdma") / path)
    monkeypatch.setattr(unit, "mount_points", lambda: MOUNTED)
    assert lines_of(command, file, text) == expected


def test_a_link_is_followed_as_the_server_follows_it(command: Command, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    file = tmp_path / "c.toml"
    file.write_text(export("a", "link", MUST))
    assert f"RequiresMountsFor={tmp_path}/real\n" in command.done("config", "unit", "--config", str(file)).text


def test_a_mount_point_below_which_something_else_would_be_served_is_doubted(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "c.toml"
    monkeypatch.setattr(unit, "mount_points", lambda: MOUNTED)
    for more, told in (
        (
            "",
            "/a is a mount point, and the server starts without the mount; set mount-point = true, ",
        ),
        ("mount-point = true\n", ""),
        (MUST, ""),
    ):
        file.write_text(export("a", "/srv/a", more))
        ran = command.run("config", "unit", "--config", str(file))
        assert ran.status == 0
        assert ran.err.startswith(f"warning: {file}:1: {told}") if told else ran.err == ""


def test_mount_points_are_those_that_are_there_and_those_of_fstab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted, fstab = tmp_path / "mountinfo", tmp_path / "fstab"
    mounted.write_bytes(b"29 1 8:2 / / rw - ext4 x rw\n40 29 8:3 / /srv/a\\040b rw shared:1 - ext4 x rw\n")
    fstab.write_text("# /dev/x /no ext4\n\nUUID=1 / ext4 defaults 0 1\nUUID=2\t/mnt  xfs nofail\nUUID=3 none swap sw\n")
    monkeypatch.setattr(mount_units, "_TABLES", ((mounted, 4), (fstab, 1), (tmp_path / "absent", 1)))
    assert mount_units.mount_points() == {Path("/srv/a b"), Path("/mnt")}


@each_case(
    ("point", "name"),
    [
        ("/srv/a", "srv-a"),
        ("/srv/.a/x-y", r"srv-.a-x\x2dy"),
        ("/.a", r"\x2ea"),
        ("/srv/ä b%:_.", r"srv-\xc3\xa4\x20b\x25:_."),
    ],
)
def test_a_mount_unit_has_the_name_that_systemd_gives_it(point: str, name: str) -> None:
    assert mount_units.mount_unit(Path(point)) == f"{name}.mount"


@each_case("name", ["a'b", "a\\\\b", "a\\u000ab", 'a\\"b'])
def test_a_directory_that_no_unit_can_name_is_an_error(command: Command, tmp_path: Path, name: str) -> None:
    file = tmp_path / "c.toml"
    file.write_text(export("a", f"/srv/{name}"))
    ran = command.run("config", "unit", "--config", str(file))
    assert (ran.status, ran.text) == (2, "")
    assert ran.err.startswith(f"error: {file}:1: ")
    assert ran.err.endswith("has a character that a unit cannot have; rename the directory\n")


def test_a_log_whose_directory_no_unit_can_name_is_an_error(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text(f'access-log = "/a\'b/access.log"\n{export("a", "/srv/a")}')
    ran = command.run("config", "unit", "--config", str(file))
    assert (ran.status, ran.text) == (2, "")
    assert ran.err.startswith(f"error: {file}:1: ")


def test_without_an_export_there_is_no_drop_in_which_would_take_the_usual_paths_away(command: Command) -> None:
    ran = command.run("config", "unit")
    assert (ran.status, ran.text) == (2, "")
    assert ran.err.startswith("error: command line: there is no export; ")


def test_a_check_and_a_start_doubt_an_export_that_its_mount_keeps_from_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounted = SimpleNamespace(f_flag=os.ST_RDONLY | os.ST_NOSUID)
    monkeypatch.setattr(os, "statvfs", lambda _path: mounted)
    (tmp_path / "one").mkdir()
    file = tmp_path / "c.toml"
    file.write_text('state-dir = "state"\n' + export("one", "one") + export("two", "one", 'access = "ro"'))
    args = build_parser().parse_args(["serve", "--config", str(file)])
    found = effective(args)
    found.put_into(args)
    doubt = (
        f"{file}:2: /one may be changed, but its file system is mounted read-only for this process; renew the drop-in "
        'by rpcrdma config unit and restart, mount it anew, or write access = "ro"'
    )
    told = [each for each in check.find_mistakes(args, found) if "read-only" in each.text]
    assert [(str(each), each.is_warning) for each in told] == [(doubt, True)]
    assert [str(each) for each in check.at_start(args, found, ExportSources())] == [doubt]
    mounted.f_flag = os.ST_NOSUID
    assert check.at_start(args, found, ExportSources()) == []
