# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Hashes the keys of a batch: the compiled form of the reference `key_hash_pure`.

Rows come from a scan that checked them, and are checked again against the payload: a wrong pair raises an error instead
of reading out of bounds. The words of a key are read in the machine's byte order, so the hash's name includes it.
"""

from cpython.array cimport array, clone, resize
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from offsetfs.storage.compaction._offset_map cimport siphash
from offsetfs.storage.records._record cimport COLUMN_COUNT, hold_rows

from array import array as _array
from hashlib import sha256
from sys import byteorder

from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.views.key_hash_pure import SHORT_KEY_BYTES, seed_of_digests

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


def hash_rows(
    payload, array rows not None, int64_t base_offset, bytes seed not None, int64_t delta_min, int64_t delta_max
):
    """See `key_hash_pure.hash_rows`."""
    cdef Py_buffer held
    cdef Py_buffer held_rows
    cdef uint64_t keys[2]
    cdef Py_ssize_t row_count, count
    cdef array hashes
    cdef array offsets
    cdef Fault fault
    take_seed(seed, keys)
    row_count = hold_rows(rows, COLUMN_COUNT, &held_rows)
    try:
        PyObject_GetBuffer(payload, &held, PyBUF_SIMPLE)
        try:
            hashes = clone(_template, row_count, False)
            offsets = clone(_template, row_count, False)
            with nogil:
                fault = hash_all(
                    <const uint8_t*>held.buf, held.len, <const int64_t*>held_rows.buf, row_count, base_offset,
                    delta_min, delta_max, keys, hashes.data.as_longlongs, offsets.data.as_longlongs, &count,
                )
        finally:
            PyBuffer_Release(&held)
    finally:
        PyBuffer_Release(&held_rows)
    if fault == KEY_OUTSIDE:
        raise ValueError("a key outside of its batch")
    if fault == OFFSET_OUTSIDE:
        raise MalformedBatch("a record whose offset lies outside of its batch")
    resize(hashes, count)
    resize(offsets, count)
    return hashes, offsets


def hash_digests(payload, array rows not None, int64_t base_offset, bytes seed not None):
    """See `key_hash_pure.hash_digests`."""
    cdef Py_buffer held
    cdef Py_buffer held_rows
    cdef array hashes = clone(_template, 0, False)
    cdef array offsets = clone(_template, 0, False)
    cdef Py_ssize_t row_count = hold_rows(rows, COLUMN_COUNT, &held_rows)
    try:
        PyObject_GetBuffer(payload, &held, PyBUF_SIMPLE)
        try:
            add_digests(
                <const uint8_t*>held.buf, held.len, <const int64_t*>held_rows.buf, row_count, base_offset, seed,
                hashes, offsets,
            )
        finally:
            PyBuffer_Release(&held)
    finally:
        PyBuffer_Release(&held_rows)
    return hashes, offsets


cdef int add_digests(
    const uint8_t* payload, Py_ssize_t payload_size, const int64_t* row, Py_ssize_t row_count, int64_t base_offset,
    bytes seed, array hashes, array offsets,
) except -1:
    """Append the hash of the digest of each long key, and the offset of its record. Reads each number of a row once."""
    cdef Py_ssize_t short_size = SHORT_KEY_BYTES
    cdef Py_ssize_t number
    cdef int64_t position, size
    cdef bytes digest
    cdef uint64_t keys[2]
    cdef uint64_t hashed[2]
    take_seed(seed_of_digests(seed), keys)
    for number in range(row_count):
        size = row[3]
        if size > short_size:
            position = row[2]
            if position < 0 or position > payload_size or size > payload_size - position:
                raise ValueError("a key outside of its batch")
            digest = sha256(payload[position : position + size]).digest()
            siphash(keys, <const uint8_t*><const char*>digest, len(digest), hashed)
            hashes.append(<int64_t>hashed[0])
            offsets.append(<int64_t>(<uint64_t>base_offset + <uint64_t>row[0]))
        row += COLUMN_COUNT
    return 0


cdef enum Fault:
    NOTHING
    KEY_OUTSIDE
    OFFSET_OUTSIDE


cdef Fault hash_all(
    const uint8_t* payload, Py_ssize_t payload_size, const int64_t* row, Py_ssize_t row_count, int64_t base_offset,
    int64_t delta_min, int64_t delta_max, const uint64_t* keys, long long* hashes, long long* offsets,
    Py_ssize_t* count,
) noexcept nogil:
    """Hash every key; `count`: their number. Reads each number of a row once."""
    cdef Py_ssize_t number
    cdef int64_t position, size, delta
    cdef uint64_t offset
    cdef uint64_t digest[2]
    count[0] = 0
    for number in range(row_count):
        size = row[3]
        if size >= 0:
            position = row[2]
            delta = row[0]
            if position < 0 or position > payload_size or size > payload_size - position:
                return KEY_OUTSIDE
            offset = <uint64_t>base_offset + <uint64_t>delta
            if not delta_min <= delta <= delta_max or <int64_t>offset < 0 or (delta < 0 and base_offset < 0):
                return OFFSET_OUTSIDE
            siphash(keys, payload + position, size, digest)
            hashes[count[0]] = <long long>digest[0]
            offsets[count[0]] = <long long>offset
            count[0] += 1
        row += COLUMN_COUNT
    return NOTHING
