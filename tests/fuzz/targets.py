"""What is fuzzed: every parser of foreign bytes. Each takes any bytes and may raise named errors only.

A target is a function of bytes; what it lets out other than `StorageError` is a finding. Memory is bounded by the
runner (`-rss_limit_mb`), time by libFuzzer's own limit for one input.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import hostile_avro
import hostile_columns
import hostile_json
import hostile_keys
import hostile_protobuf
import hostile_records
import hostile_reference
import hostile_schemas
from crc32c import crc32c

from offsetfs.common.quantities import parse_time
from offsetfs.fs.naming.grammar import parse_offset
from offsetfs.storage import checkpoint, files
from offsetfs.storage.compaction import legacy_filter as compaction_legacy
from offsetfs.storage.dump import decoders
from offsetfs.storage.errors import StorageError
from offsetfs.storage.names import TopicPartition, parse_segment_name
from offsetfs.storage.native import compaction as native_compaction
from offsetfs.storage.native import json_lines as native_json_lines
from offsetfs.storage.native import record_json as native_record_json
from offsetfs.storage.partition.producers import ProducerState
from offsetfs.storage.records.compression.compression import decompress
from offsetfs.storage.records.format import batch_chain
from offsetfs.storage.records.format.batch import read_batch
from offsetfs.storage.records.format.batch_builder import BatchBuilder
from offsetfs.storage.records.format.batch_cursor import BatchCursor
from offsetfs.storage.records.format.batch_header import HEADER_SIZE, seal_checksum
from offsetfs.storage.records.json.batch_json import joined_json
from offsetfs.storage.reference import compaction as reference_compaction
from offsetfs.storage.reference import json_lines as reference_json_lines
from offsetfs.storage.reference import record_json as reference_record_json
from offsetfs.storage.reference.json_lines import JsonRules
from offsetfs.storage.segments.offset_index import OffsetIndex
from offsetfs.storage.segments.time_index import TimeIndex
from offsetfs.storage.segments.transaction_index import TransactionIndex

GOLDEN = Path(__file__).parents[1] / "golden"
INFLATED_BYTES_MAX = 1 << 20
SEEDS_MAX = 60

_SCRATCH = tempfile.TemporaryDirectory(prefix="offsetfs-fuzz-", dir="/dev/shm")
_FILE = os.path.join(_SCRATCH.name, f"{0:020d}.log")


def _named_errors_only(parse: Callable[[bytes], object]) -> Callable[[bytes], None]:
    def target(data: bytes) -> None:
        with contextlib.suppress(StorageError):
            parse(data)

    return target


def _batch(data: bytes) -> None:
    """One batch of any format, checksum not asked: a hostile writer computes it, too."""
    batch = read_batch(data, check=False)
    batch.payload(INFLATED_BYTES_MAX)
    rows, values, size = batch.rows(), batch.joined(), batch.measured()
    assert len(values) == size and len(rows) % 8 == 0
    assert len(batch.records()) == len(rows) // 8


def _json_of_batch(data: bytes) -> None:
    """A batch's lines of JSON, by both codecs."""
    batch = read_batch(data, check=False)
    payload = batch.payload(INFLATED_BYTES_MAX)
    if batch.header.magic == 2:
        frame = {"prefix": b"{", "base_offset": batch.header.base_offset, "base_timestamp": batch.header.base_timestamp}
        outcomes = []
        for module in (native_record_json, reference_record_json):
            try:
                lines = module.join_json(payload, batch.header.count, **frame)
                assert module.measure_json(payload, batch.header.count, **frame) == len(lines)
                outcomes.append(bytes(lines))
            except StorageError as error:
                outcomes.append(type(error).__name__.encode())
        assert outcomes[0] == outcomes[1]


def _json_lines_of(data: bytes) -> None:
    """Lines that are appended, by both codecs; what is taken is printed, and taken again."""
    target, native_target, start = bytearray(len(data) + 100), bytearray(len(data) + 100), 0
    while start < len(data):
        cursor, native_cursor = BatchCursor(target, 0, 0, None), BatchCursor(native_target, 0, 0, None)
        rules = JsonRules(7)
        split = reference_json_lines.split_json(data, start, len(data), cursor, rules, 1 << 30)
        assert split == native_json_lines.split_json(data, start, len(data), native_cursor, rules, 1 << 30)
        assert target == native_target
        _spread(data, start)
        start = data.find(b"\n", split.start) + 1 or len(data)
    builder = BatchBuilder(61 + len(target))
    if builder.split_json(data, 0, len(data), 7).offset_delta:
        batch = read_batch(builder.seal().data)
        lines, again = bytes(joined_json(batch, b'{"offset":')), BatchBuilder(61 + len(target))
        assert again.split_json(lines, 0, len(lines), 8).start == len(lines)
        assert bytes(again.seal().data) == bytes(batch.data)


