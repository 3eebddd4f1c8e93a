"""The provider that options ask for."""

from __future__ import annotations

from rpcrdma.aio.drivers.capture import PacketCapture
from rpcrdma.aio.drivers.provider import Provider, ProviderChoice
from rpcrdma.aio.drivers.software_rnic import SoftwareRnic
from rpcrdma.errors import LocalProtocolError
from rpcrdma.iwarp import IwarpConfig

__all__ = ["chosen_provider"]


def chosen_provider(choice: ProviderChoice, config: IwarpConfig, capture: PacketCapture | None) -> Provider:
    """An object as it is; "verbs" for the RDMA devices; any other name is the software RNIC, which runs anywhere.

    Raises:
        LocalProtocolError: packets are to be recorded of a provider whose packets do not pass through here.
    """
    if choice == "verbs":
        # Programs without a device do not load its modules.
        from rpcrdma.aio.drivers.verbs_provider import VerbsProvider  # noqa: PLC0415

        choice = VerbsProvider()
    if isinstance(choice, str):
        return SoftwareRnic(config, capture)
    if capture is not None:
        raise LocalProtocolError(
            f"only the software RNIC's packets can be captured, not those of provider {choice.name!r}: leave out "
            "capture=, or take provider='iwarp'"
        )
    return choice
