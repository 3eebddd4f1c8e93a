"""The measures of the bench, and its results: medians with their spread, ratios, and the table."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nfs_servers import DISK, MEMORY, PLACES
from orders import Order, Sample

SIZES = {4096: "4 KiB", 1 << 16: "64 KiB", 1 << 20: "1 MiB", 1 << 24: "16 MiB"}
MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Measure:
    """Calls of one kind, `in_flight` of them unanswered at any time, on a file in the place."""

    call: str
    size_bytes: int
    in_flight: int
    place: str

    @property
    def name(self) -> str:
        if not self.size_bytes:
            return f"{self.call} x{self.in_flight}"
        return f"{self.call} {SIZES[self.size_bytes]} x{self.in_flight}, {self.place}"

    def order(self, seconds: float) -> Order:
        return Order(self.call, self.size_bytes, self.in_flight, PLACES.index(self.place), seconds)


MEASURES = (
    *(Measure("NULL", 0, in_flight, MEMORY) for in_flight in (1, 32, 256)),
    *(
        Measure(call, size, in_flight, place)
        for place in PLACES
        for call in ("READ", "WRITE")
        for size in SIZES
        for in_flight in (1, 16)
    ),
    # Into a caller's buffer that begins 16 octets behind the begin of a page.
    *(Measure("READ@16", MEGABYTE, in_flight, MEMORY) for in_flight in (1, 16)),
)
BY_NAME = {measure.name: measure for measure in MEASURES}
Samples = dict[tuple[str, str], dict[int, Sample]]
"""Of a measure and a subject, by their names, in each round."""


@dataclass(frozen=True, slots=True)
class Figure:
    """The median of the rounds, and the lowest and the highest."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Figure:
        return cls(*(float(f"{value:.4g}") for value in (statistics.median(values), min(values), max(values))))

    def divided(self, divisor: int) -> Figure:
        """The same in a larger unit."""
        return Figure(self.median / divisor, self.low / divisor, self.high / divisor)

    @property
    def spread(self) -> str:
        """Half of the distance from the lowest to the highest; empty if they are the same, as after one round."""
        return f" ±{(self.high - self.low) / 2 / self.median:.0%}" if self.high > self.low else ""

    @property
    def median_text(self) -> str:
        """The median alone, with three digits or more."""
        digits = 0 if self.median >= 100 else 1 if self.median >= 10 else 2
        return f"{self.median:,.{digits}f}"

    def text(self) -> str:
        return f"{self.median_text}{self.spread}"


@dataclass(frozen=True, slots=True)
class Row:
    """A measure of a subject: a call's time and its processor time at both ends, calls a second."""

    measure: str
    subject: str
    rounds: int
    latency_us: Figure | None
    calls_per_s: Figure
    gb_per_s: Figure | None
    client_us: Figure | None
    server_us: Figure | None
    both_us: Figure | None


@dataclass(frozen=True, slots=True)
class Ratio:
    """A quotient of two figures, taken in each round."""

    name: str
    figure: Figure


@dataclass(frozen=True, slots=True)
class Report:
    """The results of a run; `missing` are subjects, each with the way to install it."""

    machine: dict[str, str]
    rounds: int
    seconds: float
    columns: dict[str, str]
    rows: list[Row]
    ratios: list[Ratio]
    connection_kib: dict[str, Figure]
    missing: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Report:
        """The report of an object that `--json` has printed."""

        def figure(value: Mapping[str, float] | None) -> Figure | None:
            return None if value is None else Figure(**value)

        rows = [
            Row(**{key: figure(value) if isinstance(value, dict) else value for key, value in row.items()})
            for row in told["rows"]
        ]
        ratios = [Ratio(ratio["name"], Figure(**ratio["figure"])) for ratio in told["ratios"]]
        memory = {name: Figure(**value) for name, value in told["connection_kib"].items()}
        return cls(**{**told, "rows": rows, "ratios": ratios, "connection_kib": memory})


def rows_of(samples: Samples) -> list[Row]:
    """A row for each measure and subject."""
    rows = []
    for (name, subject), by_round in samples.items():
        found = list(by_round.values())
        size = BY_NAME[name].size_bytes

        def figure(value: Callable[[Sample], float | None], found: list[Sample] = found) -> Figure | None:
            values = [each for sample in found if (each := value(sample)) is not None]
            return Figure.of(values) if values else None

        rate = figure(lambda sample: sample.calls_per_s)
        assert rate is not None
        rows.append(
            Row(
                name,
                subject,
                len(found),
                figure(lambda sample: sample.median_us),
                rate,
                figure(lambda sample, size=size: sample.calls_per_s * size / 1e9) if size else None,
                figure(lambda sample: sample.client_us),
                figure(lambda sample: sample.server_us),
                figure(both_us),
            )
        )
    return rows


