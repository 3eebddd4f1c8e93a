"""`rpcrdma roundtrips`: round trips, interrupts and registrations of calls, in a simulated fabric."""

from __future__ import annotations

import argparse
import importlib.util
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rpcrdma.commands import CommandParser, ExitStatus, add_json, console, octets
from rpcrdma_lab.commands.added_extension import METAVAR, extension_maker
from rpcrdma_lab.commands.output_file import empty, opened_before_work

if TYPE_CHECKING:
    from rpcrdma.testing.virtual import FabricModel
    from rpcrdma_lab.simulation.latency_curves import Curves
    from rpcrdma_lab.simulation.measured_calls import Variant
    from rpcrdma_lab.simulation.round_trips import Row

__all__ = ["add_arguments", "run"]

_EXAMPLES = """\
  rpcrdma roundtrips
  rpcrdma roundtrips --miles 30 --size 64Ki
  rpcrdma roundtrips --profile campus --json
  rpcrdma roundtrips --plot latency.svg
  rpcrdma roundtrips --add-extension batches.py:batches_extension

output, for each operation and each way to carry it:
  trips: round trips on the critical path, which is the chain of causes from
  the return of the call back to the call
  int, reg, inv: interrupts, registrations and local invalidations of the
  server (S) and of the client (C), on the critical path; beside it after a +
  remote inv: handles of the client that the server's Sends have ended
  sends, reads, writes, acks: Sends, RDMA Reads, RDMA Writes and
  acknowledgements in all
  µs: the time from the call to its return

The calls run in a simulated fabric in virtual time. docs/round-trip-analysis.md
compares the results with draft-dnoveck-nfsv4-rpcrdma-rtissues-02.
"""
_SIZE = 8192
_SIZE_MAX = 1 << 19
"""A server takes 1.25 MiB of arguments in one call by default, and the largest operation has two WRITEs."""
_MILES_MAX = 12_500
"""Half the circumference of the earth; over much more, long replies would exceed the time limits of a connection."""
_PROFILES = ("machine-room", "campus", "metropolitan")
"""The names in `rpcrdma.testing.virtual.PROFILES`, whose import would delay --help; a test compares them."""
_MILES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
_SIZES = tuple(1 << power for power in range(10, 20))
"""The points of the plots in octets; `_MILES` are those in miles."""


def add_arguments(parser: CommandParser) -> None:
    """Adds the arguments of `rpcrdma roundtrips` to its parser."""
    parser.describe(run, "", _EXAMPLES, connects=False)
    add = parser.add_argument
    add("--miles", type=_miles, metavar="MILES", help="the distance, 16 µs of round trip for each mile")
    add("--size", type=_size, default=_SIZE, metavar="SIZE", help="octets of data, up to 512Ki (default: %(default)s)")
    add(
        "--profile",
        choices=_PROFILES,
        default=_PROFILES[0],
        help="distance and costs: %(choices)s (default: %(default)s)",
    )
    add("--paths", action="store_true", help="print the critical path below each row, with microseconds since the call")
    add(
        "--plot",
        type=Path,
        metavar="FILE.svg",
        help="draw the latency by distance and by size; needs the package matplotlib",
    )
    add(
        "--add-extension",
        metavar=METAVAR,
        help="compare one more variant, with the extension of version 2 that the function returns",
    )
    add_json(parser, "one JSON object with the model, the rows, and with --plot the curves")


def run(args: argparse.Namespace) -> int:
    """Runs `rpcrdma roundtrips` with parsed arguments, and prints the table; returns the exit status.

    The status is FAILED if --plot is given and no plot can be drawn: then the reason is printed before any measurement,
    in place of the table. Otherwise the status is DONE.

    Raises:
        AddedExtensionFailed: --add-extension names no function that makes an extension.
        RpcRdmaError: a simulated call failed.
        OSError: the plot cannot be written.
    """
    from rpcrdma.testing.virtual import PROFILES  # noqa: PLC0415
    from rpcrdma_lab.simulation.measured_calls import VARIANTS, with_extension  # noqa: PLC0415
    from rpcrdma_lab.simulation.round_trips import rows  # noqa: PLC0415

    if args.plot is not None and (fault := _cannot_plot(args.plot)):
        return console.error(*fault)
    model = PROFILES[args.profile]
    if args.miles is not None:
        model = replace(model, miles=args.miles)
    variants = list(VARIANTS)
    if args.add_extension is not None:
        make = extension_maker(args.add_extension)
        variants.append(with_extension(args.add_extension.rpartition(":")[2], make))
    if args.plot is None:
        _show(args, model, rows(model, args.size, variants), [])
        return ExitStatus.DONE
    with opened_before_work(args.plot) as file:
        table = rows(model, args.size, variants)
        curves = _curves(model, args, variants)
        _show(args, model, table, curves)
        from rpcrdma_lab.commands.latency_plot import draw  # noqa: PLC0415

        empty(file)
        draw(curves, file)
    return ExitStatus.DONE


