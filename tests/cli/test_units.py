"""The units of systemd say what the server needs, and fit its limits; tests/interop has systemd check them."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from rpcrdma.aio.drivers import audit_log
from rpcrdma.aio.server.connection_limits import descriptors_for
from rpcrdma.cli import serve
from rpcrdma.cli.main import build_parser
from rpcrdma.commands import ExitStatus
from rpcrdma.limits import RPC_CONNECTIONS_MAX, RPCBIND_ANSWERS_S
from support.cases import each_case

UNITS = Path(__file__).parents[2] / "packaging" / "systemd"


def settings(name: str) -> dict[str, list[str]]:
    found = defaultdict(list)
    for line in (UNITS / name).read_text().splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found[key].append(value)
    return found


EACH_UNIT = each_case("name", ["rpcrdma.service", "rpcrdma@.service"])


@EACH_UNIT
def test_a_unit_waits_for_the_notifications_of_the_server_and_grants_its_times(name: str) -> None:
    unit = settings(name)
    assert unit["Type"] == ["notify"]
    assert float(unit["WatchdogSec"][0]) >= 30, "a burst of work is no reason to end the server"
    # For running calls, for those that are cancelled then, for unstable data, and for the state directory; and a log.
    assert float(unit["TimeoutStopSec"][0]) > 4 * serve._DRAIN_S + RPCBIND_ANSWERS_S + audit_log._CLOSE_S
    assert int(unit["LimitNOFILE"][0]) >= descriptors_for(RPC_CONNECTIONS_MAX)
    assert unit["RestartPreventExitStatus"] == [str(int(ExitStatus.USAGE))]


@EACH_UNIT
def test_the_command_of_a_unit_is_one_of_ours_and_found_by_its_name(name: str) -> None:
    (command,) = settings(name)["ExecStart"]
    program, *words = command.split()
    assert program == "rpcrdma", "packages have it in /usr/bin, pipx in /usr/local/bin"
    parsed = build_parser().parse_args(words)
    assert parsed.run is serve.run
    folder = {"rpcrdma.service": "/etc/rpcrdma", "rpcrdma@.service": "/etc/rpcrdma/%i"}[name]
    assert parsed.config == Path(folder, "rpcrdma.toml"), "exports.d beside it is that of no other unit"
    assert not parsed.check


@EACH_UNIT
def test_a_reload_checks_the_configuration_of_the_start_before_the_signal(name: str) -> None:
    unit = settings(name)
    assert unit["ExecReload"] == [f"{unit['ExecStart'][0]} --check", 'sh -c "kill -HUP $MAINPID"']


@EACH_UNIT
def test_no_unit_takes_away_what_clients_may_do(name: str) -> None:
    unit = settings(name)
    # Set-group-ID directories, other users' files, and the machine's network are what a file server is for.
    assert not unit.keys() & {"RestrictSUIDSGID", "PrivateUsers", "DynamicUser", "PrivateNetwork", "Conflicts"}
    assert unit["UMask"] == ["0077"]
    assert unit["StateDirectoryMode"] == unit["LogsDirectoryMode"] == ["0700"]
    assert unit["LogsDirectory"] == unit["StateDirectory"], "docs/serving.md has the access log there"
