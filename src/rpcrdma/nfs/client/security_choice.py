"""The security flavor with which a client uses an export: one that the export takes and the client can prove."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from rpcrdma.aio.client.connect import ConnectOptions
from rpcrdma.aio.security_options import Kerberos
from rpcrdma.aio.urls import Url
from rpcrdma.errors import UserAuthenticationFailed
from rpcrdma.nfs.client.mount_client import Mount
from rpcrdma.rpc.gss.flavors import SecurityFlavor

__all__ = ["flavor_names", "secured"]

_LOGGER = logging.getLogger("rpcrdma.client")
_KNOWN = frozenset(SecurityFlavor)


def flavor_names(flavors: Sequence[int]) -> list[str]:
    """Returns the names of RPC security flavors, such as "krb5", in order; for an unknown flavor its number as text."""
    return [str(SecurityFlavor(flavor)) if flavor in _KNOWN else str(flavor) for flavor in flavors]


async def secured(options: ConnectOptions, url: Url, mounted: Mount) -> ConnectOptions:
    """Returns `options` with the security flavor for the export of `mounted`, which the server at `url` exports.

    If `options.security` is given, the result is `options` itself. Otherwise the flavor is the first of the export's
    flavors that the client can use: AUTH_SYS in any case, Kerberos with a ticket. Without a list of flavors, and for
    AUTH_NONE, it is AUTH_SYS.

    Raises:
        UserAuthenticationFailed: the export does not take the given flavor, or the client has a credential for no
            flavor of the export.
    """
    offered = mounted.flavors
    export = replace(url, path=mounted.export, mount_port=None)
    names = ", ".join(flavor_names(offered))
    if options.security is not None:
        kerberos = options.kerberos
        wanted = SecurityFlavor.SYS if kerberos is None else kerberos.security
        if offered and wanted not in offered:
            raise UserAuthenticationFailed(
                f"{export} asks for {names}, not for {wanted}; choose one of these (ConnectOptions(security=...))"
            )
        return options
    why = ""
    for flavor in offered:
        if flavor in {SecurityFlavor.SYS, SecurityFlavor.NONE}:
            break
        if flavor in _KNOWN:
            kerberos = Kerberos(str(SecurityFlavor(flavor)))
            why = await asyncio.to_thread(kerberos.lacks)
            if not why:
                _LOGGER.info("%s prefers %s: its security flavors are %s", export, kerberos.flavor, names)
                return replace(options, security=kerberos)
    else:
        if offered:
            cause = why or "this client has none of them; ask the administrator for another flavor"
            raise UserAuthenticationFailed(f"{export} asks for {names}: {cause}")
    return replace(options, security="sys")
