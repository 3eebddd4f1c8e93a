"""Runs in a guest: the suite of providers over an RDMA device. Arguments: the device's address, names of checks."""

from __future__ import annotations

import dataclasses
import sys
import time
import traceback

from rpcrdma.testing.provider_suite import CHECKS
from rpcrdma.verbs.binding import find
from support.device_pairs import DEVICE_DEVIATIONS, IWARP_DEVIATIONS, DevicePairs

__all__: list[str] = []

_QUIET_S = 0.3


def main() -> int:
    """Prints a line for each check; the exit status is the number of failed checks."""
    binding, missing = find()
    assert binding is not None, missing
    for device in binding.devices():
        print(device)
    deviations = IWARP_DEVIATIONS if all(device["iwarp"] for device in binding.devices()) else DEVICE_DEVIATIONS
    for name, reason in dataclasses.asdict(deviations).items():
        if reason:
            print(f"deviation {name}: {reason}")
    pairs = DevicePairs(binding, sys.argv[1], _QUIET_S, deviations)
    failed: list[str] = []
    for check in CHECKS:
        if sys.argv[2:] and check.__name__ not in sys.argv[2:]:
            continue
        began = time.monotonic()
        try:
            check(pairs.make)
        except Exception:  # noqa: BLE001 - the other checks follow
            failed.append(f"{traceback.format_exc(limit=-3)}FAILED {check.__name__}")
        else:
            print(f"ok     {check.__name__} {time.monotonic() - began:.1f} s", flush=True)
    pairs.close()
    # At the end, where the lines are that a failed check of a guest shows.
    print("\n".join(failed))
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
