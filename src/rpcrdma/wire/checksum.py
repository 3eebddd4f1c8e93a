"""CRC-32C (Castagnoli), the digest of MPA (RFC 5044 section 4.4).

`crc32c(data, value=0)`: the digest of `data`, continuing from `value`, the digest of the octets before it. It is the
function of the native module where that is in use, otherwise the one of the package `crc32c`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

from rpcrdma.wire.native import native

__all__ = ["crc32c"]


def _find() -> Callable[..., int]:
    """Returns the function `crc32c` of the PyPI package `crc32c`; loads only its extension module, if that is found.

    Otherwise, or if the package is loaded already, imports the package. For its version, that imports
    `importlib.metadata` with the parsers of e-mail, which takes a tenth of the time of a short command.

    Raises:
        ImportError: the package is not installed.
    """
    name = "crc32c._crc32c"
    package = None if "crc32c" in sys.modules else PathFinder.find_spec("crc32c")
    spec = None if package is None else PathFinder.find_spec(name, package.submodule_search_locations)
    if spec is None or spec.loader is None:
        from crc32c import crc32c as found  # noqa: PLC0415

        return found
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Callable[..., int] = module.crc32c
    return function


crc32c: Callable[..., int] = _find() if native is None else native.crc32c
