"""The providers that options ask for."""

from __future__ import annotations

import logging
import os

from rpcrdma.aio.drivers.capture import PacketCapture
from rpcrdma.aio.drivers.provider import PROVIDERS, Provider, ProviderChoice
from rpcrdma.aio.drivers.software_rnic import SoftwareRnic
from rpcrdma.errors import LocalProtocolError
from rpcrdma.iwarp import IwarpConfig
from rpcrdma.verbs.device_config import VerbsConfig

__all__ = ["DEVICES", "chosen_providers"]

_LOGGER = logging.getLogger("rpcrdma.provider")
DEVICES = "/sys/class/infiniband"
"""The directory in which Linux lists the RDMA devices of this machine, or of its network namespace."""


def chosen_providers(
    choice: ProviderChoice, iwarp: IwarpConfig, verbs: VerbsConfig, capture: PacketCapture | None
) -> tuple[Provider, ...]:
    """Returns the providers that a value of the option `provider` stands for, in the order in which a client uses them.

    "iwarp" is the software RNIC, "verbs" the RDMA devices. "auto" is both, the devices first. But it is the software
    RNIC alone if this machine has no device, with a capture, or if this process may lock less than LOCKED_OCTETS_MIN
    (64 MiB) of memory, which is logged.

    Args:
        choice: "auto", "iwarp", "verbs" or an object that implements `Provider`.
        iwarp: the settings of the software RNIC.
        verbs: the settings of RDMA devices.
        capture: the capture that records packets, or None.

    Raises:
        LocalProtocolError: the choice is unknown, or the packets of the chosen provider cannot be captured.
    """
    if isinstance(choice, str) and choice not in PROVIDERS:
        raise LocalProtocolError(f"provider={choice!r} is not known: take {', '.join(PROVIDERS)} or an object")
    if choice == "iwarp" or (choice == "auto" and (capture is not None or not _any_device() or _locks_little())):
        return (SoftwareRnic(iwarp, capture),)
    if capture is not None:
        name = choice if isinstance(choice, str) else choice.name
        raise LocalProtocolError(
            f"only the software RNIC's packets can be captured, not those of provider {name!r}: leave out "
            "capture=, or take provider='iwarp'"
        )
    if not isinstance(choice, str):
        return (choice,)
    # Programs without a device do not load its modules.
    from rpcrdma.aio.drivers.verbs_provider import VerbsProvider  # noqa: PLC0415

    devices = VerbsProvider(config=verbs)
    return (devices, SoftwareRnic(iwarp)) if choice == "auto" else (devices,)


def _any_device() -> bool:
    try:
        with os.scandir(DEVICES) as found:
            return any(found)
    except OSError:
        return False


def _locks_little() -> bool:
    # Asked where there is a device alone, see above.
    from rpcrdma.aio.drivers.locked_memory import LOCKED_OCTETS_MIN, lock_limit_octets  # noqa: PLC0415

    limit_octets = lock_limit_octets()
    if limit_octets is None or limit_octets >= LOCKED_OCTETS_MIN:
        return False
    _LOGGER.info(
        "provider iwarp: RDMA devices need more locked memory than the %d KiB of ulimit -l: raise it to %d",
        limit_octets >> 10,
        LOCKED_OCTETS_MIN >> 10,
    )
    return True
