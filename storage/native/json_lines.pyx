# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Lines of JSON into a batch, whole buffers at a time: the compiled version of `reference/json_lines.py` and `json_line`.

A line is read twice. The first time it is held against the grammar, nothing is written, and what is found is where its
strings are and how long they will be; then the record's size is known, and the second time it is written. Another
thread may write to a shared buffer meanwhile: each read ends where the line does and each write where the record does,
whatever was found the first time, and where the two do not agree the line counts as wrong.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memchr, memcmp, memcpy, memset

from offsetfs.storage.native.json_grammar cimport (
    FINE, KEY_NEEDED, CHANGED, LEVELS_MAX, NO_HEADERS, NO_HEADER_KEY, NO_MEMORY, NO_PARTITION, NO_TEXT, NO_TIMESTAMP, OUT_OF_TIME, NOT_AN_OBJECT, NOT_BASE64,
    SURPLUS, TWICE, UNKNOWN_FIELD, UNKNOWN_HEADER_FIELD, VALUE_NO_TEXT, Fault, Line, Text, expect, fault_here, is_digit, next_field, next_item,
    read_escape, read_number, read_string, skip_blanks, skip_value, takes_null, unescape,
)
from offsetfs.storage.native.murmur2 cimport murmur2
from offsetfs.storage.native.record cimport field_size, put_varint, varint_size

from offsetfs.storage.records.format.batch_cursor import BatchCursor
from offsetfs.storage.records.json import json_line
from offsetfs.storage.records.json.json_line import LineFault
from offsetfs.storage.reference.json_lines import ASKED_MAX, JsonSplit, JsonSpread

cdef enum:
    DIGITS_MAX = 19
    NAME_SIZE_MAX = 9  # of the names that count
    PRINTED_NAME_SIZE_MAX = 14  # of those that do not
    ASKED_TIMES_MAX = 2

cdef int64_t INT_MAX = 0x7FFFFFFF
cdef int64_t LONG_MAX = 0x7FFFFFFFFFFFFFFF

assert json_line.DEPTH_MAX == LEVELS_MAX
assert ASKED_MAX == ASKED_TIMES_MAX

cdef object _new_tuple = tuple.__new__  # half the time of the `__new__` of a named tuple, which is written in Python

cdef tuple _REASONS = (
    "",
    json_line.NOT_AN_OBJECT,
    json_line.UNFINISHED,
    json_line.NO_NAME,
    json_line.NO_COLON,
    json_line.NO_COMMA,
    json_line.NO_COMMA_IN_LIST,
    json_line.SURPLUS,
    json_line.NO_VALUE,
    json_line.NO_NUMBER,
    json_line.RAW_CONTROL,
    json_line.NO_ESCAPE,
    json_line.HALF_PAIR,
    json_line.NOT_UTF8,
    json_line.NOT_BASE64,
    json_line.TOO_DEEP,
    json_line.TWICE,
    json_line.NO_TEXT,
    json_line.NO_TIMESTAMP,
    json_line.NO_HEADERS,
    json_line.NO_HEADER_KEY,
    json_line.KEY_NEEDED,
    json_line.OUT_OF_TIME,
    json_line.VALUE_NO_TEXT,
    "the line changed while it was read",
)

cdef enum Field:
    OTHER = 0
    KEY = 1
    VALUE = 2
    HEADERS = 4
    TIMESTAMP = 8
    PARTITION = 16

cdef const char* SIXTY_FOUR = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
cdef uint8_t _sextets[256]  # what a byte means in base64; above 63: nothing


cdef void fill_sextets() noexcept:
    cdef int sextet
    memset(_sextets, 0xFF, 256)
    for sextet in range(64):
        _sextets[<uint8_t>SIXTY_FOUR[sextet]] = <uint8_t>sextet


fill_sextets()


cdef struct Record:
    Text key
    Text value
    Py_ssize_t headers  # where the list begins
    Py_ssize_t headers_count
    Py_ssize_t headers_size  # as they are encoded
    int64_t timestamp
    int64_t partition  # -1: the line names none


cdef struct Sink:
    uint8_t* data
    Py_ssize_t used
    Py_ssize_t limit


