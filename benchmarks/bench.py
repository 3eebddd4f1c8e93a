"""One table of this library beside other ways to move data between two processes: `make bench`.

The calls are NULL, READ and WRITE of files in memory and on a disk's file system; the subjects are those of
`subjects.py`. Each subject has processes of its own, which begin anew in each round. In a round all subjects make a
short batch of each measure by turns, so that a machine that slows down for a while slows all of them. Each figure is
the median of the rounds, and half of the distance from the lowest to the highest round beside it.

`--write docs/performance.md`, as `make bench` says, puts the medians into the page, writes all figures to
docs/measured/performance.md, and draws the plots, which takes the lab's extra `plots`. `--from FILE` reads the results
of an earlier run with `--json`, instead of measuring. `--quick` measures and prints that table of medians alone, and
`--against SRC` adds a column of another checkout.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import nfs_servers
import performance_page
from event_loops import LOOPS
from machine import machine_and_versions
from orders import CONNECT, Order, resident_octets
from performance_report import MEASURES, Figure, Measure, Report, Samples, ratios_of, rows_of, table_text
from subjects import NATIVE, PARTLY_MISSING, PYTHON, SUBJECTS, Running, Scene, Subject, before


class Run:
    """A run of the bench, of `subjects` that are on this machine; nothing begins after the given minutes."""

    def __init__(self, options: argparse.Namespace, scene: Scene, subjects: Sequence[Subject]) -> None:
        self._options = options
        self._scene = scene
        self._subjects = subjects
        self._end = time.monotonic() + options.minutes * 60
        self.failed: dict[str, str] = {}
        self.samples: Samples = {}

    @contextlib.contextmanager
    def _noted(self, subject: Subject) -> Iterator[None]:
        """A subject that fails is left out from then on."""
        try:
            yield
        except (OSError, EOFError, ValueError, subprocess.SubprocessError) as error:
            print(f"{subject.name} is left out: {error}", file=sys.stderr)
            self.failed[subject.name] = str(error)

    def _able(self) -> Iterator[Subject]:
        """Subjects that have not failed, as long as there is time."""
        for subject in self._subjects:
            if subject.name not in self.failed and time.monotonic() < self._end:
                yield subject

    def connection_kib(self) -> dict[str, Figure]:
        """Memory that a server takes for one connection, in every other round: that of new servers, which keep none."""
        count = self._options.connections
        found: dict[str, list[float]] = {}
        for _ in range(0, self._options.rounds, 2):
            for subject in self._able():
                if subject.connects:
                    with self._noted(subject), subject.start(self._scene) as running:
                        # The first connections warm it up.
                        running.batch(Order(CONNECT, 0, max(count // 10, 1), 0, 0.0))
                        before = resident_octets(running.server_process)
                        running.batch(Order(CONNECT, 0, count, 0, 0.0))
                        growth = resident_octets(running.server_process) - before
                        found.setdefault(subject.name, []).append(growth / count / 1024)
        return {name: Figure.of(values) for name, values in found.items()}

    def round(self, number: int, measures: Sequence[Measure]) -> None:
        """All measures of all subjects, by turns, in new processes."""
        with contextlib.ExitStack() as stack:
            running: dict[Subject, Running] = {}
            for subject in self._able():
                with self._noted(subject):
                    running[subject] = stack.enter_context(subject.start(self._scene))
            for measure in measures:
                print(f"round {number + 1} of {self._options.rounds}: {measure.name}", file=sys.stderr)
                order = measure.order(self._options.seconds)
                able = [subject for subject in self._able() if subject in running and subject.makes(order)]
                for subject in able if number % 2 else reversed(able):
                    with self._noted(subject):
                        sample = running[subject].batch(order)
                        self.samples.setdefault((measure.name, subject.name), {})[number] = sample


def named(name: str, wanted: Sequence[str]) -> bool:
    """Whether one of the words stands in the name, or there are none."""
    return not wanted or any(word in name for word in wanted)


def measured(options: argparse.Namespace) -> Report:
    """Takes all measures."""
    offered = list(SUBJECTS)
    if options.against:
        offered.insert(1, before(performance_page.BEFORE, options.against))
    chosen = [subject for subject in offered if named(subject.name, options.subjects)]
    subjects = [subject for subject in chosen if not subject.missing]
    measures = [measure for measure in MEASURES if named(measure.name, options.only)]
    with nfs_servers.directories(options.disk) as directories:
        run = Run(options, Scene(directories, options.loop), subjects)
        connection_kib = {} if options.quick else run.connection_kib()
        for number in range(options.rounds):
            run.round(number, measures)
        machine = machine_and_versions(directories, options.loop)
    rdma = NATIVE if NATIVE in subjects else PYTHON
    missing = {subject.name: subject.missing for subject in chosen} | PARTLY_MISSING
    missing |= {name: f"failed: {words}" for name, words in run.failed.items()}
    return Report(
        machine,
        options.rounds,
        options.seconds,
        {subject.name: subject.explained for subject in subjects},
        rows_of(run.samples),
        ratios_of(run.samples, rdma.name, PYTHON.name),
        connection_kib,
        {name: hint for name, hint in missing.items() if hint},
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the results as one JSON object")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="the table of docs/performance.md alone, in less than two minutes: 3 rounds, batches of 0.02 s",
    )
    parser.add_argument("--rounds", type=int, help="rounds to take the median of (default: 5)")
    parser.add_argument("--seconds", type=float, help="length of a batch (default: 0.3)")
    parser.add_argument("--minutes", type=float, help="no batch begins after so many (default: 30)")
    parser.add_argument("--connections", type=int, default=100, help="to measure the memory of one (default: 100)")
    parser.add_argument("--only", nargs="+", default=(), help='measures with these words in them, such as "READ 1 MiB"')
    parser.add_argument("--subjects", nargs="+", default=(), help='subjects with these words in them, such as "RDMA 2"')
    parser.add_argument("--against", type=Path, metavar="SRC", help="another checkout's src, measured by turns")
    parser.add_argument("--disk", type=Path, default=nfs_servers.DISK_PARENT, help=nfs_servers.DISK_HELP)
    parser.add_argument("--loop", choices=LOOPS, default=LOOPS[-1], help="event loop (default: %(default)s)")
    parser.add_argument("--from", dest="earlier", type=Path, metavar="FILE", help="the results of an earlier run")
    parser.add_argument(
        "--write",
        type=Path,
        metavar="PAGE",
        help="put the medians into the page, write the page of all figures, and draw plots",
    )
    options = parser.parse_args()
    for name, quick, full in (("rounds", 3, 5), ("seconds", 0.02, 0.3), ("minutes", 1.4, 30)):
        if getattr(options, name) is None:
            setattr(options, name, quick if options.quick else full)
    if options.quick:
        options.only = options.only or [name for _, name, _, _ in performance_page.shown_rows()]
        options.subjects = options.subjects or [*performance_page.SHOWN.values(), performance_page.BEFORE]
    report = Report.from_json(json.loads(options.earlier.read_text())) if options.earlier else measured(options)
    if options.json:
        print(json.dumps(asdict(report), indent=1))
    elif options.quick:
        print(performance_page.medians(report))
        print(*(f"missing: {name}: {hint}\n" for name, hint in report.missing.items()), sep="", end="")
    else:
        print(table_text(report))
    if options.write:
        performance_page.write(options.write, report)


if __name__ == "__main__":
    main()
