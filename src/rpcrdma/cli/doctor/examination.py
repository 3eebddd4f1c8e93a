"""The doctor's checks, in order, and the report."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import resource
import socket
from pathlib import Path

from rpcrdma.aio.drivers.locked_memory import lock_limit_octets
from rpcrdma.aio.urls import DEFAULT_PORTS, Url
from rpcrdma.cli.doctor.checks import (
    KERNEL_MODULES,
    Finding,
    Mark,
    as_json,
    check_cgroup,
    check_data_path,
    check_devices,
    check_listening,
    check_memory_lock,
    check_modules,
    check_open_files,
    check_route,
    check_verbs,
    show,
)
from rpcrdma.cli.doctor.devices import RdmaDevice, cgroup_limits, module_state, rdma_devices
from rpcrdma.cli.doctor.network import check_server, check_software_rnic, interface_towards, why_not_listening
from rpcrdma.cli.doctor.verbs_trial import VerbsTrial, try_verbs
from rpcrdma.cli.export_options import existing_directory
from rpcrdma.commands import ExitStatus, connect_options, console
from rpcrdma.wire.native import DATA_PATH, native

__all__ = ["examine"]


async def examine(args: argparse.Namespace) -> ExitStatus:
    """Makes all checks of `rpcrdma doctor`, of the machine and of the server at `args.url` (None: no server).

    Prints the findings, as JSON with --json. Returns the exit status: that of the server's check (`check_server`), or
    if that is DONE, FAILED for any finding with the mark PROBLEM, else DONE.

    Raises:
        OSError: `args.root` is no directory, or cannot be read.
    """
    existing_directory(args.root)
    options = connect_options(args)
    release = platform.release()
    devices = rdma_devices(args.root)
    modules = {name: module_state(name, release, args.root) for name in KERNEL_MODULES}
    # The devices of another root, as of the host of a container, are none that could be tried here.
    trial = try_verbs([device.name for device in devices]) if devices and args.root == Path("/") else VerbsTrial({})
    findings = [
        await check_software_rnic(options),
        check_data_path(DATA_PATH, native=native is not None, turned_off=os.environ.get("RPCRDMA_NATIVE") == "0"),
        *check_devices(devices, trial.attributes),
        *([check_verbs(trial)] if trial.attributes or trial.cause else []),
        check_modules(modules, devices),
        check_memory_lock(lock_limit_octets(), devices),
        *([check_cgroup(cgroup_limits(args.root))] if devices else []),
        check_open_files(*resource.getrlimit(resource.RLIMIT_NOFILE)),
        check_listening(DEFAULT_PORTS["rdma"], why_not_listening),
    ]
    status = ExitStatus.DONE
    if args.url is not None:
        finding = await _way(args.url, devices)
        if finding is not None:
            findings.append(finding)
        finding, status = await check_server(args.url, options)
        findings.append(finding)
    problems = sum(finding.mark is Mark.PROBLEM for finding in findings)
    if status is ExitStatus.DONE and problems:
        status = ExitStatus.FAILED
    if args.json:
        console.json_line({"kernel": release, "problems": problems, "findings": as_json(findings)})
    else:
        show(findings)
    return status


async def _way(url: Url, devices: list[RdmaDevice]) -> Finding | None:
    """Returns the finding about the route to the first address of the host of `url`.

    None: the host has no address, which the check of the server reports, or the kernel does not tell the route.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
        address, _, *more = found[0][4]
        # A link-local address has the number of its interface, as in fe80::1%eth0.
        interface = socket.if_indextoname(more[1]) if more and more[1] else interface_towards(str(address))
        return check_route(str(address), interface, devices)
    except (OSError, UnicodeError):
        return None
