# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""JSON values into columns in Arrow's layout: the compiled form of the reference `reference/json_values.py`.

A program is run over the values of a batch with the GIL released. It is checked when the decoder is made; the values
may be any bytes. Fields are expected in the order of the schema, and searched by name where they are not.
"""

from cpython.array cimport array
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree, PyMem_RawMalloc
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memcpy

from offsetfs.storage.native.decoded_columns cimport (
    BITS, COLUMN_NUMBERS, FINE, ITEMS, NOTHING, TOO_LARGE, VARIABLE, WIDE, Bytes, Column, append_bytes, append_null, append_wide, note_valid,
    put_bit, put_int32, release, reserve, shrink, shrink_all, truncate,
)
from offsetfs.storage.native.json_grammar cimport (
    HALF_PAIR, LEVELS_MAX, NOT_UTF8, TOO_DEEP, UNFINISHED, Fault, Line, Text, is_digit, next_field, next_item, read_number, read_string,
    skip_blanks, skip_value, takes_literal, takes_null, unescape,
)

from array import array as _array

from offsetfs.storage.reference import decoded_columns
from offsetfs.storage.reference import json_values as reference
from offsetfs.storage.reference.decoded_columns import ColumnBuffers, DecodingFault
from offsetfs.storage.reference.json_values import check_program

cdef extern from *:
    """
    #include <locale.h>
    #include <stdlib.h>
    #ifdef __APPLE__
    #include <xlocale.h>
    #endif
    static locale_t c_locale;  /* strtod takes the decimal point of the process */
    static int make_c_locale(void) {
        c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
        return c_locale != (locale_t)0;
    }
    static double double_of(const char *text) { return strtod_l(text, NULL, c_locale); }
    """
    bint make_c_locale()
    double double_of(const char* text) noexcept nogil

cdef enum Op:
    NULL_VALUE, BOOLEAN, INTEGER, NUMBER, TEXT, JSON_TEXT, OBJECT, LIST, MAP

cdef enum Wrong:
    CUT = 1
    NO_JSON, BAD_UTF8, BAD_PAIR, NESTED, SURPLUS_TEXT, WRONG_TYPE, FRACTION, TOO_BIG, MEMORY_USED

cdef enum:
    DIGITS_EXACT = 18  # of a number that fits int64 whatever its digits
    POWER_EXACT = 22  # of ten, as a double
    NUMBER_BYTES = 128

cdef double* POWERS = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
]
cdef int64_t EXPONENT_MAX = 1000000000000
cdef uint64_t MANTISSA_MAX = <uint64_t>1 << 53
cdef uint64_t TENTH_MAX = <uint64_t>1844674407370955160  # times 10 and 9 more, it fits 64 bits
cdef double INFINITE = float("inf")

assert (reference.MAP, reference.TOO_BIG, len(reference.FAULTS)) == (MAP, TOO_BIG, MEMORY_USED + 1)
assert (decoded_columns.COLUMN_NUMBERS, decoded_columns.ITEMS) == (COLUMN_NUMBERS, ITEMS)

if not make_c_locale():
    raise MemoryError


cdef struct Pending:  # a type that is wrong, unless the field comes once more
    int fault
    int64_t node


cdef struct Entry:  # of a map that is being read
    Text name
    Py_ssize_t value
    int64_t sorted
    int64_t spare
    bint is_replaced


cdef struct Run:  # one value that is being read, and what it may use
    Line line
    const int64_t* program
    const uint8_t* names
    Column* columns
    Pending* pending  # for each column
    uint8_t* name  # of a field, without escapes
    Py_ssize_t name_size_max
    Bytes* entries  # those of maps within each other
    int64_t node  # at which reading ended
    int64_t* memory_left


# --- faults --------------------------------------------------------------------------------------------------------


cdef inline bint is_of_type(int fault) noexcept nogil:
    """Whether the text is JSON nevertheless."""
    return fault == WRONG_TYPE or fault == FRACTION or fault == TOO_BIG


cdef inline int wrong(Run* run, int64_t node, int fault) noexcept nogil:
    run.node = node
    return fault


cdef inline int not_json(Run* run, int64_t node, Fault fault) noexcept nogil:
    run.node = node
    if fault == UNFINISHED:
        return CUT
    if fault == NOT_UTF8:
        return BAD_UTF8
    if fault == HALF_PAIR:
        return BAD_PAIR
    return NESTED if fault == TOO_DEEP else NO_JSON


cdef inline int skip(Run* run, int64_t node, int depth) noexcept nogil:
    """Read a value without regard to types."""
    cdef Fault fault = skip_value(&run.line, depth)
    return FINE if <int>fault == FINE else not_json(run, node, fault)


# --- values --------------------------------------------------------------------------------------------------------


cdef int read(Run* run, int64_t node, int depth) noexcept nogil:
    """Read the value here into the columns of a node; `depth` levels are open around it."""
    cdef const int64_t* program = run.program + node
    cdef int64_t number = program[1]
    cdef int operation = <int>program[0]
    cdef Line* line = &run.line
    cdef Py_ssize_t start = line.at
    cdef Text text
    cdef uint8_t first
    cdef Fault fault
    cdef bint bit
    cdef int result
    if start >= line.end:
        return wrong(run, node, CUT)
    first = line.data[start]
    if first == c"n" and takes_null(line):
        return append_null(run.columns, number, run.memory_left)
    if operation == TEXT and first == c'"':
        fault = read_string(line, &text)
        return append_text(run, number, &text) if <int>fault == FINE else not_json(run, node, fault)
    if operation == INTEGER or operation == NUMBER:
        if first == c"-" or is_digit(first):
            return read_integer(run, node) if operation == INTEGER else read_double(run, node)
    elif operation == BOOLEAN:
        bit = takes_literal(line, b"true", 4)
        if bit or takes_literal(line, b"false", 5):
            if put_bit(&run.columns[number].data, run.columns[number].count, bit, run.memory_left) != FINE:
                return TOO_LARGE
            return note_valid(run.columns + number, run.memory_left)
    elif operation == JSON_TEXT:
        result = skip(run, node, depth)
        if result != FINE:
            return result
        return append_bytes(run.columns, number, line.data + start, line.at - start, run.memory_left)
    elif (first == c"{" and (operation == OBJECT or operation == MAP)) or (first == c"[" and operation == LIST):
        if depth == LEVELS_MAX:
            return wrong(run, node, NESTED)
        line.at += 1
        if operation == OBJECT:
            return read_object(run, node, depth)
        result = read_map(run, node, depth) if operation == MAP else read_list(run, node, depth)
        if result != FINE:
            return result
        if put_int32(&run.columns[number].ends, run.columns[run.columns[number].children[0]].count, run.memory_left) != FINE:
            return TOO_LARGE
        return note_valid(run.columns + number, run.memory_left)
    return wrong(run, node, WRONG_TYPE)


cdef inline int append_text(Run* run, int64_t number, const Text* text) noexcept nogil:
    cdef Column* column = run.columns + number
    cdef const uint8_t* raw = run.line.data + text.position
    if not text.is_escaped:
        return append_bytes(run.columns, number, raw, text.size, run.memory_left)
    if reserve(&column.data, text.size, run.memory_left) != FINE:
        return TOO_LARGE
    if unescape(raw, text.raw_size, column.data.data + column.data.size, text.size, text.size) != text.size:
        return wrong(run, -1, NO_JSON)  # another thread has changed the bytes
    if put_int32(&column.ends, column.data.size + text.size, run.memory_left) != FINE:
        return TOO_LARGE
    column.data.size += text.size
    return note_valid(column, run.memory_left)


cdef int read_list(Run* run, int64_t node, int depth) noexcept nogil:
    cdef bint is_first = True, is_there
    cdef int result
    cdef Fault fault
    while True:
        fault = next_item(&run.line, is_first, &is_there)
        if <int>fault != FINE:
            return not_json(run, node, fault)
        if not is_there:
            return FINE
        is_first = False
        result = read(run, run.program[node + 2], depth + 1)
        if result != FINE:
            return result


# --- numbers -------------------------------------------------------------------------------------------------------


cdef inline int read_integer(Run* run, int64_t node) noexcept nogil:
    cdef Line* line = &run.line
    cdef Py_ssize_t start = line.at, at
    cdef int64_t value = 0
    cdef bint is_whole
    cdef int result
    cdef Fault fault = read_number(line, &is_whole)
    if <int>fault != FINE:
        return not_json(run, node, fault)
    if is_whole and line.at - start <= DIGITS_EXACT:
        for at in range(start + (line.data[start] == c"-"), line.at):
            value = 10 * value + (line.data[at] - c"0")
        if line.data[start] == c"-":
            value = -value
    else:
        result = whole_of(line.data + start, line.at - start, &value)
        if result != FINE:
            return wrong(run, node, result)
    return append_wide(run.columns, run.program[node + 1], &value, 8, run.memory_left)


cdef int whole_of(const uint8_t* raw, Py_ssize_t size, int64_t* value) noexcept nogil:
    """Return what is wrong with a number as int64; it may have a point and an exponent."""
    cdef Py_ssize_t at = raw[0] == c"-"
    cdef uint64_t number = 0, digit, highest = (<uint64_t>1 << 63) - (not at)
    cdef int64_t zeros = 0, power = 0  # zeros: those behind the last other digit
    cdef bint is_long = False, is_fraction = False
    while at < size and raw[at] | 0x20 != c"e":
        if raw[at] == c".":
            is_fraction = True
            at += 1
            continue
        digit = raw[at] - c"0"
        at += 1
        power -= is_fraction
        if digit == 0:
            zeros += number != 0 or is_long
            continue
        while zeros >= 0 and not is_long:
            is_long = number > TENTH_MAX
            number *= 10
            zeros -= 1
        zeros = 0
        number += digit
    power += zeros + exponent_of(raw + at, size - at)
    if not number and not is_long:
        value[0] = 0
        return FINE
    if power < 0:
        return FRACTION
    while power > 0 and not is_long:
        is_long = number > TENTH_MAX
        number *= 10
        power -= 1
    if is_long or number > highest:
        return TOO_BIG
    value[0] = <int64_t>(0 - number if raw[0] == c"-" else number)
    return FINE


cdef inline int64_t exponent_of(const uint8_t* raw, Py_ssize_t size) noexcept nogil:
    """Return the exponent that a number ends with; 0 if there is none."""
    cdef int64_t power = 0
    cdef Py_ssize_t at = 1
    cdef bint is_negative
    if size == 0:
        return 0
    is_negative = raw[1] == c"-"
    at += raw[1] == c"-" or raw[1] == c"+"
    while at < size:
        power = min(10 * power + (raw[at] - c"0"), EXPONENT_MAX)
        at += 1
    return -power if is_negative else power


cdef inline int read_double(Run* run, int64_t node) noexcept nogil:
    cdef Line* line = &run.line
    cdef Py_ssize_t start = line.at
    cdef double value = 0
    cdef bint is_whole
    cdef Fault fault = read_number(line, &is_whole)
    if <int>fault != FINE:
        return not_json(run, node, fault)
    if not short_double(line.data + start, line.at - start, &value):
        if not long_double_of(line.data + start, line.at - start, &value):
            return TOO_LARGE
        if value == INFINITE or value == -INFINITE:
            return wrong(run, node, TOO_BIG)
    return append_wide(run.columns, run.program[node + 1], &value, 8, run.memory_left)


cdef inline bint short_double(const uint8_t* raw, Py_ssize_t size, double* value) noexcept nogil:
    """Return whether the number is the product or quotient of two doubles that are exact; one rounding is right."""
    cdef Py_ssize_t at = raw[0] == c"-"
    cdef uint64_t number = 0
    cdef int64_t power = 0
    cdef bint is_fraction = False
    if size > DIGITS_EXACT + 6:
        return False
    while at < size and raw[at] | 0x20 != c"e":
        if raw[at] == c".":
            is_fraction = True
        else:
            if number > MANTISSA_MAX:
                return False
            number = 10 * number + (raw[at] - c"0")
            power -= is_fraction
        at += 1
    power += exponent_of(raw + at, size - at)
    if number > MANTISSA_MAX or power < -POWER_EXACT or power > POWER_EXACT:
        return False
    value[0] = <double>number
    value[0] = value[0] / POWERS[-power] if power < 0 else value[0] * POWERS[power]
    if raw[0] == c"-":
        value[0] = -value[0]
    return True


cdef bint long_double_of(const uint8_t* raw, Py_ssize_t size, double* value) noexcept nogil:
    """Read any number; False if there is no memory."""
    cdef char[NUMBER_BYTES] held
    cdef char* text = held
    if size >= NUMBER_BYTES:
        text = <char*>PyMem_RawMalloc(size + 1)
        if text == NULL:
            return False
    memcpy(text, raw, size)
    text[size] = 0
    value[0] = double_of(text)
    if text != held:
        PyMem_RawFree(text)
    return True


# --- objects -------------------------------------------------------------------------------------------------------


cdef int read_object(Run* run, int64_t node, int depth) noexcept nogil:
    """Read the fields of an object. One of another type than the program's is a fault, unless it comes once more."""
    cdef const int64_t* program = run.program + node
    cdef Column* column = run.columns + program[1]
    cdef int64_t count = program[2], base = column.count, field = -1, found = 0, pending = 0, child
    cdef int result = FINE
    cdef bint is_first = True, is_there
    cdef Text name
    cdef Fault fault
    while True:
        fault = next_field(&run.line, is_first, &name, &is_there)
        if <int>fault != FINE:
            result = not_json(run, node, fault)
            break
        if not is_there:
            break
        is_first = False
        child = field_of(run, program, &name, field + 1)
        if child < 0:
            result = skip(run, node, depth + 1)
            if result != FINE:
                break
            continue
        field = child
        result = read_field(run, program[5 + 3 * field], column.children[field], base, depth, &found, &pending)
        if result != FINE:
            break
    if pending:
        result = settle(run, column, result)
    if result != FINE:
        return result
    if found < count:
        for field in range(count):
            child = column.children[field]
            if run.columns[child].count == base and append_null(run.columns, child, run.memory_left) != FINE:
                return TOO_LARGE
    return note_valid(column, run.memory_left)


