# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The record scans of compaction, a megabyte at a time: the compiled form of the reference `reference/compaction.py`.

Bytes from disk are not trusted. Every read is checked against the end of its buffer or batch. A size is compared with
the remaining bytes before it is added to a position, and no memory is allocated because a length or count field says
so. The scans release the GIL. A batch that is not plain or not valid is left to the caller, which reports the error;
`add` and `retain` raise `MalformedBatch` for malformed records.
"""

from cpython.array cimport array
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize, PyByteArray_Resize
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memmove

from offsetfs.storage.native.offset_map cimport Slot, Table, get, look_up, put, siphash
from offsetfs.storage.native.plain_batch cimport (
    APPEND_TIME_BIT, DELETE_HORIZON_BIT, HEADER_BYTES, LOG_OVERHEAD_BYTES, MAGIC_END_BYTES, MAP_FULL, MORE_BYTES,
    OTHER_BATCH, OUT_OF_SPACE, Bounds, Header, Status, big_int, big_long, crc32c_of, crc32c_prepare, put_int, put_long,
    read_plain,
)
from offsetfs.storage.native.record cimport (
    FINE, RECORD_BYTES_MIN, Cursor, Fault, open_record, put_varint, read_record, read_varlong, reason, varint_size,
)
from offsetfs.storage.native.rows cimport RECORD_COLUMNS, RecordRow, hold_rows

import os
from struct import Struct

from offsetfs.storage.errors import MalformedBatch

crc32c_prepare()

cdef enum:
    SLOT_BYTES = 24
    PREFETCH_COUNT = 32  # the records that are read before the map look-up of the first; hides the latency of memory
    OFFSETS_FALL = 100  # a fault in addition to those of `native/record.pyx`
    CHANGED = -2  # returned if another thread modified the records during the scan

cdef int64_t INT_MAX = 0x7FFFFFFF
cdef int64_t LONG_MAX = 0x7FFFFFFFFFFFFFFF
_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")

MORE, OTHER, FULL, NO_SPACE = MORE_BYTES, OTHER_BATCH, MAP_FULL, OUT_OF_SPACE


# --- the map --------------------------------------------------------------------------------------------------------


cdef class OffsetMap:
    """A map from key hashes to latest offsets. See `reference/offset_map.py:OffsetMap`."""

    cdef Table table

    def __cinit__(self, Py_ssize_t bytes_max, double load_factor=0.9, *, bytes hash_key=None):
        cdef bytes key = os.urandom(16) if hash_key is None else hash_key
        self.table.slot_count = max(bytes_max, 0) // SLOT_BYTES
        if not 0 < load_factor <= 1 or len(key) != 16:
            raise ValueError(f"a load factor of {load_factor}, a hash key of {len(key)} bytes")
        self.table.count_max = <int64_t>(self.table.slot_count * load_factor)
        if self.table.count_max < 1:
            raise ValueError(f"an offset map of {bytes_max} bytes has no space for a key")
        memcpy(self.table.hash_keys, <const char*>key, 16)
        self.table.latest_offset = -1
        self.table.slots = <Slot*>calloc(self.table.slot_count, SLOT_BYTES)
        if self.table.slots is NULL:
            raise MemoryError(f"an offset map of {bytes_max} bytes")

    def __dealloc__(self):
        free(self.table.slots)

    @property
    def count(self):
        return self.table.count

    @property
    def count_max(self):
        return self.table.count_max

    @property
    def latest_offset(self):
        return self.table.latest_offset

    @latest_offset.setter
    def latest_offset(self, int64_t offset):
        self.table.latest_offset = offset

    def put(self, key, int64_t offset):
        """See `reference/offset_map.py:OffsetMap.put`."""
        cdef HeldBuffer held = HeldBuffer(key)
        cdef uint64_t digest[2]
        look_up(&self.table, held.data, held.size, digest)
        return bool(put(&self.table, digest, offset))

    def get(self, key):
        """See `reference/offset_map.py:OffsetMap.get`."""
        cdef HeldBuffer held = HeldBuffer(key)
        cdef uint64_t digest[2]
        look_up(&self.table, held.data, held.size, digest)
        return get(&self.table, digest)


# --- the hash: SipHash-2-4 with 128 bits ----------------------------------------------------------------------------


def siphash_128(bytes key, data):
    """Return the hash of `data` under a 16-byte key; for tests with the published vectors."""
    cdef HeldBuffer held = HeldBuffer(data)
    cdef uint64_t keys[2]
    cdef uint64_t digest[2]
    if len(key) != 16:
        raise ValueError(f"a hash key of {len(key)} bytes")
    memcpy(keys, <const char*>key, 16)
    siphash(keys, held.data, held.size, digest)
    return PyBytes_FromStringAndSize(<char*>digest, 16)


# --- batches --------------------------------------------------------------------------------------------------------


cdef class HeldBuffer:
    """A Python buffer that is held while its bytes are read or written."""

    cdef Py_buffer buffer
    cdef bint is_held
    cdef uint8_t* data
    cdef Py_ssize_t size

    def __cinit__(self, data, bint is_writable=False):
        PyObject_GetBuffer(data, &self.buffer, PyBUF_WRITABLE if is_writable else PyBUF_SIMPLE)
        self.is_held = True
        self.data = <uint8_t*>self.buffer.buf
        self.size = self.buffer.len

    def __dealloc__(self):
        if self.is_held:
            PyBuffer_Release(&self.buffer)


cdef HeldBuffer held_records(payload, int64_t count):
    """Return the records section as a held buffer. Fails if it is too short for `count` records."""
    cdef HeldBuffer held = HeldBuffer(payload)
    if not 0 <= count <= held.size // RECORD_BYTES_MIN:
        raise MalformedBatch(f"{count} records in {held.size} bytes")
    return held


cdef int raise_fault(int fault, int64_t number) except -1:
    if fault == OFFSETS_FALL:
        raise MalformedBatch(f"record {number} has an offset that does not rise, or lies outside its batch")
    if fault == FINE:
        raise MalformedBatch("bytes left over behind the last record")
    raise MalformedBatch(f"record {number} of the batch: {reason(<Fault>fault).decode()}")


cdef struct Records:  # the records of a batch, and the numbers of its header that they depend on
    const uint8_t* payload
    Py_ssize_t size
    int64_t count
    int64_t base_offset
    int64_t last_offset_delta
    int64_t base_timestamp
    bint has_horizon


cdef inline Records records_of(const uint8_t* batch, const Header* header) noexcept nogil:
    cdef Records records
    records.payload, records.size = batch + HEADER_BYTES, header.size - HEADER_BYTES
    records.count, records.base_offset = header.count, header.base_offset
    records.last_offset_delta, records.base_timestamp = header.last_offset_delta, header.base_timestamp
    records.has_horizon = header.attributes & DELETE_HORIZON_BIT
    return records


cdef Records records_in(
    HeldBuffer held, int64_t count, int64_t base_offset, int64_t last_offset_delta, int64_t base_timestamp=0,
    bint has_horizon=False,
):
    cdef Records records
    records.payload, records.size, records.count = held.data, held.size, count
    records.base_offset, records.last_offset_delta = base_offset, last_offset_delta
    records.base_timestamp, records.has_horizon = base_timestamp, has_horizon
    return records


cdef struct Seen:  # a record whose map slot is being prefetched
    RecordRow row
    int64_t offset
    uint64_t digest[2]
    Py_ssize_t start
    bint is_hashed


# --- pass 1: what is the latest offset of a key ---------------------------------------------------------------------


cdef class Indexer:
    """Stores the keys of the dirty part of a log in the map. See `reference/offset_map.py:Indexer`."""

    cdef OffsetMap offset_map
    cdef Table* table
    cdef int64_t first_dirty
    cdef Bounds bounds
    cdef readonly int64_t records_read

    def __cinit__(self, OffsetMap offset_map not None, int64_t first_dirty):
        self.offset_map = offset_map
        self.table = &offset_map.table
        self.first_dirty = first_dirty

    def set_bounds(self, int64_t floor, int64_t limit):
        """See `reference/offset_map.py:Indexer.set_bounds`."""
        self.bounds.floor, self.bounds.limit = floor, limit

    @property
    def floor(self):
        return self.bounds.floor

    def run(self, block, Py_ssize_t start, Py_ssize_t end):
        """See `reference/offset_map.py:Indexer.run`."""
        cdef HeldBuffer held = HeldBuffer(block)
        cdef Status status
        if not 0 <= start <= end <= held.size:
            raise ValueError("positions outside of the block")
        with nogil:
            status = self.walk(held.data, &start, end)
        return start, <int>status

    cdef Status walk(self, const uint8_t* data, Py_ssize_t* start, Py_ssize_t end) noexcept nogil:
        cdef Header header
        cdef Records records
        cdef Status status
        cdef int fault
        cdef int64_t number = 0
        while read_plain(data + start[0], end - start[0], &self.bounds, &header, &status):
            records = records_of(data + start[0], &header)
            fault = self.put_all(&records, &number)
            if fault == -2:
                return MAP_FULL
            if fault != FINE:
                return OTHER_BATCH
            self.step(header.base_offset + header.last_offset_delta)
            start[0] += header.size
        return status

    cdef void step(self, int64_t last_offset) noexcept nogil:
        if last_offset >= self.first_dirty:
            self.table.latest_offset = last_offset
        self.bounds.floor = last_offset + 1

    def advance_to(self, int64_t last_offset):
        """See `reference/offset_map.py:Indexer.advance_to`."""
        self.step(last_offset)

    def add(self, payload, int64_t count, int64_t base_offset, int64_t last_offset_delta):
        """See `reference/offset_map.py:Indexer.add`."""
        cdef HeldBuffer held = held_records(payload, count)
        cdef Records records = records_in(held, count, base_offset, last_offset_delta)
        cdef int64_t number = 0
        cdef int fault
        with nogil:
            fault = self.put_all(&records, &number)
        if fault == -2:
            return False
        if fault != FINE:
            raise_fault(0 if fault == -1 else fault, number)
        self.step(base_offset + last_offset_delta)
        return True

    cdef int put_all(self, const Records* records, int64_t* number) noexcept nogil:
        """Store every key; return FINE, a fault with the record's number, -1 for trailing bytes, -2 for a full map."""
        cdef Cursor cursor
        cdef Seen seen[PREFETCH_COUNT]
        cdef int64_t before = -1
        cdef int fault = FINE
        cdef int ahead, place
        cdef bint is_full = False  # after that records are only validated, because malformed records take precedence over a full map
        cursor.data, cursor.position, cursor.end = records.payload, 0, records.size
        number[0] = 0
        while fault == FINE and number[0] < records.count:
            ahead = 0
            while ahead < PREFETCH_COUNT and number[0] + ahead < records.count:
                fault = self.see(&cursor, &before, records, &seen[ahead])
                if fault != FINE:
                    break
                ahead += 1
            for place in range(ahead):
                if seen[place].is_hashed and not is_full:
                    is_full = not put(self.table, seen[place].digest, seen[place].offset)
                self.records_read += not is_full
                number[0] += 1
        if fault != FINE:
            return fault
        if records.count and cursor.position != records.size:
            return -1
        return -2 if is_full else FINE

    cdef inline int see(self, Cursor* cursor, int64_t* before, const Records* records, Seen* seen) noexcept nogil:
        """Read a record; if its key counts, hash it and prefetch its slot."""
        cdef int fault = read_record(cursor, &seen.row)
        if fault != FINE:
            return fault
        if not before[0] < seen.row.offset_delta <= records.last_offset_delta:
            return OFFSETS_FALL
        before[0] = seen.row.offset_delta
        seen.offset = records.base_offset + seen.row.offset_delta
        seen.is_hashed = seen.row.key_size >= 0 and seen.offset >= self.first_dirty
        if seen.is_hashed:
            look_up(self.table, cursor.data + seen.row.key_position, seen.row.key_size, seen.digest)
        return FINE

    def add_rows(self, messages, array rows not None, int64_t base_offset):
        """See `reference/offset_map.py:Indexer.add_rows`."""
        cdef HeldBuffer held = HeldBuffer(messages)
        cdef Py_buffer held_rows
        cdef Py_ssize_t number, count = hold_rows(rows, RECORD_COLUMNS, &held_rows)
        cdef RecordRow row
        cdef uint64_t digest[2]
        cdef int64_t offset
        try:
            for number in range(count):
                row = (<const RecordRow*>held_rows.buf)[number]
                offset = offset_in(&row, base_offset, held.size)
                if row.key_size >= 0 and offset >= self.first_dirty:
                    look_up(self.table, held.data + row.key_position, row.key_size, digest)
                    if not put(self.table, digest, offset):
                        return False
                self.records_read += 1
            return True
        finally:
            PyBuffer_Release(&held_rows)


