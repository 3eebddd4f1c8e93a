"""The checks of `rpcrdma doctor`, which judge given facts, and their findings."""

from __future__ import annotations

import enum
import resource
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rpcrdma.cli import console
from rpcrdma.cli.console import readable_octets
from rpcrdma.cli.doctor.devices import ModuleState, RdmaDevice
from rpcrdma.limits import BUFFER_OCTETS_MAX, RPC_CONNECTIONS_MAX

__all__ = [
    "KERNEL_MODULES",
    "Finding",
    "Mark",
    "as_json",
    "check_data_path",
    "check_devices",
    "check_listening",
    "check_memory_lock",
    "check_modules",
    "check_open_files",
    "check_route",
    "show",
]


class Mark(enum.StrEnum):
    """The result's severity: a subject with a `NOTE` works with a limitation, one with a `PROBLEM` does not work."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


_TITLES = {
    "rdma_devices": "RDMA devices",
    "software_rnic": "software RNIC",
    "memory_lock": "locked memory",
    "route": "way there",
}
"""Subjects whose titles are not the same words."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    `subject` is its name for programs, `title` for people, if it names a single object; `text` is the result, `remedy`
    the advice if it needs one. `facts` are for programs only.
    """

    mark: Mark
    subject: str
    text: str
    remedy: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    title: str = ""


def as_json(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """The findings for `--json`: subject, mark, text, remedy (null if none), and facts as numbers and names."""
    return [
        {
            "subject": found.subject,
            "mark": found.mark,
            "text": found.text,
            "remedy": found.remedy or None,
            **found.facts,
        }
        for found in findings
    ]


def show(findings: Iterable[Finding]) -> None:
    """One line a finding; a remedy on the line below it."""
    findings = list(findings)
    titles = [found.title or _TITLES.get(found.subject, found.subject.replace("_", " ")) for found in findings]
    width = max(map(len, titles))
    for found, title in zip(findings, titles, strict=True):
        console.data(console.printable(f"{found.mark:<7}  {title:<{width}}  {found.text}"))
        if found.remedy:
            console.data(console.printable(f"{'':7}  {'':{width}}  -> {found.remedy}"))


def check_data_path(path: str, *, native: bool, turned_off: bool) -> Finding:
    """Whether the software RNIC works by the native step; `path` is the sentence that says it."""
    remedy = ""
    if turned_off:
        remedy = "to turn the native step on: unset RPCRDMA_NATIVE"
    elif not native:
        remedy = "for less CPU a call: pip install 'rpcrdma[native]', or make install in a checkout"
    return Finding(Mark.OK if native else Mark.NOTE, "data_path", text=path, remedy=remedy, facts={"native": native})


KERNEL_MODULES = ("siw", "rdma_rxe", "rpcrdma")
"""The kernel's software RNICs for iWARP and RoCE, and its NFS over RDMA."""

_SOFTWARE_ALL_THE_SAME = "rpcrdma uses its software RNIC all the same; the device serves the kernel's NFS and others"


def check_devices(devices: Sequence[RdmaDevice]) -> list[Finding]:
    """One finding for each device, or one that says that none is present."""
    if not devices:
        text = "none on this machine; none is needed: the software RNIC does without"
        return [Finding(Mark.OK, "rdma_devices", text=text)]
    return [_device(device) for device in devices]


def _device(device: RdmaDevice) -> Finding:
    ports = ", ".join(f"port {port.number} {port.state.lower()} ({port.link_layer})" for port in device.ports)
    addresses = [address for port in device.ports for address in port.addresses]
    where = f" on {', '.join(device.interfaces)}" if device.interfaces else ""
    reached = f", {', '.join(addresses)}" if addresses else ""
    remedy = ""
    if not device.active:
        interfaces = " ".join(device.interfaces) or "INTERFACE"
        remedy = (
            f"no port is active: check the cable, and that the network interface is up (ip link set {interfaces} up)"
        )
    return Finding(
        Mark.OK if device.active else Mark.NOTE,
        "rdma_device",
        title=f"device {device.name}",
        text=f"{device.kind}{where}: {ports or 'no ports'}{reached}; {_SOFTWARE_ALL_THE_SAME}",
        remedy=remedy,
        facts={
            "device": device.name,
            "node_type": device.node_type,
            "kind": device.kind,
            "interfaces": list(device.interfaces),
            "ports": [
                {
                    "port": port.number,
                    "state": port.state,
                    "link_layer": port.link_layer,
                    "gids": list(port.gids),
                    "addresses": list(port.addresses),
                }
                for port in device.ports
            ],
        },
    )


