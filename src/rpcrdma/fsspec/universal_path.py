"""The class of paths that universal-pathlib makes of our URLs; it finds it by its entry point."""

from __future__ import annotations

from typing import Any

from fsspec import get_filesystem_class
from upath import UPath

from rpcrdma.fsspec.servers import PROTOCOLS, split_path, strip_url

__all__ = ["NfsUPath"]


class NfsUPath(UPath):
    """`UPath("rdma://server/data")`, with the methods of `pathlib.Path`."""

    __slots__ = ()

    @classmethod
    def _transform_init_args(
        cls, args: tuple[Any, ...], protocol: str, storage_options: dict[str, Any]
    ) -> tuple[tuple[Any, ...], str, dict[str, Any]]:
        """Has a segment that begins with a slash begin at the root of the server, which it would lose otherwise."""
        roots = [number for number, segment in enumerate(args) if number and str(segment).startswith("/")]
        if roots and isinstance(args[0], str):
            server, _ = split_path(strip_url(args[0], protocol))
            args = (f"{protocol}://{server}{args[roots[-1]]}", *args[roots[-1] + 1 :])
        return super()._transform_init_args(args, protocol, storage_options)


for _protocol in PROTOCOLS:
    # It asks the classes that fsspec has loaded how their URLs are read, and warns where it finds none.
    get_filesystem_class(_protocol)
