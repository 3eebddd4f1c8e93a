"""Scenarios and the plans that seeds draw from them."""

from __future__ import annotations

import dataclasses
import math
import random
import subprocess
import sys
from pathlib import Path

import pytest

from rpcrdma.errors import LocalProtocolError
from rpcrdma_lab.simulation.worlds.faults import FIELDS, FaultKind, FaultRule, Side
from rpcrdma_lab.simulation.worlds.plan import Kept, draw_plan
from rpcrdma_lab.simulation.worlds.scenario import ScenarioError, named_scenario, parse_scenario, scenario_names
from support.cases import each_case

RULE = '[[fault]]\nkind = "cut"\nafter_octets = 5\n'


def test_errors_name_file_key_need_and_have() -> None:
    """Cases: (text, key, need, have)."""
    for text, key, need, have in (
        ("clients = [3, 1]", "clients", "a number or [LEAST, MOST], from 1 to 18446744073709551615", [3, 1]),
        ("clients = 0", "clients", "a number or [LEAST, MOST], from 1 to 18446744073709551615", 0),
        ("calls = [1, 2, 3]", "calls", "a number or [LEAST, MOST], from 0 to 18446744073709551615", [1, 2, 3]),
        ("octets = [0, inf]", "octets", "a number or [LEAST, MOST], from 0 to 18446744073709551615", [0, math.inf]),
        (f"faults = 0\n[work]\nnull = 1{400 * '0'}", "work.null", "a number from 0 to 18446744073709551615", 10**400),
        ("calls = true", "calls", "a number or [LEAST, MOST], from 0 to 18446744073709551615", True),
        ("faults = 0\nspeed = 1", "speed", "one of at_once, calls, clients, credits", 1),
        ("faults = 0\n[versions]\n3 = 1", "versions.3", "one of 1, 2, auto", 1),
        ("faults = 0\n[versions]\n1 = -1", "versions.1", "a number from 0 to 18446744073709551615", -1),
        ("faults = 0\n[work]\nread = 0", "work", "a weight for one of null, transfer", {"read": 0}),
        ("faults = 0\nwork = 3", "work", "a table", 3),
        ("faults = 1", "faults", "0, or at least one [[fault]] to draw from", [1, 1]),
        ("fault = 1", "fault", "tables of the form [[fault]]", 1),
        ('[[fault]]\nkind = "flood"', "fault[0].kind", "one of delay, cut, crash", "flood"),
        (RULE + RULE + "at_s = 1", "fault[1].after_octets", "one of after_octets, after_operations and at_s", None),
        (RULE + "silent = 1", "fault[0].silent", "true or false", 1),
        (RULE + 'side = "both"', "fault[0].side", "one of client, server", "both"),
        ('[[fault]]\nkind = "crash"\nside = "client"', "fault[0].side", "one of server", "client"),
        ('[[fault]]\nkind = "crash"\ndelay_s = 1', "fault[0].delay_s", "one of at_s, for_s, kept, kind", 1),
        ("clients =", "the file", "TOML", None),
        (f"clients = {'[' * 50_000}", "the file", "TOML", None),
    ):
        with pytest.raises(ScenarioError) as caught:
            parse_scenario(text, "name", "some/file.toml")
        error = caught.value
        assert (error.file, error.key) == ("some/file.toml", key), text
        assert error.need.startswith(need), text
        assert have is None or error.have == have, text
        assert str(error).startswith(f"some/file.toml: {key}: need {need}"), text


def test_an_unknown_scenario_is_refused_with_the_known_ones() -> None:
    with pytest.raises(LocalProtocolError, match="name a TOML file"):
        named_scenario("nothing")


def test_a_scenario_of_other_octets_than_utf_8_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "latin.toml"
    file.write_bytes(b"clients = '\xe9'")
    with pytest.raises(ScenarioError, match="need TOML in UTF-8"):
        named_scenario(str(file))


@pytest.mark.thorough
@each_case("name", scenario_names())
def test_a_seed_draws_the_same_plan_in_every_process(name: str) -> None:
    plan = draw_plan(named_scenario(name), 7)
    program = (
        "import sys; from rpcrdma_lab.simulation.worlds.plan import draw_plan; "
        "from rpcrdma_lab.simulation.worlds.scenario import named_scenario; "
        "print(draw_plan(named_scenario(sys.argv[1]), 7))"
    )
    # The locale of the process decides about nothing.
    strict = [sys.executable, "-X", "warn_default_encoding", "-W", "error::EncodingWarning"]
    found = subprocess.run([*strict, "-c", program, name], capture_output=True, check=True, text=True)
    assert found.stdout.strip() == str(plan)


@pytest.mark.thorough
def test_the_mixed_scenario_draws_every_kind_of_fault_work_and_client() -> None:
    plans = [draw_plan(named_scenario("mixed"), seed) for seed in range(300)]
    assert {fault.kind for plan in plans for fault in plan.faults} == set(FaultKind)
    clients = [client for plan in plans for client in plan.clients]
    assert {(client.version, client.extension) for client in clients} == {
        (version, extension) for version in ("auto", "1", "2") for extension in ("auto", "rtr", "off")
    }
    assert {call.work for client in clients for call in client.calls} == set(named_scenario("mixed").work)


def test_a_part_that_is_left_out_changes_nothing_about_the_others() -> None:
    plan = draw_plan(named_scenario("mixed"), 5)
    assert len(plan.clients) > 1
    assert len(plan.faults) > 1
    last = plan.clients[-1]
    kept = Kept(frozenset({1}), frozenset({last.number}), frozenset({(last.number, 2), (0, 0)}))
    assert kept.of(plan) == dataclasses.replace(
        plan, faults=(plan.faults[1],), clients=(dataclasses.replace(last, calls=(last.calls[2],)),)
    )
    assert Kept().of(plan) == plan


def test_faults_say_everything_that_a_reader_has_to_know() -> None:
    for kind, fields in FIELDS.items():
        rule = FaultRule(kind=kind, weight=1, sides=(Side.SERVER,), values=dict.fromkeys(fields, (3, 3)))
        fault = rule.draw(random.Random(1), 1, 1)
        assert str(fault).startswith(f"{kind} at the server, client 0, server 0, "), kind
        assert "3" in str(fault), kind