def check_modules(states: Mapping[str, ModuleState], devices: Sequence[RdmaDevice]) -> Finding:
    """The kernel's own RDMA modules, which mounts with `proto=rdma` need and this program does not."""
    by_state = {
        state: [name for name, found in states.items() if found is state]
        for state in (ModuleState(each) for each in ModuleState)
    }
    said = {
        ModuleState.LOADED: "loaded",
        ModuleState.AVAILABLE: "there to be loaded",
        ModuleState.MISSING: "not part of this kernel",
        ModuleState.UNKNOWN: "not to be seen from here",
    }
    text = "; ".join(f"{', '.join(names)}: {said[state]}" for state, names in by_state.items() if names)
    remedy = ""
    if not devices and states.get("siw") in {ModuleState.LOADED, ModuleState.AVAILABLE}:
        remedy = (
            "only to mount with the kernel over RDMA: as root, modprobe siw; "
            "rdma link add siw0 type siw netdev INTERFACE"
        )
    return Finding(
        Mark.NOTE if remedy else Mark.OK,
        "kernel_modules",
        text=f"{text} (only the kernel's own NFS over RDMA needs them)",
        remedy=remedy,
        facts={"modules": {name: str(state) for name, state in states.items()}},
    )


def check_memory_lock(limit_octets: int, devices: Sequence[RdmaDevice]) -> Finding:
    """RLIMIT_MEMLOCK: RDMA hardware needs memory that stays where it is; the software RNIC does not."""
    unlimited = limit_octets == resource.RLIM_INFINITY
    size = "no limit" if unlimited else readable_octets(limit_octets)
    short = not unlimited and limit_octets < BUFFER_OCTETS_MAX and bool(devices)
    return Finding(
        Mark.NOTE if short else Mark.OK,
        "memory_lock",
        text=f"{size} of memory that a program may lock for an RDMA device; the software RNIC locks none",
        remedy="for programs that use the device: ulimit -l unlimited, or memlock in /etc/security/limits.conf"
        if short
        else "",
        facts={"limit_bytes": None if unlimited else limit_octets},
    )


def check_open_files(soft: int, hard: int) -> Finding:
    """RLIMIT_NOFILE: connections and files of a server."""
    unlimited = soft == resource.RLIM_INFINITY
    short = not unlimited and soft < RPC_CONNECTIONS_MAX
    raised = "ulimit -n" if hard == resource.RLIM_INFINITY or hard >= RPC_CONNECTIONS_MAX else "as root, ulimit -n"
    return Finding(
        Mark.NOTE if short else Mark.OK,
        "open_files",
        text=f"{'no limit' if unlimited else f'{soft} at a time'}: connections and files of a server count",
        remedy=f"{raised} {RPC_CONNECTIONS_MAX} before serving many clients" if short else "",
        facts={"limit": None if unlimited else soft},
    )


def check_listening(port: int, listens: Callable[[int], str]) -> Finding:
    """Whether a server can be started at `port`; `listens` tries it and returns the reason against it, or ""."""
    cause = listens(port)
    return Finding(
        Mark.NOTE if cause else Mark.OK,
        "listening",
        title=f"TCP port {port}",
        text=f"cannot be listened on: {cause}" if cause else "free: rpcrdma serve can listen there",
        remedy=f"that is right if a server runs already (rpcrdma ping rdma://127.0.0.1:{port}); "
        "otherwise serve at another port with --listen"
        if cause
        else "",
        facts={"port": port, "free": not cause},
    )


def check_route(address: str, interface: str | None, devices: Sequence[RdmaDevice]) -> Finding:
    """Whether the interface towards `address` has an RDMA device; `interface` None: no route leads there."""
    facts = {
        "address": address,
        "interface": interface,
        "devices": [d.name for d in devices if interface in d.interfaces],
    }
    if interface is None:
        return Finding(
            Mark.PROBLEM,
            "route",
            text=f"this machine has no route to {address}",
            remedy="check the address, and the network with: ip route",
            facts=facts,
        )
    on = [device for device in devices if interface in device.interfaces]
    if not on:
        text = f"{address} is reached through {interface}, without an RDMA device: by the software RNIC over TCP"
    else:
        names = " and ".join(f"{d.name} ({d.kind}, {'active' if d.active else 'not active'})" for d in on)
        text = f"{address} is reached through {interface}, which has {names}; {_SOFTWARE_ALL_THE_SAME}"
    return Finding(Mark.OK, "route", text=text, facts=facts)