def _spread(data: bytes, start: int) -> None:
    """The same lines over three partitions, of which one has little space and one none, by both codecs."""
    sizes = (len(data) + 100, 40)
    outcomes = []
    for module in (reference_json_lines, native_json_lines):
        for flag in (False, True):
            cursors = [*(BatchCursor(bytearray(size), 0, 0, None) for size in sizes), None]
            rules = JsonRules(7, honors_partition=flag, values_as_text=flag)
            spread = module.spread_json(data, start, len(data), cursors, 0, rules)
            outcomes.append((spread, cursors))
    assert outcomes[:2] == outcomes[2:]


def _chain(data: bytes) -> None:
    """A whole log file, damage stepped over."""
    _write(data)
    with files.open_file(_FILE) as log:
        for batch in batch_chain.batches(log, 0, len(data), on_damage=lambda error, position: None):
            assert batch.header.size > 0
        end = batch_chain.next_sound(log, 0, len(data)) if data else 0
        assert 0 <= end <= len(data)


def _compaction(data: bytes) -> None:
    """A batch of any format as a round of compaction takes it, by both walks, its checksum made right."""
    block = bytearray(data)
    if len(block) > HEADER_SIZE and block[16] == 2:
        seal_checksum(block)
    walks = (_walked(module, bytes(block)) for module in (native_compaction, reference_compaction))
    first, second = walks
    assert first == second


def _walked(module: ModuleType, block: bytes) -> list[object]:
    offsets = module.OffsetMap(24 * 50, 1.0, hash_key=bytes(16))
    indexer = module.Indexer(offsets, 0)
    indexer.set_bounds(0, 2**62)
    position, status = indexer.run(block, 0, len(block))
    seen: list[object] = [position, status]
    if status == reference_compaction.OTHER:
        with contextlib.suppress(StorageError):
            batch = read_batch(block, position, check=False)
            header, payload = batch.header, batch.payload(INFLATED_BYTES_MAX)
            if header.magic < 2:
                seen.append(compaction_legacy.index(batch, indexer))
            else:
                seen.append(indexer.add(payload, header.count, header.base_offset, header.last_offset_delta))
    records = module.Filter(offsets, 2**62, 5_000, 2**50, {1: 5})
    records.set_bounds(0, 2**62)
    out = bytearray(3 * len(block) + 1000)
    position, size, status = records.run(block, 0, len(block), out, 0)
    seen += [position, status, bytes(out[:size]), records.records_read, records.records_kept]
    if status == reference_compaction.OTHER:
        with contextlib.suppress(StorageError):
            batch = read_batch(block, position, check=False)
            header, payload = batch.header, batch.payload(INFLATED_BYTES_MAX)
            if header.magic < 2:
                seen.append(bytes(compaction_legacy.filtered(batch, records, False)))
            else:
                where = (header.base_offset, header.last_offset_delta, header.base_timestamp, header.has_delete_horizon)
                seen.append(records.retain(payload, header.count, *where))
    return seen


def _compressed(data: bytes) -> None:
    if data:
        assert len(decompress(data[0] % 8, data[1:], INFLATED_BYTES_MAX)) <= INFLATED_BYTES_MAX


def _offset_index(data: bytes) -> None:
    _write(data)
    index = OffsetIndex.open(_FILE, 100, bytes_max=1 << 20)
    for offset in (0, 100, 101, 5000, 2**31, 2**62):
        index.lookup(offset)
    index.close()


def _time_index(data: bytes) -> None:
    _write(data)
    index = TimeIndex.open(_FILE, 100, bytes_max=1 << 20)
    for timestamp in (-1, 0, 1000, 2**62):
        index.lookup(timestamp)
    index.close()


def _snapshot(data: bytes) -> None:
    """With a checksum that holds: else nothing behind it would ever be reached."""
    data = data[:2] + crc32c(data[6:]).to_bytes(4, "big") + data[6:]
    state = ProducerState.load(data)
    assert ProducerState.load(state.dump()).entries == state.entries


def _checkpoints(data: bytes) -> None:
    _write(data)
    for read in (checkpoint.read_offsets, checkpoint.read_epochs, checkpoint.read_properties, checkpoint.read_topic_id):
        try:
            read(_FILE)
        except StorageError:
            continue


