# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Message sets of v0 and v1, whole buffers at a time: the compiled form of the reference `reference/message_set.py`.

Bytes from disk are not trusted. Every read is checked against the end of the buffer, a size is compared with the
remaining bytes before it is added to a position, and no memory is allocated because a length field says so. Values are
read once into locals: another thread may write to a shared buffer meanwhile, and then gets a wrong result, but no read
or write out of bounds.
"""

from cpython.array cimport array, clone, resize
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_Resize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from offsetfs.storage.native.rows cimport RECORD_COLUMNS, RecordRow

from array import array as _array

from offsetfs.storage.errors import CorruptBatch, MalformedBatch

cdef enum:
    ROWS_AT_FIRST = 64
    PREFIX_SIZE = 12  # offset, length
    CRC_POSITION = 12
    CHECKED_POSITION = 16  # the checksum covers everything from the magic on
    MAGIC_POSITION = 16
    ATTRIBUTES_POSITION = 17
    TIMESTAMP_POSITION = 18
    SIZE_MIN_V0 = 26
    SIZE_MIN_V1 = 34
    CODEC_MASK = 0x07
    APPEND_TIME_FLAG = 0x08

cdef int64_t LONG_MAX = 0x7FFFFFFFFFFFFFFF
cdef array _row_template = _array("q")

cdef enum Fault:
    FINE = 0
    NO_MORE
    LENGTH
    MAGIC
    SIZE
    COMPRESSED
    FIELD_CUT
    CHECKSUM

cdef tuple _REASONS = (
    "",
    "a message set without a message",
    "a length below that of any message",
    "a magic that is neither 0 nor 1",
    "a length below the smallest of its format",
    "compressed inside a message set",
    "a field longer than what is left",
    "the checksum differs",
)


cdef struct Message:
    Py_ssize_t position
    Py_ssize_t end
    uint8_t magic
    uint8_t attributes
    int64_t offset
    int64_t timestamp
    int64_t key_position
    int64_t key_size
    int64_t value_position
    int64_t value_size


def verify(messages):
    """Return the first and the last stored offset, and the number of messages. See `reference/message_set.py:verify`."""
    cdef Messages data = Messages(messages)
    cdef Message message
    cdef int64_t first = 0, last = 0
    cdef Py_ssize_t count = 0
    with nogil:
        while data.next(&message):
            if not is_sum_right(data.data, &message):
                data.fault = CHECKSUM
                break
            if count == 0:
                first = message.offset
            last = message.offset
            count += 1
        if count == 0 and data.fault == FINE:
            data.fault = NO_MORE
    data.complain()
    return first, last, count


def scan(messages, int64_t base_offset, int64_t base_timestamp, bint is_append_time):
    """Return a row of numbers for each message. See `reference/message_set.py:scan`."""
    cdef Messages data = Messages(messages)
    cdef array rows = clone(_row_template, ROWS_AT_FIRST * RECORD_COLUMNS, zero=False)
    cdef Py_ssize_t done = 0
    cdef Message message
    cdef RecordRow* row
    while data.next(&message):
        if done == len(rows):
            resize(rows, 2 * done)
        row = <RecordRow*>(rows.data.as_longlongs + done)
        row.offset_delta = <int64_t>(<uint64_t>message.offset - <uint64_t>base_offset)  # wraps around, as a Java long does
        if is_append_time and message.magic:
            row.timestamp_delta = 0
        else:
            row.timestamp_delta = <int64_t>(<uint64_t>message.timestamp - <uint64_t>base_timestamp)
        row.key_position = message.key_position
        row.key_size = message.key_size
        row.value_position = message.value_position
        row.value_size = message.value_size
        row.headers_position = message.position
        row.headers_count = 0
        done += RECORD_COLUMNS
    data.complain()
    resize(rows, done)
    return rows


def join(messages):
    """Return all values, each followed by a newline. See `reference/message_set.py:join`."""
    cdef Messages data = Messages(messages)
    # A message takes at least 26 bytes beside its value, so its line always fits where the message did.
    cdef bytearray lines = PyByteArray_FromStringAndSize(NULL, data.end)
    cdef uint8_t* out = <uint8_t*>PyByteArray_AS_STRING(lines)
    cdef Py_ssize_t size
    with nogil:
        size = data.join(out)
    data.complain()
    PyByteArray_Resize(lines, size)
    return lines


def measure(messages):
    """Return `len(join(messages))` without building it."""
    cdef Messages data = Messages(messages)
    cdef Py_ssize_t size
    with nogil:
        size = data.join(NULL)
    data.complain()
    return size


def run(messages, Py_ssize_t size_max):
    """Return size, count, last offset and largest timestamp of the run that begins here. See `reference/message_set.py:run`."""
    cdef Messages data = Messages(messages)
    cdef Message message
    cdef int64_t last = -1, timestamp = -1
    cdef int32_t kind = -1
    cdef Py_ssize_t size = 0, count = 0
    with nogil:
        while data.next(&message):
            if kind < 0:
                kind = kind_of(&message)
            if kind_of(&message) != kind or not last < message.offset < LONG_MAX:
                break
            if not is_sum_right(data.data, &message):
                break
            if count and message.end > size_max:
                break
            last = message.offset
            if count == 0 or message.timestamp > timestamp:
                timestamp = message.timestamp
            size = message.end
            count += 1
    return size, count, last, timestamp


cdef class Messages:
    """A message set held for reading: a cursor over it, and the first fault met."""

    cdef Py_buffer buffer
    cdef bint is_held
    cdef const uint8_t* data
    cdef Py_ssize_t position, end
    cdef Fault fault

    def __cinit__(self, messages):
        PyObject_GetBuffer(messages, &self.buffer, PyBUF_SIMPLE)
        self.is_held = True
        self.data = <const uint8_t*>self.buffer.buf
        self.end = self.buffer.len

    def __dealloc__(self):
        if self.is_held:
            PyBuffer_Release(&self.buffer)

    cdef bint next(self, Message* message) noexcept nogil:
        """Read the next message; false behind the last one, and where a fault is met."""
        self.fault = read_message(self.data, self.position, self.end, message)
        if self.fault != FINE:
            if self.fault == NO_MORE:
                self.fault = FINE
            return False
        self.position = message.end
        return True

    cdef Py_ssize_t join(self, uint8_t* out) noexcept nogil:
        """Copy all lines to `out` unless it is NULL; return their size."""
        cdef Message message
        cdef Py_ssize_t size = 0
        while self.next(&message):
            if message.value_size > 0:
                if out is not NULL:
                    memcpy(out + size, self.data + message.value_position, message.value_size)
                size += message.value_size
            if out is not NULL:
                out[size] = c"\n"
            size += 1
        return size

    cdef int complain(self) except -1:
        if self.fault == FINE:
            return 0
        error = CorruptBatch if self.fault == CHECKSUM else MalformedBatch
        raise error(f"{_REASONS[self.fault]} (byte {self.position} of a message set)")


cdef Fault read_message(const uint8_t* data, Py_ssize_t position, Py_ssize_t end, Message* message) noexcept nogil:
    """Read the message at `position`."""
    cdef int32_t length
    cdef Py_ssize_t key
    if end - position < PREFIX_SIZE:
        return NO_MORE
    length = <int32_t>load_int(data + position + 8)
    if length < SIZE_MIN_V0 - PREFIX_SIZE:
        return LENGTH
    if length > end - position - PREFIX_SIZE:
        return NO_MORE
    message.position = position
    message.end = position + PREFIX_SIZE + length
    message.magic = data[position + MAGIC_POSITION]
    message.attributes = data[position + ATTRIBUTES_POSITION]
    if message.magic > 1:
        return MAGIC
    if message.magic == 1 and length < SIZE_MIN_V1 - PREFIX_SIZE:
        return SIZE
    if message.attributes & CODEC_MASK:
        return COMPRESSED
    message.offset = <int64_t>load_long(data + position)
    message.timestamp = <int64_t>load_long(data + position + TIMESTAMP_POSITION) if message.magic else -1
    key = position + TIMESTAMP_POSITION + (8 if message.magic else 0)
    key = read_field(data, key, message.end, &message.key_position, &message.key_size)
    if key < 0 or read_field(data, key, message.end, &message.value_position, &message.value_size) < 0:
        return FIELD_CUT
    return FINE


cdef inline Py_ssize_t read_field(
    const uint8_t* data, Py_ssize_t position, Py_ssize_t end, int64_t* field_position, int64_t* size
) noexcept nogil:
    """Read the size of a field, -1 for a null; return the position behind the field, or -1 when it does not fit."""
    cdef int32_t stored
    if end - position < 4:
        return -1
    stored = <int32_t>load_int(data + position)
    position += 4
    if stored > end - position:
        return -1
    field_position[0] = position
    size[0] = stored if stored >= 0 else -1
    return position + (stored if stored > 0 else 0)


cdef inline int32_t kind_of(const Message* message) noexcept nogil:
    """Return what the messages of a run have in common: format and type of timestamp."""
    return message.magic << 8 | (message.attributes & APPEND_TIME_FLAG if message.magic else 0)


cdef inline uint32_t load_int(const uint8_t* data) noexcept nogil:
    return <uint32_t>data[0] << 24 | <uint32_t>data[1] << 16 | <uint32_t>data[2] << 8 | data[3]


cdef inline uint64_t load_long(const uint8_t* data) noexcept nogil:
    return <uint64_t>load_int(data) << 32 | load_int(data + 4)


# --- the checksum: CRC-32, eight bytes at a time -------------------------------------------------------------------

cdef uint32_t _tables[8][256]


cdef void make_tables() noexcept nogil:
    cdef uint32_t crc
    cdef int byte, bit, table
    for byte in range(256):
        crc = byte
        for bit in range(8):
            crc = crc >> 1 ^ (0xEDB88320U if crc & 1 else 0U)
        _tables[0][byte] = crc
    for byte in range(256):
        for table in range(1, 8):
            crc = _tables[table - 1][byte]
            _tables[table][byte] = _tables[0][crc & 0xFF] ^ crc >> 8


make_tables()


cdef bint is_sum_right(const uint8_t* data, const Message* message) noexcept nogil:
    cdef const uint8_t* place = data + message.position + CHECKED_POSITION
    cdef Py_ssize_t left = message.end - message.position - CHECKED_POSITION
    cdef uint32_t crc = 0xFFFFFFFFU, low, high
    while left >= 8:
        memcpy(&low, place, 4)  # little-endian; on a big-endian machine the reference is used
        memcpy(&high, place + 4, 4)
        low ^= crc
        crc = (
            _tables[7][low & 0xFF] ^ _tables[6][low >> 8 & 0xFF] ^ _tables[5][low >> 16 & 0xFF] ^ _tables[4][low >> 24]
            ^ _tables[3][high & 0xFF] ^ _tables[2][high >> 8 & 0xFF] ^ _tables[1][high >> 16 & 0xFF] ^ _tables[0][high >> 24]
        )
        place += 8
        left -= 8
    while left > 0:
        crc = _tables[0][(crc ^ place[0]) & 0xFF] ^ crc >> 8
        place += 1
        left -= 1
    return <uint32_t>~crc == load_int(data + message.position + CRC_POSITION)
