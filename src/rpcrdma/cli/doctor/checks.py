"""The checks of `rpcrdma doctor`, which judge given facts, and their findings."""

from __future__ import annotations

import enum
import ipaddress
import resource
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rpcrdma.aio.drivers.locked_memory import LOCKED_OCTETS_MIN
from rpcrdma.cli.doctor.devices import CgroupLimit, ModuleState, RdmaDevice
from rpcrdma.cli.doctor.verbs_trial import VerbsTrial
from rpcrdma.commands import console
from rpcrdma.commands.console import readable_octets
from rpcrdma.limits import RPC_CONNECTIONS_MAX
from rpcrdma.verbs.binding import DeviceAttributes
from rpcrdma.verbs.device_memory import has_scatter_lists, has_windows

__all__ = [
    "KERNEL_MODULES",
    "Finding",
    "Mark",
    "as_json",
    "check_cgroup",
    "check_data_path",
    "check_devices",
    "check_listening",
    "check_memory_lock",
    "check_modules",
    "check_open_files",
    "check_route",
    "check_verbs",
    "show",
]


class Mark(enum.StrEnum):
    """The severity of a finding: `OK` works, `NOTE` works with a limitation, `PROBLEM` does not work."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


_TITLES = {
    "rdma_devices": "RDMA devices",
    "software_rnic": "software RNIC",
    "verbs": "provider verbs",
    "cgroup": "control group",
    "memory_lock": "locked memory",
    "route": "way there",
}
"""Subjects whose titles are not the same words."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check of `rpcrdma doctor`.

    `subject` is the name of the checked thing for programs, `title` the name for people, "" for the usual one. `text`
    is the result, `remedy` the advice, "" if none is needed. `facts` are further values for --json.
    """

    mark: Mark
    subject: str
    text: str
    remedy: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    title: str = ""


def as_json(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Returns an object for --json of each finding: subject, mark, text and remedy (None: none).

    The `facts` of the finding are further keys of the same object.
    """
    return [
        {"subject": each.subject, "mark": each.mark, "text": each.text, "remedy": each.remedy or None} | each.facts
        for each in findings
    ]


def show(findings: Iterable[Finding]) -> None:
    """Prints one line for each finding, with its remedy, if any, on the line below; `findings` must not be empty."""
    findings = list(findings)
    titles = [found.title or _TITLES.get(found.subject, found.subject.replace("_", " ")) for found in findings]
    width = max(map(len, titles))
    for found, title in zip(findings, titles, strict=True):
        console.data(f"{found.mark:<7}  {title:<{width}}  {found.text}")
        if found.remedy:
            console.data(f"{'':7}  {'':{width}}  -> {found.remedy}")


def check_data_path(path: str, *, native: bool, turned_off: bool) -> Finding:
    """Returns the finding OK if the native module moves the software RNIC's data in compiled code, else NOTE.

    The remedy of a NOTE is to unset RPCRDMA_NATIVE with `turned_off`, else to install the module.

    Args:
        path: the text about the data path in use, from the result of `rpcrdma.wire.native.find`.
        native: whether the native module is in use.
        turned_off: whether the user has turned it off by RPCRDMA_NATIVE=0.
    """
    remedy = ""
    if turned_off:
        remedy = "to turn the native module on: unset RPCRDMA_NATIVE"
    elif not native:
        remedy = "for less CPU a call: in a checkout of rpcrdma, make install or pip install ./native"
    return Finding(Mark.OK if native else Mark.NOTE, "data_path", text=path, remedy=remedy, facts={"native": native})


KERNEL_MODULES = ("ib_uverbs", "rdma_ucm", "siw", "rdma_rxe", "crc32_generic", "rpcrdma")
"""The modules that programs need for RDMA devices; the kernel's software RNICs for iWARP and RoCE, with a part of the
second that it does not load by itself; and the kernel's NFS over RDMA."""

_TRY_RXE = (
    "to try RDMA devices without hardware: as root, modprobe -a crc32_generic rdma_rxe rdma_ucm; "
    "rdma link add rxe0 type rxe netdev INTERFACE"
)
_TRY_SIW = (
    "only to mount with the kernel over RDMA: as root, modprobe siw; rdma link add siw0 type siw netdev INTERFACE"
)
_LOCK_MORE = (
    "ulimit -l unlimited in the shell that starts the program, LimitMEMLOCK=infinity in a systemd unit, or the line "
    "'* - memlock unlimited' in /etc/security/limits.conf and a new login"
)
_CGROUP_OBJECTS_MIN = 1000
"""Objects of a device for some tens of connections with their calls."""


