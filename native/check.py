"""Builds the extension module with sanitizers, and runs the suites of the software RNIC and libFuzzer with that build.

It takes the environment that `make check` sets up. The exit status is 1 where a suite or a sanitizer complains, 2 where
a program is missing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
MADE = ROOT / "build" / "native"
SANITIZERS = "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g -O1 -Werror"
SUITES = ("tests/wire", "tests/iwarp", "tests/verbs", "tests/conformance", "tests/aio")
LEFT_OUT = ("not interop and not scale and not data_tools", "tests/aio/test_memory_of_ended_connections.py")
"""The tests of a process's size: AddressSanitizer keeps freed memory for a while."""
FINDINGS = ROOT / "tests" / "fuzz" / "findings"
MISSING = "{} is missing (apt-get install gcc clang libclang-rt-dev python3-dev)"


def output(*command: str) -> str:
    """The first line that a program prints."""
    if shutil.which(command[0]) is None:
        print(f"error: {MISSING.format(command[0])}", file=sys.stderr)
        sys.exit(2)
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def sanitized(runtime: str, *, path: Path, leaks: bool = False) -> dict[str, str]:
    """The environment of a Python that loads the module in `path`, with a sanitizer's runtime before all else."""
    options = f"abort_on_error=1:detect_leaks={int(leaks)}:allocator_may_return_null=1"
    return {
        **{
            name: value
            for name, value in os.environ.items()
            if name not in {"RPCRDMA_NATIVE", "PYTHONDONTWRITEBYTECODE"}
        },
        "LD_PRELOAD": runtime,
        "ASAN_OPTIONS": options,
        "UBSAN_OPTIONS": "print_stacktrace=1",
        # Each object is an allocation of its own, whose ends the sanitizer guards.
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(path),
    }


def run_suites(jobs: int) -> None:
    """Builds with gcc, and runs the suites."""
    runtime = output("gcc", "-print-file-name=libasan.so")
    place = MADE / "sanitized"
    # Objects of other builds are not used again.
    for left in (HERE / "build", place):
        shutil.rmtree(left, ignore_errors=True)
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps")
    build = {**os.environ, "CC": "gcc", "CFLAGS": SANITIZERS}
    subprocess.run([*pip, "--target", str(place), str(HERE)], env=build, check=True)
    shutil.rmtree(HERE / "build", ignore_errors=True)
    environment = sanitized(runtime, path=place)
    ask = (
        "import rpcrdma_native, rpcrdma.wire.native as n; print(rpcrdma_native.__file__); n.native or exit(n.DATA_PATH)"
    )
    found = subprocess.run([sys.executable, "-c", ask], env=environment, capture_output=True, text=True, check=True)
    assert Path(found.stdout.strip()).is_relative_to(place), found.stdout
    pytest = (sys.executable, "-m", "pytest", "-n", str(jobs), "--dist", "worksteal", "--timeout", "180")
    subprocess.run(
        [*pytest, "-m", LEFT_OUT[0], "--ignore", LEFT_OUT[1], *SUITES], cwd=ROOT, env=environment, check=True
    )


def run_fuzzers(seconds: int, names: list[str]) -> None:
    """Builds with clang, and lets libFuzzer search for `seconds` in all."""
    runtimes = [
        output("clang", f"-print-file-name=libclang_rt.{name}-{os.uname().machine}.{suffix}")
        for name, suffix in (("asan", "so"), ("fuzzer_no_main", "a"))
    ]
    if not all(Path(runtime).is_file() for runtime in runtimes):
        print(f"error: {MISSING.format('libFuzzer')}", file=sys.stderr)
        sys.exit(2)
    module = MADE / "fuzzer.so"
    MADE.mkdir(parents=True, exist_ok=True)
    FINDINGS.mkdir(parents=True, exist_ok=True)
    sources = [str(path) for path in (*(HERE / "src").glob("*.c"), HERE / "fuzz" / "driver.c")]
    # -Bsymbolic: the counters are libFuzzer's, not those of which AddressSanitizer's runtime has empty ones.
    flags = f"-std=c11 -shared -fPIC -shared-libasan {SANITIZERS} -fsanitize=fuzzer-no-link -Wl,-Bsymbolic"
    limited = [] if sysconfig.get_config_var("Py_GIL_DISABLED") else ["-DPy_LIMITED_API=0x030b0000"]
    include = f"-I{sysconfig.get_path('include')}"
    command = ["clang", *flags.split(), *limited, include, "-o", str(module), *sources, runtimes[1], "-lstdc++"]
    subprocess.run(command, check=True)
    for name in names:
        print(f"libFuzzer: {name}, for {seconds // len(names)} s", flush=True)
        fuzz = [sys.executable, str(HERE / "fuzz" / "targets.py"), str(module), name]
        options = [
            f"-max_total_time={seconds // len(names)}",
            f"-artifact_prefix={FINDINGS}/native-{name}-",
            "-verbosity=0",
        ]
        subprocess.run(
            [*fuzz, *options, "-print_final_stats=1"], env=sanitized(runtimes[0], path=ROOT / "tests"), check=True
        )


def main() -> int:
    """Runs all steps but those that the options leave out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for libFuzzer, all targets together; 0: none")
    parser.add_argument("--jobs", type=int, default=3, help="workers of the suites; 0: no suites")
    parser.add_argument("targets", nargs="*", default=["crc32c", "receiver"], help="of libFuzzer")
    arguments = parser.parse_args()
    try:
        if arguments.jobs:
            run_suites(arguments.jobs)
        if arguments.seconds:
            run_fuzzers(arguments.seconds, arguments.targets)
    except subprocess.CalledProcessError as error:
        print(f"error: {' '.join(map(str, error.cmd[:4]))} ... failed with status {error.returncode}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
