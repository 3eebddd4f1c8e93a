"""Rates of data tools over `rdma://`: a large file, many Parquet files at a time, and a long listing, beside others.

- `cat_file` of a file through fsspec, beside the client's own rate into memory that is there;
- `pandas.read_parquet` of many files, some at a time, from `rdma://` and from the result of `cat_file` or of one `cat`,
  through sshfs, from the directory itself, and through s3fs where it is installed, with moto as the server;
- `pandas.read_parquet` of their directory; in both, `memory://` has the files in the process itself, which shows how
  fast any file system of fsspec can be;
- names of a large directory, beside the client and server of an earlier commit, whose source is taken out of git.

Servers and clients are processes on loopback, and files are in memory. All subjects of a measure are taken by turns in
every round, and the medians are compared.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import fsspec
import fsspec_rates
import local_s3
import nfs_servers
import sshfs_mount

from rpcrdma.aio.urls import parse_url

ROOT = Path(__file__).parents[1]
BEFORE = "4a28d89"
"""The last commit without `rpcrdma.fsspec`, and without listings by name."""
PARQUET_COLUMNS = 4
FILE, PARQUET, NAMES = MEASURES = ("file", "parquet", "names")

TARGETS = {"rpcrdma ls": 3.0}
"""`listdir` asked for names alone before, too, and `ls -l` shows what takes attributes."""

# In a process of its own, since it is run with either source: prints the seconds.
LIST_NAMES = """
import asyncio, sys, time
import rpcrdma

async def main(url, mount_port):
    async with rpcrdma.nfs_open(url, mount_port=int(mount_port)) as fs:
        await fs.stat("/")
        start = time.perf_counter()
        names = await fs.listdir("/many")
        print(time.perf_counter() - start, len(names))

asyncio.run(main(*sys.argv[1:]))
"""

Timed = Callable[[], float]
"""Does something once: the seconds that it took."""


@dataclass(frozen=True, slots=True)
class Row:
    """A median, and how many times as fast it is as the measure's first subject."""

    measure: str
    subject: str
    value: float
    unit: str
    ratio: float | None
    target: float | None


@dataclass(frozen=True, slots=True)
class Measure:
    """Subjects with the same task; the first one is the reference."""

    name: str
    unit: str
    amount: float
    """What one go does, in that unit without its "/s"."""
    target: float | None
    """So many times as fast as the first subject the last one is to be; None where only the answer is of interest."""
    subjects: dict[str, Timed]


def file_measure(server: nfs_servers.ServerAddresses, octets: int) -> Measure:
    found = fsspec_rates.measures(server.rdma, parse_url(server.tcp).port, octets)
    subjects = {subject: timed for (kind, subject), timed in found.items() if kind == "read"}
    return Measure(f"a file of {octets >> 20} MiB", "GB/s", octets * 1e-9, 0.9, subjects)