def both_us(sample: Sample) -> float | None:
    """Processor time of both ends."""
    return None if sample.client_us is None or sample.server_us is None else sample.client_us + sample.server_us


def median_us(sample: Sample) -> float | None:
    return sample.median_us


def rate(sample: Sample) -> float | None:
    return sample.calls_per_s


def _measure(call: str, size: int = 0, in_flight: int = 1, place: str = MEMORY) -> str:
    return Measure(call, size, in_flight, place).name


def ratios_of(samples: Samples, rdma: str, python: str) -> list[Ratio]:
    """The ratios that tell how this library does: `rdma` is the subject that users get."""
    null, null_32 = _measure("NULL"), _measure("NULL", in_flight=32)
    read, write = (_measure(call, MEGABYTE, 16) for call in ("READ", "WRITE"))
    small_read, small_write = _measure("READ", 4096), _measure("WRITE", 4096)
    wanted: list[tuple[str, Callable[[Sample], float | None], tuple[str, str], tuple[str, str]]] = [
        ("latency of NULL x1: RDMA to TCP", median_us, (null, rdma), (null, "TCP")),
        ("calls a second, NULL x32: RDMA to gRPC", rate, (null_32, rdma), (null_32, "gRPC")),
    ]
    for subject, others in ((rdma, ("iperf3", "gRPC", "TCP")), ("floor", ("iperf3",))):
        for other in others:
            for name in (read, write):
                words = f"rate of {name}: {'floor' if subject == 'floor' else 'RDMA'} to {other}"
                wanted.append((words, rate, (name, subject), (name, other)))
    on_disk = _measure("WRITE", 4096, place=DISK)
    wanted.append(("CPU of both ends, WRITE 4 KiB x1: disk to memory", both_us, (on_disk, rdma), (small_write, rdma)))
    if rdma != python:
        compared = (null, null_32, small_read, small_write, read, write)
        wanted += [
            (f"CPU of both ends, {name}: native to Python", both_us, (name, rdma), (name, python)) for name in compared
        ]
    ratios = []
    for words, value, own, other in wanted:
        pairs = [
            (value(samples[own][number]), value(samples[other][number]))
            for number in samples.get(own, {})
            if number in samples.get(other, {})
        ]
        quotients = [first / second for first, second in pairs if first is not None and second]
        if quotients:
            ratios.append(Ratio(words, Figure.of(quotients)))
    return ratios


def cell(row: Row | None) -> list[str]:
    """The three lines of a cell: a call's time, the rate, and the processor time of client and server."""
    if row is None:
        return ["", "", ""]
    processor = ""
    if row.client_us and row.server_us and row.both_us:
        processor = f"{row.client_us.median:,.0f}+{row.server_us.median:,.0f}{row.both_us.spread}"
    return [row.latency_us.text() if row.latency_us else "", (row.gb_per_s or row.calls_per_s).text(), processor]


def lines_of(report: Report) -> list[tuple[str, str, list[str]]]:
    """The table's lines: three for each measure, with the cells of all subjects."""
    found = {(row.measure, row.subject): row for row in report.rows}
    lines = []
    for name, measure in BY_NAME.items():
        if not any(row.measure == name for row in report.rows):
            continue
        cells = [cell(found.get((name, subject))) for subject in report.columns]
        titles = ("p50 µs", "GB/s" if measure.size_bytes else "calls/s", "CPU µs")
        for title, line in zip(titles, zip(*cells, strict=True), strict=True):
            lines.append((name, title, list(line)))
    if report.connection_kib:
        memory = [
            report.connection_kib[name].text() if name in report.connection_kib else "" for name in report.columns
        ]
        lines.append(("a connection, server", "KiB", memory))
    return lines


def table_text(report: Report) -> str:
    """The table for a terminal, the ratios below it, and the way to install each missing subject."""
    lines = lines_of(report)
    widths = [
        max(len(name), *(len(cells[column]) for _, _, cells in lines)) if lines else len(name)
        for column, name in enumerate(report.columns)
    ]
    text = [f"{'':34}" + "".join(f"{name:>{width + 2}}" for name, width in zip(report.columns, widths, strict=True))]
    before = ""
    for name, title, cells in lines:
        shown = "" if name == before else name
        before = name
        text.append(
            f"{shown:26}{title:>8}" + "".join(f"{each:>{width + 2}}" for each, width in zip(cells, widths, strict=True))
        )
    text += ["", *(f"{name}: {explained}" for name, explained in report.columns.items())]
    text += ["", *(f"missing: {name}: {hint}" for name, hint in report.missing.items())]
    text += ["", f"{'ratios':64}{'median':>8}{'lowest - highest':>20}"]
    for ratio in report.ratios:
        figure = ratio.figure
        text.append(f"{ratio.name:64}{figure.median:>8.2f}{f'{figure.low:.2f} - {figure.high:.2f}':>20}")
    return "\n".join([*text, "", *(f"{name}: {value}" for name, value in report.machine.items())])
