"""`rpcrdma serve --register`: whether the server's programs are registered at the rpcbind of this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rpcrdma.errors import ConnectFailed

if TYPE_CHECKING:
    from rpcrdma.aio.server.serve import Server
    from rpcrdma.nfs.server.registration import RegisteredPrograms
    from rpcrdma.rpc.service import Service

__all__ = ["register"]


async def register(choice: str, offered: Sequence[Service], server: Server) -> RegisteredPrograms | None:
    """Registers the programs of a listening server at the rpcbind of this machine, if the setting asks for it.

    Args:
        choice: the setting: "yes", "no", or "auto": yes for a server of root that other machines can reach, else no.
        offered: the services.
        server: the server.

    Returns:
        The registered programs, to be closed before the server; None: none are to be registered. With "auto" a program
        that could not be registered is logged, and tried again in the background.

    Raises:
        ConnectFailed: `choice` is "yes", and a program could not be registered.
    """
    # An ordinary user's server is not the machine's, and one at loopback addresses would mislead other machines.
    if choice == "no" or (choice == "auto" and os.geteuid() != 0):
        return None
    from rpcrdma.nfs.server.registration import RegisteredPrograms, places_of  # noqa: PLC0415

    programs = [service.PROGRAM for service in offered]
    if choice == "auto" and not places_of(programs, server.listening, loopback=False):
        return None
    registered = RegisteredPrograms(programs, server.listening, loopback=choice == "yes")
    try:
        await registered.start(required=choice == "yes")
    except ConnectFailed as error:
        raise ConnectFailed(f"{error}, or serve without rpcbind (--register no)") from None
    return registered
