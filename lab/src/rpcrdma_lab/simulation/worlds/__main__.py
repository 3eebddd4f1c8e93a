"""Fault worlds from a shell: `python -m rpcrdma_lab.simulation.worlds`; docs/simulation.md shows its use."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time

from rpcrdma.errors import LocalProtocolError
from rpcrdma_lab.simulation.worlds.ladder import ladder
from rpcrdma_lab.simulation.worlds.many_worlds import Totals, judged, run_worlds
from rpcrdma_lab.simulation.worlds.minimiser import minimise
from rpcrdma_lab.simulation.worlds.plan import Kept, draw_plan
from rpcrdma_lab.simulation.worlds.scenario import Scenario, named_scenario, scenario_names

_TOLD_EVERY = 10_000
_SHOWN_MAX = 10
"""The number of failing seeds that are printed."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m rpcrdma_lab.simulation.worlds",
        description="Runs simulated worlds of clients and servers with faults, and checks what happens in them.",
    )
    parser.add_argument("--scenario", default="mixed", help=f"a TOML file, or one of {', '.join(scenario_names())}")
    parser.add_argument("--seeds", type=int, default=2000, help="number of worlds (2000)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (as many as processors)")
    parser.add_argument(
        "--twice-every", type=int, default=1, metavar="N", help="every Nth seed runs twice; 0: none (1)"
    )
    parser.add_argument("--seed", type=int, help="run the world of this seed, and show its end")
    parser.add_argument("--minimise", action="store_true", help="with --seed: look for the smallest world that fails")
    parser.add_argument("--lines", type=int, default=60, help="with --seed: lines of the ladder (60)")
    parser.add_argument("--faults", type=_numbers, help="with --seed: keep these faults alone, as 0,2")
    parser.add_argument("--clients", type=_numbers, help="with --seed: keep these clients alone, as 0,2")
    parser.add_argument("--calls", type=_calls, help="with --seed: keep these calls alone, CLIENT.CALL, as 0.3,1.0")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Runs simulated worlds as command-line arguments say (None: those of the process), and prints the results.

    Returns the exit status: 0 if no world violates a rule, 1 if a world does, 2 for a scenario that is wrong or cannot
    be read, after the error has been printed to stderr. Without --seed, a world that raises an exception also makes 1.

    Raises:
        Exception: the world of --seed has raised it; RuntimeError after more than 30 s of processor time.
        SystemExit: the arguments are wrong (status 2), or ask for help.
    """
    args = _parser().parse_args(arguments)
    try:
        scenario = named_scenario(args.scenario)
    except (LocalProtocolError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if args.seed is None:
        return _many(scenario, args)
    kept = Kept(args.faults, args.clients, args.calls)
    plan = draw_plan(scenario, args.seed)
    result = judged(scenario, args.seed, kept, twice=True)
    if args.minimise and result.violations:
        checkers = {each.checker for each in result.violations}

        def fails(tried: Kept) -> bool:
            twice = checkers == {"repetition"}
            return any(each.checker in checkers for each in judged(scenario, args.seed, tried, twice=twice).violations)

        kept = minimise(plan, fails, kept)
        result = judged(scenario, args.seed, kept, twice=True)
    for number, fault in enumerate(plan.faults):
        if kept.faults is None or number in kept.faults:
            print(f"fault {number}: {fault}")
    for client in kept.of(plan).clients:
        calls = ", ".join(f"{call.number} {call.work} {call.octets}" for call in client.calls)
        print(
            f"client {client.number}: version {client.version}, extension {client.extension}, calls {calls or 'none'}"
        )
    first_s = min((each.at_s for each in result.violations), default=None)
    print("\n".join(ladder(result.trace, until_s=first_s, lines_max=args.lines)))
    print(f"seed {args.seed}: {result.calls} calls, {result.faults} faults, {result.seconds:.6f} s")
    for violation in result.violations:
        print(f"  {violation}")
    if result.violations:
        print(f"replay: {_command(args.scenario, args.seed, kept)}")
    return 1 if result.violations else 0


def _many(scenario: Scenario, args: argparse.Namespace) -> int:
    began_s = time.monotonic()
    totals = Totals()
    for part in run_worlds(scenario, args.first, args.seeds, args.jobs, twice_every=args.twice_every):
        if (totals.worlds + part.worlds) // _TOLD_EVERY > totals.worlds // _TOLD_EVERY:
            print(f"{totals.worlds + part.worlds} worlds so far", file=sys.stderr, flush=True)
        for seed, wrong in part.failures[: max(0, _SHOWN_MAX - len(totals.failures))]:
            print(f"seed {seed}: {len(wrong)} violations, the first: {wrong[0]}")
            print(f"  replay: {_command(args.scenario, seed, Kept())}", flush=True)
        totals.add(part)
    took_s = time.monotonic() - began_s
    print(
        f"{totals.worlds} worlds of scenario {scenario.name}, seeds {args.first} to {args.first + args.seeds - 1}: "
        f"{totals.calls} calls, {totals.faults} faults, "
        f"{totals.virtual_s / 3600:.1f} h of their time in {took_s:.0f} s, "
        f"{totals.repeated} of them twice; {len(totals.failures)} failed"
    )
    return 1 if totals.failures else 0


def _command(scenario: str, seed: int, kept: Kept) -> str:
    """Returns the shell command that runs the parts `kept` of the world of a scenario and a seed again.

    `scenario` is the name of a scenario or the path of a file.
    """
    parts = [sys.executable, "-m", "rpcrdma_lab.simulation.worlds", "--scenario", scenario, "--seed", str(seed)]
    if kept.faults is not None:
        parts += ["--faults", ",".join(map(str, sorted(kept.faults)))]
    if kept.clients is not None:
        parts += ["--clients", ",".join(map(str, sorted(kept.clients)))]
    if kept.calls is not None:
        parts += ["--calls", ",".join(f"{client}.{call}" for client, call in sorted(kept.calls))]
    return shlex.join(parts)


def _numbers(text: str) -> frozenset[int]:
    return frozenset(int(part) for part in text.split(",") if part)


def _calls(text: str) -> frozenset[tuple[int, int]]:
    pairs = (part.partition(".") for part in text.split(",") if part)
    return frozenset((int(client), int(call)) for client, _, call in pairs)


if __name__ == "__main__":
    sys.exit(main())
