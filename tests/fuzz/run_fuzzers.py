"""Coverage-guided fuzzing of every decoder and of the connection machines: `tools/fuzz.sh`.

Each target runs in a process of its own under libFuzzer, from its kept corpus and its golden vectors, until it has had
its cases or its share of the time. Prints the number of cases of each; the exit status is 1 after a finding.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import os
import re
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
# `support` stands in the folder of all tests, the server in memory and the targets of `rpcrdma decode` with others.
OF_LAB = HERE.parents[1] / "lab" / "tests" / "fuzz"
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "nfs" / "v4"), str(OF_LAB)]

FINDINGS = HERE / "findings"
CASE_OCTETS_MAX = 2048
KEPT_OCTETS_MAX = 512
KEPT_TARGET_OCTETS_MAX = 5000
"""The kept corpus stays small: a target finds further cases again within seconds."""


@dataclass(slots=True)
class Run:
    """One target's process."""

    name: str
    log: Path
    found: Path
    started: float


def corpus_of(name: str) -> Path:
    """The kept cases of a target, which stand beside its module."""
    return (OF_LAB if name.startswith("dissect_") else HERE) / "corpus" / name


def instrumented() -> Any:
    """atheris, with the library imported under its instrumentation."""
    try:
        import atheris
    except ImportError:
        sys.exit("error: atheris is not installed\n  hint: tools/fuzz.sh installs it; or pip install --group fuzz")
    with contextlib.redirect_stderr(io.StringIO()), atheris.instrument_imports(include=["rpcrdma", "rpcrdma_lab"]):
        import fuzz_targets
    return atheris, fuzz_targets.TARGETS


def fuzz(atheris: Any, target: Any, run: Run, cases: int, seconds: int) -> None:
    """The child's whole life; never returns."""
    out = os.open(run.log, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    os.dup2(out, 1)
    os.dup2(out, 2)
    for number, seed in enumerate(target.seeds):
        (run.found / f"seed-{number}").write_bytes(seed)
    FINDINGS.mkdir(exist_ok=True)
    arguments = [f"-runs={cases}", f"-max_total_time={seconds}", f"-max_len={CASE_OCTETS_MAX}", "-timeout=20"]
    arguments += ["-print_final_stats=1", "-rss_limit_mb=1024", f"-artifact_prefix={FINDINGS}/{target.name}-"]
    kept = corpus_of(target.name)
    arguments += [str(run.found), *([str(kept)] if kept.is_dir() else [])]
    status = 1
    try:
        atheris.Setup([target.name, *arguments], target.run)
        atheris.Fuzz()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # noqa: BLE001 - any failure of the child is reported by the parent
        traceback.print_exc()
    finally:
        # The child must not run the exit handlers of the parent, from which it was forked.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def cases_run(log: str) -> int:
    """The number of cases that libFuzzer reports at its end, or at its last output if it was stopped."""
    if final := re.search(r"number_of_executed_units: (\d+)", log):
        return int(final[1])
    return max((int(number) for number in re.findall(r"^#(\d+)", log, re.MULTILINE)), default=0)


def keep(name: str, found: Path) -> None:
    """Adds new and small cases to the kept corpus, up to the target's limit."""
    kept = corpus_of(name)
    kept.mkdir(parents=True, exist_ok=True)
    room = KEPT_TARGET_OCTETS_MAX - sum(path.stat().st_size for path in kept.iterdir())
    for path in sorted(found.iterdir(), key=lambda path: (path.stat().st_size, path.name)):
        data = path.read_bytes()
        if len(data) > KEPT_OCTETS_MAX or len(data) > room:
            continue
        case = kept / hashlib.blake2b(data, digest_size=8).hexdigest()
        if not case.exists():
            case.write_bytes(data)
            room -= len(data)


def report(run: Run, status: int, *, keeping: bool) -> tuple[int, bool]:
    log = run.log.read_text(errors="replace")
    cases, seconds = cases_run(log), time.monotonic() - run.started
    found = os.waitstatus_to_exitcode(status) != 0
    print(f"{run.name:28} {cases:>12,} cases {seconds:>8.1f} s {'  FINDING' if found else ''}", flush=True)
    if found:
        print("\n".join(log.splitlines()[-60:]), flush=True)
    elif keeping:
        keep(run.name, run.found)
    return cases, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1_000_000, help="at most so many for each target")
    parser.add_argument("--seconds", type=float, default=60, help="for all targets together")
    parser.add_argument("--jobs", type=int, default=2, help="targets at a time")
    parser.add_argument("--keep", action="store_true", help="add what covers more to the kept corpus")
    parser.add_argument("targets", nargs="*", help="their names (default: all)")
    args = parser.parse_args()
    atheris, targets = instrumented()
    unknown = set(args.targets) - {target.name for target in targets}
    if unknown:
        parser.error(f"no such target: {', '.join(sorted(unknown))}")
    chosen = [target for target in targets if not args.targets or target.name in args.targets]
    seconds = max(1, int(args.seconds * args.jobs / len(chosen)))
    waiting, running = list(reversed(chosen)), {}
    total, findings = 0, 0
    with tempfile.TemporaryDirectory(prefix="rpcrdma-fuzz-") as scratch:
        while waiting or running:
            while waiting and len(running) < args.jobs:
                target = waiting.pop()
                found = Path(scratch) / target.name
                found.mkdir()
                run = Run(target.name, Path(scratch) / f"{target.name}.log", found, time.monotonic())
                pid = os.fork()
                if not pid:
                    fuzz(atheris, target, run, args.cases, seconds)
                running[pid] = run
            pid, status = os.wait()
            cases, found_one = report(running.pop(pid), status, keeping=args.keep)
            total += cases
            findings += found_one
    print(f"{len(chosen)} targets, {total:,} cases, {findings} findings")
    if findings:
        print(f"the cases are in {FINDINGS}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
