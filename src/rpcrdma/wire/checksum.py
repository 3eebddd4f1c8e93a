"""CRC-32C (Castagnoli), the digest of MPA (RFC 5044 section 4.4).

`crc32c(data, value=0)`: the digest of `data`, continuing from `value`, the digest of what came before it.
"""

from crc32c import crc32c

__all__ = ["crc32c"]
