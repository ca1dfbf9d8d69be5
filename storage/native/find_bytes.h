/* Searches for bytes in memory, as memmem(3) does, for `native/record_search.pyx`.

   With AVX2, 64 places are looked at in a step: two bytes of the needle must stand at their distance from each other.
   These are the two that are rarest in a sample of the memory itself, so that few places are compared as a whole. If too
   many are, as of a needle `aaaa` among `aaab`, memmem goes on from there: its time is linear. So is that of small
   memory and of other processors. */

#ifndef OFFSETFS_FIND_BYTES_H
#define OFFSETFS_FIND_BYTES_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __GLIBC__
extern void *memmem(const void *, size_t, const void *, size_t);
#endif

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define FIND_BYTES_VECTORS 1
#include <immintrin.h>
#endif

#define FIND_BYTES_SIZE_MIN 4096 /* of the memory: below it, the sample takes longer than it saves */
#define FIND_BYTES_SAMPLE 1024
#define FIND_BYTES_FALSE_MAX 1024 /* compared places that are none, beside one in 64 bytes */

static int find_bytes_is_fast;

/* Ask for the processor; once, before anything else. */
static void find_bytes_prepare(void)
{
#ifdef FIND_BYTES_VECTORS
    __builtin_cpu_init();
    find_bytes_is_fast = __builtin_cpu_supports("avx2");
#endif
}

#ifdef FIND_BYTES_VECTORS

/* Set the places in the needle of its two rarest bytes; they differ, and are within a short distance of its start. */
static void find_bytes_choose(
    const uint8_t *data, size_t size, const uint8_t *needle, size_t needle_size, size_t *one, size_t *other)
{
    uint16_t counts[256] = {0};
    size_t step = size / FIND_BYTES_SAMPLE, looked_at = needle_size < 256 ? needle_size : 256;
    for (size_t n = 0; n < FIND_BYTES_SAMPLE; n++)
        counts[data[n * step]]++;
    *one = 0;
    for (size_t n = 1; n < looked_at; n++)
        if (counts[needle[n]] < counts[needle[*one]])
            *one = n;
    *other = *one == 0;
    for (size_t n = 0; n < looked_at; n++)
        if (n != *one && counts[needle[n]] < counts[needle[*other]])
            *other = n;
}

__attribute__((target("avx2"))) static const uint8_t *find_bytes_by_vectors(
    const uint8_t *data, size_t size, const uint8_t *needle, size_t needle_size)
{
    size_t one, other, place = 0, wrong = 0, ends = size - needle_size + 1; /* the places where the needle may begin */
    find_bytes_choose(data, size, needle, needle_size, &one, &other);
    const __m256i first = _mm256_set1_epi8((char)needle[one]), second = _mm256_set1_epi8((char)needle[other]);
    for (; ends - place >= 64; place += 64) {
        const uint8_t *at = data + place;
        __m256i low = _mm256_and_si256(
            _mm256_cmpeq_epi8(first, _mm256_loadu_si256((const __m256i *)(at + one))),
            _mm256_cmpeq_epi8(second, _mm256_loadu_si256((const __m256i *)(at + other))));
        __m256i high = _mm256_and_si256(
            _mm256_cmpeq_epi8(first, _mm256_loadu_si256((const __m256i *)(at + 32 + one))),
            _mm256_cmpeq_epi8(second, _mm256_loadu_si256((const __m256i *)(at + 32 + other))));
        if (_mm256_testz_si256(_mm256_or_si256(low, high), _mm256_set1_epi8(-1)))
            continue;
        uint64_t found = (uint32_t)_mm256_movemask_epi8(low) | (uint64_t)(uint32_t)_mm256_movemask_epi8(high) << 32;
        for (; found; found &= found - 1) {
            const uint8_t *candidate = at + __builtin_ctzll(found);
            if (!memcmp(candidate, needle, needle_size))
                return candidate;
            if (++wrong > FIND_BYTES_FALSE_MAX + place / 64)
                return memmem(candidate, size - (size_t)(candidate - data), needle, needle_size);
        }
    }
    return memmem(data + place, size - place, needle, needle_size);
}

#endif

/* Return where the needle is first found in the memory, or NULL. */
static const uint8_t *find_bytes(const uint8_t *data, size_t size, const uint8_t *needle, size_t needle_size)
{
#ifdef FIND_BYTES_VECTORS
    if (find_bytes_is_fast && needle_size > 1 && size >= FIND_BYTES_SIZE_MIN && size - FIND_BYTES_SIZE_MIN >= needle_size)
        return find_bytes_by_vectors(data, size, needle, needle_size);
#endif
    return memmem(data, size, needle, needle_size);
}

#endif
