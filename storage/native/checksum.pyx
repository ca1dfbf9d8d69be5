# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""CRC-32C of the bytes of any buffer: the compiled form of the reference `reference/checksum.py`.

The GIL is released for a large buffer only: taking it again may take longer than the checksum of a header.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t, uint32_t

cdef extern from "crc32c.h" nogil:
    int crc32c_is_fast
    void crc32c_prepare()
    uint32_t crc32c_of(uint32_t crc, const uint8_t* data, size_t size)
    uint32_t crc32c_by_tables(uint32_t crc, const uint8_t* data, size_t size)

cdef enum:
    HELD_BYTES_MAX = 32768

crc32c_prepare()


def crc32c(data, uint32_t value=0):
    """Return the checksum of `data` behind bytes with the checksum `value`. See `reference/checksum.py:crc32c`."""
    cdef Py_buffer source
    PyObject_GetBuffer(data, &source, PyBUF_SIMPLE)
    try:
        if source.len <= HELD_BYTES_MAX:
            return crc32c_of(value, <const uint8_t*>source.buf, source.len)
        with nogil:
            value = crc32c_of(value, <const uint8_t*>source.buf, source.len)
        return value
    finally:
        PyBuffer_Release(&source)


if not crc32c_is_fast:
    from crc32c import crc32c  # it has the instructions of more processors


# --- for tests -------------------------------------------------------------------------------------------------------


def by_tables(data, uint32_t value=0):
    """Return the same, as on a processor without the instruction."""
    cdef Py_buffer source
    PyObject_GetBuffer(data, &source, PyBUF_SIMPLE)
    try:
        return crc32c_by_tables(value, <const uint8_t*>source.buf, source.len)
    finally:
        PyBuffer_Release(&source)
