/* CRC-32C (Castagnoli), the digest of MPA (RFC 5044 section 4.4), by the fastest instructions of this processor. */
#ifndef RPCRDMA_CRC32C_H
#define RPCRDMA_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Chooses the implementation; to be called once, before the first digest. Returns its name. */
const char *rn_crc32c_choose(void);

/* The digest of `octets`, continuing from `value`, the digest of the octets before them; 0 begins. */
uint32_t rn_crc32c(uint32_t value, const void *octets, size_t count);

#endif
