"""Fuzz target for look-ups by key: `by-key` of a partition whose compressed batches are damaged.

An input is a log of one segment behind a byte of options. The checksums of its v2 batches are made right, since a
hostile writer computes them, too. Each key is looked up through the tree of a mount without a kernel. The answer is a
record with that key, ENOENT, or the errno of an error with a reason. Anything else is a finding: a traceback in the
log, an errno of none of these, or a record of another key.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import random
import shutil
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import trio

sys.path.insert(0, str(Path(__file__).parents[1]))

from fixtures.logs.framings import flipped
from fixtures.logs.keyed_logs import Keyed, keyed
from fixtures.logs.old_messages import message

from offsetfs.fs.mounting.operations import Operations
from offsetfs.fs.mounting.path_tree import Tree
from offsetfs.fs.naming.grammar import encoded
from offsetfs.fs.options import MountOptions
from offsetfs.storage.checkpoint import CleanShutdown
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.records.compression.compression import CODECS, compress
from offsetfs.storage.records.format.batch_header import (
    BATCH_SIZE_MIN,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    seal_checksum,
)

COMMITTED_ONLY, STORED_INDEX, CHECKSUMS, RECOVERED = 1, 2, 4, 8
"""The bits of the first byte: isolation level; an index of the undamaged log is beside the log; checksums are made
right; the directory is opened for writing, after a crash."""

KEYS = (b"a", b"b", b"key of many bytes" * 6, b"", b"nowhere", b"a.json")

_LONG_MAX = 2**63 - 1
_OFFSETS = (0, 3, 10, 2**31 - 1, 2**40 - 1, 2**40, _LONG_MAX - 40, _LONG_MAX - 2, _LONG_MAX, -1, -(2**63))
_TIMES = (1000, -1, -5, -(2**63), _LONG_MAX, _LONG_MAX // 1000)
_DELTAS = (0, 1, 5, 2**31 - 1)
_ERRNOS = frozenset(
    (errno.ENOENT, errno.EBADMSG, errno.EUCLEAN, errno.EOPNOTSUPP, errno.EFBIG, errno.EIO, errno.EOVERFLOW)
)
_PARTITION, _SEGMENT = "orders-0", f"{0:020d}.log"
_SCRATCH = tempfile.TemporaryDirectory(prefix="offsetfs-fuzz-", dir="/dev/shm")


class _Tracebacks(logging.Handler):
    """Keeps the exceptions that are logged with a traceback: those that no check foresaw."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[BaseException] = []
        logging.getLogger("offsetfs").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.errors.append(record.exc_info[1])


_tracebacks = _Tracebacks()


def look_up(data: bytes) -> None:
    """Look up each key in a damaged log, twice: the second time with the index that the first has left."""
    options, log = (data[0] if data else 0), bytearray(data[1:])
    if options & CHECKSUMS:
        _seal(log)
    shutil.rmtree(_SCRATCH.name, ignore_errors=True)
    Path(_SCRATCH.name, _PARTITION).mkdir(parents=True)
    if options & STORED_INDEX:
        _write(sound_log(), is_clean=True)
        trio.run(_look_up_all, options)
    _write(log, is_clean=not options & RECOVERED)
    for _ in range(2):
        trio.run(_look_up_all, options)


def _write(log: bytes | bytearray, *, is_clean: bool) -> None:
    """Replace the segment file; its indexes may be of another one."""
    marker = Path(_SCRATCH.name, ".kafka_cleanshutdown")
    marker.unlink(missing_ok=True)
    if is_clean:
        CleanShutdown().write(_SCRATCH.name)
    Path(_SCRATCH.name, _PARTITION, _SEGMENT).write_bytes(log)


async def _look_up_all(options: int) -> None:
    """Open the directory, and look up all keys."""
    isolation = "read_committed" if options & COMMITTED_ONLY else "read_uncommitted"
    directory = LogDirectory.open(_SCRATCH.name)
    _tracebacks.errors.clear()
    try:
        async with trio.open_nursery() as nursery:
            tree = Tree(
                Operations(directory, MountOptions.parse([f"isolation={isolation}"]), nursery), lambda text: None
            )
            for key in KEYS:
                await _look_up(tree, key)
            nursery.cancel_scope.cancel()
    finally:
        directory.close()
    for error in _tracebacks.errors:
        raise AssertionError("a traceback is in the log") from error


async def _look_up(tree: Tree, key: bytes) -> None:
    name = f"{_PARTITION}/by-key/{os.fsdecode(encoded(key) or b'')}"
    for suffix in ("", ".json"):
        try:
            content = await _read(tree, name + suffix)
        except OSError as error:
            assert error.errno in _ERRNOS, error
        else:
            if suffix and key + b".json" not in KEYS:
                assert json.loads(content)["key"] == key.decode(), content


