"""The doctor's trial of the provider for RDMA devices: its module, the libraries and the connection manager."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from rpcrdma.commands.failures import with_remedy
from rpcrdma.verbs.binding import Binding, DeviceAttributes, find

__all__ = ["VerbsTrial", "try_verbs"]


class VerbsTrial(NamedTuple):
    """The outcome of `try_verbs`: the attributes of each device that can be opened, by device name.

    `cause` and `remedy` state in words why devices do not work; both are "" if all do. `unusable` has the names of the
    devices that do not work; if it is empty and there is a cause, no device works.
    """

    attributes: dict[str, DeviceAttributes]
    cause: str = ""
    remedy: str = ""
    unusable: tuple[str, ...] = ()


def try_verbs(present: Iterable[str], find_binding: Callable[[], tuple[Binding | None, str]] = find) -> VerbsTrial:
    """Loads the module for RDMA devices, asks each device for its attributes, and opens the connection manager.

    `present` are the names of the devices that the kernel has. `find_binding` returns the module and "", or None and
    the reason why it is missing. Failures are part of the result, and not raised.
    """
    binding, missing = find_binding()
    if binding is None:
        return VerbsTrial({}, *with_remedy(missing))
    try:
        attributes = {device["name"]: device for device in binding.devices()}
    except OSError as error:
        # The library's absence has a message of its own, a failed call an error number and its name.
        return VerbsTrial({}, *(_failed(error, _NO_DEVICES) if error.errno else with_remedy(str(error))))
    unusable = tuple(name for name in present if name not in attributes)
    undriven = f"libibverbs has no driver for {', '.join(unusable)}"
    if unusable and not attributes:
        return VerbsTrial({}, undriven, _NO_DRIVER)
    try:
        binding.EventChannel()
    except OSError as error:
        return VerbsTrial(attributes, *_failed(error, _NO_MANAGER))
    if unusable:
        return VerbsTrial(attributes, f"{undriven}, or does not open it", f"{_NO_DRIVER}; {_NO_ACCESS}", unusable)
    return VerbsTrial(attributes)


_NO_DRIVER = "as root: apt-get install ibverbs-providers"
_NO_ACCESS = "this user has to be allowed to read and write /dev/infiniband/uverbs*"
_NO_DEVICES = f"as root: modprobe ib_uverbs; {_NO_ACCESS}"
_NO_MANAGER = "as root: modprobe rdma_ucm; this user has to be allowed to read and write /dev/infiniband/rdma_cm"


def _failed(error: OSError, remedy: str) -> tuple[str, str]:
    return f"{error.filename}: {(error.strerror or str(error)).lower()}", remedy
