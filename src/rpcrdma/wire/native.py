"""The native step: the extension module of the distribution `rpcrdma-native`, where it is installed.

`native` is the module, or None where Python does its work; `DATA_PATH` says which of both, and why. The environment
variable RPCRDMA_NATIVE=0 turns the native step off.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

if TYPE_CHECKING:
    from rpcrdma.wire.buffers import Buffer

__all__ = ["DATA_PATH", "INTERFACE", "Native", "NativeFrames", "NativeSend", "find", "native"]

# The functions and types of the module as one number, which rises with each change of them.
INTERFACE = 2

NativeSend: TypeAlias = Callable[[list[Any], int, list[int], int, int, bool, int], tuple[int, int, int, "bytes | None"]]
"""`Native.send` of one socket."""


class NativeFrames(Protocol):
    """The module's `Receiver`, as its stubs describe it."""

    send_number: int
    read_number: int
    posted: int
    reads_max: int
    pool: object
    crc: bool
    opened: bool
    opened_rdmap: int
    opened_handle: int

    @property
    def filled(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def control(self) -> int: ...
    @property
    def rdmap(self) -> int: ...
    @property
    def handle(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def placed(self) -> int: ...
    @property
    def left(self) -> int: ...
    @property
    def trailer(self) -> int: ...
    @property
    def digest(self) -> int: ...
    @property
    def message_rdmap(self) -> int: ...
    @property
    def message_handle(self) -> int: ...
    def receive(self, descriptor: int, most: int, /) -> int: ...
    def feed(self, octets: Buffer, /) -> tuple[int, int]: ...
    def hand_over(self) -> tuple[bytes, bytes]: ...


class Native(Protocol):
    """The module's names, as its stubs type them."""

    @property
    def INTERFACE(self) -> int: ...  # noqa: N802
    @property
    def CRC(self) -> str: ...  # noqa: N802
    @property
    def READ_ENDED(self) -> int: ...  # noqa: N802
    @property
    def STOPPED(self) -> int: ...  # noqa: N802
    @property
    def END_OF_STREAM(self) -> int: ...  # noqa: N802
    @property
    def Receiver(self) -> Callable[[Any, list[Any], list[Any], Any], NativeFrames]: ...  # noqa: N802
    @property
    def send(self) -> Callable[..., tuple[int, int, int, bytes | None]]: ...
    def crc32c(self, data: Buffer, value: int = 0, /) -> int: ...
    def use_types(self, *types: object) -> None: ...


def _load() -> Native:
    module: Any = import_module("rpcrdma_native")
    return cast("Native", module)


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
