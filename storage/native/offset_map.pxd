# cython: language_level=3
"""The offset map in C: an open-addressing hash table, and its keyed hash.

SipHash-2-4 with 128 bits. The words of a key are read in the machine's byte order, because hashes never leave the
process. A slot is empty if its offset is 0, so offsets are stored plus one.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

cdef extern from *:
    ctypedef uint64_t uint128_t "unsigned __int128"
    void prefetch "__builtin_prefetch"(const void* address) nogil


cdef struct Slot:
    uint64_t low  # the key's hash, 128 bits
    uint64_t high
    int64_t offset  # plus one: 0 marks an empty slot


cdef struct Table:
    Slot* slots
    uint64_t slot_count
    int64_t count
    int64_t count_max
    int64_t latest_offset
    uint64_t hash_keys[2]


cdef inline bint put(Table* table, const uint64_t* digest, int64_t offset) noexcept nogil:
    """Store the offset of a key, by its hash; return false if the map is full."""
    cdef Slot* slot
    if table.count >= table.count_max:
        return False
    slot = find(table, digest)
    if slot.offset == 0:
        table.count += 1
        slot.low = digest[0]
        slot.high = digest[1]
    slot.offset = offset + 1
    table.latest_offset = offset
    return True


cdef inline int64_t get(const Table* table, const uint64_t* digest) noexcept nogil:
    """Return the offset of a key, by its hash, or -1."""
    cdef Slot* slot = find(table, digest)
    return -1 if slot is NULL else slot.offset - 1


cdef inline void look_up(const Table* table, const uint8_t* key, Py_ssize_t size, uint64_t* digest) noexcept nogil:
    """Hash a key, and prefetch its slot, so that a later access does not wait for memory."""
    siphash(table.hash_keys, key, size, digest)
    prefetch(table.slots + number_of(table, digest))


cdef inline uint64_t number_of(const Table* table, const uint64_t* digest) noexcept nogil:
    """Return the slot where the search for a hash begins."""
    return <uint64_t>((<uint128_t>digest[0] * table.slot_count) >> 64)


cdef inline Slot* find(const Table* table, const uint64_t* digest) noexcept nogil:
    """Return the slot of this hash, or the empty slot for it; NULL if there is neither."""
    cdef uint64_t number = number_of(table, digest)
    cdef uint64_t left = table.slot_count
    cdef Slot* slot
    while left:
        slot = table.slots + number
        if slot.offset == 0 or (slot.low == digest[0] and slot.high == digest[1]):
            return slot
        number += 1
        if number == table.slot_count:
            number = 0
        left -= 1
    return NULL


cdef inline void siphash(const uint64_t* keys, const uint8_t* data, Py_ssize_t size, uint64_t* digest) noexcept nogil:
    cdef uint64_t v[4]
    cdef uint64_t word = 0
    cdef Py_ssize_t left = size
    v[0] = keys[0] ^ <uint64_t>0x736F6D6570736575
    v[1] = keys[1] ^ <uint64_t>0x646F72616E646F6D ^ 0xEE
    v[2] = keys[0] ^ <uint64_t>0x6C7967656E657261
    v[3] = keys[1] ^ <uint64_t>0x7465646279746573
    while left >= 8:
        memcpy(&word, data, 8)
        sip_word(v, word)
        data += 8
        left -= 8
    word = 0
    if left:
        memcpy(&word, data, left)
    sip_word(v, word | (<uint64_t>size << 56))
    v[2] ^= 0xEE
    sip_rounds(v, 4)
    digest[0] = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    sip_rounds(v, 4)
    digest[1] = v[0] ^ v[1] ^ v[2] ^ v[3]


cdef inline void sip_word(uint64_t* v, uint64_t word) noexcept nogil:
    v[3] ^= word
    sip_rounds(v, 2)
    v[0] ^= word


cdef inline void sip_rounds(uint64_t* v, int count) noexcept nogil:
    cdef int number
    for number in range(count):
        v[0] += v[1]
        v[2] += v[3]
        v[1] = rotated(v[1], 13) ^ v[0]
        v[3] = rotated(v[3], 16) ^ v[2]
        v[0] = rotated(v[0], 32)
        v[2] += v[1]
        v[0] += v[3]
        v[1] = rotated(v[1], 17) ^ v[2]
        v[3] = rotated(v[3], 21) ^ v[0]
        v[2] = rotated(v[2], 32)


cdef inline uint64_t rotated(uint64_t value, int bits) noexcept nogil:
    return (value << bits) | (value >> (64 - bits))