cdef int64_t offset_in(const RecordRow* row, int64_t base_offset, Py_ssize_t size) except -1:
    """Return the offset of a row; `MalformedBatch` if it is impossible, ValueError for a key outside of the
    messages.
    """
    cdef int64_t offset = <int64_t>(<uint64_t>base_offset + <uint64_t>row.offset_delta)
    if not 0 <= row.key_position <= size or row.key_size > size - row.key_position:
        raise ValueError("a row outside of its messages")
    if offset < 0 or (base_offset < 0 and row.offset_delta < 0):
        raise MalformedBatch("a message with an impossible offset")
    return offset


# --- pass 2: which records stay -------------------------------------------------------------------------------------


cdef struct Kept:
    int64_t count
    int64_t max_timestamp
    Py_ssize_t size  # of the kept records, which were copied only if some were removed
    bint has_tombstone
    bint is_all
    int fault
    int64_t number


cdef class Filter:
    """Copies the records to keep of each batch. See `reference/compaction.py:Filter`."""

    cdef OffsetMap offset_map
    cdef const Table* table
    cdef int64_t latest_offset
    cdef int64_t upper_bound
    cdef int64_t now_ms
    cdef int64_t new_horizon_ms
    cdef array last_offsets
    cdef array last_producers
    cdef Bounds bounds
    cdef readonly int64_t records_read
    cdef readonly int64_t records_kept
    cdef readonly int64_t records_without_key
    cdef readonly Py_ssize_t space_needed

    def __cinit__(
        self, OffsetMap offset_map not None, int64_t upper_bound, int64_t now_ms, int64_t new_horizon_ms, last_offsets
    ):
        cdef list protected = sorted((offset, producer) for producer, offset in last_offsets.items())
        self.offset_map = offset_map
        self.table = &offset_map.table
        self.latest_offset = offset_map.table.latest_offset
        self.upper_bound = upper_bound
        self.now_ms = now_ms
        self.new_horizon_ms = new_horizon_ms
        self.last_offsets = array("q", [offset for offset, _ in protected])
        self.last_producers = array("q", [producer for _, producer in protected])

    def set_bounds(self, int64_t floor, int64_t limit):
        """See `reference/compaction.py:Filter.set_bounds`."""
        self.bounds.floor, self.bounds.limit = floor, limit

    @property
    def floor(self):
        return self.bounds.floor

    def advance_to(self, int64_t last_offset):
        """See `reference/compaction.py:Filter.advance_to`."""
        self.bounds.floor = last_offset + 1

    def is_last(self, int64_t producer_id, int64_t last_offset):
        """See `reference/compaction.py:Filter.is_last`."""
        return self.is_protected(producer_id, last_offset)

    cdef bint is_protected(self, int64_t producer_id, int64_t last_offset) noexcept nogil:
        cdef const int64_t* offsets = <const int64_t*>self.last_offsets.data.as_longlongs
        cdef Py_ssize_t low = 0, high = self.last_offsets.ob_size, middle
        if last_offset + 1 == self.upper_bound:
            return True
        if producer_id < 0:
            return False
        while low < high:
            middle = (low + high) // 2
            if offsets[middle] < last_offset:
                low = middle + 1
            else:
                high = middle
        while low < self.last_offsets.ob_size and offsets[low] == last_offset:
            if self.last_producers.data.as_longlongs[low] == producer_id:
                return True
            low += 1
        return False

    def run(self, block, Py_ssize_t start, Py_ssize_t end, out, Py_ssize_t position):
        """See `reference/compaction.py:Filter.run`."""
        cdef HeldBuffer held = HeldBuffer(block)
        cdef HeldBuffer space = HeldBuffer(out, True)
        cdef Status status
        if not 0 <= start <= end <= held.size or not 0 <= position <= space.size:
            raise ValueError("positions outside of the buffers")
        with nogil:
            status = self.walk(held.data, &start, end, space.data, &position, space.size)
        return start, position, <int>status

    cdef Status walk(
        self, const uint8_t* data, Py_ssize_t* start, Py_ssize_t end, uint8_t* out, Py_ssize_t* position, Py_ssize_t size
    ) noexcept nogil:
        cdef Header header
        cdef Records records
        cdef Status status
        cdef Kept kept
        cdef Py_ssize_t written
        while read_plain(data + start[0], end - start[0], &self.bounds, &header, &status):
            self.space_needed = header.size
            if header.size > size - position[0]:
                return OUT_OF_SPACE
            records = records_of(data + start[0], &header)
            kept = self.keep(&records, out + position[0] + HEADER_BYTES)
            if kept.fault != FINE:
                return OTHER_BATCH
            written = self.put_batch(data + start[0], &header, &kept, out + position[0], size - position[0])
            if written < 0:
                return OUT_OF_SPACE if written == -1 else OTHER_BATCH
            position[0] += written
            self.count_in(&header.count, &kept)
            self.bounds.floor = header.base_offset + header.last_offset_delta + 1
            start[0] += header.size
        return status

    cdef void count_in(self, const int64_t* count, const Kept* kept) noexcept nogil:
        self.records_read += count[0]
        self.records_kept += kept.count
        self.records_without_key += kept.number

    cdef Kept keep(self, const Records* records, uint8_t* out) noexcept nogil:
        """Copy the records that stay to `out`, which is large enough; nothing is copied if all of them stay.

        `number` is the count of records removed for lack of a key, or the number of a malformed record.
        """
        cdef Kept kept
        cdef Cursor cursor
        cdef Seen seen[PREFETCH_COUNT]
        cdef int64_t done = 0, before = -1, timestamp
        cdef int ahead, place
        cdef Py_ssize_t run_size = 0  # adjacent kept records are copied together
        cdef bint tombstones_stay = not records.has_horizon or self.now_ms < records.base_timestamp
        kept.count, kept.max_timestamp, kept.size, kept.number = 0, -1, 0, 0
        kept.has_tombstone, kept.is_all, kept.fault = False, True, FINE
        cursor.data, cursor.position, cursor.end = records.payload, 0, records.size
        while done < records.count:
            ahead = 0
            while ahead < PREFETCH_COUNT and done + ahead < records.count:
                kept.fault = self.see(&cursor, &before, records, &seen[ahead])
                if kept.fault != FINE:
                    kept.number = done + ahead
                    return kept
                ahead += 1
            for place in range(ahead):
                if self.stays(&seen[place], tombstones_stay, &kept.number):
                    kept.count += 1
                    kept.has_tombstone |= seen[place].row.value_size < 0
                    timestamp = <int64_t>(<uint64_t>records.base_timestamp + <uint64_t>seen[place].row.timestamp_delta)
                    if timestamp > kept.max_timestamp:
                        kept.max_timestamp = timestamp
                else:
                    kept.is_all = False
                    memcpy(out + kept.size, records.payload + run_size, seen[place].start - run_size)
                    kept.size += seen[place].start - run_size
                    run_size = seen[place + 1].start if place + 1 < ahead else cursor.position
            done += ahead
        if records.count and cursor.position != records.size:
            kept.fault, kept.number = -1, records.count
        elif kept.is_all:
            kept.size = records.size if records.count else 0
        else:
            memcpy(out + kept.size, records.payload + run_size, cursor.position - run_size)
            kept.size += cursor.position - run_size
        return kept

    cdef inline int see(self, Cursor* cursor, int64_t* before, const Records* records, Seen* seen) noexcept nogil:
        """Read a record; if the map must be searched for its key, hash the key and prefetch its slot."""
        cdef int fault
        seen.start = cursor.position
        fault = read_record(cursor, &seen.row)
        if fault != FINE:
            return fault
        if not before[0] < seen.row.offset_delta <= records.last_offset_delta:
            return OFFSETS_FALL
        before[0] = seen.row.offset_delta
        seen.offset = records.base_offset + seen.row.offset_delta
        seen.is_hashed = seen.row.key_size >= 0 and seen.offset <= self.latest_offset
        if seen.is_hashed:
            look_up(self.table, cursor.data + seen.row.key_position, seen.row.key_size, seen.digest)
        return FINE

    cdef inline bint stays(self, const Seen* seen, bint tombstones_stay, int64_t* without_key) noexcept nogil:
        if seen.offset > self.latest_offset:
            return True
        if not seen.is_hashed:
            without_key[0] += 1
            return False
        return seen.offset >= get(self.table, seen.digest) and (seen.row.value_size >= 0 or tombstones_stay)

    cdef Py_ssize_t put_batch(
        self, const uint8_t* source, const Header* header, Kept* kept, uint8_t* out, Py_ssize_t space
    ) noexcept nogil:
        """Write what remains of the batch, whose kept records are in `out` after the header; return its size.

        Returns 0 if it is removed, -1 with `space_needed` if a new horizon makes it larger than the output, CHANGED if
        another thread modified its records meanwhile.
        """
        cdef bint has_horizon = header.attributes & DELETE_HORIZON_BIT
        cdef bint is_append_time = header.attributes & APPEND_TIME_BIT
        cdef uint8_t attributes = header.attributes
        cdef int64_t max_timestamp = header.max_timestamp if is_append_time else kept.max_timestamp
        cdef int64_t base_timestamp = header.base_timestamp
        if kept.count == 0:
            if not self.is_protected(header.producer_id, header.base_offset + header.last_offset_delta):
                return 0
            max_timestamp, base_timestamp, kept.size = header.max_timestamp, -1, 0
            attributes = header.attributes & ~DELETE_HORIZON_BIT
        elif kept.has_tombstone and not has_horizon:
            kept.size = self.put_rebased(source + HEADER_BYTES, header, kept, out + HEADER_BYTES, space - HEADER_BYTES)
            if kept.size < 0:
                return kept.size
            base_timestamp, attributes = self.new_horizon_ms, attributes | DELETE_HORIZON_BIT
        elif kept.is_all:
            memcpy(out, source, header.size)
            return header.size
        memcpy(out, source, HEADER_BYTES)
        put_int(out + 8, kept.size + HEADER_BYTES - LOG_OVERHEAD_BYTES)
        out[22] = attributes
        put_long(out + 27, base_timestamp)
        put_long(out + 35, max_timestamp)
        put_int(out + 57, kept.count)
        put_int(out + 17, crc32c_of(0, out + 21, kept.size + HEADER_BYTES - 21))
        return kept.size + HEADER_BYTES

    cdef Py_ssize_t put_rebased(
        self, const uint8_t* payload, const Header* header, Kept* kept, uint8_t* out, Py_ssize_t space
    ) noexcept nogil:
        """Encode the kept records, which are all of `payload` or are in `out`, for the new horizon; return their
        size.
        """
        cdef bint is_append_time = header.attributes & APPEND_TIME_BIT
        cdef uint64_t before = <uint64_t>(header.max_timestamp if is_append_time else header.base_timestamp)
        cdef int64_t shift = <int64_t>(before - <uint64_t>self.new_horizon_ms)
        cdef const uint8_t* records = payload if kept.is_all else out
        cdef Py_ssize_t needed = 0, size = rebased_size(records, kept.size, kept.count, shift, is_append_time, &needed)
        if size < 0:
            return CHANGED
        if needed > space or size > INT_MAX - HEADER_BYTES:
            self.space_needed = HEADER_BYTES + needed
            return -1
        if not kept.is_all:
            # Move the records to the end, so that written bytes never overwrite unread ones.
            memmove(out + needed - kept.size, out, kept.size)
            records = out + needed - kept.size
        return size if put_records(records, kept.size, kept.count, shift, is_append_time, out, size) else CHANGED

    def retain(
        self, payload, int64_t count, int64_t base_offset, int64_t last_offset_delta, int64_t base_timestamp,
        bint has_horizon,
    ):
        """See `reference/compaction.py:Filter.retain`."""
        cdef HeldBuffer held = held_records(payload, count)
        cdef Records records = records_in(held, count, base_offset, last_offset_delta, base_timestamp, has_horizon)
        cdef bytearray kept_records = PyByteArray_FromStringAndSize(NULL, held.size)
        cdef uint8_t* out = <uint8_t*>PyByteArray_AS_STRING(kept_records)
        cdef Kept kept
        with nogil:
            kept = self.keep(&records, out)
        if kept.fault != FINE:
            raise_fault(0 if kept.fault == -1 else kept.fault, kept.number)
        self.count_in(&count, &kept)
        PyByteArray_Resize(kept_records, kept.size)
        return kept.count, kept.max_timestamp, bool(kept.has_tombstone), None if kept.is_all else kept_records

    def mark(self, messages, array rows not None, int64_t base_offset, bint tombstones_stay):
        """See `reference/compaction.py:Filter.mark`."""
        cdef HeldBuffer held = HeldBuffer(messages)
        cdef Py_buffer held_rows
        cdef Py_ssize_t number, count = hold_rows(rows, RECORD_COLUMNS, &held_rows)
        cdef bytearray marks
        cdef uint8_t* mark
        cdef Seen seen
        try:
            marks = PyByteArray_FromStringAndSize(NULL, count)
            mark = <uint8_t*>PyByteArray_AS_STRING(marks)
            for number in range(count):
                seen.row = (<const RecordRow*>held_rows.buf)[number]
                seen.offset = offset_in(&seen.row, base_offset, held.size)
                seen.is_hashed = seen.row.key_size >= 0 and seen.offset <= self.latest_offset
                if seen.is_hashed:
                    look_up(self.table, held.data + seen.row.key_position, seen.row.key_size, seen.digest)
                mark[number] = self.stays(&seen, tombstones_stay, &self.records_without_key)
                self.records_kept += mark[number]
            self.records_read += count
            return marks
        finally:
            PyBuffer_Release(&held_rows)


