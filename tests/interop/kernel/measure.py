"""Our server and the kernel's side by side, each in a guest with its files in memory, before the same kernel client.

Prints a Markdown table. Emulation is slow, so only the ratios mean something.
"""

from __future__ import annotations

import argparse
import fnmatch
import statistics
import sys
import tempfile
from pathlib import Path

from failures import CheckFailed, GuestDied, JobTimeout, Missing
from guest import Guest
from image import Image, build_image
from kernel_server import start_kernel_server
from lab import MOUNT_OPTIONS, VERSION_4
from network import enter_own_network
from python_layer import START_OUR_SERVER, build_python_layer

_TIMED = "start=$(date +%s%N)\n{work}\necho $((($(date +%s%N) - start) / 1000))"
_DROP = "echo 3 >/proc/sys/vm/drop_caches\n"
_FIO = (
    "fio --name=r --filename={mnt}/data --rw=randread --bs=4k --direct=1 --ioengine=libaio --iodepth=8 --size=64m"
    " --number_ios=4000 --minimal >/tmp/fio"
)
_SMALL_FILES_COUNT = 300
_SMALL_FILES = f'i=0; while [ $i -lt {_SMALL_FILES_COUNT} ]; do i=$((i+1)); echo "$data" >small$i; done; rm small*'
"""Written by the shell itself: the start of a program in a guest takes longer than the calls of its server."""
MEASURES = {
    # name: (preparation, timed command, number of units, unit)
    "sequential write, 1 MiB": ("", "dd if=/dev/zero of={mnt}/data bs=1M count=64 oflag=direct 2>&1", 64, "MiB/s"),
    "sequential write, cached": ("", "dd if=/dev/zero of={mnt}/data bs=1M count=64 conv=fsync 2>&1", 64, "MiB/s"),
    "sequential read, 1 MiB": (_DROP, "dd if={mnt}/data of=/dev/null bs=1M iflag=direct 2>&1", 64, "MiB/s"),
    "sequential read, cached": (_DROP, "dd if={mnt}/data of=/dev/null bs=1M 2>&1", 64, "MiB/s"),
    "random read, 4 KiB, 8 at a time": ("", _FIO, 4000, "/s"),
    "create": ("rm -rf {mnt}/many; mkdir {mnt}/many; cd {mnt}/many", "seq 1 1000 | xargs touch", 1000, "files/s"),
    "unlink": ("cd {mnt}/many", "seq 1 1000 | xargs rm", 1000, "files/s"),
    "create, write 4 KiB, close, unlink": ("cd {mnt}", _SMALL_FILES, _SMALL_FILES_COUNT, "files/s"),
}
"""The measured commands; each runs in the directory that the one before has left."""


def main() -> int:
    """Exit status 0, or 2 if this machine lacks something."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nfs", choices=("3", "4.2"), default="3", help="version of NFS (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="the median of so many is shown (default: %(default)s)")
    parser.add_argument("measures", nargs="*", metavar="MEASURE", help="names or patterns (default: all)")
    args = parser.parse_args()
    chosen = [name for name in MEASURES if any(fnmatch.fnmatch(name, each) for each in args.measures or ["*"])]
    try:
        image = build_image()
        enter_own_network()
        results = _measure(image, args.nfs, args.rounds, chosen)
    except (Missing, GuestDied, JobTimeout, CheckFailed) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("| | kernel | rpcrdma | ratio |\n|---|---|---|---|")
    for name in chosen:
        unit = MEASURES[name][3]
        kernel, ours = results["kernel"][name], results["rpcrdma"][name]
        print(f"| {name} | {kernel:.0f} {unit} | {ours:.0f} {unit} | {ours / kernel:.2f} |")
    return 0


def _measure(image: Image, version: str, rounds: int, chosen: list[str]) -> dict[str, dict[str, float]]:
    with tempfile.TemporaryDirectory(prefix="rpcrdma-python-") as directory:
        python = Path(directory, "python.cpio")
        build_python_layer(python)
        with (
            Guest(image, 2, name="client", layers=(image.layers["fio"],), memory_mib=1280) as client,
            Guest(image, 3, name="kernel", layers=(python,), memory_mib=1280) as kernel,
            Guest(image, 4, name="rpcrdma", layers=(python,), memory_mib=1280) as ours,
        ):
            start_kernel_server(kernel)
            ours.run(START_OUR_SERVER)
            options, path = (MOUNT_OPTIONS, "/srv") if version == "3" else (VERSION_4, "/")
            for server, root in ((kernel, path), (ours, "/")):
                mnt = f"/mnt/{server.name}"
                client.run(f"mkdir {mnt}; mount.nfs {server.address}:{root} {mnt} -o {options}")
            taken: dict[str, dict[str, list[float]]] = {
                server.name: {name: [] for name in chosen} for server in (kernel, ours)
            }
            for _ in range(rounds):
                for name in chosen:
                    # By turns, so that a machine that is slow for a while is slow for both.
                    for server in taken:
                        taken[server][name].append(_measure_once(client, server, name))
    return {
        server: {name: statistics.median(values) for name, values in rates.items()} for server, rates in taken.items()
    }


def _measure_once(client: Guest, server: str, name: str) -> float:
    before, work, count, unit = MEASURES[name]
    script = f"set -e\ndata=$(printf %04095d 0)\n{before}\n{_TIMED.format(work=work)}"
    said = client.run(script.replace("{mnt}", f"/mnt/{server}"), 200).output
    rate = count / (int(said.split()[-1]) / 1e6)
    print(f"{name}: {server} {rate:.1f} {unit}", file=sys.stderr, flush=True)
    return rate


if __name__ == "__main__":
    sys.exit(main())
