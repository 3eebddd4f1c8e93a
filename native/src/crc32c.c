/* The digest is the remainder of the octets, as a polynomial over GF(2), divided by that of Castagnoli. Bits are
 * reflected: the lowest bit of the first octet is the highest power of x.
 *
 * Long data is folded: with two carry-less products, 16 octets of accumulator are moved onto 16 octets that lie D bits
 * further on, since a * x^D and a * (x^D mod P) have one remainder. Several accumulators hide the products' latency.
 * The constants are powers of x, which `x_power` computes at import. See V. Gopal et al., "Fast CRC Computation for
 * Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009. */
#include "crc32c.h"

#include <stdbool.h>
#include <string.h>

#define POLYNOMIAL 0x82F63B78u /* 0x1EDC6F41 (RFC 3720 section 12.1), reflected, without x^32 */

typedef uint32_t implementation(uint32_t state, const uint8_t *octets, size_t count);

/* The state after each octet. */
static uint32_t table[256];

static void fill_table(void) {
    for (uint32_t octet = 0; octet < 256; octet++) {
        table[octet] = octet;
        for (int bit = 0; bit < 8; bit++) table[octet] = table[octet] >> 1 ^ (table[octet] & 1 ? POLYNOMIAL : 0);
    }
}

static uint32_t by_table(uint32_t state, const uint8_t *octets, size_t count) {
    for (; count; octets++, count--) state = state >> 8 ^ table[(state ^ *octets) & 255];
    return state;
}

#if defined(__x86_64__)
#include <immintrin.h>

#define FOR(instructions) __attribute__((target(instructions)))

/* Constants that move 16 octets by so many bits: by 128 onto the next 16, by 2048 onto 16 that begin 256 further on. */
static __m128i by_128, by_256, by_512, by_1024, by_2048;

/* x^n mod P, reflected. */
static uint32_t x_power(unsigned n) {
    uint32_t power = UINT32_C(1) << 31;
    while (n--) power = power >> 1 ^ (power & 1 ? POLYNOMIAL : 0);
    return power;
}

/* The first 8 octets move by 64 bits more than the other 8. Of a reflected product, 1 bit less is due, and 32 less
 * because the constant lies in the low half of its 64 bits. */
static __m128i constants(unsigned bits) {
    return _mm_set_epi64x(x_power(bits - 32 - 1), x_power(bits + 64 - 32 - 1));
}

FOR("sse4.2") static uint32_t by_crc32(uint32_t state, const uint8_t *octets, size_t count) {
    uint64_t wide = state;
    for (; count >= 8; octets += 8, count -= 8) {
        uint64_t word;
        memcpy(&word, octets, 8);
        wide = _mm_crc32_u64(wide, word);
    }
    state = (uint32_t)wide;
    for (; count; octets++, count--) state = _mm_crc32_u8(state, *octets);
    return state;
}

FOR("sse4.2") static uint32_t reduce(__m128i folded) {
    uint64_t state = _mm_crc32_u64(0, (uint64_t)_mm_extract_epi64(folded, 0));
    return (uint32_t)_mm_crc32_u64(state, (uint64_t)_mm_extract_epi64(folded, 1));
}

FOR("pclmul") static __m128i fold(__m128i from, __m128i by, __m128i onto) {
    __m128i low = _mm_clmulepi64_si128(from, by, 0x00), high = _mm_clmulepi64_si128(from, by, 0x11);
    return _mm_xor_si128(onto, _mm_xor_si128(low, high));
}

FOR("pclmul,sse4.2") static uint32_t by_pclmul(uint32_t state, const uint8_t *octets, size_t count) {
    if (count >= 64) {
        __m128i lane[4];
        for (int i = 0; i < 4; i++) lane[i] = _mm_loadu_si128((const __m128i *)octets + i);
        lane[0] = _mm_xor_si128(lane[0], _mm_cvtsi32_si128((int)state));
        for (octets += 64, count -= 64; count >= 64; octets += 64, count -= 64)
            for (int i = 0; i < 4; i++) lane[i] = fold(lane[i], by_512, _mm_loadu_si128((const __m128i *)octets + i));
        for (int i = 1; i < 4; i++) lane[i] = fold(lane[i - 1], by_128, lane[i]);
        state = reduce(lane[3]);
    }
    return by_crc32(state, octets, count);
}

#define AVX2 "avx2,vpclmulqdq,pclmul,sse4.2"

