/* CRC-32C (Castagnoli) of a memory range, in C: verifies the batches of `native/chain.pyx`.

   Equal to the crc32c package on every input, which a test holds. With SSE 4.2 eight bytes are taken at a time by the
   processor's instruction. It has a latency of three cycles but starts one each cycle, so three ranges run in
   parallel and are combined at the end: the checksum of A followed by B is that of A followed by as many zeros, XOR that of B.
   The effect of such zeros on a checksum is linear, and stored in tables of 4 x 256. Without the instruction: eight
   tables, eight bytes a step. */

#ifndef OFFSETFS_CRC32C_H
#define OFFSETFS_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define CRC32C_INSTRUCTION 1
#include <nmmintrin.h>
#endif

#define CRC32C_POLYNOMIAL 0x82F63B78u /* its bits reversed, as the checksum's are */
#define CRC32C_LONG 1024              /* bytes of one of three ranges */
#define CRC32C_SHORT 128

static uint32_t crc32c_bytes[8][256]; /* [n][b]: byte b followed by n zeros */
static uint32_t crc32c_long[4][256];  /* [n][b]: CRC32C_LONG zeros behind a checksum whose byte n is b */
static uint32_t crc32c_short[4][256];
static int crc32c_is_fast;

static void crc32c_prepare_zeros(uint32_t table[4][256], size_t zeros)
{
    uint32_t of_bit[32];
    for (int bit = 0; bit < 32; bit++) {
        uint32_t crc = (uint32_t)1 << bit;
        for (size_t n = 0; n < zeros; n++)
            crc = crc32c_bytes[0][crc & 0xFF] ^ (crc >> 8);
        of_bit[bit] = crc;
    }
    for (int n = 0; n < 4; n++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t crc = 0;
            for (int bit = 0; bit < 8; bit++)
                if (byte >> bit & 1)
                    crc ^= of_bit[8 * n + bit];
            table[n][byte] = crc;
        }
}

/* Fill the tables; once, before anything else. */
static void crc32c_prepare(void)
{
    for (int byte = 0; byte < 256; byte++) {
        uint32_t crc = (uint32_t)byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ CRC32C_POLYNOMIAL : crc >> 1;
        crc32c_bytes[0][byte] = crc;
    }
    for (int n = 1; n < 8; n++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t before = crc32c_bytes[n - 1][byte];
            crc32c_bytes[n][byte] = crc32c_bytes[0][before & 0xFF] ^ before >> 8;
        }
#ifdef CRC32C_INSTRUCTION
    __builtin_cpu_init();
    crc32c_is_fast = __builtin_cpu_supports("sse4.2");
    crc32c_prepare_zeros(crc32c_long, CRC32C_LONG);
    crc32c_prepare_zeros(crc32c_short, CRC32C_SHORT);
#endif
}

static uint32_t crc32c_by_tables(uint32_t crc, const uint8_t *data, size_t size)
{
    crc = ~crc;
    for (; size >= 8; data += 8, size -= 8) {
        uint32_t low = crc ^ ((uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24);
        crc = crc32c_bytes[7][low & 0xFF] ^ crc32c_bytes[6][low >> 8 & 0xFF] ^ crc32c_bytes[5][low >> 16 & 0xFF] ^
              crc32c_bytes[4][low >> 24] ^ crc32c_bytes[3][data[4]] ^ crc32c_bytes[2][data[5]] ^
              crc32c_bytes[1][data[6]] ^ crc32c_bytes[0][data[7]];
    }
    for (; size; data++, size--)
        crc = crc32c_bytes[0][(crc ^ *data) & 0xFF] ^ crc >> 8;
    return ~crc;
}

#ifdef CRC32C_INSTRUCTION

static inline uint64_t crc32c_word(const uint8_t *data)
{
    uint64_t word;
    memcpy(&word, data, sizeof word);
    return word;
}

static inline uint64_t crc32c_behind(uint32_t table[4][256], uint64_t crc)
{
    return table[0][crc & 0xFF] ^ table[1][crc >> 8 & 0xFF] ^ table[2][crc >> 16 & 0xFF] ^ table[3][crc >> 24 & 0xFF];
}

__attribute__((target("sse4.2,crc32"))) static inline uint64_t crc32c_three(
    uint64_t first, const uint8_t *data, size_t range_size, uint32_t table[4][256])
{
    uint64_t second = 0, third = 0;
    for (const uint8_t *end = data + range_size; data < end; data += 8) {
        first = _mm_crc32_u64(first, crc32c_word(data));
        second = _mm_crc32_u64(second, crc32c_word(data + range_size));
        third = _mm_crc32_u64(third, crc32c_word(data + 2 * range_size));
    }
    return crc32c_behind(table, crc32c_behind(table, first) ^ second) ^ third;
}

__attribute__((target("sse4.2,crc32"))) static uint32_t crc32c_by_instruction(uint32_t crc, const uint8_t *data, size_t size)
{
    uint64_t state = ~crc;
    for (; size >= 3 * CRC32C_LONG; data += 3 * CRC32C_LONG, size -= 3 * CRC32C_LONG)
        state = crc32c_three(state, data, CRC32C_LONG, crc32c_long);
    for (; size >= 3 * CRC32C_SHORT; data += 3 * CRC32C_SHORT, size -= 3 * CRC32C_SHORT)
        state = crc32c_three(state, data, CRC32C_SHORT, crc32c_short);
    for (; size >= 8; data += 8, size -= 8)
        state = _mm_crc32_u64(state, crc32c_word(data));
    for (; size; data++, size--)
        state = _mm_crc32_u8((uint32_t)state, *data);
    return ~(uint32_t)state;
}

#endif

/* Return the checksum of `size` bytes that follow bytes with the checksum `crc` (0: none). */
static uint32_t crc32c_of(uint32_t crc, const uint8_t *data, size_t size)
{
#ifdef CRC32C_INSTRUCTION
    if (crc32c_is_fast)
        return crc32c_by_instruction(crc, data, size);
#endif
    return crc32c_by_tables(crc, data, size);
}

#endif
