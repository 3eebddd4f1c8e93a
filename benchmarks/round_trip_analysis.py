"""The tables of docs/round-trip-analysis.md: counts, the statements of the draft, and a comparison with real runs.

The last tables compare the simulation with the counts of `benchmarks/operations.py` and the real times of
`benchmarks/round_trips.py`, as their pages have them. `python benchmarks/round_trip_analysis.py --write
docs/round-trip-analysis.md` puts all tables into the page.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pages
from round_trip_laboratory import (
    BATCHED,
    BOTH_8,
    COUNTED_1,
    MILES,
    READ,
    ROOT,
    SIZE,
    V1,
    WRITE,
    Laboratory,
    default_variants,
    laboratory,
)
from round_trip_proposals import STATEMENTS

from rpcrdma.testing.virtual import PROFILES, FabricModel
from rpcrdma_lab.simulation.critical_path import path_in_words
from rpcrdma_lab.simulation.measured_calls import OPERATIONS, VARIANTS
from rpcrdma_lab.simulation.round_trips import COLUMNS, cells

# The simulation and the real measurements


class Checked(NamedTuple):
    """A count or a time of a page, and the simulation's."""

    name: str
    way: str
    real: float
    simulated: float


COUNTS = ("Sends", "RDMA Reads", "RDMA Writes", "registrations", "round trips")
_ROW = re.compile(r"^\| (READ|WRITE), (\d+) KiB \|(.*)\|$", re.MULTILINE)
_TIMES = re.compile(r"^\| (READ|WRITE) \| (1|10) \| 1 \| (4|64|192) \|(.*)\|$", re.MULTILINE)
_PAGES = {
    "versions.md": (COUNTED_1, "real: version 2"),
    "round-trips.md": ("real: version 2", "real: extension, rtr"),
}
"""The two ways in each cell of the pages of `benchmarks/operations.py`, before and after the arrow."""


def counts(lab: Laboratory) -> list[Checked]:
    """The counts of `benchmarks/operations.py`."""
    found: dict[tuple[str, str], Checked] = {}
    for page, ways in _PAGES.items():
        for operation, kibibytes, line in _ROW.findall((ROOT / "docs" / page).read_text()):
            for count, cell in zip(COUNTS, line.split("|"), strict=True):
                values = re.findall(r"\d+", cell)
                for way, value in zip(ways, (values[0], values[-1]), strict=True):
                    account = lab(operation, way, size=int(kibibytes) << 10)
                    simulated = {
                        "Sends": account.sends,
                        "RDMA Reads": account.reads,
                        "RDMA Writes": account.writes,
                        "registrations": account.registrations,
                        "round trips": account.round_trips,
                    }[count]
                    name = f"{operation}, {kibibytes} KiB: {count}"
                    found[name, way] = Checked(name, way, float(value), simulated)
    return list(found.values())


def times(lab: Laboratory) -> list[Checked]:
    """The times in microseconds of `benchmarks/round_trips.py`, one call in flight, 1 and 10 ms one way."""
    found = []
    ways = [variant.name for variant in default_variants()]
    for operation, delay_ms, kibibytes, line in _TIMES.findall((ROOT / "docs" / "round-trips.md").read_text()):
        miles = 2 * int(delay_ms) * 1e-3 / FabricModel().round_trip_s_per_mile
        for way, cell in zip(ways, line.split("|"), strict=True):
            real_us = float(cell.split()[0].replace(",", ""))
            simulated_us = lab(operation, way, size=int(kibibytes) << 10, miles=miles).latency_s * 1e6
            found.append(Checked(f"{operation} | {delay_ms} | {kibibytes}", way, real_us, simulated_us))
    return found


# The page


def row_table(lab: Laboratory) -> Iterator[str]:
    """The counts of `rpcrdma roundtrips --miles 1`."""
    yield "### Counts\n\n"
    yield (
        f"`rpcrdma roundtrips --miles {MILES:g}`: {SIZE:,} octets of data, {MILES:g} mile. S is the server, the "
        'responder; C is the client, the requester. "int" counts interrupts, "reg" registrations, "inv" invalidations '
        "by the host. Counts behind a plus are beside the critical path.\n\n"
    )
    yield f"| operation | variant | {' | '.join(COLUMNS)} |\n|---|---|{'---:|' * len(COLUMNS)}\n"
    for operation in OPERATIONS:
        lines = {variant.name: cells(lab(operation.name, variant.name)) for variant in VARIANTS}
        if len({tuple(line[:-1]) for line in lines.values()}) == 1:
            slowest = max(lines.values(), key=lambda line: float(line[-1]))
            lines = {"all": slowest}
        if operation.calls > 1:
            lines[f"{BATCHED}: several calls in one Send"] = cells(lab(operation.name, BATCHED))
        for name, line in lines.items():
            yield f"| {operation.name} | {name} | {' | '.join(line)} |\n"