cdef inline int read_field(
    Run* run, int64_t node, int64_t child, int64_t base, int depth, int64_t* found, int64_t* pending
) noexcept nogil:
    cdef Py_ssize_t start = run.line.at
    cdef int fault
    if run.columns[child].count > base:  # the last one counts
        truncate(run.columns, child, base)
        pending[0] -= run.pending[child].fault != FINE
        run.pending[child].fault = FINE
        found[0] -= 1
    fault = read(run, node, depth + 1)
    if fault == FINE:
        found[0] += 1
        return FINE
    if not is_of_type(fault):
        return fault
    truncate(run.columns, child, base)
    if append_null(run.columns, child, run.memory_left) != FINE:
        return TOO_LARGE
    run.pending[child].fault, run.pending[child].node = fault, run.node
    pending[0] += 1
    found[0] += 1
    run.line.at = start
    return skip(run, node, depth + 1)


cdef int settle(Run* run, const Column* column, int result) noexcept nogil:
    """Return the fault of the first field that has one, unless there is a worse one, and forget all."""
    cdef int64_t field
    cdef Pending* pending
    for field in range(column.children_count):
        pending = run.pending + column.children[field]
        if result == FINE and pending.fault != FINE:
            result = wrong(run, pending.node, pending.fault)
        pending.fault = FINE
    return result


