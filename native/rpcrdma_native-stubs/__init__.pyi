"""The native step of rpcrdma, an internal part of it: `rpcrdma.wire.native` finds it."""

from typing import Final

from typing_extensions import Buffer

INTERFACE: Final[int]
"""The number of this interface, which `rpcrdma.wire.native.INTERFACE` has to equal."""
CRC: Final[str]
"""The instructions that digests are computed by: "AVX-512", "PCLMULQDQ", "ARMv8" or "table"."""

def crc32c(data: Buffer, value: int = 0, /) -> int:
    """The CRC-32C of `data`, continuing from `value`, the digest of the octets before it."""