def _names(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    parse_segment_name(text)
    parse_offset(data)
    parse_time(data, 1_795_000_000_000)
    assert str(TopicPartition.parse(text)) == text


def _transaction_index(data: bytes) -> None:
    _write(data)
    index = TransactionIndex.read(_FILE, 0)
    found, _ = index.collect(0, 2**62)
    assert len(found) <= len(data) // 34


def _coordinator(data: bytes) -> None:
    """A record of a coordinator's topic: the first byte says where the key ends."""
    if not data:
        return
    key, value = data[1 : 1 + data[0]], data[1 + data[0] :]
    for topic in ("__consumer_offsets", "__transaction_state", "__share_group_state"):
        shown_key, _ = decoders.show_coordinator_record(topic, 0, key, value)
        assert isinstance(shown_key, str)
    decoders.show_control_record(key, value)
    decoders.show_metadata(0, value)


def _write(data: bytes) -> None:
    with open(_FILE, "wb") as file:
        file.write(data)


TARGETS: dict[str, Callable[[bytes], None]] = {
    name: _named_errors_only(parse)
    for name, parse in {
        "batch": _batch,
        "chain": _chain,
        "compaction": _compaction,
        "compressed": _compressed,
        "offset-index": _offset_index,
        "time-index": _time_index,
        "snapshot": _snapshot,
        "checkpoints": _checkpoints,
        "names": _names,
        "transaction-index": _transaction_index,
        "coordinator": _coordinator,
        "json-of-batch": _json_of_batch,
        "json-lines": _json_lines_of,
        "records": hostile_records.records,
        "messages": hostile_records.messages,
        "settings": hostile_records.settings,
        "values-map": hostile_records.values_map,
        "reference": hostile_reference.compare,
        "by-key": hostile_keys.look_up,
        "schemas-topic": hostile_schemas.topic,
        "avro-schema": hostile_schemas.avro,
        "named-schema": hostile_schemas.named,
        "avro-values": hostile_avro.values,
        "avro-types": hostile_avro.types,
        "protobuf-values": hostile_protobuf.values,
        "protobuf-schemas": hostile_protobuf.types,
        "json-values": hostile_json.values,
        "json-schemas": hostile_json.schemas,
        "column-json": hostile_columns.lines,
    }.items()
}


def seeds(name: str) -> Iterator[bytes]:
    """Yield real bytes to begin with, from golden logs."""
    suffixes = {
        "chain": ".log",
        "compaction": ".log",
        "messages": ".log",
        "reference": ".log",
        "offset-index": ".index",
        "time-index": ".timeindex",
        "snapshot": ".snapshot",
        "transaction-index": ".txnindex",
        "checkpoints": "-checkpoint",
    }
    if name == "coordinator":
        yield from _records_of_coordinators()
    elif name == "json-lines":
        batches = (read_batch(data) for data in _batches("batch"))
        yield from (bytes(joined_json(batch, b'{"offset":'))[:4000] + b'\n{"key":"\\u00e9"}\n' for batch in batches)
    elif name in ("batch", "json-of-batch", "compressed"):
        yield from _batches(name)
    elif name == "records":
        batches = (read_batch(data) for data in _batches("batch"))
        yield from (
            batch.header.count.to_bytes(2, "big") + bytes(batch.payload())
            for batch in batches
            if not batch.header.is_wrapper and batch.header.magic == 2
        )
    elif name == "values-map":
        yield hostile_records.view_map_of_golden()
    elif name == "by-key":
        yield from (bytes([options]) + hostile_keys.sound_log() for options in range(16))
        yield from hostile_keys.hostile_logs(SEEDS_MAX)
    elif name == "column-json":
        yield from hostile_columns.seeds(name)
    elif name in ("avro-values", "avro-types"):
        yield from hostile_avro.seeds(name)
    elif name in ("protobuf-values", "protobuf-schemas"):
        yield from hostile_protobuf.seeds(name)
    elif name in ("json-values", "json-schemas"):
        yield from hostile_json.seeds(name)
    elif name in ("schemas-topic", "avro-schema", "named-schema"):
        yield from hostile_schemas.seeds(name)
    elif name == "settings":
        yield b'{"version": 0, "topics": {"orders": {"segment.bytes": "1000", "cleanup.policy": "compact,delete"}}}'
        yield b'{"version":0,"brokerEpoch":7}'
        yield b'ro,list=all,linger-ms=10,batch-bytes=64k,"cleanup.policy=compact,delete",umask=027'
    elif name == "names":
        yield from (
            b"orders-0",
            b"42",
            b"2026-11-21T13:05:07.123+01:00",
            b"@1795253676.123",
            b"-15m",
            b"0" * 20 + b".log",
        )
    else:
        found = sorted(path for path in GOLDEN.rglob(f"*{suffixes[name]}") if 0 < path.stat().st_size < 20_000)
        yield from (path.read_bytes() for path in found[:: max(1, len(found) // SEEDS_MAX)])


def _records_of_coordinators() -> Iterator[bytes]:
    for path in sorted(GOLDEN.glob("kafka-4.1/__*-*/*.log")):
        with files.open_file(str(path)) as log:
            for batch in batch_chain.batches(log, 0, log.size()):
                for record in batch.records()[:3]:
                    key = record.key or b""
                    yield bytes([len(key) & 255]) + key + (record.value or b"")


def _batches(name: str) -> Iterator[bytes]:
    paths = sorted(path for path in GOLDEN.rglob("*.log") if 0 < path.stat().st_size < 200_000)
    for path in paths[:: max(1, len(paths) // SEEDS_MAX)]:
        with files.open_file(str(path)) as log:
            for batch in batch_chain.batches(log, 0, log.size(), on_damage=lambda error, position: None):
                header = batch.header
                yield bytes([header.codec]) + bytes(batch.data[61:]) if name == "compressed" else bytes(batch.data)
                break
