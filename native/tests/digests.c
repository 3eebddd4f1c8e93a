/* Compares each implementation of CRC-32C that this processor can run with the definition: all lengths up to 1100, all
 * alignments, pieces, and a MiB. Prints the names of the implementations; the status is 1 where one is wrong. */
#include "../src/crc32c.c"

#include <stdio.h>
#include <stdlib.h>

static uint32_t bitwise(uint32_t state, const uint8_t *octets, size_t count) {
    for (; count; octets++, count--) {
        state ^= *octets;
        for (int bit = 0; bit < 8; bit++)
            state = state >> 1 ^ (state & 1 ? POLYNOMIAL : 0);
    }
    return state;
}

static void compare(const char *name, implementation *function, uint32_t state, const uint8_t *octets, size_t count) {
    if (function(state, octets, count) != bitwise(state, octets, count)) {
        fprintf(stderr, "%s is wrong for %zu octets at alignment %zu\n", name, count, (size_t)octets % 64);
        exit(1);
    }
}

static void examine(const char *name, implementation *function) {
    static _Alignas(64) uint8_t octets[(1 << 20) + 64];
    uint32_t state = 1;
    for (size_t i = 0; i < sizeof octets; i++)
        octets[i] = (uint8_t)((state = state * 1103515245u + 12345u) >> 16);
    for (size_t count = 0; count <= 1100; count++)
        compare(name, function, state += 0x9E3779B1u, octets + count % 64, count);
    for (size_t alignment = 0; alignment < 64; alignment++)
        for (size_t count = 0; count <= 1024; count += 51)
            compare(name, function, (uint32_t)-1, octets + alignment, count);
    for (size_t cut = 0; cut <= 1000; cut += 37)
        if (function(function(state, octets, cut), octets + cut, 1000 - cut) != function(state, octets, 1000))
            exit(1);
    compare(name, function, state, octets + 1, 1 << 20);
    puts(name);
}

int main(void) {
    const char *name = rn_crc32c_choose();
    if (rn_crc32c(0, "123456789", 9) != 0xE3069283)
        return 1;
    examine(name, chosen);
    fill_table();
    examine("table", by_table);
#if defined(__x86_64__)
    if (chosen == by_avx512)
        examine("AVX2", by_avx2);
    if (chosen == by_avx512 || chosen == by_avx2)
        examine("PCLMULQDQ", by_pclmul);
#endif
    return 0;
}
