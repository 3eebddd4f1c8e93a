"""Credentials of a unit of systemd take the place of files of certificates and keys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rpcrdma.cli.export_sources import ExportSources
from rpcrdma.cli.main import build_parser
from rpcrdma.cli.settings import check
from rpcrdma.cli.settings.effective import effective
from support.host_certificates import Authority

if TYPE_CHECKING:
    from support.commands import Command

KEYS = ("tls-cert", "tls-key", "tls-ca", "keytab")


def test_a_credential_of_the_unit_takes_the_place_of_a_file(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one").mkdir()
    file = tmp_path / "c.toml"
    exported = 'state-dir = "state"\n[[export]]\nname = "/one"\ndirectory = "one"\n'
    file.write_text("".join(f'{key} = "credential:its-{key}"\n' for key in KEYS) + exported)
    args = build_parser().parse_args(["serve", "--config", str(file)])

    def told() -> list[str]:
        found = effective(args)
        found.put_into(args)
        faults = [each for each in check.find_mistakes(args, found) if not each.is_warning]
        assert [*map(str, faults)] == [
            str(each) for each in check.at_start(args, found, ExportSources()) if not each.is_warning
        ]
        return [str(each).removeprefix(f"{file}:").partition(";")[0] for each in faults]

    # Those who ask for the settings are no service.
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    shown = command.done("config", "show", "--config", str(file), "--json").json["server"]
    assert [shown[key]["value"] for key in KEYS] == [f"credential:its-{key}" for key in KEYS]
    assert command.run("config", "unit", "--config", str(file)).status == 0
    outside = "is for a service of systemd, which sets CREDENTIALS_DIRECTORY"
    assert sorted(told()) == [f"{number}: credential:its-{key} {outside}" for number, key in enumerate(KEYS, 1)]
    folder = tmp_path / "credentials"
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(folder))
    assert told() == [], "systemd hides it from the check before a reload, which the server judges"
    folder.mkdir()
    assert sorted(told()) == [f"{number}: the unit has no credential its-{key}" for number, key in enumerate(KEYS, 1)]
    issued = Authority(folder).issue("host.example")
    for key in KEYS:
        (folder / f"its-{key}").write_bytes(issued.read_bytes())
    assert told() == []
    assert [args.host_cert, args.host_key, args.host_ca, args.keytab] == [folder / f"its-{key}" for key in KEYS]
    for name in ("", ".", "..", "a/b"):
        file.write_text(f'tls-key = "credential:{name}"\n{exported}')
        assert told() == [f"1: tls-key: 'credential:{name}' names no credential"]
