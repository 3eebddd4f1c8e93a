"""The native step: the extension module of the distribution `rpcrdma-native`, where it is installed.

`native` is the module, or None where Python does its work; `DATA_PATH` says which of both, and why. The environment
variable RPCRDMA_NATIVE=0 turns the native step off.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rpcrdma.wire.buffers import Buffer

__all__ = ["DATA_PATH", "INTERFACE", "Native", "find", "native"]

# The functions and types of the module as one number, which rises with each change of them.
INTERFACE = 1


class Native(Protocol):
    """The module's names, as its stubs type them."""

    @property
    def INTERFACE(self) -> int: ...  # noqa: N802
    @property
    def CRC(self) -> str: ...  # noqa: N802
    def crc32c(self, data: Buffer, value: int = 0, /) -> int: ...


def _load() -> Native:
    import rpcrdma_native  # noqa: PLC0415

    return rpcrdma_native


def find(setting: str | None, load: Callable[[], Native] = _load) -> tuple[Native | None, str]:
    """The module or None, and a sentence that says which path is in use; `setting` is the value of RPCRDMA_NATIVE."""
    if setting == "0":
        return None, "Python: RPCRDMA_NATIVE=0"
    try:
        module = load()
    except ModuleNotFoundError:
        return None, "Python: rpcrdma_native is not installed"
    except ImportError as error:
        return None, f"Python: rpcrdma_native does not load: {error}"
    if module.INTERFACE != INTERFACE:
        return None, (
            f"Python: rpcrdma_native has interface {module.INTERFACE}, this version of rpcrdma needs {INTERFACE}"
        )
    return module, f"native, CRC by {module.CRC}"


native, DATA_PATH = find(os.environ.get("RPCRDMA_NATIVE"))
