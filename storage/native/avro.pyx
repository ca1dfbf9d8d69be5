# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Avro values into columns in Arrow's layout: the compiled form of the reference `reference/avro.py`.

A program is run over the values of a batch with the GIL released. It is checked when the decoder is made, so that a
wrong one raises an error instead of accessing memory out of bounds; the values may be any bytes.
"""

from cpython.array cimport array
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree, PyMem_RawMalloc
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from offsetfs.storage.native.decoded_columns cimport (
    BITS, COLUMN_NUMBERS, FINE, ITEMS, NOTHING, TOO_LARGE, VARIABLE, WIDE, Bytes, Column, append_bytes, append_null, append_wide,
    fill_members, is_utf8, note_valid, put_bit, put_int32, release, shrink_all, truncate,
)

import os
from array import array as _array

from offsetfs.storage.reference import avro as reference
from offsetfs.storage.reference.avro import ColumnBuffers, DecodingFault, check_program

cdef extern from *:
    """
    /* Two's complement, big endian, into 16 bytes in little endian. Returns 0 for more digits than `precision`. */
    static int decimal_of(const uint8_t* bytes, int64_t size, int64_t precision, void* decimal) {
        uint8_t sign = size && bytes[0] & 0x80 ? 0xFF : 0;
        unsigned __int128 number = sign ? ~(unsigned __int128)0 : 0, magnitude, limit = 1;
        while (size > 16 && *bytes == sign) {
            bytes++;
            size--;
        }
        if (size > 16 || (size == 16 && (bytes[0] ^ sign) & 0x80))
            return 0;
        while (size--)
            number = number << 8 | *bytes++;
        magnitude = sign ? -number : number;
        while (precision--)
            limit *= 10;
        memcpy(decimal, &number, 16);
        return magnitude < limit;
    }
    """
    bint decimal_of(const uint8_t* data, int64_t size, int64_t precision, void* decimal) noexcept nogil

cdef enum Op:
    NULL_VALUE, BOOLEAN, INT, LONG, INT_AS_FLOAT, INT_AS_DOUBLE, FLOAT, FLOAT_AS_DOUBLE, DOUBLE, BYTES, TEXT, FIXED
    ENUM, RECORD, ARRAY, MAP, BRANCH, MEMBER, RAW, DECIMAL, UUID, DURATION, CONSTANT
    INT_WITHIN, LONG_WITHIN

cdef enum Wrong:
    CUT = 1
    LONG_NUMBER, BAD_SIZE, NOT_UTF8, NO_SYMBOL, NO_BRANCH, TOO_DEEP, TOO_MANY, BAD_DECIMAL
    OUT_OF_RANGE, SAME_KEY, LEFT_OVER, NO_MEMORY

assert (reference.LONG_WITHIN, reference.ITEMS, len(reference.FAULTS)) == (LONG_WITHIN, ITEMS, NO_MEMORY + 1)
assert (reference.BAD_DECIMAL, reference.LEFT_OVER) == (BAD_DECIMAL, LEFT_OVER)
assert reference.COLUMN_NUMBERS == COLUMN_NUMBERS

# Collisions must not be known to the producer of hostile values.
cdef uint64_t _seed = int.from_bytes(os.urandom(8), "little")

cdef uint32_t MONTHS_MAX = reference.MONTHS_MAX
cdef uint32_t DAYS_MAX = reference.DAYS_MAX
cdef int64_t DEPTH_MAX = reference.DEPTH_MAX
cdef int64_t STEPS_MIN = reference.STEPS_MIN
cdef int64_t STEPS_PER_BYTE = reference.STEPS_PER_BYTE


cdef struct Run:  # one value that is being read, and what it may use
    const int64_t* program
    const uint8_t* constants
    Column* columns
    const uint8_t* data
    int64_t position
    int64_t end
    int64_t steps
    int64_t node  # at which reading ended
    int64_t* memory_left


# --- memory --------------------------------------------------------------------------------------------------------


cdef class Memory:
    """A buffer that frees its memory."""

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.held.data, self.held.size, 1, flags)

    def __dealloc__(self):
        PyMem_RawFree(self.held.data)

    def __len__(self):
        return self.held.size


cdef Memory handed_over(Bytes* memory):
    """Return the memory as a Python object, and leave none."""
    cdef Memory made = Memory()
    made.held = memory[0]
    memset(memory, 0, sizeof(Bytes))
    if made.held.data == NULL:
        made.held.data = <uint8_t*>PyMem_RawMalloc(1)  # a buffer of Python needs an address
    return made


# --- values --------------------------------------------------------------------------------------------------------


cdef inline int take_number(Run* run, int bytes_max, uint64_t* number) noexcept nogil:
    """Read a variable-length number, zig-zag not undone."""
    cdef uint64_t byte
    cdef int place
    number[0] = 0
    for place in range(bytes_max):
        if run.position >= run.end:
            return CUT
        byte = run.data[run.position]
        run.position += 1
        number[0] |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return FINE
    return LONG_NUMBER


cdef inline int take_long(Run* run, int64_t* number) noexcept nogil:
    cdef uint64_t raw
    cdef int fault = take_number(run, 10, &raw)
    number[0] = <int64_t>((raw >> 1) ^ (0 - (raw & 1)))
    return fault


cdef inline int take_int(Run* run, int32_t* number) noexcept nogil:
    cdef uint64_t raw
    cdef int fault = take_number(run, 5, &raw)
    number[0] = <int32_t>((<uint32_t>raw >> 1) ^ (0 - (<uint32_t>raw & 1)))
    return fault


cdef inline int take(Run* run, int64_t size, const uint8_t** start) noexcept nogil:
    """Take `size` bytes of the value."""
    if size < 0:
        return BAD_SIZE
    if size > run.end - run.position:
        return CUT
    start[0] = run.data + run.position
    run.position += size
    return FINE


cdef inline int take_sized(Run* run, const uint8_t** start, int64_t* size) noexcept nogil:
    """Take bytes whose size is in front of them."""
    cdef int fault = take_long(run, size)
    return fault if fault != FINE else take(run, size[0], start)


cdef int take_text(Run* run, const uint8_t** start, int64_t* size) noexcept nogil:
    cdef int fault = take_sized(run, start, size)
    if fault == FINE and not is_utf8(start[0], size[0]):
        return NOT_UTF8
    return fault


cdef int read(Run* run, int64_t node, int depth) noexcept nogil:
    """Read what a node describes. The children of a column are appended before it."""
    cdef int fault
    run.steps -= 1
    if depth > DEPTH_MAX:
        fault = TOO_DEEP
    elif run.steps < 0:
        fault = TOO_MANY
    else:
        fault = read_node(run, node, depth)
    if fault != FINE and run.node < 0:
        run.node = node
    return fault


cdef int read_node(Run* run, int64_t node, int depth) noexcept nogil:
    cdef const int64_t* program = run.program + node
    cdef int64_t number = program[1], size, long_value
    cdef const uint8_t* start = NULL
    cdef int32_t int_value
    cdef float float_value
    cdef double double_value
    cdef int fault
    cdef int operation = <int>program[0]
    if operation == LONG:
        fault = take_long(run, &long_value)
        return fault if fault != FINE else append_wide(run.columns, number, &long_value, 8, run.memory_left)
    if operation == TEXT:
        fault = take_text(run, &start, &size)
        return fault if fault != FINE else append_bytes(run.columns, number, start, size, run.memory_left)
    if operation == BRANCH:
        fault = take_long(run, &long_value)
        if fault != FINE:
            return fault
        if not 0 <= long_value < program[2] or program[3 + long_value] < 0:
            return NO_BRANCH
        return read(run, program[3 + long_value], depth + 1)
    if operation == NULL_VALUE:
        return FINE if number < 0 else append_null(run.columns, number, run.memory_left)
    if operation == INT:
        fault = take_int(run, &int_value)
        return fault if fault != FINE else append_wide(run.columns, number, &int_value, 4, run.memory_left)
    if operation == LONG_WITHIN:
        fault = take_long(run, &long_value)
        if fault == FINE and not program[2] <= long_value <= program[3]:
            fault = OUT_OF_RANGE
        return fault if fault != FINE else append_wide(run.columns, number, &long_value, 8, run.memory_left)
    if operation == RECORD:
        for size in range(program[2]):
            fault = read(run, program[3 + size], depth + 1)
            if fault != FINE:
                return fault
        return FINE if number < 0 else note_valid(run.columns + number, run.memory_left)
    if operation == DOUBLE or operation == FLOAT or operation == FIXED:
        size = program[2] if operation == FIXED else 8 if operation == DOUBLE else 4
        fault = take(run, size, &start)
        return fault if fault != FINE else append_wide(run.columns, number, start, size, run.memory_left)
    if operation == BYTES:
        fault = take_sized(run, &start, &size)
        return fault if fault != FINE else append_bytes(run.columns, number, start, size, run.memory_left)
    if operation == BOOLEAN:
        fault = take(run, 1, &start)
        if fault != FINE or number < 0:
            return fault
        if put_bit(&run.columns[number].data, run.columns[number].count, start[0] == 1, run.memory_left) != FINE:
            return TOO_LARGE
        return note_valid(run.columns + number, run.memory_left)
    if operation == ENUM:
        fault = take_long(run, &long_value)
        if fault != FINE:
            return fault
        if not 0 <= long_value < program[2] or program[3 + long_value] < 0:
            return NO_SYMBOL
        int_value = <int32_t>program[3 + long_value]
        return append_wide(run.columns, number, &int_value, 4, run.memory_left)
    if operation == ARRAY or operation == MAP:
        fault = read_items(run, program, operation == MAP, depth)
        if fault != FINE or number < 0:
            return fault
        size = run.columns[run.columns[number].children[0]].count
        if put_int32(&run.columns[number].ends, size, run.memory_left) != FINE:
            return TOO_LARGE
        return note_valid(run.columns + number, run.memory_left)
    if operation == MEMBER:
        fault = read(run, program[3], depth + 1)
        if fault != FINE or number < 0:
            return fault
        fault = fill_members(run.columns, run.columns + number, program[2], run.memory_left)
        return fault if fault != FINE else note_valid(run.columns + number, run.memory_left)
    if operation == RAW:
        size = run.position
        fault = read(run, program[2], depth + 1)
        return fault if fault != FINE else append_bytes(run.columns, number, run.data + size, run.position - size, run.memory_left)
    if operation == CONSTANT:
        return read_constant(run, program, depth)
    if operation == DECIMAL:
        return read_decimal(run, program)
    if operation == INT_AS_FLOAT:
        fault = take_long(run, &long_value)
        float_value = <float>long_value
        return fault if fault != FINE else append_wide(run.columns, number, &float_value, 4, run.memory_left)
    if operation == INT_AS_DOUBLE:
        fault = take_long(run, &long_value)
        double_value = <double>long_value
        return fault if fault != FINE else append_wide(run.columns, number, &double_value, 8, run.memory_left)
    if operation == FLOAT_AS_DOUBLE:
        fault = take(run, 4, &start)
        if fault != FINE:
            return fault
        memcpy(&float_value, start, 4)
        double_value = float_value
        return append_wide(run.columns, number, &double_value, 8, run.memory_left)
    if operation == INT_WITHIN:
        fault = take_int(run, &int_value)
        if fault == FINE and not program[2] <= int_value <= program[3]:
            fault = OUT_OF_RANGE
        return fault if fault != FINE else append_wide(run.columns, number, &int_value, 4, run.memory_left)
    if operation == UUID:
        return read_uuid(run, number)
    return read_duration(run, number)


cdef int read_constant(Run* run, const int64_t* program, int depth) noexcept nogil:
    """Read a default of the reader."""
    cdef const uint8_t* data = run.data
    cdef int64_t position = run.position, end = run.end
    cdef int fault
    run.data, run.position, run.end = run.constants, program[2], program[2] + program[3]
    fault = read(run, program[4], depth + 1)
    run.data, run.position, run.end = data, position, end
    return fault


cdef int read_items(Run* run, const int64_t* program, bint is_map, int depth) noexcept nogil:
    """Read the blocks of an array or a map."""
    cdef bint has_keys = is_map and program[1] >= 0
    cdef int64_t count, size, first = run.columns[program[2]].count if has_keys else 0
    cdef const uint8_t* start
    cdef int fault
    while True:
        fault = take_long(run, &count)
        if fault != FINE or not count:
            if fault == FINE and has_keys and run.columns[program[2]].count - first > 1:
                return check_keys(run.columns + program[2], first, run.memory_left[0])
            return fault
        if count < 0:
            count = <int64_t>(0 - <uint64_t>count)
            fault = take_long(run, &size)  # the bytes of the block, which are of use to who skips it
            if fault != FINE:
                return fault
        if count < 0:
            return BAD_SIZE
        while count:
            if is_map:
                fault = take_text(run, &start, &size)
                if fault == FINE and program[1] >= 0:
                    fault = append_bytes(run.columns, program[2], start, size, run.memory_left)
                if fault != FINE:
                    return fault
            fault = read(run, program[3], depth + 1)
            if fault != FINE:
                return fault
            count -= 1


cdef int check_keys(const Column* keys, int64_t first, int64_t memory_left) noexcept nogil:
    """Return SAME_KEY if two keys of a map are equal: those of the column from `first` on."""
    cdef const int32_t* ends = <const int32_t*>keys.ends.data
    cdef int64_t key, other, slots = 32
    cdef int32_t* table
    cdef int fault = FINE
    if keys.count - first <= 8:
        for key in range(first + 1, keys.count):
            for other in range(first, key):
                if is_same(keys, key, other):
                    return SAME_KEY
        return FINE
    while slots < 2 * (keys.count - first):
        slots *= 2
    if slots * <int64_t>sizeof(int32_t) > memory_left:
        return TOO_LARGE
    table = <int32_t*>PyMem_RawMalloc(slots * sizeof(int32_t))
    if table == NULL:
        return TOO_LARGE
    memset(table, 0xFF, slots * sizeof(int32_t))
    for key in range(first, keys.count):
        other = <int64_t>(hash_of(keys.data.data + ends[key], ends[key + 1] - ends[key]) & <uint64_t>(slots - 1))
        while table[other] >= 0 and not is_same(keys, key, table[other]):
            other = (other + 1) & (slots - 1)
        if table[other] >= 0:
            fault = SAME_KEY
            break
        table[other] = <int32_t>key
    PyMem_RawFree(table)
    return fault


cdef inline bint is_same(const Column* keys, int64_t key, int64_t other) noexcept nogil:
    cdef const int32_t* ends = <const int32_t*>keys.ends.data
    cdef int64_t size = ends[key + 1] - ends[key]
    return size == ends[other + 1] - ends[other] and (
        not size or not memcmp(keys.data.data + ends[key], keys.data.data + ends[other], size)
    )


cdef inline uint64_t hash_of(const uint8_t* data, int64_t size) noexcept nogil:
    cdef uint64_t mixed = _seed
    cdef int64_t at
    for at in range(size):
        mixed = (mixed ^ data[at]) * <uint64_t>0x9E3779B97F4A7C15ULL
        mixed ^= mixed >> 29
    return mixed ^ mixed >> 32


cdef int read_decimal(Run* run, const int64_t* program) noexcept nogil:
    cdef int64_t size = program[2]
    cdef const uint8_t* start
    cdef uint8_t[16] decimal
    cdef int fault = take(run, size, &start) if size else take_sized(run, &start, &size)
    if fault != FINE:
        return fault
    if not decimal_of(start, size, program[3], decimal):
        return BAD_DECIMAL
    return append_wide(run.columns, program[1], decimal, 16, run.memory_left)


cdef int read_uuid(Run* run, int64_t number) noexcept nogil:
    cdef const char* digits = "0123456789abcdef"
    cdef const uint8_t* start
    cdef char[36] text
    cdef int at, place = 0
    cdef int fault = take(run, 16, &start)
    if fault != FINE:
        return fault
    for at in range(16):
        if at == 4 or at == 6 or at == 8 or at == 10:
            text[place] = b"-"
            place += 1
        text[place] = digits[start[at] >> 4]
        text[place + 1] = digits[start[at] & 15]
        place += 2
    return append_bytes(run.columns, number, text, 36, run.memory_left)


cdef int read_duration(Run* run, int64_t number) noexcept nogil:
    cdef const uint8_t* start
    cdef uint32_t[3] given
    cdef int64_t[2] interval
    cdef int fault = take(run, 12, &start)
    if fault != FINE:
        return fault
    memcpy(given, start, 12)
    if given[0] > MONTHS_MAX or given[1] > DAYS_MAX:
        return OUT_OF_RANGE
    interval[0] = <int64_t>given[1] << 32 | given[0]
    interval[1] = <int64_t>given[2] * 1000000
    return append_wide(run.columns, number, interval, 16, run.memory_left)


# --- the decoder ---------------------------------------------------------------------------------------------------


cdef class AvroColumnDecoder:
    """See `reference/avro.py:AvroColumnDecoder`."""

    cdef array program
    cdef array children
    cdef bytes constants
    cdef int64_t root
    cdef Column* columns
    cdef Py_ssize_t columns_count
    cdef int64_t memory_left
    cdef readonly list faults

    def __cinit__(
        self, array program not None, int64_t root, array columns not None, array children not None,
        bytes constants not None,
    ):
        cdef Py_ssize_t number
        cdef int64_t[:] described
        self.program, self.children = _array("q", program), _array("q", children)  # nobody else changes them
        check_program(self.program, root, columns, self.children, constants)
        self.root, self.constants = root, constants
        described = columns
        self.columns_count = len(columns) // COLUMN_NUMBERS
        self.columns = <Column*>PyMem_RawCalloc(self.columns_count, sizeof(Column))
        if self.columns == NULL:
            raise MemoryError
        for number in range(self.columns_count):
            self.columns[number].kind = <int>described[COLUMN_NUMBERS * number]
            self.columns[number].width = described[COLUMN_NUMBERS * number + 1]
            self.columns[number].children = <int64_t*>self.children.data.as_longlongs + described[COLUMN_NUMBERS * number + 2]
            self.columns[number].children_count = described[COLUMN_NUMBERS * number + 3]
        self.begin()

    cdef int begin(self) except -1:
        """Begin empty columns."""
        cdef Py_ssize_t number
        cdef Column* column
        self.memory_left = reference.MEMORY_BYTES_MAX
        self.faults = []
        for number in range(self.columns_count):
            column = &self.columns[number]
            column.count = column.null_count = 0
            if column.kind in (VARIABLE, ITEMS) and put_int32(&column.ends, 0, &self.memory_left) != FINE:
                raise MemoryError
        return 0

    def __dealloc__(self):
        cdef Py_ssize_t number
        if self.columns != NULL:
            for number in range(self.columns_count):
                release(&self.columns[number])
            PyMem_RawFree(self.columns)

    def decode(self, ends, data, validity, array picks not None, Py_ssize_t skip):
        """See `reference/avro.py:AvroColumnDecoder.decode`."""
        cdef Source source = Source(ends, data, validity)
        cdef Py_ssize_t pick = 0, picks_count = len(picks)
        cdef const int32_t* rows = <const int32_t*>picks.data.as_ints
        cdef Py_buffer held
        cdef Run run
        cdef int fault
        if picks.typecode != "i" or skip < 0:
            raise ValueError("rows that are no int32 numbers")
        PyObject_GetBuffer(picks, &held, PyBUF_SIMPLE)  # it does not move while the GIL is released
        run.program, run.columns = <const int64_t*>self.program.data.as_longlongs, self.columns
        run.constants = <const uint8_t*><char*>self.constants
        run.memory_left = &self.memory_left
        try:
            while pick < picks_count:
                with nogil:
                    fault = self.decode_rows(&run, source, rows, &pick, picks_count, skip)
                if fault == FINE:
                    break
                if fault == -1:
                    raise ValueError("a row outside of its column")
                self.note(fault, run.node)
                pick += 1
        finally:
            PyBuffer_Release(&held)

    cdef int note(self, int fault, int64_t node) except -1:
        """Replace a value that could not be decoded by a null."""
        truncate(self.columns, 0, self.columns[0].count)
        if fault == TOO_LARGE:
            shrink_all(self.columns, self.columns_count, &self.memory_left)
        self.faults.append(DecodingFault(self.columns[0].count, NO_MEMORY if fault == TOO_LARGE else fault, node))
        if append_null(self.columns, 0, &self.memory_left) != FINE:
            truncate(self.columns, 0, self.columns[0].count)
            raise MemoryError("the decoded values of a batch need too much memory")
        return 0

    cdef int decode_rows(
        self, Run* run, Source source, const int32_t* rows, Py_ssize_t* pick, Py_ssize_t picks_count, Py_ssize_t skip
    ) noexcept nogil:
        """Decode rows until the first fault, whose row is at `pick` then; -1: the row is not in its column."""
        cdef int64_t row, start, end, count, steps_min = STEPS_MIN + self.program.ob_size
        cdef int fault
        while pick[0] < picks_count:
            row = rows[pick[0]]
            if not 0 <= row < source.count:
                return -1
            start, end = source.ends[row], source.ends[row + 1]
            if not 0 <= start <= end <= source.data.len:
                return -1
            run.node = -1
            if source.is_null(row):
                fault = append_null(self.columns, 0, run.memory_left)
            elif skip > end - start:
                run.node, fault = self.root, CUT
            else:
                run.data = <const uint8_t*>source.data.buf
                run.position, run.end = start + skip, end
                run.steps = steps_min + STEPS_PER_BYTE * (end - start)
                count = self.columns[0].count
                fault = read(run, self.root, 0)
                if fault == FINE and run.position < run.end:
                    truncate(self.columns, 0, count)
                    run.node, fault = self.root, LEFT_OVER
            if fault != FINE:
                return fault
            pick[0] += 1
        return FINE

    def finish(self):
        """See `reference/avro.py:AvroColumnDecoder.finish`."""
        cdef list finished = []
        cdef Py_ssize_t number
        cdef Column* column
        for number in range(self.columns_count):
            column = &self.columns[number]
            has_ends = column.kind in (VARIABLE, ITEMS)
            has_data = column.kind in (BITS, WIDE, VARIABLE)
            has_validity = column.null_count and column.kind != NOTHING
            finished.append(
                ColumnBuffers(
                    column.count,
                    column.null_count,
                    handed_over(&column.validity) if has_validity else None,
                    handed_over(&column.ends) if has_ends else None,
                    handed_over(&column.data) if has_data else None,
                )
            )
            column.validity.size = 0
        self.begin()
        return finished


cdef class Source:
    """A column of values, held for reading."""

    def __cinit__(self, ends, data, validity):
        PyObject_GetBuffer(ends, &self.ends_held, PyBUF_SIMPLE)
        self.held = 1
        PyObject_GetBuffer(data, &self.data, PyBUF_SIMPLE)
        self.held = 2
        self.ends, self.count = <const int32_t*>self.ends_held.buf, self.ends_held.len // 4 - 1
        if validity is not None:
            PyObject_GetBuffer(validity, &self.validity_held, PyBUF_SIMPLE)
            self.held = 3
            self.validity = <const uint8_t*>self.validity_held.buf
            if self.validity_held.len < (self.count + 7) // 8:
                raise ValueError("a row outside of its column")

    def __dealloc__(self):
        if self.held > 0:
            PyBuffer_Release(&self.ends_held)
        if self.held > 1:
            PyBuffer_Release(&self.data)
        if self.held > 2:
            PyBuffer_Release(&self.validity_held)