def rebase(payload, int64_t count, int64_t shift, bint is_constant):
    """See `reference/compaction.py:rebase`."""
    cdef HeldBuffer held = held_records(payload, count)
    cdef Py_ssize_t needed = 0, size = rebased_size(held.data, held.size, count, shift, is_constant, &needed)
    cdef bytearray records
    if size < 0:
        raise MalformedBatch("records that cannot be read")
    records = PyByteArray_FromStringAndSize(NULL, size)
    if not put_records(held.data, held.size, count, shift, is_constant, <uint8_t*>PyByteArray_AS_STRING(records), size):
        raise MalformedBatch("records that changed while they were read")
    return records


cdef struct Stamped:  # the fields of a record that matter for a new timestamp delta
    int64_t timestamp_delta
    Py_ssize_t attributes
    Py_ssize_t rest  # the bytes after the delta
    Py_ssize_t end


cdef bint read_stamped(Cursor* cursor, int64_t shift, bint is_constant, Stamped* stamped) noexcept nogil:
    """Read a record up to its timestamp, and advance to the next; the delta is the new one."""
    cdef Cursor record
    if open_record(cursor, &record) != FINE:
        return False
    stamped.attributes = record.position - 1
    if read_varlong(&record, &stamped.timestamp_delta) != FINE:
        return False
    stamped.timestamp_delta = (
        shift if is_constant else <int64_t>(<uint64_t>stamped.timestamp_delta + <uint64_t>shift)
    )
    stamped.rest = record.position
    stamped.end = record.end
    cursor.position = record.end
    return True