cdef inline int64_t field_of(Run* run, const int64_t* program, const Text* text, int64_t expected) noexcept nogil:
    """Return the number of the field with a name; -1: there is none."""
    cdef const uint8_t* name = run.line.data + text.position
    cdef const int64_t* order
    cdef int64_t count = program[2], low = 0, middle, field
    cdef int difference
    if text.size > run.name_size_max:
        return -1
    if text.is_escaped:
        if unescape(name, text.raw_size, run.name, text.size, text.size) != text.size:
            return -1
        name = run.name
    if expected < count and program[4 + 3 * expected] == text.size:
        if memcmp(run.names + program[3 + 3 * expected], name, text.size) == 0:
            return expected
    order = program + 3 + 3 * count
    while low < count:
        middle = (low + count) >> 1
        field = order[middle]
        difference = (program[4 + 3 * field] > text.size) - (program[4 + 3 * field] < text.size)
        if difference == 0:
            difference = memcmp(run.names + program[3 + 3 * field], name, text.size)
            if difference == 0:
                return field
        if difference < 0:
            low = middle + 1
        else:
            count = middle
    return -1


# --- maps ----------------------------------------------------------------------------------------------------------


cdef int read_map(Run* run, int64_t node, int depth) noexcept nogil:
    """Read an object by its own names. Values are read once it is known which are replaced by later ones."""
    cdef int64_t first = run.entries.size
    cdef int result = read_entries(run, node, depth, first)
    if result == FINE:
        result = read_values(run, node, depth, first)
    run.entries.size = first
    return result


