"""Runs the checks against Linux kernels in emulated guests: `run.py [--quick] [--list] [CHECK...]`."""

from __future__ import annotations

import argparse
import fnmatch
import sys
import time
from pathlib import Path

# `support` stands in the folder of all tests, `realm` in that of programs which others wrote, and the checks of
# rpcrdma-lab with its other tests.
sys.path.insert(0, str(Path(__file__).parents[3] / "lab" / "tests" / "interop" / "kernel"))
sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1]))

import bench_tools
import capture_vectors
import debian_package_checks
import device_checks
import device_choice
import device_life_checks
import device_users
import errors_across
import judged_kernel
import kernel_client_delegations
import kernel_client_files
import kernel_client_kerberos
import kernel_client_recovery
import kernel_client_reload
import kernel_client_tree
import kernel_client_version_4
import kernel_reverse
import our_client_data
import our_client_kerberos
import our_client_procedures
import our_client_recovery
import roce_captures
import tls_checks
from debian_root import build_debian_disk
from failures import CheckFailed, GuestDied, JobTimeout, Missing
from image import KERNELS, build_image
from lab import CHECKS, Check, Lab
from network import enter_own_network

__all__ = ["CHECK_MODULES", "main"]

CHECK_MODULES = (
    kernel_client_tree,
    kernel_client_files,
    kernel_client_kerberos,
    kernel_client_recovery,
    kernel_client_reload,
    kernel_client_version_4,
    kernel_client_delegations,
    our_client_procedures,
    our_client_data,
    our_client_recovery,
    our_client_kerberos,
    errors_across,
    judged_kernel,
    bench_tools,
    kernel_reverse,
    capture_vectors,
    device_checks,
    roce_captures,
    tls_checks,
    debian_package_checks,
    device_choice,
    device_life_checks,
    device_users,
)
"""In the order in which they run. A further module of checks is imported above, and named here."""


def main() -> int:
    """Exit status 0 if all checks held, 1 if one failed, 2 if this machine lacks something."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checks", nargs="*", metavar="CHECK", help="names or patterns such as 'copy*' (default: all)")
    parser.add_argument("--quick", action="store_true", help="the reduced set")
    parser.add_argument(
        "--kernel",
        choices=KERNELS,
        default=KERNELS[0],
        help="Debian's, or that of its backports (default: %(default)s)",
    )
    parser.add_argument("--list", action="store_true", help="name the checks and do nothing")
    args = parser.parse_args()
    modules = [module.__name__ for module in CHECK_MODULES]
    in_order = sorted(CHECKS, key=lambda check: modules.index(check.run.__module__))
    chosen = [check for check in in_order if _wanted(check, args)]
    if args.list:
        print("\n".join(f"{check.name}{'  (quick)' if check.quick else ''}" for check in chosen))
        return 0
    if not chosen:
        parser.error("no check has such a name; --list shows them")
    try:
        image = build_image(args.kernel)
        newer_image = build_image("newer") if any(check.newer for check in chosen) else None
        debian_disk = build_debian_disk() if any(check.debian for check in chosen) else None
        enter_own_network()
        return _run(Lab(image, newer_image, debian_disk), chosen)
    except Missing as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _wanted(check: Check, args: argparse.Namespace) -> bool:
    if args.checks:
        return any(fnmatch.fnmatch(check.name, pattern) for pattern in args.checks)
    return check.quick or not (args.quick or check.named)


def _run(lab: Lab, checks: list[Check]) -> int:
    width = max(len(check.name) for check in checks)
    print(f"Linux {lab.image.release}, {len(checks)} checks", flush=True)
    failures = []
    started = time.monotonic()
    with lab:
        for check in checks:
            began = time.monotonic()
            failure = _failure(lab, check)
            seconds = time.monotonic() - began
            print(f"{check.name:{width}}  {'FAILED' if failure else 'ok':6}  {seconds:6.1f} s", flush=True)
            if failure:
                failures.append(check.name)
                print("  " + failure.replace("\n", "\n  "), flush=True)
                lab.close_guests()
    print(f"{len(checks) - len(failures)} ok, {len(failures)} failed, {time.monotonic() - started:.0f} s")
    return 1 if failures else 0


def _failure(lab: Lab, check: Check) -> str | None:
    try:
        lab.begin(check)
        check.run(lab)
        lab.check_kernels()
    except Missing:
        raise
    except ExceptionGroup as errors:
        return "\n".join(_in_words(error) for error in _leaves(errors))
    except Exception as error:  # noqa: BLE001 - one check must not take the others with it
        return _in_words(error)
    return None


def _in_words(error: Exception) -> str:
    known = isinstance(error, (CheckFailed, GuestDied, JobTimeout))
    return str(error) if known else f"{type(error).__name__}: {error}"


def _leaves(errors: ExceptionGroup[Exception]) -> list[Exception]:
    """The failures of tasks that ran side by side; those of one message once."""
    found: dict[str, Exception] = {}
    for error in errors.exceptions:
        for leaf in _leaves(error) if isinstance(error, ExceptionGroup) else [error]:
            found.setdefault(_in_words(leaf), leaf)
    return list(found.values())


if __name__ == "__main__":
    sys.exit(main())