FOR(AVX2) static __m256i fold_32(__m256i from, __m256i by, __m256i onto) {
    __m256i low = _mm256_clmulepi64_epi128(from, by, 0x00), high = _mm256_clmulepi64_epi128(from, by, 0x11);
    return _mm256_xor_si256(onto, _mm256_xor_si256(low, high));
}

FOR(AVX2) static uint32_t by_avx2(uint32_t state, const uint8_t *octets, size_t count) {
    if (count >= 128) {
        const __m256i far = _mm256_broadcastsi128_si256(by_1024), near = _mm256_broadcastsi128_si256(by_256);
        __m256i lane[4];
        for (int i = 0; i < 4; i++) lane[i] = _mm256_loadu_si256((const __m256i *)octets + i);
        lane[0] = _mm256_xor_si256(lane[0], _mm256_zextsi128_si256(_mm_cvtsi32_si128((int)state)));
        for (octets += 128, count -= 128; count >= 128; octets += 128, count -= 128)
            for (int i = 0; i < 4; i++)
                lane[i] = fold_32(lane[i], far, _mm256_loadu_si256((const __m256i *)octets + i));
        for (int i = 1; i < 4; i++) lane[i] = fold_32(lane[i - 1], near, lane[i]);
        state = reduce(fold(_mm256_castsi256_si128(lane[3]), by_128, _mm256_extracti128_si256(lane[3], 1)));
    }
    return by_crc32(state, octets, count);
}

#define AVX512 "avx512f,avx512vl,vpclmulqdq,pclmul,sse4.2"

FOR(AVX512) static __m512i fold_64(__m512i from, __m512i by, __m512i onto) {
    __m512i low = _mm512_clmulepi64_epi128(from, by, 0x00), high = _mm512_clmulepi64_epi128(from, by, 0x11);
    return _mm512_ternarylogic_epi64(low, high, onto, 0x96); /* the exclusive or of three */
}

FOR(AVX512) static uint32_t by_avx512(uint32_t state, const uint8_t *octets, size_t count) {
    if (count >= 256) {
        const __m512i far = _mm512_broadcast_i32x4(by_2048), near = _mm512_broadcast_i32x4(by_512);
        __m512i lane[4];
        for (int i = 0; i < 4; i++) lane[i] = _mm512_loadu_si512(octets + 64 * i);
        lane[0] = _mm512_xor_si512(lane[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)state)));
        for (octets += 256, count -= 256; count >= 256; octets += 256, count -= 256)
            for (int i = 0; i < 4; i++) lane[i] = fold_64(lane[i], far, _mm512_loadu_si512(octets + 64 * i));
        for (int i = 1; i < 4; i++) lane[i] = fold_64(lane[i - 1], near, lane[i]);
        for (; count >= 64; octets += 64, count -= 64) lane[3] = fold_64(lane[3], near, _mm512_loadu_si512(octets));
        __m128i folded = fold(_mm512_extracti32x4_epi32(lane[3], 0), by_128, _mm512_extracti32x4_epi32(lane[3], 1));
        folded = fold(folded, by_128, _mm512_extracti32x4_epi32(lane[3], 2));
        state = reduce(fold(folded, by_128, _mm512_extracti32x4_epi32(lane[3], 3)));
    }
    return by_crc32(state, octets, count);
}

#elif defined(__aarch64__) && defined(__linux__)
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>

__attribute__((target("+crc"))) static uint32_t by_crc32(uint32_t state, const uint8_t *octets, size_t count) {
    for (; count >= 8; octets += 8, count -= 8) {
        uint64_t word;
        memcpy(&word, octets, 8);
        state = __crc32cd(state, word);
    }
    for (; count; octets++, count--) state = __crc32cb(state, *octets);
    return state;
}
#endif

static implementation *chosen = by_table;

const char *rn_crc32c_choose(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul")) {
        by_128 = constants(128), by_256 = constants(256), by_512 = constants(512);
        by_1024 = constants(1024), by_2048 = constants(2048);
        chosen = by_pclmul;
        if (!__builtin_cpu_supports("vpclmulqdq") || !__builtin_cpu_supports("avx2")) return "PCLMULQDQ";
        bool wide = __builtin_cpu_supports("avx512vl");
        chosen = wide ? by_avx512 : by_avx2;
        return wide ? "AVX-512" : "AVX2";
    }
#elif defined(__aarch64__) && defined(__linux__)
    if (getauxval(AT_HWCAP) & HWCAP_CRC32) {
        chosen = by_crc32;
        return "ARMv8";
    }
#endif
    fill_table();
    return "table";
}

uint32_t rn_crc32c(uint32_t value, const void *octets, size_t count) { return ~chosen(~value, octets, count); }