cdef int read_entries(Run* run, int64_t node, int depth, int64_t first) noexcept nogil:
    """Find the entries, and append their names."""
    cdef Entry* entry
    cdef bint is_first = True, is_there
    cdef int64_t keys = run.program[node + 2]
    cdef Text name
    cdef int result
    cdef Fault fault
    while True:
        fault = next_field(&run.line, is_first, &name, &is_there)
        if <int>fault != FINE:
            return not_json(run, node, fault)
        if not is_there:
            return FINE
        is_first = False
        if append_text(run, keys, &name) != FINE or reserve(run.entries, sizeof(Entry), run.memory_left) != FINE:
            return TOO_LARGE
        entry = <Entry*>(run.entries.data + run.entries.size)
        run.entries.size += sizeof(Entry)
        entry.name, entry.value, entry.is_replaced = name, run.line.at, False
        result = skip(run, node, depth + 1)
        if result != FINE:
            return result


cdef int read_values(Run* run, int64_t node, int depth, int64_t first) noexcept nogil:
    cdef int64_t count = (run.entries.size - first) // <int64_t>sizeof(Entry), number
    cdef int64_t keys = run.program[node + 2], base = run.columns[keys].count - count
    cdef bint has_replaced = count > 1 and mark_replaced(run, run.columns + keys, base, first, count)
    cdef Py_ssize_t end = run.line.at
    cdef int result
    cdef Entry* entry
    if has_replaced:
        truncate(run.columns, keys, base)
    for number in range(count):
        entry = <Entry*>(run.entries.data + first) + number  # a map within may have moved them
        if entry.is_replaced:
            continue
        if has_replaced and append_text(run, keys, &entry.name) != FINE:
            return TOO_LARGE
        run.line.at = entry.value
        result = read(run, run.program[node + 3], depth + 1)
        if result != FINE:
            return result
    run.line.at = end
    return FINE