async def _read(tree: Tree, path: str) -> bytes:
    size = (await tree.find(path)).size
    async with tree.open(path) as file:
        content = bytes(await file.read(0, size + 1))
    assert len(content) == size
    return content


def _seal(log: bytearray) -> None:
    """Make the checksums of whole v2 batches right, one behind the other."""
    position = 0
    while position + HEADER_SIZE <= len(log):
        size = struct.unpack_from(">i", log, position + 8)[0] + LOG_OVERHEAD
        if size < BATCH_SIZE_MIN or position + size > len(log):
            return
        if log[position + 16] == MAGIC and size >= HEADER_SIZE:
            seal_checksum(memoryview(log)[position : position + size])
        position += size


# --- what it begins with ---------------------------------------------------------------------------------------------


def sound_log() -> bytes:
    """Return an undamaged log: a batch of each codec, all with the same keys."""
    records = [Keyed(delta, key, b"value") for delta, key in enumerate((b"a", b"b", KEYS[2], b"", b"a.json", None))]
    return b"".join(keyed(10 * number, *records, codec=codec) for number, codec in enumerate(CODECS))


def hostile_logs(count: int, first: int = 0) -> Iterator[bytes]:
    """Yield inputs whose numbers are at the ends of their ranges, some with damage; the same for the same numbers."""
    for number in range(first, first + count):
        chance = random.Random(number)
        parts = [_batch(chance) for _ in range(chance.randrange(1, 6))]
        if chance.random() < 0.3:
            place = chance.randrange(len(parts))
            parts[place] = _damaged(chance, parts[place])
        if chance.random() < 0.3:  # the header of one in front of the records of another
            parts.append(parts[0][:HEADER_SIZE] + parts[-1][HEADER_SIZE:])
        yield bytes((chance.randrange(16) | CHECKSUMS * (chance.random() < 0.8),)) + b"".join(parts)


def _batch(chance: random.Random) -> bytes:
    deltas = sorted(chance.choices((0, 1, 2, 3, 7, 2**31 - 1), k=chance.randrange(1, 5)))
    if chance.random() < 0.2:
        return _wrapper(chance, deltas)
    records = [
        Keyed(delta, chance.choice((*KEYS[:4], None)), chance.choice((b"value", None)), chance.choice(_TIMES[:2]))
        for delta in deltas
    ]
    batch = bytearray(
        keyed(
            chance.choice((0, 0, 10, 20, 30)),
            *records,
            codec=chance.choice(CODECS),
            last_delta=chance.choice((None, *_DELTAS)),
            append_time=chance.choice((None, None, 1000)),
            transactional=chance.random() < 0.2,
            control=chance.random() < 0.05,
            producer=chance.choice(((-1, -1, -1), (5, 0, 0), (_LONG_MAX, 2**15 - 1, 2**31 - 1))),
        )
    )
    for layout, position, values in ((">q", 0, _OFFSETS), (">q", 27, _TIMES), (">q", 35, _TIMES)):
        if chance.random() < 0.2:
            struct.pack_into(layout, batch, position, chance.choice(values))
    if chance.random() < 0.15:
        struct.pack_into(">i", batch, 57, chance.choice((0, -1, len(records) - 1, len(records) + 1, 2**31 - 1)))
    return bytes(batch)


def _damaged(chance: random.Random, batch: bytes) -> bytes:
    """Return a batch with a flipped bit behind its header, or cut; its size says so in most cases."""
    if chance.random() < 0.5 and len(batch) > HEADER_SIZE:
        return batch[:HEADER_SIZE] + flipped(chance, batch[HEADER_SIZE:])
    cut = bytearray(batch[: chance.randrange(BATCH_SIZE_MIN, len(batch))])
    if chance.random() < 0.8:
        struct.pack_into(">i", cut, 8, len(cut) - LOG_OVERHEAD)
    return bytes(cut)


def _wrapper(chance: random.Random, deltas: list[int]) -> bytes:
    """Return a compressed set of v0 or v1 messages, at offsets that its format does not have."""
    magic = chance.randrange(2)
    first, time = chance.choice((0, 0, 10, *_OFFSETS)), chance.choice(_TIMES)
    inner = b"".join(
        message(magic, max(min(first + delta, _LONG_MAX), -(2**63)), chance.choice(KEYS[:4]), b"value", 1000)
        for delta in deltas
    )
    codec = chance.choice((1, 2, 3))
    return message(magic, chance.choice((10, 20, *_OFFSETS)), None, compress(CODECS[codec], inner), time, codec)