def check_devices(devices: Sequence[RdmaDevice], attributes: Mapping[str, DeviceAttributes]) -> list[Finding]:
    """Returns a finding for each RDMA device: NOTE if none of its ports is active, else OK; without devices, one OK.

    `attributes` are the attributes that the devices have reported, by device name; some devices may lack them.
    """
    if not devices:
        text = "none on this machine; none is needed: the software RNIC does without"
        return [Finding(Mark.OK, "rdma_devices", text=text)]
    return [_device(device, attributes.get(device.name)) for device in devices]


def _device(device: RdmaDevice, attributes: DeviceAttributes | None) -> Finding:
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
        text=f"{device.kind}{where}: {ports or 'no ports'}{reached}{_capabilities(attributes)}",
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
            "capabilities": attributes
            and {
                "firmware": attributes["firmware"],
                "memory_windows": attributes["max_windows"],
                "inbound_reads": attributes["max_inbound_reads"],
                "outbound_reads": attributes["max_outbound_reads"],
                "scatter_entries": attributes["max_entries"],
                "work_requests": attributes["max_queue_pair_work"],
                "registrations": attributes["max_regions"],
                "registration_bytes": attributes["max_region_octets"],
                "message_bytes": _message_octets(attributes),
            },
        },
    )


def _capabilities(attributes: DeviceAttributes | None) -> str:
    if attributes is None:
        return ""
    windows = f"{attributes['max_windows']} memory windows"
    if not has_windows(attributes):
        windows = "no usable memory windows (memory is registered for each call)"
    entries = f"{attributes['max_entries']} scatter entries"
    if not has_scatter_lists(attributes):
        entries = "no scatter lists (data of the round-trip extension is copied once more)"
    return (
        f"; {windows}, RDMA Reads outstanding "
        f"{attributes['max_inbound_reads']} in and {attributes['max_outbound_reads']} out, {entries}, "
        f"messages up to {readable_octets(_message_octets(attributes))}"
    )


def _message_octets(attributes: DeviceAttributes) -> int:
    return min((port["max_message_octets"] for port in attributes["ports"]), default=0)


def check_verbs(trial: VerbsTrial) -> Finding:
    """Returns the finding NOTE if `trial`, a result of `try_verbs`, has a cause why devices do not work; else OK."""
    if trial.cause:
        which = ", ".join(trial.unusable) or "the devices"
        text = f"{which} cannot be used: {trial.cause}; provider auto takes the software RNIC"
        facts = {"usable": bool(trial.unusable)}
        return Finding(Mark.NOTE, "verbs", text=text, remedy=trial.remedy, facts=facts)
    text = "provider auto uses a device for each address that it reaches"
    return Finding(Mark.OK, "verbs", text=text, facts={"usable": True})


def check_cgroup(limits: Sequence[CgroupLimit]) -> Finding:
    """Returns the finding about `limits` on RDMA devices: NOTE if one is 0 contexts or below 1000 objects, else OK."""
    told = []
    for limit in limits:
        handles, objects = _count(limit.handles, "process", "processes"), _count(limit.objects, "object", "objects")
        told.append(f"of {limit.device} {handles} and {objects}")
    short = [
        limit
        for limit in limits
        if limit.handles == 0 or (limit.objects is not None and limit.objects < _CGROUP_OBJECTS_MIN)
    ]
    remedy = ""
    if short:
        remedy = f"as root: echo {short[0].device} hca_handle=max hca_object=max > {short[0].file}"
    return Finding(
        Mark.NOTE if short else Mark.OK,
        "cgroup",
        text=f"its limits on RDMA devices: {', '.join(told)}" if told else "no limit on RDMA devices",
        remedy=remedy,
        facts={
            "limits": [
                {"device": limit.device, "handles": limit.handles, "objects": limit.objects, "file": str(limit.file)}
                for limit in limits
            ]
        },
    )


def _count(number: int | None, one: str, several: str) -> str:
    return f"any {several}" if number is None else f"{number} {one if number == 1 else several}"


