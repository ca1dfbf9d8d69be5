"""Fuzz targets for records of each format, and for the small files that only we write: settings, options, view maps.

Where there is a compiled codec and a plain one, both are asked, and have to agree.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from crc32c import crc32c

from offsetfs.fs.options import MountOptionError, MountOptions
from offsetfs.storage.checkpoint import CleanShutdown
from offsetfs.storage.errors import StorageError
from offsetfs.storage.native import codec as native_codec
from offsetfs.storage.native import message_set as native_message_set
from offsetfs.storage.native import valid_batches as native_valid_batches
from offsetfs.storage.records.format import chain, varint
from offsetfs.storage.records.format.batch_header import HEADER_SIZE, MAGIC, BatchHeader, seal_checksum, write_header
from offsetfs.storage.reference import codec as reference_codec
from offsetfs.storage.reference import message_set as reference_message_set
from offsetfs.storage.reference import valid_batches as reference_valid_batches
from offsetfs.storage.segments.open_files import FilePool
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.settings.config import DEFAULTS
from offsetfs.storage.settings.topic_settings import TOPICS, TopicSettings
from offsetfs.storage.units import Offset, Timestamp
from offsetfs.storage.views.line_index import LineIndex
from offsetfs.storage.views.view_blocks import join_block
from offsetfs.storage.views.view_format import VALUES

_LOG = Path(__file__).parents[1] / "golden" / "kafka-4.1" / "codec-none-0" / f"{0:020d}.log"
_SCRATCH = tempfile.TemporaryDirectory(prefix="offsetfs-fuzz-", dir="/dev/shm")
_BLOCKS_MAX = 100
_INFLATED_BYTES_MAX = 1 << 20


def records(data: bytes) -> None:
    """The records of a v2 batch, as many as its header says; the numbers in them one by one."""
    count, payload = int.from_bytes(data[:2], "big"), data[2:]
    for decode in (varint.decode, varint.decode_long):
        with contextlib.suppress(StorageError):
            value, end = decode(payload, 0, len(payload))
            assert end <= 10 and -(2**63) <= value < 2**63
    for ask in (
        lambda codec: codec.scan(payload, count).tolist(),
        lambda codec: codec.decode(payload, count),
        lambda codec: bytes(codec.join(payload, count)),
        lambda codec: codec.measure(payload, count),
        lambda codec: codec.find(payload, count, 5),
    ):
        assert _outcome(ask, native_codec) == _outcome(ask, reference_codec)
    block = _in_a_batch(count, payload)
    rows, _ = chain.sound(block, 0, len(block), 0, *chain.ANY_OFFSETS)
    assert native_valid_batches.valid_until(
        block, 0, rows, 0, _INFLATED_BYTES_MAX
    ) == reference_valid_batches.valid_until(block, 0, rows, 0, _INFLATED_BYTES_MAX)


def _in_a_batch(count: int, payload: bytes) -> bytearray:
    """Return a sound batch that says it has so many records, of a codec that the payload chooses."""
    codec = payload[-1] if payload and payload[-1] < 8 else 0
    size, last_offset_delta = HEADER_SIZE + len(payload), max(count - 1, 0)
    batch = bytearray(HEADER_SIZE) + payload
    header = BatchHeader(
        Offset(0), size, 0, MAGIC, 0, codec, last_offset_delta, Timestamp(0), Timestamp(0), -1, -1, -1, count
    )
    write_header(batch, header)
    seal_checksum(batch)
    return batch


def messages(data: bytes) -> None:
    """A set of messages of v0 and v1, as it lies in a log or in a compressed message."""
    for ask in (
        lambda codec: codec.verify(data),
        lambda codec: codec.run(data, 1 << 13),
        lambda codec: codec.scan(data, 10, 1000, False).tolist(),
        lambda codec: bytes(codec.join(data)),
        lambda codec: codec.measure(data),
    ):
        assert _outcome(ask, native_message_set) == _outcome(ask, reference_message_set)


def _outcome(ask: Callable[[object], object], codec: object) -> object:
    try:
        return ask(codec)
    except StorageError as error:
        return type(error).__name__


def settings(data: bytes) -> None:
    """The settings of topics, the mark of a clean end, and what stands behind `-o`."""
    for name in (TOPICS, ".kafka_cleanshutdown"):
        with open(os.path.join(_SCRATCH.name, name), "wb") as file:
            file.write(data)
    TopicSettings(_SCRATCH.name).config_of("orders")
    CleanShutdown.read(_SCRATCH.name)
    with contextlib.suppress(MountOptionError):
        options = MountOptions.parse([data.decode("utf-8", "surrogateescape")])
        assert all(isinstance(text, str) for text in options.texts().values())


def values_map(data: bytes) -> None:
    """A view map with a checksum that holds: what it says of the log may be anything, also of a part of it.

    Readers of a map that is inconsistent with its log get ESTALE, and the map is refuted.
    """
    data = data[:12] + crc32c(data[16:]).to_bytes(4, "big") + data[16:]
    if not os.path.exists(os.path.join(_SCRATCH.name, _LOG.name)):
        shutil.copy(_LOG, _SCRATCH.name)
    segment = Segment(_SCRATCH.name, 0, DEFAULTS, FilePool(4), read_only=True)
    with open(segment.path(VALUES.suffix), "wb") as file:
        file.write(data)
    copied = LineIndex.from_image(segment, data, VALUES, VALUES.identity)
    if copied is not None:
        copied.extend(segment, segment.size, on_damage=lambda error: None)
        assert copied.log_bytes == segment.size
    loaded = LineIndex.load(segment, FilePool(4))
    if loaded is None:
        return
    try:
        _read_by_map(segment, loaded)
    except OSError as error:
        if error.errno != errno.ESTALE or not loaded.is_refuted:
            raise


def _read_by_map(segment: Segment, loaded: LineIndex) -> None:
    loaded.output_before(segment, 200)
    byte = 0
    for _ in range(_BLOCKS_MAX):
        if not 0 <= byte < loaded.size:
            break
        block = loaded.block(byte)
        with contextlib.suppress(StorageError):
            assert len(join_block(segment, block)) == block.output_end - block.output
        byte = max(block.output_end, byte + 1)


def view_map_of_golden() -> bytes:
    """Return a true map, to begin with."""
    place = tempfile.mkdtemp(prefix="offsetfs-fuzz-")
    try:
        shutil.copy(_LOG, place)
        segment = Segment(place, 0, DEFAULTS, FilePool(4))
        made = LineIndex(0)
        made.extend(segment, segment.size, on_damage=lambda error: None)
        made.save(segment, FilePool(4))
        return Path(segment.path(VALUES.suffix)).read_bytes()
    finally:
        shutil.rmtree(place)