def parquet_measures(
    stack: contextlib.ExitStack,
    server: nfs_servers.ServerAddresses,
    mount: Path,
    rows: int,
    options: argparse.Namespace,
) -> list[Measure]:
    import numpy as np  # noqa: PLC0415 - of the group dev-data, which the other measures do without
    import pandas as pd  # noqa: PLC0415

    folder = f"parts-{rows}"
    Path(server.directory, folder).mkdir()
    names = [f"{folder}/{number:03}.parquet" for number in range(options.files)]
    random = np.random.default_rng(1)
    for name in names:
        frame = pd.DataFrame({f"c{column}": random.random(rows) for column in range(PARQUET_COLUMNS)})
        frame.to_parquet(Path(server.directory, name))
    octets = sum(Path(server.directory, name).stat().st_size for name in names) / len(names)
    memory = fsspec.filesystem("memory")
    memory.put(str(Path(server.directory, folder)), f"/{folder}", recursive=True)
    stack.callback(memory.rm, f"/{folder}", recursive=True)

    def begun(top: str, storage_options: dict[str, Any] | None = None) -> float:
        if top.startswith("rdma://"):
            # Otherwise attributes from the previous subject would still be valid.
            fsspec.url_to_fs(top, **(storage_options or {}))[0].invalidate_cache()
        return time.perf_counter()

    def reading(top: str, storage_options: dict[str, Any] | None = None, whole: Any = None) -> Timed:
        def read(name: str) -> int:
            if whole is not None:
                return len(pd.read_parquet(io.BytesIO(whole.cat_file(f"{top}/{name}"))))
            return len(pd.read_parquet(f"{top}/{name}", storage_options=storage_options))

        def go() -> float:
            start = begun(top, storage_options)
            with ThreadPoolExecutor(options.at_a_time) as pool:
                assert sum(pool.map(read, names)) == rows * len(names)
            return time.perf_counter() - start

        return go

    def reading_all(top: str) -> Timed:
        def go() -> float:
            start = begun(top)
            assert len(pd.read_parquet(f"{top}/{folder}")) == rows * len(names)
            return time.perf_counter() - start

        return go

    subjects = {"sshfs": reading(str(mount)), "the directory itself": reading(server.directory)}
    subjects["memory://"] = reading("memory:/")
    if local_s3.installed():
        stored = stack.enter_context(local_s3.stored(Path(server.directory), names))
        subjects["s3fs"] = reading(f"s3://{local_s3.BUCKET}", stored)
    else:
        print(f"without s3fs: {local_s3.HINT}", file=sys.stderr)
    top = f"{server.rdma}+{parse_url(server.tcp).port}"
    subjects["rdma://, by cat_file"] = reading(top, whole=fsspec.url_to_fs(top)[0])

    def by_one_cat() -> float:
        start = time.perf_counter()
        files = fsspec.url_to_fs(top)[0].cat([f"{top}/{name}" for name in names])
        with ThreadPoolExecutor(options.at_a_time) as pool:
            read = pool.map(lambda octets: len(pd.read_parquet(io.BytesIO(octets))), files.values())
            assert sum(read) == rows * len(names)
        return time.perf_counter() - start

    subjects["rdma://, by one cat"] = by_one_cat
    subjects["rdma://, close_to_open=False"] = reading(top, {"close_to_open": False})
    subjects["rdma://"] = reading(top)
    name = f"{len(names)} Parquet files of {octets / 1e6:.2g} MB"
    tops = {"sshfs": str(mount), "the directory itself": server.directory, "memory://": "memory:/", "rdma://": top}
    directory = {subject: reading_all(where) for subject, where in tops.items()}
    return [
        Measure(f"{name}, {options.at_a_time} at a time", "files/s", len(names), 1.0, subjects),
        Measure(f"{name}, by their directory", "files/s", len(names), 1.0, directory),
    ]


@contextlib.contextmanager
def source_of(commit: str) -> Iterator[str]:
    """The `src` of a commit."""
    with tempfile.TemporaryDirectory(prefix="rpcrdma-before-") as where:
        archive = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", where], input=archive, check=True)
        yield str(Path(where, "src"))


def names_measures(stack: contextlib.ExitStack, options: argparse.Namespace) -> list[Measure]:
    subjects: dict[str, dict[str, Timed]] = {}
    sources = {f"at {options.before}": stack.enter_context(source_of(options.before)), "now": str(ROOT / "src")}
    for when, source in sources.items():
        # Bytecode is written: an installed package has it.
        environment = {**os.environ, "PYTHONPATH": source, "PYTHONDONTWRITEBYTECODE": ""}
        server = stack.enter_context(nfs_servers.served_file(environment, octets=0))
        many = Path(server.directory, "many")
        many.mkdir()
        for number in range(options.names):
            (many / f"part-{number:06}.parquet").touch()
        port = str(parse_url(server.tcp).port)
        command = [sys.executable, "-m", "rpcrdma", "ls", f"{server.rdma}/many", "--mount-port", port]
        todo = {
            "listdir": [sys.executable, "-c", LIST_NAMES, server.rdma, port],
            "rpcrdma ls": command,
            "rpcrdma ls -l": [*command, "-l"],
        }
        for name, line in todo.items():
            subjects.setdefault(name, {})[when] = listing(line, environment, options.names)
    return [
        Measure(f"{options.names} names, {name}", "names/s", options.names, TARGETS.get(name), both)
        for name, both in subjects.items()
    ]