cdef struct Target:  # a batch in the making
    uint8_t* data  # NULL: there is none
    Py_ssize_t size
    Py_ssize_t position
    int64_t offset_delta
    int64_t base_timestamp
    bint has_base
    int64_t max_timestamp
    Py_ssize_t values_bytes
    bint is_changed


cdef struct Targets:
    Target* all
    Py_ssize_t count
    Py_ssize_t keyless  # where records go that have no key
    void* cursors  # the `Cursors` that are asked for another batch when a record does not fit; NULL: none are


cdef struct Rules:  # what else a record has to be
    bint spreads  # over partitions; a full one is named
    bint needs_key
    Py_ssize_t partitions  # of the topic, of which a record may name one; 0: the field is ignored
    bint values_as_text  # a value that is no string is its text; else it is wrong
    int64_t now_ms  # the timestamp of those that name none
    int64_t earliest
    int64_t latest


cdef struct Progress:
    Py_ssize_t start
    Py_ssize_t record_bytes  # of the record that did not fit
    Py_ssize_t partition  # where it belongs
    Py_ssize_t fault_position


cdef Rules rules_of(given) except *:
    cdef Rules rules
    rules.spreads, rules.partitions = False, 0
    rules.now_ms, rules.needs_key, rules.values_as_text = given.now_ms, given.needs_key, given.values_as_text
    rules.earliest, rules.latest = given.earliest, given.latest
    return rules


