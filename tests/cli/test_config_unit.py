"""`config unit`: the drop-in of systemd has the paths and rights that the exports need, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

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


@each_case(
    ("text", "expected"),
    [
        (export("a", "/srv/a"), ["RequiresMountsFor=/srv/a", "ReadWritePaths=-/srv/a"]),
        (export("a", "/srv/a", 'access = "ro"'), ["RequiresMountsFor=/srv/a", "ReadOnlyPaths=-/srv/a"]),
        ('[[export]]\nname = "/u"\nurl = "memory://x"', []),
        # A path within an export would be a mount point there, and the wider access decides.
        (
            export("a", "/srv/a", 'access = "ro"') + export("b", "/srv/a/b/c") + export("ab", "/srv/ab"),
            ["RequiresMountsFor=/srv/a", "RequiresMountsFor=/srv/ab", "ReadWritePaths=-/srv/a",
             "ReadWritePaths=-/srv/ab"],
        ),
        (export("a", "/srv/a b%i"), ['RequiresMountsFor="/srv/a b%%i"', 'ReadWritePaths="-/srv/a b%%i"']),
        (export("h", f"{HOME}/h"), [f"RequiresMountsFor={HOME}/h", f"ReadWritePaths=-{HOME}/h", "ProtectHome=no"]),
        (export("h", "/homes"), ["RequiresMountsFor=/homes", "ReadWritePaths=-/homes"]),
        (export("t", "/var/tmp/t"), ["RequiresMountsFor=/var/tmp/t", "ReadWritePaths=-/var/tmp/t", "PrivateTmp=no"]),
        (export("r", "/"), ["RequiresMountsFor=/", "ReadWritePaths=-/", "ProtectHome=no", "PrivateTmp=no"]),
        (
            f'tls-cert = "{HOME}/s.pem"\nstate-dir = "/var/other"\n' + export("a", "/srv/a", 'access = "ro"'),
            ["RequiresMountsFor=/srv/a", "RequiresMountsFor=/var/other", "ReadWritePaths=-/var/other",
             "ReadOnlyPaths=-/srv/a", "ProtectHome=no"],
        ),
        # What the server writes itself: logrotate renames a log, so its directory is written.
        (
            'access-log = "/var/log/rpcrdma/access.log"\nadmin = "/run/own/a.sock"\n' + export("a", "/srv/a"),
            ["RequiresMountsFor=/srv/a", "RequiresMountsFor=/run/own", "RequiresMountsFor=/var/log/rpcrdma",
             "ReadWritePaths=-/srv/a", "ReadWritePaths=-/run/own", "ReadWritePaths=-/var/log/rpcrdma"],
        ),
        (
            'access-log = "/srv/a/log/access.log"\nadmin = "off"\n' + export("a", "/srv/a"),
            ["RequiresMountsFor=/srv/a", "ReadWritePaths=-/srv/a"],
        ),
        ('access-log = "journal"\n' + export("a", "/srv/a"), ["RequiresMountsFor=/srv/a", "ReadWritePaths=-/srv/a"]),
        (
            export("a", "/srv/a") + export("b", "/srv/b", 'access = "ro"\nsquash = "none"'),
            ["RequiresMountsFor=/srv/a", "RequiresMountsFor=/srv/b", "ReadWritePaths=-/srv/a", "ReadOnlyPaths=-/srv/b",
             "CapabilityBoundingSet=CAP_CHOWN CAP_FOWNER CAP_FSETID CAP_MKNOD"],
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
    assert lines_of(command, file, text) == expected


def test_a_link_is_followed_as_the_server_follows_it(command: Command, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    file = tmp_path / "c.toml"
    file.write_text(export("a", "link"))
    assert f"RequiresMountsFor={tmp_path}/real\n" in command.done("config", "unit", "--config", str(file)).text


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