def _show(args: argparse.Namespace, model: FabricModel, table: Sequence[Row], curves: Iterable[Curves]) -> None:
    """Prints the table, or with --json one object that has the `curves` as well."""
    if args.json:
        console.json_line(
            {
                "profile": args.profile,
                "size_bytes": args.size,
                "model": asdict(model),
                "rows": [_described(row) for row in table],
                "curves": [_described_curves(each) for each in curves],
            }
        )
    else:
        _print(args, model, table)


def _miles(text: str) -> float:
    """Parses a distance in miles, from 0 to 12,500, for argparse.

    Raises:
        argparse.ArgumentTypeError: the text is no such number.
    """
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= _MILES_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is not a distance: write miles from 0 to {_MILES_MAX}, such as 0.5")
    return value


def _size(text: str) -> int:
    """Parses a size in octets, up to 512 KiB, for argparse.

    Raises:
        argparse.ArgumentTypeError: the text is no size, or the size is too large.
    """
    value = octets(text)
    if value > _SIZE_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is too large: a call has up to {_SIZE_MAX >> 10}Ki of data here")
    return value


def _cannot_plot(file: Path) -> tuple[str, str] | None:
    """Returns (the reason why no plot can be drawn to `file`, its remedy); None if it can."""
    if file.suffix != ".svg":
        return f"{file}: plots are SVG files", "choose a name that ends in .svg"
    if importlib.util.find_spec("matplotlib") is None:
        return "--plot needs the package matplotlib", "install it: pip install matplotlib"
    return None


def _curves(model: FabricModel, args: argparse.Namespace, variants: Sequence[Variant]) -> list[Curves]:
    from rpcrdma_lab.simulation.measured_calls import PLOTTED_OPERATIONS  # noqa: PLC0415
    from rpcrdma_lab.simulation.round_trips import curves_over_distance, curves_over_size  # noqa: PLC0415

    plotted = [variant for variant in variants if variant.plotted]
    return [
        *curves_over_distance(model, args.size, _MILES, plotted, PLOTTED_OPERATIONS),
        *curves_over_size(model, _SIZES, plotted, PLOTTED_OPERATIONS),
    ]


def _print(args: argparse.Namespace, model: FabricModel, table: Iterable[Row]) -> None:
    from rpcrdma_lab.simulation.critical_path import path_in_words  # noqa: PLC0415
    from rpcrdma_lab.simulation.round_trips import COLUMNS, cells  # noqa: PLC0415

    unit = "mile" if model.miles == 1 else "miles"
    console.data(
        f"{args.size} octets of data, {model.miles:g} {unit} ({2e6 * model.one_way_s:g} µs of round trip), "
        f"profile {args.profile}"
    )
    for operation, same in itertools.groupby(table, key=lambda row: row.operation):
        console.data("")
        console.data(operation)
        together = list(same)
        lines = [[row.variant, *cells(row.account)] for row in together]
        console.table(lines, right=range(1, 1 + len(COLUMNS)), headings=["variant", *COLUMNS])
        for row in together if args.paths else ():
            console.data(f"  {row.variant}: {path_in_words(row.account.path)}")


def _described(row: Row) -> dict[str, Any]:
    """Returns a row of the table as a JSON object: operation, variant, size, miles, counts, latency, critical path."""
    from rpcrdma_lab.simulation.critical_path import part_of  # noqa: PLC0415

    found = row.account
    ends = {"requester": found.requester, "responder": found.responder}
    counts = {f"{end}_{name}": count for end, own in ends.items() for name, count in asdict(own).items()}
    names = ("one_way_trips", "sends", "reads", "writes", "acknowledgements", "acknowledgements_on_path")
    counts |= {name: getattr(found, name) for name in (*names, "messages", "registrations")}
    return {
        "operation": row.operation,
        "variant": row.variant,
        "size_bytes": row.size_octets,
        "miles": row.miles,
        "round_trips": found.round_trips,
        **counts,
        "message_bytes": found.octets,
        "acknowledgement_bytes": found.acknowledgement_octets,
        "latency_us": _us(found.latency_s),
        "parts_us": {part: _us(seconds) for part, seconds in found.parts_s.items()},
        "path": [
            {
                "event": event.kind.value,
                "node": event.node,
                "text": event.text,
                "part": part_of(event),
                "at_us": _us(event.at_s - found.path[0].at_s),
            }
            for event in found.path
        ],
    }


def _described_curves(curves: Curves) -> dict[str, Any]:
    return {
        "operation": curves.operation,
        "over": curves.over,
        "at": list(curves.at),
        "latencies_us": {name: [_us(value) for value in values] for name, values in curves.latencies_s.items()},
        "crossings": [
            {
                "at": round(each.at, 3),
                "latency_us": _us(each.latency_s),
                "faster_beyond": each.faster,
                "slower_beyond": each.slower,
            }
            for each in curves.crossings()
        ],
    }


def _us(seconds: float) -> float:
    return round(seconds * 1e6, 3)