cdef bint mark_replaced(Run* run, const Column* keys, int64_t base, int64_t first, int64_t count) noexcept nogil:
    """Mark the entries that are followed by one with the same name; return whether there are any."""
    cdef Entry* entries = <Entry*>(run.entries.data + first)
    cdef bint has_replaced = False
    cdef int64_t number
    sort(entries, keys, base, count)
    for number in range(count - 1):
        if compared(keys, base + entries[number].sorted, base + entries[number + 1].sorted) == 0:
            entries[entries[number].sorted].is_replaced = has_replaced = True
    return has_replaced


cdef void sort(Entry* entries, const Column* keys, int64_t base, int64_t count) noexcept nogil:
    """Merge sort: `sorted` has the numbers of the entries by name, those with the same name in their order."""
    cdef int64_t number, width = 1, left, right, middle, end
    for number in range(count):
        entries[number].sorted = number
    while width < count:
        for number in range(count):
            entries[number].spare = entries[number].sorted
        left = 0
        while left < count:
            middle, end = min(left + width, count), min(left + 2 * width, count)
            right, number = middle, left
            while number < end:
                if left < middle and (
                    right >= end
                    or compared(keys, base + entries[left].spare, base + entries[right].spare) <= 0
                ):
                    entries[number].sorted = entries[left].spare
                    left += 1
                else:
                    entries[number].sorted = entries[right].spare
                    right += 1
                number += 1
            left = end
        width *= 2