def statement_table(lab: Laboratory) -> Iterator[str]:
    """Every statement with its result."""
    yield "\n### Statements\n\n"
    yield "| section | statement | measured | agrees | shown by |\n|---|---|---|---|---|\n"
    for statement in STATEMENTS:
        result, agrees = statement.measure(lab)
        verdict = "yes" if agrees else f"**no**: {statement.why}"
        command = statement.command.replace("BATCHES", "examples/extension_batches/batches.py:batches_extension")
        shown_by = command if command.startswith("from Python") else f"`{command}`"
        yield f"| {statement.section} | {statement.says} | {result} | {verdict} | {shown_by} |\n"


def comparison(lab: Laboratory) -> Iterator[str]:
    """The simulation beside the real counts and times."""
    counted = counts(lab)
    different = [one for one in counted if one.real != one.simulated]
    yield "\n### Beside the software RNIC\n\n"
    yield (
        "`benchmarks/operations.py` counts Sends, RDMA operations, registrations and round trips of READ and WRITE of "
        "1 KiB to 1 MiB over the software RNIC, in versions 1 and 2 and with the extension. In the simulation, "
        f"{len(different)} counts differ of {len(counted)}.\n"
    )
    for one in different:
        yield f"- {one.name}, {one.way.removeprefix('real: ')}: {one.real:g} counted, {one.simulated:g} simulated\n"
    yield (
        "\n`benchmarks/round_trips.py` measures the time of a call through a relay that delays. Real microseconds less "
        "those of the simulation, one call in flight:\n\n"
    )
    ways = [variant.name for variant in default_variants()]
    yield "| call | one way, ms | KiB |" + "".join(f" {way.removeprefix('real: ')} |" for way in ways) + "\n"
    yield "|---|---:|---:|" + "---:|" * len(ways) + "\n"
    found = times(lab)
    for name in dict.fromkeys(one.name for one in found):
        cells = [
            f" {one.real:,.0f} - {one.simulated:,.0f} = {one.real - one.simulated:,.0f} |"
            for one in found
            if one.name == name
        ]
        yield f"| {name} |{''.join(cells)}\n"


def part_table(lab: Laboratory) -> Iterator[str]:
    """The parts of latencies at the distances of the profiles."""
    names = ("distance", "interrupts", "registration", "invalidation", "sending", "copying", "server")
    yield "\n### Parts of the latency\n\nMicroseconds at the distance of each profile:\n\n"
    yield f"| miles | call | variant | {' | '.join(names)} | together |\n|---:|---|---|{'---:|' * (len(names) + 1)}\n"
    for profile, model in PROFILES.items():
        for operation in (READ, WRITE):
            for variant in (V1, BOTH_8):
                found = lab(operation, variant, profile=profile, miles=model.miles)
                values = [found.parts_s.get(name, 0.0) for name in names]
                cells = [f"{value * 1e6:.2f}" for value in (*values, found.latency_s)]
                yield f"| {model.miles:g} | {operation} | {variant} | {' | '.join(cells)} |\n"


def paths(lab: Laboratory) -> Iterator[str]:
    """Two critical paths."""
    yield "\n### Two critical paths\n\n"
    yield f"A WRITE of {SIZE:,} octets over {MILES:g} mile, with microseconds since the call:\n\n"
    for variant in (V1, BOTH_8):
        yield f"- {variant}: {path_in_words(lab(WRITE, variant).path)}\n"


def page() -> str:
    """The generated part of the page."""
    lab = laboratory()
    return "".join([*row_table(lab), *paths(lab), *part_table(lab), *statement_table(lab), *comparison(lab)]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the tables between their marks in the page")
    options = parser.parse_args()
    if options.write is None:
        print(page(), end="")
    else:
        pages.put(options.write, Path(__file__).name, page())


if __name__ == "__main__":
    main()
