# cython: language_level=3
"""The rows of numbers in which records and headers of batches are passed, as C structs.

`records/format/record_row.py` and `batch_row.py` have the same columns in the same order for Python; a test compares
them.
"""

from cpython.array cimport array
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t


cdef struct RecordRow:
    int64_t offset_delta
    int64_t timestamp_delta
    int64_t key_position
    int64_t key_size
    int64_t value_position
    int64_t value_size
    int64_t headers_position
    int64_t headers_count


cdef struct BatchRow:
    int64_t position
    int64_t base_offset
    int64_t size
    int64_t leader_epoch
    int64_t magic_byte
    int64_t attributes
    int64_t last_offset_delta
    int64_t max_timestamp
    int64_t producer_id
    int64_t producer_epoch
    int64_t base_sequence
    int64_t count


cdef enum:
    RECORD_COLUMNS = 8
    BATCH_COLUMNS = 12


cdef inline Py_ssize_t hold_rows(array rows, Py_ssize_t columns, Py_buffer* held) except -1:
    """Export rows of `columns` numbers, so that no thread resizes them before they are released; return how many."""
    if rows.typecode != "q":
        raise ValueError("rows of another type")
    PyObject_GetBuffer(rows, held, PyBUF_SIMPLE)
    if held.len % (columns * <Py_ssize_t>sizeof(int64_t)):
        PyBuffer_Release(held)
        raise ValueError("half a row")
    return held.len // (columns * <Py_ssize_t>sizeof(int64_t))