def split_json(source, Py_ssize_t start, Py_ssize_t end, cursor, rules, Py_ssize_t count_max):
    """Write each whole line of `source[start:end]` as a record into `cursor`. See `reference/json_lines.py:split_json`."""
    cdef Py_buffer lines
    cdef Py_buffer space
    cdef Progress progress
    cdef Target one
    cdef Targets targets
    cdef Rules taken = rules_of(rules)
    cdef Fault fault
    targets.all, targets.count, targets.keyless, targets.cursors = &one, 1, 0, NULL
    progress.start = start
    PyObject_GetBuffer(source, &lines, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(cursor.target, &space, PyBUF_WRITABLE)
        try:
            check_lines(&lines, start, end, taken.now_ms)
            begin_target(&one, &space, cursor)
            with nogil:
                fault = split_lines(
                    <const uint8_t*>lines.buf, end, lines.len, &targets, &progress, &taken, count_max
                )
        finally:
            PyBuffer_Release(&space)
    finally:
        PyBuffer_Release(&lines)
    return _new_tuple(JsonSplit, (
        progress.start,
        one.position,
        one.offset_delta,
        one.base_timestamp if one.has_base else None,
        one.max_timestamp,
        one.values_bytes,
        progress.record_bytes,
        wrong_line_of(fault, &progress, source, end, 0),
    ))


def spread_json(source, Py_ssize_t start, Py_ssize_t end, cursors, Py_ssize_t keyless, rules, cursor_for=None):
    """Write each whole line as a record into the batch of its partition. See `reference/json_lines.py:spread_json`."""
    cdef Py_buffer lines
    cdef Progress progress
    cdef Targets targets
    cdef Rules taken = rules_of(rules)
    cdef Fault fault
    cdef Cursors held = Cursors(list(cursors), cursor_for)  # a copy, which no other thread makes longer
    targets.all, targets.count, targets.keyless = held.targets, held.count, keyless
    targets.cursors = NULL if cursor_for is None else <void*>held
    taken.spreads, taken.partitions = True, targets.count if rules.honors_partition else 0
    if not 0 <= keyless < targets.count:
        raise ValueError(f"partition {keyless} of {targets.count}")
    progress.start = start
    PyObject_GetBuffer(source, &lines, PyBUF_SIMPLE)
    try:
        check_lines(&lines, start, end, taken.now_ms)
        with nogil:
            fault = split_lines(
                <const uint8_t*>lines.buf, end, lines.len, &targets, &progress, &taken, INT_MAX
            )
        if held.error is not None:
            raise held.error
        return JsonSpread(
            progress.start,
            held.changed(),
            progress.partition,
            progress.record_bytes,
            wrong_line_of(fault, &progress, source, end, taken.partitions),
        )
    finally:
        PyBuffer_Release(&lines)


cdef class Cursors:
    """The batches in the making of one call, their buffers held for writing, and the function that provides more."""

    cdef Target* targets
    cdef Py_buffer* buffers
    cdef Py_ssize_t count
    cdef object cursor_for
    cdef object error  # what `cursor_for` raised

    def __cinit__(self, list cursors, cursor_for):
        cdef Py_ssize_t number
        self.count, self.cursor_for = len(cursors), cursor_for
        self.targets = <Target*>calloc(self.count + 1, sizeof(Target))
        self.buffers = <Py_buffer*>calloc(self.count + 1, sizeof(Py_buffer))
        if self.targets is NULL or self.buffers is NULL:
            raise MemoryError
        for number in range(self.count):
            if cursors[number] is not None:
                self.hold(number, cursors[number])

    def __dealloc__(self):
        cdef Py_ssize_t number
        if self.buffers is not NULL:
            for number in range(self.count):
                PyBuffer_Release(&self.buffers[number])  # without effect where nothing is held
        free(self.buffers)
        free(self.targets)

    cdef int hold(self, Py_ssize_t number, cursor) except -1:
        """Write the next records of a partition into this batch instead of the one before."""
        cdef Target* target = &self.targets[number]
        target.data = NULL
        PyBuffer_Release(&self.buffers[number])
        PyObject_GetBuffer(cursor.target, &self.buffers[number], PyBUF_WRITABLE)
        return begin_target(target, &self.buffers[number], cursor)

    cdef bint ask(self, Py_ssize_t number, Py_ssize_t record_bytes) except -1:
        """Ask for a batch with space for a record of this size; return whether there is one."""
        cdef Target* target = &self.targets[number]
        cursor = self.cursor_for(number, record_bytes, ended(target) if target.is_changed else None)
        if cursor is None:
            target.data, target.is_changed = NULL, False
            return False
        self.hold(number, cursor)
        return True

    cdef dict changed(self):
        cdef Py_ssize_t number
        return {
            number: ended(&self.targets[number]) for number in range(self.count) if self.targets[number].is_changed
        }


cdef bint ask(void* cursors, Py_ssize_t number, Py_ssize_t record_bytes) noexcept with gil:
    cdef Cursors asked = <Cursors>cursors
    try:
        return asked.ask(number, record_bytes)
    except BaseException as error:  # raised again by `spread_json`, when it holds no pointer into a buffer any more
        asked.error = error
        return False


cdef int check_lines(const Py_buffer* lines, Py_ssize_t start, Py_ssize_t end, int64_t now_ms) except -1:
    if not 0 <= start <= end <= lines.len:
        raise ValueError("split outside of its buffers")
    if now_ms < -1:
        raise ValueError(f"a timestamp of {now_ms}")
    return 0


cdef int begin_target(Target* target, const Py_buffer* space, cursor) except -1:
    cdef Py_ssize_t position = cursor.position
    cdef int64_t offset_delta = cursor.offset_delta
    base_timestamp = cursor.base_timestamp
    if not 0 <= position <= space.len:
        raise ValueError("split outside of its buffers")
    if offset_delta < 0:
        raise ValueError(f"an offset delta of {offset_delta}")
    target.data, target.size = <uint8_t*>space.buf, space.len
    target.position, target.offset_delta = position, offset_delta
    target.has_base = base_timestamp is not None
    target.base_timestamp = base_timestamp if target.has_base else 0
    target.max_timestamp, target.values_bytes, target.is_changed = -1, 0, False
    return 0


cdef ended(const Target* target):
    return BatchCursor(
        None, target.position, target.offset_delta, target.base_timestamp, target.max_timestamp, target.values_bytes
    )


cdef wrong_line_of(Fault fault, const Progress* progress, source, Py_ssize_t end, Py_ssize_t partitions):
    if fault == NO_MEMORY:
        raise MemoryError
    if fault == NO_PARTITION:
        return LineFault(progress.fault_position, json_line.no_partition(partitions))
    if fault == UNKNOWN_FIELD or fault == UNKNOWN_HEADER_FIELD:
        line = bytes(memoryview(source).cast("B")[progress.start:end]).partition(b"\n")[0]
        fields = json_line.FIELDS if fault == UNKNOWN_FIELD else json_line.HEADER_FIELDS
        return LineFault(progress.fault_position, json_line.unknown_fields(line, progress.fault_position, fields))
    return LineFault(progress.fault_position, _REASONS[fault]) if fault != FINE else None


cdef Fault split_lines(
    const uint8_t* source,
    Py_ssize_t end,
    Py_ssize_t source_size,
    const Targets* targets,
    Progress* progress,
    const Rules* rules,
    Py_ssize_t count_max,
) noexcept nogil:
    cdef const uint8_t* newline
    cdef Py_ssize_t size, asked, partition = 0
    cdef int64_t timestamp_delta
    cdef Target* target = targets.all
    cdef Line line
    cdef Record record
    cdef Fault fault
    progress.record_bytes, progress.partition, progress.fault_position = 0, -1, 0
    while count_max > 0 and (rules.spreads or target.offset_delta <= INT_MAX):
        line.data, line.at = source + progress.start, 0
        newline = <const uint8_t*>memchr(line.data, c"\n", end - progress.start)
        if newline is NULL:
            return FINE
        line.end, line.readable = newline - line.data, source_size - progress.start
        skip_blanks(&line)
        if line.at < line.end:
            record.timestamp = rules.now_ms
            fault = read_record(&line, &record, rules)
            if fault != FINE:
                progress.fault_position = line.at
                return fault
            if record.timestamp != -1 and not rules.earliest <= record.timestamp <= rules.latest:
                return OUT_OF_TIME
            if record.partition >= 0:
                partition = record.partition
                target = &targets.all[partition]
            elif targets.count > 1:
                fault = partition_for(&line, &record.key, targets, &partition)
                if fault != FINE:
                    return fault
                target = &targets.all[partition]
            asked = 0
            while True:
                timestamp_delta = 0
                if target.has_base:
                    timestamp_delta = <int64_t>(<uint64_t>record.timestamp - <uint64_t>target.base_timestamp)
                size = body_size(&record, timestamp_delta, target.offset_delta)
                if (
                    target.data is not NULL and target.offset_delta <= INT_MAX
                    and size <= INT_MAX and varint_size(size) + size <= target.size - target.position
                ):
                    break
                size = body_size(&record, 0, 0)
                progress.record_bytes, progress.partition = varint_size(size) + size, partition
                if targets.cursors is NULL or asked == ASKED_TIMES_MAX or not ask(targets.cursors, partition, progress.record_bytes):
                    return FINE
                asked += 1
            progress.record_bytes, progress.partition = 0, -1
            size = put_record(&line, &record, target.data + target.position, size, timestamp_delta, target.offset_delta)
            if size < 0:
                return CHANGED
            if not target.has_base:
                target.base_timestamp, target.has_base = record.timestamp, True
            target.position += size
            if record.timestamp > target.max_timestamp:
                target.max_timestamp = record.timestamp
            target.values_bytes += 1 + (record.value.size if record.value.size > 0 else 0)
            target.offset_delta += 1
            target.is_changed = True
            count_max -= 1
        progress.start += line.end + 1
    return FINE


# --- which partition -------------------------------------------------------------------------------------------------


cdef Fault partition_for(const Line* line, const Text* key, const Targets* targets, Py_ssize_t* partition) noexcept nogil:
    """Find the partition of a key: its hash modulo their number, as Kafka's producer does it. See `partitioner`."""
    cdef const uint8_t* raw = line.data + key.position
    cdef uint8_t* plain
    cdef bint is_read
    if key.size < 0:
        partition[0] = targets.keyless
        return FINE
    if not key.is_base64 and not key.is_escaped:
        partition[0] = (murmur2(raw, key.size) & 0x7FFFFFFF) % targets.count
        return FINE
    plain = <uint8_t*>malloc(key.size + 1)
    if plain is NULL:
        return NO_MEMORY
    if key.is_base64:
        is_read = from_base64(raw, key.raw_size, plain, key.size) == key.size
    else:
        is_read = unescape(raw, key.raw_size, plain, key.size, key.size) == key.size
    if is_read:
        partition[0] = (murmur2(plain, key.size) & 0x7FFFFFFF) % targets.count
    free(plain)
    return FINE if is_read else CHANGED


# --- writing -------------------------------------------------------------------------------------------------------


cdef inline Py_ssize_t body_size(const Record* record, int64_t timestamp_delta, int64_t offset_delta) noexcept nogil:
    cdef Py_ssize_t size = 1 + varint_size(timestamp_delta) + varint_size(offset_delta)
    size += field_size(record.key.size) + field_size(record.value.size)
    return size + varint_size(record.headers_count) + record.headers_size


cdef Py_ssize_t put_record(
    Line* line, const Record* record, uint8_t* out, Py_ssize_t size, int64_t timestamp_delta, int64_t offset_delta
) noexcept nogil:
    """Write the record, whose body takes `size` bytes, and return how many it takes; -1 when that did not come true."""
    cdef Sink sink
    cdef Py_ssize_t count = 0, headers_size = 0
    sink.data = out
    sink.used = put_varint(out, size)
    sink.limit = sink.used + size
    out[sink.used] = 0  # the attributes
    sink.used += 1
    sink.used += put_varint(out + sink.used, timestamp_delta)
    sink.used += put_varint(out + sink.used, offset_delta)
    if not put_text(&sink, line, &record.key) or not put_text(&sink, line, &record.value):
        return -1
    if varint_size(record.headers_count) > sink.limit - sink.used:
        return -1
    sink.used += put_varint(out + sink.used, record.headers_count)
    if record.headers_count:
        line.at = record.headers
        if read_headers(line, &sink, &count, &headers_size) != FINE or count != record.headers_count:
            return -1
    return sink.limit if sink.used == sink.limit else -1


cdef bint put_text(Sink* sink, const Line* line, const Text* text) noexcept nogil:
    cdef const uint8_t* raw = line.data + text.position
    cdef uint8_t* out
    cdef Py_ssize_t space
    if field_size(text.size) > sink.limit - sink.used:
        return False
    sink.used += put_varint(sink.data + sink.used, text.size)
    if text.size > 0:
        out = sink.data + sink.used
        if text.is_base64:
            if from_base64(raw, text.raw_size, out, text.size) != text.size:
                return False
        elif text.is_escaped:
            space = sink.limit - sink.used
            if unescape(raw, text.raw_size, out, text.size, space) != text.size:
                return False
        else:
            memcpy(out, raw, text.size)
        sink.used += text.size
    return True


cdef Py_ssize_t from_base64(const uint8_t* raw, Py_ssize_t left, uint8_t* out, Py_ssize_t space) noexcept nogil:
    """Return how many bytes a string of base64 stands for, -1 when it is none. Writes them unless `out` is NULL."""
    cdef Py_ssize_t used = 0, taken, size
    cdef uint32_t bits = 0, code, sextet
    cdef int count = 0, padding = 0
    cdef Fault fault
    while left > 0:
        if padding and count == 0:
            return -1  # something behind the end
        code, taken = raw[0], 1
        if code == c"\\":
            taken = read_escape(raw, left, &code, &fault)
            if taken == 0:
                return -1
        raw += taken
        left -= taken
        sextet = _sextets[code] if code < 256 else 0xFF
        if code == c"=":
            padding += 1
            sextet = 0
        elif sextet > 63 or padding:
            return -1
        bits = bits << 6 | sextet
        count += 1
        if count < 4:
            continue
        size = 3 - padding
        if size < 1 or bits & ((1 << 8 * padding) - 1):
            return -1
        if out is not NULL:
            if size > space - used:
                return -1
            out[used] = <uint8_t>(bits >> 16)
            if size > 1:
                out[used + 1] = <uint8_t>(bits >> 8)
            if size > 2:
                out[used + 2] = <uint8_t>bits
        used += size
        bits, count = 0, 0
    return used if count == 0 else -1


# --- what a record is made of --------------------------------------------------------------------------------------


cdef Fault read_record(Line* line, Record* record, const Rules* rules) noexcept nogil:
    """Read the whole line, which is not blank. `record.timestamp` stays where it names none."""
    cdef Text name
    cdef Field field
    cdef uint32_t found = 0
    cdef bint is_first = True, is_there, is_base64
    cdef Fault fault = expect(line, c"{", NOT_AN_OBJECT)
    if fault != FINE:
        return fault
    record.key.size = record.value.size = -1
    record.headers = record.headers_count = record.headers_size = 0
    record.partition = -1
    while True:
        fault = next_field(line, is_first, &name, &is_there)
        if fault != FINE:
            return fault
        if not is_there:
            break
        is_first = False
        field = field_of(line, &name, &is_base64)
        if field == PARTITION and not rules.partitions:
            field = OTHER
        if found & field:
            line.at = name.position - 1
            return TWICE
        found |= field
        if field == KEY:
            fault = read_text(line, is_base64, &record.key)
        elif field == VALUE:
            fault = read_value(line, is_base64, rules.values_as_text, &record.value)
        elif field == TIMESTAMP:
            fault = read_whole_number(line, -1, LONG_MAX, NO_TIMESTAMP, &record.timestamp)
        elif field == PARTITION:
            fault = read_whole_number(line, 0, rules.partitions - 1, NO_PARTITION, &record.partition)
        elif field == HEADERS:
            fault = FINE
            if not takes_null(line):
                record.headers = line.at
                fault = read_headers(line, NULL, &record.headers_count, &record.headers_size)
        else:
            if not is_printed(line, &name):
                line.at = name.position - 1
                return UNKNOWN_FIELD
            fault = skip_value(line, 1)
        if fault != FINE:
            return fault
    skip_blanks(line)
    if line.at < line.end:
        return SURPLUS
    if rules.needs_key and record.key.size < 0:
        line.at = 0
        return KEY_NEEDED
    return FINE


cdef Fault read_headers(Line* line, Sink* sink, Py_ssize_t* count, Py_ssize_t* size) noexcept nogil:
    """Read the list of headers, count them and the bytes they take, and write them unless `sink` is NULL."""
    cdef Text key, value
    cdef bint is_first = True, is_there
    cdef Fault fault = expect(line, c"[", NO_HEADERS)
    while fault == FINE:
        fault = next_item(line, is_first, &is_there)
        if fault != FINE or not is_there:
            return fault
        is_first = False
        fault = read_header(line, &key, &value)
        if fault == FINE:
            count[0] += 1
            size[0] += field_size(key.size) + field_size(value.size)
            if sink is not NULL and not (put_text(sink, line, &key) and put_text(sink, line, &value)):
                return CHANGED
    return fault


cdef Fault read_header(Line* line, Text* key, Text* value) noexcept nogil:
    cdef Text name
    cdef Field field
    cdef uint32_t found = 0
    cdef bint is_first = True, is_there, is_base64
    cdef Py_ssize_t start = line.at
    cdef Fault fault = expect(line, c"{", NO_HEADERS)
    if fault != FINE:
        return fault
    key.size = value.size = -1
    while True:
        fault = next_field(line, is_first, &name, &is_there)
        if fault != FINE:
            return fault
        if not is_there:
            break
        is_first = False
        field = field_of(line, &name, &is_base64)
        if field != KEY and field != VALUE:
            line.at = name.position - 1
            return UNKNOWN_HEADER_FIELD
        if found & field:
            line.at = name.position - 1
            return TWICE
        found |= field
        if field == KEY:
            if line.at < line.end and line.data[line.at] != c'"':
                return NO_HEADER_KEY
            fault = read_text(line, is_base64, key)
        else:
            fault = read_text(line, is_base64, value)
        if fault != FINE:
            return fault
    if key.size < 0:
        line.at = start
        return NO_HEADER_KEY
    return FINE


cdef Field field_of(const Line* line, const Text* name, bint* is_base64) noexcept nogil:
    """Return which field a name stands for."""
    cdef uint8_t plain[NAME_SIZE_MAX]
    cdef const uint8_t* text = line.data + name.position
    is_base64[0] = False
    if name.size > NAME_SIZE_MAX:
        return OTHER
    if name.is_escaped:
        if unescape(text, name.raw_size, plain, name.size, NAME_SIZE_MAX) < 0:
            return OTHER
        text = plain
    if name.size == 3:
        return KEY if memcmp(text, b"key", 3) == 0 else OTHER
    if name.size == 5:
        return VALUE if memcmp(text, b"value", 5) == 0 else OTHER
    if name.size == 7:
        if memcmp(text, b"headers", 7) == 0:
            return HEADERS
        is_base64[0] = True
        return KEY if memcmp(text, b"key_b64", 7) == 0 else OTHER
    if name.size == 9:
        if memcmp(text, b"timestamp", 9) == 0:
            return TIMESTAMP
        if memcmp(text, b"partition", 9) == 0:
            return PARTITION
        is_base64[0] = True
        return VALUE if memcmp(text, b"value_b64", 9) == 0 else OTHER
    return OTHER


cdef bint is_printed(const Line* line, const Text* name) noexcept nogil:
    """Whether `records.ndjson` has a field of this name, although a record that is appended gets it from its log."""
    cdef uint8_t plain[PRINTED_NAME_SIZE_MAX]
    cdef const uint8_t* text = line.data + name.position
    if name.size > PRINTED_NAME_SIZE_MAX:
        return False
    if name.is_escaped:
        if unescape(text, name.raw_size, plain, name.size, PRINTED_NAME_SIZE_MAX) < 0:
            return False
        text = plain
    if name.size == 5:
        return memcmp(text, b"topic", 5) == 0
    if name.size == 6:
        return memcmp(text, b"offset", 6) == 0
    if name.size == 9:
        return memcmp(text, b"partition", 9) == 0
    return name.size == 14 and memcmp(text, b"timestamp_type", 14) == 0


cdef Fault read_text(Line* line, bint is_base64, Text* text) noexcept nogil:
    cdef Py_ssize_t start = line.at
    cdef Fault fault
    if takes_null(line):
        text.size = -1
        return FINE
    if line.at >= line.end or line.data[line.at] != c'"':
        return fault_here(line, NO_TEXT)
    fault = read_string(line, text)
    if fault == FINE and is_base64:
        text.is_base64 = True
        text.size = from_base64(line.data + text.position, text.raw_size, NULL, 0)
        if text.size < 0:
            line.at = start
            return NOT_BASE64
    return fault


cdef Fault read_value(Line* line, bint is_base64, bint as_text, Text* text) noexcept nogil:
    """Read the value of a record; what is no string is its text, or wrong."""
    cdef Py_ssize_t start = line.at
    cdef Fault fault
    if is_base64 or start >= line.end or line.data[start] == c'"':
        return read_text(line, is_base64, text)
    if takes_null(line):
        text.size = -1
        return FINE
    if not as_text:
        return VALUE_NO_TEXT
    fault = skip_value(line, 1)
    text.position, text.raw_size = start, line.at - start
    text.size = text.raw_size
    text.is_escaped = text.is_base64 = False
    return fault


cdef Fault read_whole_number(Line* line, int64_t low, int64_t high, Fault wrong, int64_t* found) noexcept nogil:
    """Read null, which leaves `found` as it is, or a number from `low`, at most 0, to `high`; else the fault `wrong`."""
    cdef Py_ssize_t start = line.at, at
    cdef uint64_t number = 0
    cdef bint is_whole, is_negative
    cdef Fault fault
    if takes_null(line):
        return FINE
    if start >= line.end or not (line.data[start] == c"-" or is_digit(line.data[start])):
        return fault_here(line, wrong)
    fault = read_number(line, &is_whole)
    if fault != FINE:
        return fault
    at = line.at
    line.at = start
    if not is_whole or at - start > DIGITS_MAX:
        return wrong
    is_negative = line.data[start] == c"-"
    for start in range(start + is_negative, at):
        number = 10 * number + line.data[start] - c"0"
    if number > <uint64_t>(-low if is_negative else high):
        return wrong
    found[0] = -<int64_t>number if is_negative else <int64_t>number
    line.at = at
    return FINE
