# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Hashes the keys of a batch: the compiled form of the reference `reference/key_hash.py`.

Rows come from a scan that checked them, and are checked again against the payload: a wrong pair raises an error instead
of reading out of bounds. The words of a key are read in the machine's byte order, so the hash's name includes it.
"""

from cpython.array cimport array, clone, resize
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from offsetfs.storage.native.offset_map cimport siphash
from offsetfs.storage.native.rows cimport RECORD_COLUMNS, RecordRow, hold_rows

from array import array as _array
from hashlib import sha256
from sys import byteorder

from offsetfs.storage.errors import MalformedBatch
from offsetfs.storage.reference.key_hash import SHORT_KEY_BYTES, seed_of_digests

cdef array _template = _array("q")
cdef int64_t LONG_MAX = 0x7FFFFFFFFFFFFFFF
cdef int64_t LONG_MIN = -LONG_MAX - 1

HASH_NAME = f"siphash-2-4-{byteorder}"


cdef int take_seed(bytes seed, uint64_t* keys) except -1:
    if len(seed) != 16:
        raise ValueError(f"a seed of {len(seed)} bytes")
    memcpy(keys, <const char*>seed, 16)
    return 0


def hash_key(key, bytes seed):
    """See `reference/key_hash.py:hash_key`."""
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


cdef struct Keys:  # the keys of a batch, whose rows were scanned from the payload
    const uint8_t* payload
    Py_ssize_t payload_size
    const RecordRow* rows
    Py_ssize_t row_count
    int64_t base_offset
    int64_t delta_min
    int64_t delta_max


cdef struct Hashes:
    long long* hashes
    long long* offsets
    Py_ssize_t count


cdef Keys keys_of(const Py_buffer* payload, const Py_buffer* rows, Py_ssize_t row_count, int64_t base_offset):
    cdef Keys keys
    keys.payload, keys.payload_size = <const uint8_t*>payload.buf, payload.len
    keys.rows, keys.row_count = <const RecordRow*>rows.buf, row_count
    keys.base_offset, keys.delta_min, keys.delta_max = base_offset, LONG_MIN, LONG_MAX
    return keys


def hash_rows(
    payload, array rows not None, int64_t base_offset, bytes seed not None, int64_t delta_min, int64_t delta_max
):
    """See `reference/key_hash.py:hash_rows`."""
    cdef Py_buffer held
    cdef Py_buffer held_rows
    cdef uint64_t seed_words[2]
    cdef Py_ssize_t row_count
    cdef array hashes
    cdef array offsets
    cdef Keys keys
    cdef Hashes found
    cdef Fault fault
    take_seed(seed, seed_words)
    row_count = hold_rows(rows, RECORD_COLUMNS, &held_rows)
    try:
        PyObject_GetBuffer(payload, &held, PyBUF_SIMPLE)
        try:
            hashes = clone(_template, row_count, False)
            offsets = clone(_template, row_count, False)
            found.hashes, found.offsets, found.count = hashes.data.as_longlongs, offsets.data.as_longlongs, 0
            keys = keys_of(&held, &held_rows, row_count, base_offset)
            keys.delta_min, keys.delta_max = delta_min, delta_max
            with nogil:
                fault = hash_all(&keys, seed_words, &found)
        finally:
            PyBuffer_Release(&held)
    finally:
        PyBuffer_Release(&held_rows)
    if fault == KEY_OUTSIDE:
        raise ValueError("a key outside of its batch")
    if fault == OFFSET_OUTSIDE:
        raise MalformedBatch("a record whose offset lies outside of its batch")
    resize(hashes, found.count)
    resize(offsets, found.count)
    return hashes, offsets


def hash_digests(payload, array rows not None, int64_t base_offset, bytes seed not None):
    """See `reference/key_hash.py:hash_digests`."""
    cdef Py_buffer held
    cdef Py_buffer held_rows
    cdef array hashes = clone(_template, 0, False)
    cdef array offsets = clone(_template, 0, False)
    cdef Py_ssize_t row_count = hold_rows(rows, RECORD_COLUMNS, &held_rows)
    cdef Keys keys
    try:
        PyObject_GetBuffer(payload, &held, PyBUF_SIMPLE)
        try:
            keys = keys_of(&held, &held_rows, row_count, base_offset)
            add_digests(&keys, seed, hashes, offsets)
        finally:
            PyBuffer_Release(&held)
    finally:
        PyBuffer_Release(&held_rows)
    return hashes, offsets


cdef int add_digests(const Keys* keys, bytes seed, array hashes, array offsets) except -1:
    """Append the hash of the digest of each long key, and the offset of its record. Reads each number of a row once."""
    cdef Py_ssize_t short_size = SHORT_KEY_BYTES
    cdef Py_ssize_t number
    cdef const RecordRow* row = keys.rows
    cdef int64_t position, size
    cdef bytes digest
    cdef uint64_t seed_words[2]
    cdef uint64_t hashed[2]
    take_seed(seed_of_digests(seed), seed_words)
    for number in range(keys.row_count):
        size = row.key_size
        if size > short_size:
            position = row.key_position
            if not is_inside(keys, position, size):
                raise ValueError("a key outside of its batch")
            digest = sha256(keys.payload[position : position + size]).digest()
            siphash(seed_words, <const uint8_t*><const char*>digest, len(digest), hashed)
            hashes.append(<int64_t>hashed[0])
            offsets.append(<int64_t>(<uint64_t>keys.base_offset + <uint64_t>row.offset_delta))
        row += 1
    return 0


cdef enum Fault:
    NOTHING
    KEY_OUTSIDE
    OFFSET_OUTSIDE


cdef Fault hash_all(const Keys* keys, const uint64_t* seed_words, Hashes* found) noexcept nogil:
    """Hash every key. Reads each number of a row once, because another thread may write to it."""
    cdef Py_ssize_t number
    cdef const RecordRow* row = keys.rows
    cdef int64_t position, size, delta
    cdef uint64_t offset
    cdef uint64_t digest[2]
    for number in range(keys.row_count):
        size = row.key_size
        if size >= 0:
            position = row.key_position
            delta = row.offset_delta
            if not is_inside(keys, position, size):
                return KEY_OUTSIDE
            offset = <uint64_t>keys.base_offset + <uint64_t>delta
            if not keys.delta_min <= delta <= keys.delta_max or <int64_t>offset < 0:
                return OFFSET_OUTSIDE
            if delta < 0 and keys.base_offset < 0:
                return OFFSET_OUTSIDE
            siphash(seed_words, keys.payload + position, size, digest)
            found.hashes[found.count] = <long long>digest[0]
            found.offsets[found.count] = <long long>offset
            found.count += 1
        row += 1
    return NOTHING


cdef inline bint is_inside(const Keys* keys, int64_t position, int64_t size) noexcept nogil:
    return 0 <= position <= keys.payload_size and size <= keys.payload_size - position