def listing(command: list[str], environment: dict[str, str], count: int) -> Timed:
    def go() -> float:
        start = time.perf_counter()
        done = subprocess.run(command, env=environment, check=True, capture_output=True)
        elapsed = time.perf_counter() - start
        if LIST_NAMES in command:
            seconds, found = done.stdout.split()
            assert int(found) == count
            return float(seconds)
        assert len(done.stdout.splitlines()) == count
        return elapsed

    return go


def rows(options: argparse.Namespace) -> list[Row]:
    found: list[Row] = []
    with contextlib.ExitStack() as stack:
        measures: list[Measure] = []
        if {FILE, PARQUET} & set(options.only):
            octets = options.megabytes << 20
            server = stack.enter_context(nfs_servers.served_file(octets=octets if FILE in options.only else 0))
            if FILE in options.only:
                measures.append(file_measure(server, octets))
            if PARQUET in options.only:
                mount = stack.enter_context(sshfs_mount.mounted(Path(server.directory)))
                for count in options.rows:
                    measures += parquet_measures(stack, server, mount, count, options)
        if NAMES in options.only:
            measures += names_measures(stack, options)
        for measure in measures:
            found += taken(measure, options.rounds)
    return found


def taken(measure: Measure, rounds: int) -> list[Row]:
    """The subjects' medians, taken by turns after one go of each that warms up."""
    seconds: dict[str, list[float]] = {subject: [] for subject in measure.subjects}
    for number in range(rounds + 1):
        print(f"round {number} of {rounds}: {measure.name}", file=sys.stderr)
        for subject, go in measure.subjects.items():
            elapsed = go()
            if number:
                seconds[subject].append(elapsed)
    medians = {subject: statistics.median(values) for subject, values in seconds.items()}
    first, *_, last = medians
    return [
        Row(
            measure.name,
            subject,
            round(measure.amount / median, 3),
            measure.unit,
            round(medians[first] / median, 3) if subject != first else None,
            measure.target if subject == last else None,
        )
        for subject, median in medians.items()
    ]


def markdown(table: list[Row]) -> str:
    lines = ["| | through | | beside the first | to be at least |", "|---|---|---|---|---|"]
    measure = ""
    for row in table:
        value = f"{row.value:.2f}" if row.value < 100 else f"{row.value:.0f}"
        ratio, target = ("" if number is None else f"{number:.2f}" for number in (row.ratio, row.target))
        name = "" if row.measure == measure else row.measure
        lines.append(f"| {name} | {row.subject} | {value} {row.unit} | {ratio} | {target} |")
        measure = row.measure
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the rows as one JSON array")
    parser.add_argument("--markdown", action="store_true", help="print the table of docs/data-tools.md")
    parser.add_argument("--rounds", type=int, default=5, help="rounds to take the median of (default: %(default)s)")
    parser.add_argument("--only", nargs="+", choices=MEASURES, default=MEASURES, help="(default: all)")
    parser.add_argument("--megabytes", type=int, default=1024, help="MiB of the large file (default: %(default)s)")
    parser.add_argument("--files", type=int, default=100, help="Parquet files (default: %(default)s)")
    parser.add_argument("--at-a-time", type=int, default=16, help="files that are read at once (default: %(default)s)")
    parser.add_argument(
        "--rows",
        type=int,
        nargs="+",
        default=(1000, 100_000, 400_000),
        help="of a Parquet file, of 32 octets each (default: %(default)s)",
    )
    parser.add_argument("--names", type=int, default=50_000, help="names in the directory (default: %(default)s)")
    parser.add_argument("--before", metavar="COMMIT", default=BEFORE, help="compared with (default: %(default)s)")
    options = parser.parse_args()
    table = rows(options)
    if options.json:
        print(json.dumps([asdict(row) for row in table], indent=2))
    elif options.markdown:
        print(markdown(table))
    else:
        for row in table:
            ratio = "" if row.ratio is None else f"{row.ratio:.2f} x" + (f", to be {row.target}" if row.target else "")
            print(f"{row.measure:48}{row.subject:28}{row.value:>12} {row.unit:8} {ratio}")


if __name__ == "__main__":
    main()