def check_modules(states: Mapping[str, ModuleState], devices: Sequence[RdmaDevice]) -> Finding:
    """Returns the finding about the kernel's modules for RDMA devices, which the software RNIC does not need.

    `states` has the state of each module by its name. The mark is NOTE if the finding has advice, else OK. With
    `devices` the advice is to load ib_uverbs and rdma_ucm, those that are AVAILABLE; without devices to try siw, or
    else rdma_rxe, software RNICs of the kernel, if that module is LOADED or AVAILABLE.
    """
    by_state = {state: [name for name, found in states.items() if found is state] for state in ModuleState}
    said = {
        ModuleState.LOADED: "loaded",
        ModuleState.AVAILABLE: "there to be loaded",
        ModuleState.MISSING: "not part of this kernel",
        ModuleState.UNKNOWN: "not to be seen from here",
    }
    text = "; ".join(f"{', '.join(names)}: {said[state]}" for state, names in by_state.items() if names)
    remedy = ""
    present = {name for name, state in states.items() if state in {ModuleState.LOADED, ModuleState.AVAILABLE}}
    unloaded = [name for name in ("ib_uverbs", "rdma_ucm") if states.get(name) is ModuleState.AVAILABLE]
    if devices and unloaded:
        remedy = f"for programs that use the devices: as root, modprobe -a {' '.join(unloaded)}"
    elif not devices and "siw" in present:
        remedy = _TRY_SIW
    elif not devices and "rdma_rxe" in present:
        remedy = _TRY_RXE
    return Finding(
        Mark.NOTE if remedy else Mark.OK,
        "kernel_modules",
        text=f"{text} (for RDMA devices and the kernel's own NFS over RDMA)",
        remedy=remedy,
        facts={"modules": {name: str(state) for name, state in states.items()}},
    )


def check_memory_lock(limit_octets: int | None, devices: Sequence[RdmaDevice]) -> Finding:
    """Returns the finding about the memory that a process may lock, which RDMA devices need, not the software RNIC.

    `limit_octets` is RLIMIT_MEMLOCK; None: no limit. The mark is NOTE if it is below 64 MiB and there are devices, else
    OK.
    """
    size = "no limit" if limit_octets is None else readable_octets(limit_octets)
    short = limit_octets is not None and limit_octets < LOCKED_OCTETS_MIN and bool(devices)
    return Finding(
        Mark.NOTE if short else Mark.OK,
        "memory_lock",
        text=f"{size} of memory that a program may lock for an RDMA device"
        f"{', too little for provider auto' if short else ''}; the software RNIC locks none",
        remedy=_LOCK_MORE if short else "",
        facts={"limit_bytes": limit_octets},
    )


def check_open_files(soft: int, hard: int) -> Finding:
    """Returns the finding about RLIMIT_NOFILE, which bounds the connections and files of a server.

    `soft` and `hard` are its limits, or `resource.RLIM_INFINITY`. The mark is NOTE if `soft` is below 1024, else OK.
    """
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
    """Returns the finding OK if a server can listen at the TCP port `port`, else NOTE.

    `listens` tries to listen at a port, and returns the reason if that fails, else "".
    """
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
    """Returns the finding about the route to a server, which says whether it leads through one of the RDMA `devices`.

    `address` is the server's IP address, `interface` the network interface towards it. The mark is OK, or PROBLEM if
    `interface` is None: there is no route.
    """
    # Devices of RoCE have addresses of IPv6 among their GIDs, in the long form.
    spellings = {address, ipaddress.ip_address(address).exploded}
    own = [device for device in devices if any(spellings & {*port.addresses, *port.gids} for port in device.ports)]
    on = own or [device for device in devices if interface in device.interfaces]
    facts = {"address": address, "interface": interface, "devices": [device.name for device in on]}
    if interface is None:
        remedy = "check the address, and the network with: ip route"
        return Finding(Mark.PROBLEM, "route", f"this machine has no route to {address}", remedy, facts)
    names = " and ".join(f"{d.name} ({d.kind}, {'active' if d.active else 'not active'})" for d in on)
    if own:
        text = f"{address} is an address of this machine, of {names}: provider auto tries that first"
    elif not on:
        text = f"{address} is reached through {interface}, without an RDMA device: by the software RNIC over TCP"
    else:
        text = f"{address} is reached through {interface}, which has {names}: provider auto tries that first"
    return Finding(Mark.OK, "route", text=text, facts=facts)
