# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Sketches of the records of a log: the compiled form of the reference `reference/record_sketch.py`.

Rows come from a scan that checked them, and are checked again against the payload. The state is one buffer with the
layout of `Sketch`, whose size is checked; places in it are computed from hashes and masked, never read from it, so that
a damaged state gives wrong numbers and no access out of bounds.
"""

from cpython.array cimport array
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from offsetfs.storage.native.rows cimport RECORD_COLUMNS, RecordRow, hold_rows

from offsetfs.storage.reference import record_sketch as _reference

cdef enum:
    RECORDS = 0
    KEYED
    NULL_VALUES
    TOMBSTONES
    WITH_HEADERS
    HEADERS
    KEY_BYTES
    VALUE_BYTES
    HEAVY_USED
    HEAVY_ERROR
    NUMBERS = 16
    BUCKETS = 864
    SUB_BITS = 5
    LARGEST = 10
    REGISTER_BITS = 14
    REGISTERS = 16384
    HEAVY_SLOTS = 2048
    HEAVY_MAX = 1536
    KEY_PREFIX = 40
    SMALL_COUNTS = 64
    INT_MAX = 0x7FFFFFFF

cdef uint64_t K = 0x9E3779B97F4A7C15
cdef int64_t LONG_MAX = 0x7FFFFFFFFFFFFFFF


cdef struct Heavy:  # a key that is counted; without a count the slot is empty
    uint64_t hash
    int64_t count
    int64_t key_size
    uint8_t key[KEY_PREFIX]


cdef struct Large:
    int64_t size
    int64_t offset


cdef struct Sketch:
    int64_t numbers[NUMBERS]
    int64_t key_sizes[BUCKETS]
    int64_t value_sizes[BUCKETS]
    Large largest[LARGEST]
    uint8_t registers[REGISTERS]
    Heavy heavy[HEAVY_SLOTS]


assert sizeof(Sketch) == _reference.STATE_BYTES
assert sizeof(Heavy) == _reference.HEAVY_BYTES


def add_rows(state, payload, array rows not None, int64_t base_offset):
    """See `reference/record_sketch.py:add_rows`."""
    cdef Py_buffer held
    cdef Py_buffer held_rows
    cdef Py_buffer held_state
    cdef int64_t least = LONG_MAX
    cdef int64_t greatest = -LONG_MAX - 1
    cdef bint is_inside = True
    cdef Py_ssize_t count = hold_rows(rows, RECORD_COLUMNS, &held_rows), number
    try:
        hold_state(state, &held_state)
        try:
            PyObject_GetBuffer(payload, &held, PyBUF_SIMPLE)
            try:
                with nogil:
                    for number in range(count):
                        is_inside = add_record(
                            <Sketch*>held_state.buf, <const uint8_t*>held.buf, held.len,
                            <const RecordRow*>held_rows.buf + number, base_offset, &least, &greatest,
                        )
                        if not is_inside:
                            break
            finally:
                PyBuffer_Release(&held)
        finally:
            PyBuffer_Release(&held_state)
    finally:
        PyBuffer_Release(&held_rows)
    if not is_inside:
        raise ValueError("a field outside of its payload")
    return least, greatest


def merge(state, other):
    """See `reference/record_sketch.py:merge`."""
    cdef Py_buffer held
    cdef Py_buffer held_other
    hold_state(state, &held)
    try:
        PyObject_GetBuffer(other, &held_other, PyBUF_SIMPLE)
        try:
            if held_other.len != sizeof(Sketch):
                raise ValueError("no state of a sketch")
            with nogil:
                merge_sketches(<Sketch*>held.buf, <const Sketch*>held_other.buf)
        finally:
            PyBuffer_Release(&held_other)
    finally:
        PyBuffer_Release(&held)


cdef int hold_state(state, Py_buffer* held) except -1:
    PyObject_GetBuffer(state, held, PyBUF_SIMPLE | PyBUF_WRITABLE)
    if held.len != sizeof(Sketch) or <uint64_t>held.buf % 8:
        PyBuffer_Release(held)
        raise ValueError("no state of a sketch")
    return 0


cdef bint add_record(
    Sketch* sketch,
    const uint8_t* payload,
    Py_ssize_t size,
    const RecordRow* given,
    int64_t base_offset,
    int64_t* least,
    int64_t* greatest,
) noexcept nogil:
    """Add a record; return whether its fields are inside of the payload. A row is copied before it is checked."""
    cdef RecordRow row
    cdef int64_t* numbers = sketch.numbers
    memcpy(&row, given, sizeof(row))
    if not (is_field(row.key_position, row.key_size, size) and is_field(row.value_position, row.value_size, size)):
        return False
    numbers[RECORDS] += 1
    if row.timestamp_delta < least[0]:
        least[0] = row.timestamp_delta
    if row.timestamp_delta > greatest[0]:
        greatest[0] = row.timestamp_delta
    if row.headers_count > 0:
        numbers[WITH_HEADERS] += 1
        numbers[HEADERS] = plus(numbers[HEADERS], row.headers_count)
    if row.value_size < 0:
        numbers[NULL_VALUES] += 1
        if row.key_size >= 0:
            numbers[TOMBSTONES] += 1
        row.value_size = 0
    else:
        sketch.value_sizes[bucket_of(row.value_size)] += 1
    numbers[VALUE_BYTES] += row.value_size
    if row.key_size >= 0:
        numbers[KEYED] += 1
        numbers[KEY_BYTES] += row.key_size
        sketch.key_sizes[bucket_of(row.key_size)] += 1
        add_key(sketch, payload + row.key_position, row.key_size)
        row.value_size += row.key_size
    add_large(sketch, row.value_size, plus(base_offset, row.offset_delta))
    return True


cdef inline bint is_field(int64_t position, int64_t field_size, Py_ssize_t size) noexcept nogil:
    return field_size < 0 or (0 <= position <= size and field_size <= size - position and field_size <= INT_MAX)


cdef inline int64_t plus(int64_t one, int64_t other) noexcept nogil:
    return <int64_t>(<uint64_t>one + <uint64_t>other)


cdef inline int64_t bucket_of(int64_t size) noexcept nogil:
    """Return the bucket of a size in [0, 2³¹): one each below 32, then 32 for each power of two."""
    cdef int64_t shift = 0
    while (size >> shift) >= 64:
        shift += 1
    if size < 32:
        return size
    return 32 * shift + (size >> shift)


cdef inline void add_large(Sketch* sketch, int64_t size, int64_t offset) noexcept nogil:
    cdef Large* largest = sketch.largest
    cdef Py_ssize_t place = LARGEST - 1
    if size <= largest[place].size:
        return
    while place > 0 and size > largest[place - 1].size:
        largest[place] = largest[place - 1]
        place -= 1
    largest[place].size, largest[place].offset = size, offset


cdef inline uint64_t hash_of(const uint8_t* data, Py_ssize_t size) noexcept nogil:
    cdef uint64_t word, hashed = <uint64_t>size * K
    while size >= 8:
        memcpy(&word, data, 8)
        hashed = (hashed ^ word) * K
        hashed ^= hashed >> 32
        data += 8
        size -= 8
    if size > 0:
        word = 0
        memcpy(&word, data, size)
        hashed = (hashed ^ word) * K
    hashed ^= hashed >> 33
    hashed *= <uint64_t>0xFF51AFD7ED558CCD
    hashed ^= hashed >> 33
    hashed *= <uint64_t>0xC4CEB9FE1A85EC53
    return hashed ^ (hashed >> 33)


cdef inline void add_key(Sketch* sketch, const uint8_t* key, Py_ssize_t size) noexcept nogil:
    cdef uint64_t hashed = hash_of(key, size)
    cdef uint64_t rest = hashed >> REGISTER_BITS | <uint64_t>1 << 50
    cdef uint8_t place = 1
    cdef uint8_t* register = sketch.registers + (hashed & (REGISTERS - 1))
    while not rest & 1:
        rest >>= 1
        place += 1
    if place > register[0]:
        register[0] = place
    add_heavy(sketch, hashed, 1, key, size, size)


cdef inline Heavy* slot_of(Sketch* sketch, uint64_t hashed) noexcept nogil:
    """Return the slot of a hash, or the empty slot for it; NULL only in a damaged state, in which none is empty."""
    cdef uint64_t slot = hashed >> 11, left = HEAVY_SLOTS
    cdef Heavy* heavy
    while left:
        heavy = &sketch.heavy[slot & (HEAVY_SLOTS - 1)]
        if heavy.count == 0 or heavy.hash == hashed:
            return heavy
        slot += 1
        left -= 1
    return NULL


cdef void add_heavy(
    Sketch* sketch, uint64_t hashed, int64_t count, const uint8_t* key, Py_ssize_t prefix_size, int64_t key_size
) noexcept nogil:
    cdef Heavy* heavy = slot_of(sketch, hashed)
    if heavy is NULL:
        return
    if heavy.count == 0:
        if sketch.numbers[HEAVY_USED] >= HEAVY_MAX:
            purge(sketch)
            heavy = slot_of(sketch, hashed)
            if heavy is NULL:
                return
        sketch.numbers[HEAVY_USED] += 1
        heavy.hash, heavy.key_size = hashed, key_size
        memset(heavy.key, 0, KEY_PREFIX)
        memcpy(heavy.key, key, min(prefix_size, <Py_ssize_t>KEY_PREFIX))
    heavy.count += count


cdef void purge(Sketch* sketch) noexcept nogil:
    """Subtract the median count from all, and drop the keys that have none left."""
    cdef int64_t median = median_count(sketch)
    cdef Heavy* old = <Heavy*>malloc(sizeof(Heavy) * HEAVY_SLOTS)
    cdef Heavy* heavy
    cdef Py_ssize_t slot
    if old is NULL:  # the sketch begins again; the error says so
        memset(sketch.heavy, 0, sizeof(sketch.heavy))
        sketch.numbers[HEAVY_USED], sketch.numbers[HEAVY_ERROR] = 0, LONG_MAX
        return
    memcpy(old, sketch.heavy, sizeof(sketch.heavy))
    memset(sketch.heavy, 0, sizeof(sketch.heavy))
    sketch.numbers[HEAVY_USED] = 0
    sketch.numbers[HEAVY_ERROR] = plus(sketch.numbers[HEAVY_ERROR], median)
    for slot in range(HEAVY_SLOTS):
        if old[slot].count > median:
            heavy = slot_of(sketch, old[slot].hash)
            heavy[0] = old[slot]
            heavy.count -= median
            sketch.numbers[HEAVY_USED] += 1
    free(old)


cdef int64_t median_count(Sketch* sketch) noexcept nogil:
    """Return the least count that half of the keys do not pass."""
    cdef int64_t low = 0, high = LONG_MAX, middle, below
    cdef int64_t small[SMALL_COUNTS]
    cdef Py_ssize_t slot
    memset(small, 0, sizeof(small))
    for slot in range(HEAVY_SLOTS):  # nearly always the counts are small
        if 0 < sketch.heavy[slot].count < SMALL_COUNTS:
            small[sketch.heavy[slot].count] += 1
    below = 0
    for middle in range(1, SMALL_COUNTS):
        below += small[middle]
        if below >= HEAVY_MAX // 2:
            return middle
    while high - low > 1:
        middle, below = low + (high - low) // 2, 0
        for slot in range(HEAVY_SLOTS):
            if 0 < sketch.heavy[slot].count <= middle:
                below += 1
        if below >= HEAVY_MAX // 2:
            high = middle
        else:
            low = middle
    return high


cdef void merge_sketches(Sketch* sketch, const Sketch* other) noexcept nogil:
    cdef Py_ssize_t place
    for place in range(NUMBERS):
        if place != HEAVY_USED:
            sketch.numbers[place] = plus(sketch.numbers[place], other.numbers[place])
    for place in range(BUCKETS):
        sketch.key_sizes[place] = plus(sketch.key_sizes[place], other.key_sizes[place])
        sketch.value_sizes[place] = plus(sketch.value_sizes[place], other.value_sizes[place])
    for place in range(LARGEST):
        add_large(sketch, other.largest[place].size, other.largest[place].offset)
    for place in range(REGISTERS):
        if other.registers[place] > sketch.registers[place]:
            sketch.registers[place] = other.registers[place]
    for place in range(HEAVY_SLOTS):
        if other.heavy[place].count > 0:
            add_heavy(
                sketch, other.heavy[place].hash, other.heavy[place].count, other.heavy[place].key, KEY_PREFIX,
                other.heavy[place].key_size,
            )
