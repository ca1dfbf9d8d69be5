# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Protobuf values into columns in Arrow's layout: the compiled form of the reference `reference/protobuf.py`.

Fields are appended to their columns as they are read. A column that is longer than that of its message has the field's
value already; a struct that is open gets its missing children when the message around it ends, so that its parts are
merged. The program is checked when the decoder is made; the values may be any bytes.
"""

from cpython.array cimport array
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from offsetfs.storage.native.avro cimport Source, handed_over
from offsetfs.storage.native.decoded_columns cimport (
    BITS, COLUMN_NUMBERS, FINE, ITEMS, STRUCT, TOO_LARGE, VARIABLE, WIDE, Column, append_bytes, append_null, append_wide,
    is_utf8, note_valid, put_bit, put_int32, release, shrink_all, reserve, truncate,
)

from array import array as _array

from offsetfs.storage.reference import protobuf as reference
from offsetfs.storage.reference.decoded_columns import MEMORY_BYTES_MAX, ColumnBuffers, DecodingFault
from offsetfs.storage.reference.protobuf import check_program

cdef enum Op:
    VARINT32, ZIGZAG32, FIXED32, VARINT64, ZIGZAG64, FIXED64, BOOL, TEXT, BYTES, MESSAGE, RAW

cdef enum Flag:
    REPEATED = 1
    ZERO = 2
    DELIMITED = 4

cdef enum:
    MESSAGE_NUMBERS = 4
    FIELD_NUMBERS = 5

cdef enum Wire:
    WIRE_VARINT, WIRE_FIXED64, WIRE_LENGTH, WIRE_GROUP, WIRE_GROUP_END, WIRE_FIXED32

cdef enum Wrong:
    CUT = 1
    LONG_NUMBER, BAD_TAG, NOT_UTF8, BAD_GROUP, TOO_DEEP, TOO_MANY, NO_MEMORY
    OTHER_WIRE = 254  # no fault: the field is read over

assert (reference.RAW, reference.DELIMITED, len(reference.FAULTS)) == (RAW, DELIMITED, NO_MEMORY + 1)
assert (reference.MESSAGE_NUMBERS, reference.FIELD_NUMBERS) == (MESSAGE_NUMBERS, FIELD_NUMBERS)

cdef int DEPTH_MAX = reference.DEPTH_MAX
cdef int64_t STEPS_MIN = reference.STEPS_MIN
cdef int64_t STEPS_PER_BYTE = reference.STEPS_PER_BYTE

cdef int[11] WIRES
for _operation, _wire in reference.WIRES.items():
    WIRES[<int>_operation] = <int>_wire


cdef struct Run:  # one value that is being read, and what it may use
    const int64_t* program
    Column* columns
    uint8_t* opened  # by column: a struct that has parts and has not ended
    const uint8_t* data
    int64_t position
    int64_t steps
    int64_t node  # at which reading ended
    int64_t* left  # bytes of memory


# --- the wire format -----------------------------------------------------------------------------------------------


cdef int take_long_varint(Run* run, int64_t end, uint64_t* number) noexcept nogil:
    cdef uint64_t byte
    cdef int place
    number[0] = 0
    for place in range(10):
        if run.position >= end:
            return CUT
        byte = run.data[run.position]
        run.position += 1
        number[0] |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return FINE
    return LONG_NUMBER


cdef inline int take_varint(Run* run, int64_t end, uint64_t* number) noexcept nogil:
    if run.position < end and run.data[run.position] < 0x80:
        number[0] = run.data[run.position]
        run.position += 1
        return FINE
    return take_long_varint(run, end, number)


cdef inline int take_tag(Run* run, int64_t end, uint64_t* tag) noexcept nogil:
    cdef int fault = take_varint(run, end, tag)
    if fault != FINE:
        return fault
    return BAD_TAG if tag[0] < 8 or tag[0] >> 32 or tag[0] & 7 > WIRE_FIXED32 else FINE


cdef inline int take(Run* run, int64_t size, int64_t end, const uint8_t** start) noexcept nogil:
    if size > end - run.position:
        return CUT
    start[0] = run.data + run.position
    run.position += size
    return FINE


cdef inline int take_size(Run* run, int64_t end, int64_t* stop) noexcept nogil:
    """Read a length, and set the position at which so many bytes end."""
    cdef uint64_t size
    cdef int fault = take_varint(run, end, &size)
    if fault != FINE:
        return fault
    if size > <uint64_t>(end - run.position):
        return CUT
    stop[0] = run.position + <int64_t>size
    return FINE


cdef int skip(Run* run, uint64_t tag, int64_t end, int depth) noexcept nogil:
    """Read over the value of a field."""
    cdef uint64_t number
    cdef int64_t stop
    cdef const uint8_t* start
    cdef int wire = <int>(tag & 7), fault
    if wire == WIRE_VARINT:
        return take_varint(run, end, &number)
    if wire == WIRE_LENGTH:
        fault = take_size(run, end, &stop)
        if fault == FINE:
            run.position = stop
        return fault
    if wire == WIRE_GROUP:
        return skip_group(run, tag >> 3, end, depth + 1, &stop)
    return take(run, 8 if wire == WIRE_FIXED64 else 4, end, &start)


cdef int skip_group(Run* run, uint64_t group, int64_t end, int depth, int64_t* stop) noexcept nogil:
    """Read over a group, and set the position of its end."""
    cdef uint64_t tag
    cdef int fault
    if depth > DEPTH_MAX:
        return TOO_DEEP
    while run.position < end:
        stop[0] = run.position
        fault = take_tag(run, end, &tag)
        if fault != FINE:
            return fault
        if tag & 7 == WIRE_GROUP_END:
            return FINE if tag >> 3 == group else BAD_GROUP
        fault = skip(run, tag, end, depth)
        if fault != FINE:
            return fault
    return BAD_GROUP


# --- fields --------------------------------------------------------------------------------------------------------


cdef int64_t field_of(const int64_t* message, uint64_t number) noexcept nogil:
    """Return the position of a field by its number, or -1."""
    cdef const int64_t* numbers = message + MESSAGE_NUMBERS + message[1] * FIELD_NUMBERS
    cdef int64_t low = 0, high = message[3], middle
    if number < <uint64_t>message[2]:
        return numbers[number]
    numbers += message[2]
    while low < high:
        middle = (low + high) >> 1
        if <uint64_t>numbers[2 * middle] < number:
            low = middle + 1
        else:
            high = middle
    return numbers[2 * low + 1] if low < message[3] and <uint64_t>numbers[2 * low] == number else -1


cdef int read_message(Run* run, int64_t node, int64_t end, uint64_t group, int depth) noexcept nogil:
    """Read fields up to `end`, or to the end of the group with this number. The message stays open."""
    cdef const int64_t* message = run.program + node
    cdef int64_t count = run.columns[message[0]].count, position
    cdef uint64_t tag
    cdef int fault = FINE
    if depth > DEPTH_MAX:
        fault = TOO_DEEP
    while fault == FINE and run.position < end:
        fault = take_tag(run, end, &tag)
        if fault != FINE:
            break
        if tag & 7 == WIRE_GROUP_END:
            if tag >> 3 == group:
                return FINE
            fault = BAD_GROUP
            break
        run.steps -= 1
        if run.steps < 0:
            fault = TOO_MANY
            break
        position = field_of(message, tag >> 3)
        fault = OTHER_WIRE
        if position >= 0:
            fault = read_field(run, position, tag, count, end, depth)
            if fault != FINE and fault != OTHER_WIRE and run.node < 0:
                run.node = position
        if fault == OTHER_WIRE:
            fault = skip(run, tag, end, depth)
    if fault == FINE and group:
        fault = BAD_GROUP
    if fault != FINE and run.node < 0:
        run.node = node
    return fault


cdef int read_field(Run* run, int64_t position, uint64_t tag, int64_t count, int64_t end, int depth) noexcept nogil:
    """Read a field of a message whose column has `count` values. OTHER_WIRE if it is to be read over."""
    cdef const int64_t* field = run.program + position
    cdef int operation = <int>field[0], wire = <int>(tag & 7)
    cdef int64_t number = field[1], flags = field[2]
    cdef Column* column = run.columns + number
    if wire != (WIRE_GROUP if flags & DELIMITED else WIRES[operation]):
        if wire == WIRE_LENGTH and flags & REPEATED and WIRES[operation] != WIRE_LENGTH:
            return read_packed(run, operation, number, end)
        return OTHER_WIRE
    if field[4] >= 0:
        empty_others(run, run.program + field[4], number, count)
    if number < 0:
        return OTHER_WIRE
    if flags & REPEATED:
        number = column.children[0]
        if operation == MESSAGE:
            return read_item(run, field[3], flags, tag, end, depth)
    elif operation == MESSAGE:
        run.opened[number] = True
        return read_inner(run, field[3], flags, tag, end, depth)
    elif column.count > count and operation != RAW:
        truncate(run.columns, number, count)
    if operation == RAW:
        return read_raw(run, number, flags, not flags & REPEATED and column.count > count, tag, end, depth)
    return read_scalar(run, operation, number, end)


cdef int read_inner(Run* run, int64_t node, int64_t flags, uint64_t tag, int64_t end, int depth) noexcept nogil:
    """Read a part of a message within a message."""
    cdef int64_t stop
    cdef int fault
    if flags & DELIMITED:
        return read_message(run, node, end, tag >> 3, depth + 1)
    fault = take_size(run, end, &stop)
    return fault if fault != FINE else read_message(run, node, stop, 0, depth + 1)


cdef int read_item(Run* run, int64_t node, int64_t flags, uint64_t tag, int64_t end, int depth) noexcept nogil:
    cdef int fault = read_inner(run, node, flags, tag, end, depth)
    return fault if fault != FINE else close_message(run, node)


cdef int read_packed(Run* run, int operation, int64_t number, int64_t end) noexcept nogil:
    cdef int64_t stop
    cdef int fault = take_size(run, end, &stop)
    if fault != FINE:
        return fault
    number = run.columns[number].children[0]
    while run.position < stop:
        run.steps -= 1
        if run.steps < 0:
            return TOO_MANY
        fault = read_scalar(run, operation, number, stop)
        if fault != FINE:
            return fault
    return FINE


cdef int read_raw(
    Run* run, int64_t number, int64_t flags, bint is_merged, uint64_t tag, int64_t end, int depth
) noexcept nogil:
    """Read the bytes of a message; those of its parts stand one after the other."""
    cdef Column* column = run.columns + number
    cdef int64_t start, stop, size
    cdef int fault
    if flags & DELIMITED:
        start = run.position
        fault = skip_group(run, tag >> 3, end, depth + 1, &stop)
    else:
        fault = take_size(run, end, &stop)
        start = run.position
        run.position = stop
    if fault != FINE:
        return fault
    size = stop - start
    if not is_merged:
        return append_bytes(run.columns, number, run.data + start, size, run.left)
    if reserve(&column.data, size, run.left) != FINE or column.data.size + size > 0x7FFFFFFF:
        return TOO_LARGE
    memcpy(column.data.data + column.data.size, run.data + start, size)
    column.data.size += size
    (<int32_t*>column.ends.data)[column.count] = <int32_t>column.data.size
    return FINE


cdef inline int append_8(Run* run, int64_t number, uint64_t value) noexcept nogil:
    """The same as `append_wide`, for a size that the compiler knows."""
    cdef Column* column = run.columns + number
    if reserve(&column.data, 8, run.left) != FINE:
        return TOO_LARGE
    memcpy(column.data.data + column.data.size, &value, 8)
    column.data.size += 8
    return note_valid(column, run.left)


cdef inline int append_4(Run* run, int64_t number, uint32_t value) noexcept nogil:
    cdef Column* column = run.columns + number
    if reserve(&column.data, 4, run.left) != FINE:
        return TOO_LARGE
    memcpy(column.data.data + column.data.size, &value, 4)
    column.data.size += 4
    return note_valid(column, run.left)


cdef inline int read_scalar(Run* run, int operation, int64_t number, int64_t end) noexcept nogil:
    cdef const uint8_t* start
    cdef uint64_t value
    cdef uint32_t half
    cdef int64_t stop
    cdef int fault
    if operation == TEXT or operation == BYTES:
        fault = take_size(run, end, &stop)
        if fault != FINE:
            return fault
        start = run.data + run.position
        if operation == TEXT and not is_utf8(start, stop - run.position):
            return NOT_UTF8
        fault = append_bytes(run.columns, number, start, stop - run.position, run.left)
        run.position = stop
        return fault
    if operation == FIXED64 or operation == FIXED32:
        fault = take(run, 8 if operation == FIXED64 else 4, end, &start)
        if fault != FINE:
            return fault
        if operation == FIXED64:
            memcpy(&value, start, 8)
            return append_8(run, number, value)
        memcpy(&half, start, 4)
        return append_4(run, number, half)
    fault = take_varint(run, end, &value)
    if fault != FINE:
        return fault
    if operation == VARINT64:
        return append_8(run, number, value)
    if operation == ZIGZAG64:
        return append_8(run, number, (value >> 1) ^ (0 - (value & 1)))
    if operation == BOOL:
        if put_bit(&run.columns[number].data, run.columns[number].count, value != 0, run.left) != FINE:
            return TOO_LARGE
        return note_valid(run.columns + number, run.left)
    half = <uint32_t>value
    if operation == ZIGZAG32:
        half = (half >> 1) ^ (0 - (half & 1))
    return append_4(run, number, half)


cdef void empty_others(Run* run, const int64_t* members, int64_t number, int64_t count) noexcept nogil:
    """Remove the value of another field of a oneof."""
    cdef int64_t at, other
    for at in range(1, members[0] + 1):
        other = members[at]
        if other != number and (run.columns[other].count > count or run.opened[other]):
            close_all(run, other)
            truncate(run.columns, other, count)


cdef void close_all(Run* run, int64_t number) noexcept nogil:
    cdef const Column* column = run.columns + number
    cdef int64_t child
    if column.kind == STRUCT and run.opened[number]:
        run.opened[number] = False
        for child in range(column.children_count):
            close_all(run, column.children[child])


cdef int close_message(Run* run, int64_t node) noexcept nogil:
    """Append what a message has no values for, and the message itself."""
    cdef const int64_t* message = run.program + node
    cdef const int64_t* field = message + MESSAGE_NUMBERS
    cdef Column* parent = run.columns + message[0]
    cdef Column* column
    cdef int64_t at, count = parent.count
    cdef int fault
    run.steps -= message[1]
    if run.steps < 0:
        run.node = node if run.node < 0 else run.node
        return TOO_MANY
    for at in range(message[1]):
        if field[1] >= 0:
            column = run.columns + field[1]
            fault = FINE
            if field[2] & REPEATED:
                fault = put_int32(&column.ends, run.columns[column.children[0]].count, run.left)
                if fault == FINE:
                    fault = note_valid(column, run.left)
            elif column.count == count:
                fault = close_field(run, field)
            if fault != FINE:
                run.node = field - run.program if run.node < 0 else run.node
                return fault
        field += FIELD_NUMBERS
    return note_valid(parent, run.left)


cdef int close_field(Run* run, const int64_t* field) noexcept nogil:
    """Append the value of a field of which at most parts were read."""
    cdef int64_t number = field[1]
    cdef Column* column = run.columns + number
    cdef uint64_t zero = 0
    if field[0] == MESSAGE and (run.opened[number] or field[2] & ZERO):
        run.opened[number] = False
        return close_message(run, field[3])
    if not field[2] & ZERO:
        return append_null(run.columns, number, run.left)
    if column.kind == WIDE:
        return append_wide(run.columns, number, &zero, column.width, run.left)
    if column.kind == BITS:
        if put_bit(&column.data, column.count, False, run.left) != FINE:
            return TOO_LARGE
        return note_valid(column, run.left)
    return append_bytes(run.columns, number, &zero, 0, run.left)


# --- the decoder ---------------------------------------------------------------------------------------------------


cdef class ProtobufColumnDecoder:
    """See `reference/protobuf.py:ProtobufColumnDecoder`."""

    cdef array program
    cdef array children
    cdef int64_t root
    cdef Column* columns
    cdef uint8_t* opened
    cdef Py_ssize_t columns_count
    cdef int64_t memory_left
    cdef readonly list faults

    def __cinit__(self, array program not None, int64_t root, array columns not None, array children not None):
        cdef Py_ssize_t number
        cdef int64_t[:] described
        self.program, self.children = _array("q", program), _array("q", children)  # nobody else changes them
        check_program(self.program, root, columns, self.children)
        self.root = root
        described = columns
        self.columns_count = len(columns) // COLUMN_NUMBERS
        self.columns = <Column*>PyMem_RawCalloc(self.columns_count, sizeof(Column))
        self.opened = <uint8_t*>PyMem_RawCalloc(self.columns_count, 1)
        if self.columns == NULL or self.opened == NULL:
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
        self.memory_left = MEMORY_BYTES_MAX
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
        PyMem_RawFree(self.opened)

    def decode(self, ends, data, validity, array picks not None, array skipped not None):
        """See `reference/protobuf.py:ProtobufColumnDecoder.decode`."""
        cdef Source source = Source(ends, data, validity)
        cdef Py_ssize_t pick = 0, picks_count = len(picks)
        cdef Py_buffer held, held_too
        cdef Run run
        cdef int fault
        if picks.typecode != "i" or skipped.typecode != "i":
            raise ValueError("rows that are no int32 numbers")
        if len(skipped) != picks_count:
            raise ValueError("rows that have no number of bytes to skip")
        PyObject_GetBuffer(picks, &held, PyBUF_SIMPLE)  # they do not move while the GIL is released
        PyObject_GetBuffer(skipped, &held_too, PyBUF_SIMPLE)
        run.program, run.columns = <const int64_t*>self.program.data.as_longlongs, self.columns
        run.opened, run.left = self.opened, &self.memory_left
        try:
            while pick < picks_count:
                with nogil:
                    fault = self.decode_rows(
                        &run, source, <const int32_t*>held.buf, <const int32_t*>held_too.buf, &pick, picks_count
                    )
                if fault == FINE:
                    break
                if fault == -1:
                    raise ValueError("a row outside of its column")
                self.note(NO_MEMORY if fault == TOO_LARGE else fault, run.node)
                pick += 1
        finally:
            PyBuffer_Release(&held)
            PyBuffer_Release(&held_too)

    cdef int note(self, int fault, int64_t node) except -1:
        """Replace a value that could not be decoded by a null."""
        memset(self.opened, 0, self.columns_count)
        truncate(self.columns, 0, self.columns[0].count)
        if fault == NO_MEMORY:
            shrink_all(self.columns, self.columns_count, &self.memory_left)
        self.faults.append(DecodingFault(self.columns[0].count, fault, node))
        if append_null(self.columns, 0, &self.memory_left) != FINE:
            truncate(self.columns, 0, self.columns[0].count)
            raise MemoryError("the decoded values of a batch need too much memory")
        return 0

    cdef int decode_rows(
        self, Run* run, Source source, const int32_t* rows, const int32_t* skipped, Py_ssize_t* pick, Py_ssize_t count
    ) noexcept nogil:
        """Decode rows until the first fault, whose row is at `pick` then; -1: the row is not in its column."""
        cdef int64_t row, start, end
        cdef int fault
        while pick[0] < count:
            row = rows[pick[0]]
            if not 0 <= row < source.count or skipped[pick[0]] < 0:
                return -1
            start, end = source.ends[row], source.ends[row + 1]
            if not 0 <= start <= end <= source.data.len:
                return -1
            run.node = -1
            if source.is_null(row):
                fault = append_null(self.columns, 0, run.left)
            elif skipped[pick[0]] > end - start:
                run.node, fault = self.root, CUT
            else:
                run.data, run.position = <const uint8_t*>source.data.buf, start + skipped[pick[0]]
                run.steps = STEPS_MIN + STEPS_PER_BYTE * (end - run.position)
                fault = read_message(run, self.root, end, 0, 0)
                if fault == FINE:
                    fault = close_message(run, self.root)
            if fault != FINE:
                return fault
            pick[0] += 1
        return FINE

    def finish(self):
        """See `reference/protobuf.py:ProtobufColumnDecoder.finish`."""
        cdef list finished = []
        cdef Py_ssize_t number
        cdef Column* column
        for number in range(self.columns_count):
            column = &self.columns[number]
            finished.append(
                ColumnBuffers(
                    column.count,
                    column.null_count,
                    handed_over(&column.validity) if column.null_count else None,
                    handed_over(&column.ends) if column.kind in (VARIABLE, ITEMS) else None,
                    handed_over(&column.data) if column.kind in (BITS, WIDE, VARIABLE) else None,
                )
            )
            column.validity.size = 0
        self.begin()
        return finished
