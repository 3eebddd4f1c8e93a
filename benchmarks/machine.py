"""The machine and the versions of the programs that a benchmark ran on."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("rpcrdma-native", "crc32c", "uvloop", "grpcio")
PROGRAMS = (["iperf3", "--version"], ["fi_info", "--version"], ["cc", "--version"])


def file_system(path: str) -> str:
    """The type of the file system that a directory is on."""
    device = Path(path).stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        if fields[2] == wanted:
            return fields[fields.index("-") + 1]
    return "unknown"


def first_line(command: Sequence[str]) -> str:
    """The first line that a program prints with a digit in it; empty where it is not installed."""
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10, cwd=ROOT).stdout
    except FileNotFoundError:
        return ""
    return next((line.strip() for line in told.splitlines() if re.search(r"\d", line)), "")


def packages() -> list[str]:
    """The installed ones with their versions."""
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def machine_and_versions(directories: Sequence[str], loop: str) -> dict[str, str]:
    """Names and values, to be printed."""
    information = Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*: (.*)$", information, re.MULTILINE)
    return {
        "processor": f"{model[1] if model else platform.machine()}, {len(os.sched_getaffinity(0))} cores",
        "kernel": f"Linux {platform.release()}",
        "memory and disk": " and ".join(map(file_system, directories)),
        "Python": f"{platform.python_version()}, event loop {loop}",
        "rpcrdma": first_line(["git", "describe", "--always", "--dirty"]) or importlib.metadata.version("rpcrdma"),
        "packages": ", ".join(packages()),
        "programs": ", ".join(line for command in PROGRAMS if (line := first_line(command))),
    }