cdef inline Py_ssize_t body_size(const Stamped* stamped) noexcept nogil:
    return 1 + varint_size(stamped.timestamp_delta) + stamped.end - stamped.rest


cdef Py_ssize_t rebased_size(
    const uint8_t* data, Py_ssize_t size, int64_t count, int64_t shift, bint is_constant, Py_ssize_t* needed
) noexcept nogil:
    """Return the new size of the records, -1 if they are malformed.

    `needed`: the buffer size for rewriting in place, if the old records lie at its end and the new ones start at 0.
    """
    cdef Cursor cursor
    cdef Stamped stamped
    cdef Py_ssize_t written = 0
    cursor.data, cursor.position, cursor.end = data, 0, size
    needed[0] = size
    while count > 0:
        if not read_stamped(&cursor, shift, is_constant, &stamped):
            return -1
        written += varint_size(body_size(&stamped)) + body_size(&stamped)
        if written + size - cursor.position > needed[0]:
            needed[0] = written + size - cursor.position
        count -= 1
    return written


cdef bint put_records(
    const uint8_t* data, Py_ssize_t size, int64_t count, int64_t shift, bint is_constant, uint8_t* out, Py_ssize_t space
) noexcept nogil:
    """Write the records in `space` bytes; return false if they do not fit, because another thread modified them."""
    cdef Cursor cursor
    cdef Stamped stamped
    cdef uint8_t attributes
    cursor.data, cursor.position, cursor.end = data, 0, size
    while count > 0:
        if not read_stamped(&cursor, shift, is_constant, &stamped):
            return False
        space -= varint_size(body_size(&stamped)) + body_size(&stamped)
        if space < 0:
            return False
        attributes = data[stamped.attributes]
        out += put_varint(out, body_size(&stamped))
        out[0] = attributes
        out += 1
        out += put_varint(out, stamped.timestamp_delta)
        memmove(out, data + stamped.rest, stamped.end - stamped.rest)
        out += stamped.end - stamped.rest
        count -= 1
    return space == 0