cdef inline int compared(const Column* keys, int64_t one, int64_t other) noexcept nogil:
    cdef const int32_t* ends = <const int32_t*>keys.ends.data
    cdef int64_t size = ends[one + 1] - ends[one], other_size = ends[other + 1] - ends[other]
    if size != other_size:
        return -1 if size < other_size else 1
    return memcmp(keys.data.data + ends[one], keys.data.data + ends[other], size) if size else 0


# --- the decoder ---------------------------------------------------------------------------------------------------


cdef class JsonColumnDecoder:
    """See `reference/json_values.py:JsonColumnDecoder`."""

    cdef array program
    cdef array children
    cdef bytes names
    cdef int64_t root
    cdef Column* columns
    cdef Py_ssize_t columns_count
    cdef Pending* pending
    cdef uint8_t* name
    cdef Bytes entries
    cdef int64_t memory_left
    cdef readonly list faults

    def __cinit__(
        self, array program not None, int64_t root, array columns not None, array children not None, bytes names not None,
    ):
        cdef Py_ssize_t number
        cdef int64_t[:] described
        self.program, self.children = _array("q", program), _array("q", children)  # nobody else changes them
        columns = _array("q", columns)
        check_program(self.program, root, columns, self.children, names)
        self.root, self.names = root, names
        described = columns
        self.columns_count = len(columns) // COLUMN_NUMBERS
        self.columns = <Column*>PyMem_RawCalloc(self.columns_count, sizeof(Column))
        self.pending = <Pending*>PyMem_RawCalloc(self.columns_count, sizeof(Pending))
        self.name = <uint8_t*>PyMem_RawMalloc(len(names) + 1)
        if self.columns == NULL or self.pending == NULL or self.name == NULL:
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
        self.memory_left = decoded_columns.MEMORY_BYTES_MAX
        self.faults = []
        PyMem_RawFree(self.entries.data)
        self.entries.data, self.entries.size, self.entries.space = NULL, 0, 0
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
        PyMem_RawFree(self.pending)
        PyMem_RawFree(self.name)
        PyMem_RawFree(self.entries.data)

    def decode(self, ends, data, validity, array picks not None, Py_ssize_t skip):
        """See `reference/json_values.py:JsonColumnDecoder.decode`."""
        cdef const uint8_t[::1] texts = memoryview(data).cast("B")
        cdef const int32_t[::1] bounds = memoryview(ends).cast("B").cast("i")
        cdef const uint8_t[::1] valid = None if validity is None else memoryview(validity).cast("B")
        cdef const int32_t[::1] rows
        cdef Py_ssize_t pick = 0
        cdef Run run
        cdef int fault
        if picks.typecode != "i" or skip < 0:
            raise ValueError("rows that are no int32 numbers")
        rows = picks  # it does not move while the GIL is released
        if valid is not None and valid.shape[0] < (bounds.shape[0] + 6) // 8:
            raise ValueError("a row outside of its column")
        run.program, run.columns = <const int64_t*>self.program.data.as_longlongs, self.columns
        run.names, run.name, run.name_size_max = <const uint8_t*><char*>self.names, self.name, len(self.names)
        run.pending, run.entries, run.memory_left = self.pending, &self.entries, &self.memory_left
        run.line.data = &texts[0] if texts.shape[0] else NULL
        while pick < rows.shape[0]:
            with nogil:
                fault = self.decode_rows(&run, texts.shape[0], bounds, valid, rows, &pick, skip)
            if fault == FINE:
                break
            if fault == -1:
                raise ValueError("a row outside of its column")
            self.note(fault, run.node)
            pick += 1

    cdef int note(self, int fault, int64_t node) except -1:
        """Replace a value that could not be decoded by a null."""
        truncate(self.columns, 0, self.columns[0].count)
        if fault == TOO_LARGE:
            shrink(&self.entries, &self.memory_left)
            shrink_all(self.columns, self.columns_count, &self.memory_left)
        self.faults.append(DecodingFault(self.columns[0].count, MEMORY_USED if fault == TOO_LARGE else fault, node))
        if append_null(self.columns, 0, &self.memory_left) != FINE:
            truncate(self.columns, 0, self.columns[0].count)
            raise MemoryError("the decoded values of a batch need too much memory")
        return 0

    cdef int decode_rows(
        self, Run* run, Py_ssize_t size, const int32_t[::1] bounds, const uint8_t[::1] valid, const int32_t[::1] rows, Py_ssize_t* pick,
        Py_ssize_t skipped,
    ) noexcept nogil:
        """Decode rows until the first fault, whose row is at `pick` then; -1: the row is not in its column."""
        cdef int64_t row, start, end
        cdef int fault
        while pick[0] < rows.shape[0]:
            row = rows[pick[0]]
            if not 0 <= row < bounds.shape[0] - 1:
                return -1
            start, end = bounds[row], bounds[row + 1]
            if not 0 <= start <= end <= size:
                return -1
            run.node = self.root
            if valid is not None and not valid[row >> 3] >> (row & 7) & 1:
                fault = append_null(self.columns, 0, run.memory_left)
            elif skipped > end - start:
                fault = CUT
            else:
                run.line.at, run.line.end = start + skipped, end
                run.line.readable = min(end + 7, size)  # words of eight bytes, one of them of the value
                fault = read_whole(run, self.root)
            if fault != FINE:
                return fault
            pick[0] += 1
        return FINE

    def finish(self):
        """See `reference/json_values.py:JsonColumnDecoder.finish`."""
        cdef list finished = []
        cdef Py_ssize_t number
        cdef Column* column
        for number in range(self.columns_count):
            column = &self.columns[number]
            finished.append(
                ColumnBuffers(
                    column.count,
                    column.null_count,
                    handed_over(&column.validity) if column.null_count and column.kind != NOTHING else None,
                    handed_over(&column.ends) if column.kind in (VARIABLE, ITEMS) else None,
                    handed_over(&column.data) if column.kind in (BITS, WIDE, VARIABLE) else None,
                )
            )
            column.validity.size = 0
        self.begin()
        return finished


cdef bytes handed_over(Bytes* memory):
    """Return the bytes as a Python object, and free them."""
    cdef bytes made = (<char*>memory.data)[:memory.size] if memory.size else b""
    PyMem_RawFree(memory.data)
    memory.data, memory.size, memory.space = NULL, 0, 0
    return made


cdef int read_whole(Run* run, int64_t root) noexcept nogil:
    """Read a value that has no more than blanks around it."""
    cdef Py_ssize_t start
    cdef int64_t node, count = run.columns[0].count
    cdef int result, fault
    skip_blanks(&run.line)
    start = run.line.at
    result = read(run, root, 0)
    if is_of_type(result):
        node, run.line.at = run.node, start
        fault = skip(run, root, 0)
        if fault != FINE:
            return fault
        run.node = node
    elif result != FINE:
        return result
    skip_blanks(&run.line)
    if run.line.at >= run.line.end:
        return result
    truncate(run.columns, 0, count)
    return wrong(run, root, SURPLUS_TEXT)
