# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Hashing the keys of a batch, a whole batch at a time: the compiled twin of `key_hash_pure`, the specification.

Rows come from a scan that checked them, and are checked once more against the payload at hand: a wrong pair of the two
is an error, and no read out of bounds. The words of a key are taken in the byte order of the machine, which is why the
hash's name has it.
"""

from cpython.array cimport array, clone
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from offsetfs.storage.compaction._offset_map cimport siphash
from offsetfs.storage.records._record cimport COLUMN_COUNT

from array import array as _array
from sys import byteorder

cdef array _template = _array("q")

HASH_NAME = f"siphash-2-4-{byteorder}"


cdef int take_seed(bytes seed, uint64_t* keys) except -1:
    if len(seed) != 16:
        raise ValueError(f"a seed of {len(seed)} bytes")
    memcpy(keys, <const char*>seed, 16)
    return 0


def hash_key(key, bytes seed):
    """See `key_hash_pure.hash_key`."""
    cdef Py_buffer held
    cdef uint64_t keys[2]
    cdef uint64_t digest[2]
    take_seed(seed, keys)
    PyObject_GetBuffer(key, &held, PyBUF_SIMPLE)
    try:
        siphash(keys, <const uint8_t*>held.buf, held.len, digest)
    finally:
        PyBuffer_Release(&held)
    return <int64_t>digest[0]


def hash_rows(payload, array rows, int64_t base_offset, bytes seed):
    """See `key_hash_pure.hash_rows`."""
    cdef Py_buffer held
    cdef uint64_t keys[2]
    cdef Py_ssize_t row_count = len(rows) // COLUMN_COUNT, count
    cdef array hashes
    cdef array offsets
    if rows.typecode != "q":
        raise ValueError("rows of another type")
    take_seed(seed, keys)
    count = keyed_count(rows.data.as_longlongs, row_count)
    hashes, offsets = clone(_template, count, False), clone(_template, count, False)
    PyObject_GetBuffer(payload, &held, PyBUF_SIMPLE)
    try:
        with nogil:
            count = hash_all(
                <const uint8_t*>held.buf, held.len, rows.data.as_longlongs, row_count, base_offset, keys,
                hashes.data.as_longlongs, offsets.data.as_longlongs, count,
            )
    finally:
        PyBuffer_Release(&held)
    if count < 0:
        raise ValueError("a key outside of its batch")
    return hashes, offsets


cdef Py_ssize_t keyed_count(const long long* rows, Py_ssize_t row_count) noexcept nogil:
    cdef Py_ssize_t row, count = 0
    for row in range(row_count):
        count += rows[row * COLUMN_COUNT + 3] >= 0
    return count


cdef Py_ssize_t hash_all(
    const uint8_t* payload, Py_ssize_t payload_size, const long long* rows, Py_ssize_t row_count, int64_t base_offset,
    const uint64_t* keys, long long* hashes, long long* offsets, Py_ssize_t count_max,
) noexcept nogil:
    """Hash every key; return how many, -1 where one does not lie in the payload or has no possible offset."""
    cdef Py_ssize_t row, count = 0
    cdef int64_t position, size
    cdef uint64_t offset
    cdef uint64_t digest[2]
    for row in range(row_count):
        size = rows[3]
        if size >= 0:
            position = rows[2]
            offset = <uint64_t>base_offset + <uint64_t>rows[0]
            if position < 0 or position > payload_size or size > payload_size - position or <int64_t>offset < 0:
                return -1
            if count == count_max:
                return -1
            siphash(keys, payload + position, size, digest)
            hashes[count] = <long long>digest[0]
            offsets[count] = <long long>offset
            count += 1
        rows += COLUMN_COUNT
    return count if count == count_max else -1