# --- the indexes of what was written --------------------------------------------------------------------------------


cdef class OutputIndexer:
    """Collects the index entries of a segment that is being written. See `reference/compaction.py:OutputIndexer`."""

    cdef readonly int64_t base_offset
    cdef readonly int64_t last_offset
    cdef readonly bytearray offsets
    cdef readonly bytearray times
    cdef int64_t interval_bytes
    cdef int64_t entries_max
    cdef int64_t indexed_position
    cdef int64_t max_timestamp
    cdef int64_t offset_of_max
    cdef int64_t time_entry

    def __cinit__(self, int64_t base_offset, int64_t interval_bytes, int64_t entries_max):
        self.base_offset = self.offset_of_max = base_offset
        self.last_offset = base_offset - 1
        self.interval_bytes = interval_bytes
        self.entries_max = entries_max
        self.max_timestamp = self.time_entry = -1
        self.offsets = bytearray()
        self.times = bytearray()

    def add(self, data, Py_ssize_t start, Py_ssize_t end, int64_t position):
        """See `reference/compaction.py:OutputIndexer.add`."""
        cdef HeldBuffer held = HeldBuffer(data)
        cdef Py_ssize_t place = start, due
        if not 0 <= start <= end <= held.size or not 0 <= position <= LONG_MAX - (end - start):
            raise ValueError("positions outside of the block")
        while place < end:
            due = place
            with nogil:
                place = self.walk(held.data, &due, end, position - start)
            if due < place:
                self.add_entry(due + position - start)

    cdef Py_ssize_t walk(self, const uint8_t* data, Py_ssize_t* due, Py_ssize_t end, int64_t shift) noexcept nogil:
        """Process batches up to one that needs an entry, and set `due` to it; return the position after it."""
        cdef Py_ssize_t place = due[0], size
        cdef int64_t timestamp, last_offset
        while place < end:
            size = end - place
            if size >= HEADER_BYTES or (size >= MAGIC_END_BYTES + 9 and data[place + 16] < 2):
                size = min(size, <Py_ssize_t>big_int(data + place + 8) + LOG_OVERHEAD_BYTES)
            if size < MAGIC_END_BYTES + 9:
                break
            last_offset, timestamp = big_long(data + place), -1
            if data[place + 16] == 2 and size >= HEADER_BYTES:
                last_offset += big_int(data + place + 23)
                timestamp = big_long(data + place + 35)
            elif data[place + 16] == 1:
                timestamp = big_long(data + place + 18)
            self.last_offset = last_offset
            if timestamp > self.max_timestamp:
                self.max_timestamp, self.offset_of_max = timestamp, last_offset
            if place + shift - self.indexed_position > self.interval_bytes:
                due[0] = place
                return place + size
            place += size
        due[0] = end
        return end

    cdef int add_entry(self, int64_t position) except -1:
        self.indexed_position = position
        if not self.entries_max or position > INT_MAX or not self.is_indexable(self.last_offset):
            return 0
        self.offsets += _OFFSET_ENTRY.pack(self.last_offset - self.base_offset, position)
        self.add_time()
        if len(self.offsets) > 8 * self.entries_max:
            self.offsets = thinned(self.offsets, 8)
            self.times = thinned(self.times, 12)
            self.interval_bytes = 2 * self.interval_bytes + 1
        return 0

    cdef bint is_indexable(self, int64_t offset) noexcept:
        return offset >= self.base_offset and <uint64_t>offset - <uint64_t>self.base_offset <= <uint64_t>INT_MAX

    cdef int add_time(self) except -1:
        if self.max_timestamp > self.time_entry and self.is_indexable(self.offset_of_max):
            self.times += _TIME_ENTRY.pack(self.max_timestamp, self.offset_of_max - self.base_offset)
            self.time_entry = self.max_timestamp
        return 0

    def finish(self):
        """See `reference/compaction.py:OutputIndexer.finish`."""
        self.add_time()


cdef bytearray thinned(bytearray entries, Py_ssize_t size):
    """Return every second entry, including the last."""
    cdef Py_ssize_t first = (len(entries) // size - 1) % 2 * size
    return bytearray(b"".join([entries[at : at + size] for at in range(first, len(entries), 2 * size)]))
