# cython: language_level=3
"""The grammar of JSON, for `native/json_lines.pyx` and `native/json_values.pyx`: what stands where, and what is wrong. See `json_line`.

Every function begins at `Line.at`. It steps behind what it reads, or returns a fault and leaves `at` at the byte that
shows it. Nothing is looked at behind the line's end but as part of a word of eight bytes, all before `Line.readable`.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from offsetfs.storage.native.json_text cimport character_size, first_marked, load, specials


cdef enum:
    LEVELS_MAX = 64


cdef enum Fault:
    FINE = 0
    NOT_AN_OBJECT
    UNFINISHED
    NO_NAME
    NO_COLON
    NO_COMMA
    NO_COMMA_IN_LIST
    SURPLUS
    NO_VALUE
    NO_NUMBER
    RAW_CONTROL
    NO_ESCAPE
    HALF_PAIR
    NOT_UTF8
    NOT_BASE64
    TOO_DEEP
    TWICE
    NO_TEXT
    NO_TIMESTAMP
    NO_HEADERS
    NO_HEADER_KEY
    KEY_NEEDED
    OUT_OF_TIME
    VALUE_NO_TEXT
    CHANGED
    NO_MEMORY
    UNKNOWN_FIELD
    UNKNOWN_HEADER_FIELD
    NO_PARTITION


cdef struct Line:
    const uint8_t* data
    Py_ssize_t at  # the byte to be looked at next; after a fault the one that shows it
    Py_ssize_t end
    Py_ssize_t readable  # where the buffer ends, the line being somewhere in it


cdef struct Text:  # a string, or null
    Py_ssize_t position  # behind the opening quote
    Py_ssize_t raw_size  # up to the closing one
    Py_ssize_t size  # of what it stands for; -1: null
    bint is_escaped
    bint is_base64


# --- what JSON is made of ------------------------------------------------------------------------------------------


cdef inline Fault next_field(Line* line, bint is_first, Text* name, bint* is_there) noexcept nogil:
    """Go to the value of the next field of an object, or behind its end."""
    cdef Fault fault
    skip_blanks(line)
    is_there[0] = not takes(line, c"}")
    if not is_there[0]:
        return FINE
    if not is_first:
        fault = expect(line, c",", NO_COMMA)
        if fault != FINE:
            return fault
        skip_blanks(line)
    if line.at >= line.end or line.data[line.at] != c'"':
        return fault_here(line, NO_NAME)
    fault = read_string(line, name)
    if fault != FINE:
        return fault
    skip_blanks(line)
    fault = expect(line, c":", NO_COLON)
    skip_blanks(line)
    return fault


cdef inline Fault next_item(Line* line, bint is_first, bint* is_there) noexcept nogil:
    """Go to the next item of a list, or behind its end."""
    cdef Fault fault = FINE
    skip_blanks(line)
    is_there[0] = not takes(line, c"]")
    if is_there[0] and not is_first:
        fault = expect(line, c",", NO_COMMA_IN_LIST)
        if fault == FINE:
            skip_blanks(line)
    return fault


cdef inline Fault skip_value(Line* line, int depth) noexcept nogil:
    """Read a value of any kind; `depth` levels are open around it."""
    cdef Text text
    cdef bint is_first = True, is_there = True
    cdef uint8_t opening
    cdef Fault fault
    if line.at >= line.end:
        return UNFINISHED
    opening = line.data[line.at]
    if opening == c'"':
        return read_string(line, &text)
    if opening == c"-" or is_digit(opening):
        return read_number(line, &is_there)
    if opening != c"{" and opening != c"[":
        if takes_null(line) or takes_literal(line, b"true", 4) or takes_literal(line, b"false", 5):
            return FINE
        return NO_VALUE
    if depth == LEVELS_MAX:
        return TOO_DEEP
    line.at += 1
    while True:
        if opening == c"{":
            fault = next_field(line, is_first, &text, &is_there)
        else:
            fault = next_item(line, is_first, &is_there)
        if fault != FINE or not is_there:
            return fault
        fault = skip_value(line, depth + 1)
        if fault != FINE:
            return fault
        is_first = False


cdef inline Fault read_number(Line* line, bint* is_whole) noexcept nogil:
    cdef const uint8_t* data = line.data
    cdef Py_ssize_t start = line.at, at = start + (data[start] == c"-")
    cdef Py_ssize_t end = line.end, digits
    is_whole[0] = True
    line.at = start
    digits = digits_at(data, at, end)
    if digits == 0:
        return NO_NUMBER
    at += 1 if data[at] == c"0" else digits
    if at < end and data[at] == c".":
        digits = digits_at(data, at + 1, end)
        if digits == 0:
            return NO_NUMBER
        at += 1 + digits
        is_whole[0] = False
    if at < end and data[at] | 0x20 == c"e":
        at += 1
        if at < end and (data[at] == c"+" or data[at] == c"-"):
            at += 1
        digits = digits_at(data, at, end)
        if digits == 0:
            return NO_NUMBER
        at += digits
        is_whole[0] = False
    if at < end and is_of_number(data[at]):
        return NO_NUMBER
    line.at = at
    return FINE


cdef inline Py_ssize_t digits_at(const uint8_t* data, Py_ssize_t at, Py_ssize_t end) noexcept nogil:
    cdef Py_ssize_t start = at
    while at < end and is_digit(data[at]):
        at += 1
    return at - start


cdef inline bint is_of_number(uint8_t byte) noexcept nogil:
    return is_digit(byte) or byte == c"." or byte == c"+" or byte == c"-" or byte | 0x20 == c"e"


cdef inline bint is_digit(uint8_t byte) noexcept nogil:
    return c"0" <= byte <= c"9"


cdef inline Fault read_string(Line* line, Text* text) noexcept nogil:
    """Read the string whose opening quote is here."""
    cdef const uint8_t* data = line.data
    cdef Py_ssize_t at = line.at + 1, end = line.end, surplus = 0, size
    cdef uint64_t marks
    cdef uint32_t code
    cdef uint8_t byte
    cdef Fault fault
    text.position = at
    text.is_escaped = text.is_base64 = False
    while True:
        while line.readable - at >= 8:  # the newline behind the line stops this too
            marks = specials(load(data + at))
            if marks:
                at += first_marked(marks)
                break
            at += 8
        if at >= end:
            line.at = end
            return UNFINISHED
        byte = data[at]
        if byte == c'"':
            break
        if byte >= 0x80:
            size = character_size(data + at, end - at)
            fault = NOT_UTF8
        elif byte == c"\\":
            size = read_escape(data + at, end - at, &code, &fault)
            surplus += size - code_size(code) if size else 0
            text.is_escaped = True
        else:
            size = byte >= 0x20
            fault = RAW_CONTROL
        if size == 0:
            line.at = at
            return fault
        at += size
    text.raw_size = at - text.position
    text.size = text.raw_size - surplus
    line.at = at + 1
    return FINE


cdef inline Py_ssize_t read_escape(const uint8_t* raw, Py_ssize_t left, uint32_t* code, Fault* fault) noexcept nogil:
    """Read the escape here, which may be a pair; return how many bytes it takes, 0 with a fault when it is none."""
    cdef uint32_t low
    cdef uint8_t letter = raw[1] if left > 1 else 0
    code[0] = letter
    fault[0] = NO_ESCAPE
    if letter == c'"' or letter == c"\\" or letter == c"/":
        return 2
    if letter == c"n":
        code[0] = c"\n"
    elif letter == c"t":
        code[0] = c"\t"
    elif letter == c"r":
        code[0] = c"\r"
    elif letter == c"b":
        code[0] = c"\b"
    elif letter == c"f":
        code[0] = c"\f"
    elif letter != c"u" or left < 6 or not read_hex(raw + 2, code):
        return 0
    if letter != c"u":
        return 2
    if code[0] < 0xD800 or code[0] > 0xDFFF:
        return 6
    fault[0] = HALF_PAIR
    if code[0] > 0xDBFF or left < 12 or raw[6] != c"\\" or raw[7] != c"u" or not read_hex(raw + 8, &low):
        return 0
    if low < 0xDC00 or low > 0xDFFF:
        return 0
    code[0] = 0x10000 + ((code[0] - 0xD800) << 10) + (low - 0xDC00)
    return 12


cdef inline Py_ssize_t unescape(
    const uint8_t* raw, Py_ssize_t left, uint8_t* out, Py_ssize_t size, Py_ssize_t space
) noexcept nogil:
    """Write what a string stands for, `size` bytes, and return how many these were; -1 for what is no string.

    Up to `space` bytes may be written to, and behind the last one anything.
    """
    cdef Py_ssize_t used = 0, run, taken
    cdef uint64_t marks
    cdef uint32_t code
    cdef Fault fault
    while left > 0:
        if left >= 8 and space - used >= 8:
            marks = specials(load(raw))
            memcpy(out + used, raw, 8)
            run = first_marked(marks) if marks else 8
        else:
            run = 0
        if run == 0 and raw[0] != c"\\":
            run = 1
            if used >= space:
                return -1
            out[used] = raw[0]
        if run == 0:
            taken = read_escape(raw, left, &code, &fault)
            if taken == 0 or code_size(code) > space - used:
                return -1
            used += put_code(out + used, code)
            raw += taken
            left -= taken
        raw += run
        left -= run
        used += run
    return used if used == size else -1


cdef inline bint read_hex(const uint8_t* raw, uint32_t* code) noexcept nogil:
    cdef uint32_t value = 0
    cdef uint8_t byte
    cdef int number
    for number in range(4):
        byte = raw[number]
        value <<= 4
        if is_digit(byte):
            value |= byte - c"0"
        elif c"a" <= (byte | 0x20) <= c"f":
            value |= (byte | 0x20) - c"a" + 10
        else:
            return False
    code[0] = value
    return True


# --- bytes ---------------------------------------------------------------------------------------------------------


cdef inline void skip_blanks(Line* line) noexcept nogil:
    cdef uint8_t byte
    while line.at < line.end:
        byte = line.data[line.at]
        if byte != c" " and byte != c"\t" and byte != c"\r" and byte != c"\n":  # a line has no newline
            return
        line.at += 1


cdef inline bint takes(Line* line, uint8_t token) noexcept nogil:
    """Step over the byte if it is here; return whether it was."""
    if line.at < line.end and line.data[line.at] == token:
        line.at += 1
        return True
    return False


cdef inline bint takes_literal(Line* line, const char* literal, Py_ssize_t size) noexcept nogil:
    if line.end - line.at >= size and memcmp(line.data + line.at, literal, size) == 0:
        line.at += size
        return True
    return False


cdef inline bint takes_null(Line* line) noexcept nogil:
    return takes_literal(line, b"null", 4)


cdef inline Fault expect(Line* line, uint8_t token, Fault fault) noexcept nogil:
    return FINE if takes(line, token) else fault_here(line, fault)


cdef inline Fault fault_here(const Line* line, Fault fault) noexcept nogil:
    return fault if line.at < line.end else UNFINISHED


cdef inline Py_ssize_t code_size(uint32_t code) noexcept nogil:
    return 1 + (code >= 0x80) + (code >= 0x800) + (code >= 0x10000)


cdef inline Py_ssize_t put_code(uint8_t* out, uint32_t code) noexcept nogil:
    """Write a character in UTF-8, one to four bytes; return how many."""
    if code < 0x80:
        out[0] = <uint8_t>code
        return 1
    if code < 0x800:
        out[0] = <uint8_t>(0xC0 | code >> 6)
        out[1] = <uint8_t>(0x80 | code & 0x3F)
        return 2
    if code < 0x10000:
        out[0] = <uint8_t>(0xE0 | code >> 12)
        out[1] = <uint8_t>(0x80 | code >> 6 & 0x3F)
        out[2] = <uint8_t>(0x80 | code & 0x3F)
        return 3
    out[0] = <uint8_t>(0xF0 | code >> 18)
    out[1] = <uint8_t>(0x80 | code >> 12 & 0x3F)
    out[2] = <uint8_t>(0x80 | code >> 6 & 0x3F)
    out[3] = <uint8_t>(0x80 | code & 0x3F)
    return 4
