"""Lines of JSON spread over the partitions of a topic: by Kafka's hash of the key, in order."""

from __future__ import annotations

import base64
import errno
import json
from types import ModuleType

import pytest
from fixtures.spies import spy

from offsetfs.storage.native import json_lines as native_json_lines
from offsetfs.storage.records.format import codec
from offsetfs.storage.records.format.batch_builder import BatchBuilder, spread_json_lines
from offsetfs.storage.records.format.batch_cursor import BatchCursor
from offsetfs.storage.records.format.batch_header import HEADER_SIZE
from offsetfs.storage.records.format.partitioner import murmur2, partition_of
from offsetfs.storage.records.json import json_line
from offsetfs.storage.reference import json_lines as reference_json_lines
from offsetfs.storage.reference.json_lines import JsonRules

pytestmark = pytest.mark.unit

NOW = 1795253676123


@pytest.fixture(params=[native_json_lines, reference_json_lines], ids=["compiled", "plain"])
def module(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


def signed(number: int) -> int:
    return number - (1 << 32) if number >> 31 else number


# Those of Kafka's own UtilsTest.testMurmur2.
@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_kafkas(key: bytes, hashed: int) -> None:
    assert signed(murmur2(key)) == hashed


def line(key: bytes | None, value: str = "v", *, is_base64: bool = False) -> bytes:
    name = "key_b64" if is_base64 else "key"
    text = None if key is None else base64.b64encode(key).decode() if is_base64 else key.decode()
    return json.dumps({name: text, "value": value}).encode() + b"\n"


def cursors(count: int, size: int = 1 << 16) -> list[BatchCursor | None]:
    return [BatchCursor(bytearray(size), 0, 0, None) for _ in range(count)]


def keys_of(before: BatchCursor | None, after: BatchCursor | None) -> list[tuple[bytes | None, bytes | None]]:
    if before is None or before.target is None or after is None:
        return []
    return [(key, value) for _, _, key, value, _ in codec.decode(before.target[: after.position], after.offset_delta)]


KEYS = [b"", b"k", b"k2", b"key-18", 'Ünïcode\n"\\'.encode(), bytes(range(40)), b"a" * 1000]


@pytest.mark.parametrize("is_base64", [False, True], ids=["text", "base64"])
@pytest.mark.parametrize("count", [1, 2, 3, 7, 50])
def test_each_key_goes_to_the_partition_that_kafka_gives_it(module: ModuleType, count: int, is_base64: bool) -> None:
    data = b"".join(line(key, is_base64=is_base64) for key in KEYS)
    targets = cursors(count)
    spread = module.spread_json(data, 0, len(data), targets, 0, JsonRules(NOW))
    assert (spread.start, spread.partition, spread.fault) == (len(data), -1, None)
    found = {key: number for number in range(count) for key, _ in keys_of(targets[number], spread.cursors.get(number))}
    assert found == {key: partition_of(key, count) for key in KEYS}


def test_records_without_a_key_go_to_the_given_partition(module: ModuleType) -> None:
    data = line(None) * 3
    for keyless in range(4):
        spread = module.spread_json(data, 0, len(data), cursors(4), keyless, JsonRules(NOW))
        assert {number: cursor.offset_delta for number, cursor in spread.cursors.items()} == {keyless: 3}


def test_it_stops_in_the_order_of_the_lines_where_a_batch_is_full(module: ModuleType) -> None:
    keys = [next(b"%d" % k for k in range(100) if partition_of(b"%d" % k, 2) == number) for number in (0, 1)]
    data = line(keys[0], "x" * 40) * 2 + line(keys[1]) + line(keys[0], "x" * 40) + line(keys[1])
    small: list[BatchCursor | None] = [
        BatchCursor(bytearray(110), 0, 0, None),
        BatchCursor(bytearray(1000), 0, 0, None),
    ]
    spread = module.spread_json(data, 0, len(data), small, 0, JsonRules(NOW))
    assert data[spread.start :] == line(keys[0], "x" * 40) + line(keys[1])
    assert (spread.partition, spread.record_bytes) == (0, 48)
    assert {number: cursor.offset_delta for number, cursor in spread.cursors.items()} == {0: 2, 1: 1}


def test_a_batch_that_is_not_there_stops_the_work(module: ModuleType) -> None:
    data = line(b"k") * 2
    spread = module.spread_json(data, 0, len(data), [None, None], 0, JsonRules(NOW))
    assert (spread.start, spread.partition, spread.cursors) == (0, partition_of(b"k", 2), {})
    assert spread.record_bytes > 0


def test_a_full_batch_is_handed_over_and_another_one_is_provided(module: ModuleType) -> None:
    data, calls = line(b"k", "x" * 40) * 3, []
    batches = [
        BatchCursor(bytearray(110), 0, 0, None),
        BatchCursor(bytearray(20), 0, 0, None),
        BatchCursor(bytearray(60), 0, 0, None),
    ]
    provided = list(batches)

    def cursor_for(number: int, record_bytes: int, filled: BatchCursor | None) -> BatchCursor | None:
        calls.append((number, record_bytes, filled and filled.offset_delta))
        return provided.pop(0)

    spread = module.spread_json(data, 0, len(data), [None], 0, JsonRules(NOW), cursor_for=cursor_for)
    assert (spread.start, spread.partition, spread.record_bytes, spread.fault) == (len(data), -1, 0, None)
    assert calls == [(0, 48, None), (0, 48, 2), (0, 48, None)]
    assert {number: cursor.offset_delta for number, cursor in spread.cursors.items()} == {0: 1}
    assert keys_of(batches[2], spread.cursors[0]) == [(b"k", b"x" * 40)]


def test_a_batch_that_is_not_provided_stops_the_work(module: ModuleType) -> None:
    data, calls = line(b"k", "x" * 40) * 3, []

    def cursor_for(number: int, record_bytes: int, filled: BatchCursor | None) -> BatchCursor | None:
        calls.append(filled and filled.offset_delta)
        return None if filled else BatchCursor(bytearray(60), 0, 0, None)

    spread = module.spread_json(data, 0, len(data), [None], 0, JsonRules(NOW), cursor_for=cursor_for)
    assert (spread.start, spread.cursors, spread.partition, spread.record_bytes) == (len(data) // 3, {}, 0, 48)
    assert calls == [None, 1]
    calls.clear()
    small_cursor = spy(calls, lambda *_: 0, lambda *_: BatchCursor(bytearray(9), 0, 0, None))
    spread = module.spread_json(data, 0, len(data), [None], 0, JsonRules(NOW), cursor_for=small_cursor)
    assert (spread.start, spread.cursors, spread.partition, len(calls)) == (0, {}, 0, reference_json_lines.ASKED_MAX)


def test_what_provides_a_batch_may_raise(module: ModuleType) -> None:
    def cursor_for(number: int, record_bytes: int, filled: BatchCursor | None) -> BatchCursor | None:
        raise OSError(errno.EIO, "no")

    with pytest.raises(OSError, match="no"):
        module.spread_json(line(b"k"), 0, len(line(b"k")), [None], 0, JsonRules(NOW), cursor_for=cursor_for)


def test_a_wrong_line_stops_all_partitions(module: ModuleType) -> None:
    data = line(b"a") + line(b"b") + b"oops\n" + line(b"c")
    spread = module.spread_json(data, 0, len(data), cursors(3), 0, JsonRules(NOW))
    assert data[spread.start :].startswith(b"oops") and spread.fault.reason == json_line.NOT_AN_OBJECT
    assert sum(cursor.offset_delta for cursor in spread.cursors.values()) == 2
    spread = module.spread_json(line(None), 0, len(line(None)), cursors(3), 0, JsonRules(NOW, True))
    assert spread.fault.reason == json_line.KEY_NEEDED


def test_a_timestamp_that_the_topic_does_not_take_stops_all_partitions(module: ModuleType) -> None:
    data = line(b"a") + b'{"key":"b","timestamp":1}\n' + line(b"c")
    spread = module.spread_json(data, 0, len(data), cursors(3), 0, JsonRules(NOW, False, NOW - 5, NOW + 5))
    assert spread.fault == json_line.LineFault(0, json_line.OUT_OF_TIME) and spread.start == len(line(b"a"))


def test_a_record_that_names_its_partition_goes_there_whatever_its_key(module: ModuleType) -> None:
    data = b'{"key":"21","partition":2,"value":"a"}\n{"partition":1,"value":"b"}\n{"key":"21","partition":null}\n'
    targets = cursors(3)
    spread = module.spread_json(data, 0, len(data), targets, 0, JsonRules(NOW, honors_partition=True))
    assert (spread.start, spread.fault) == (len(data), None)
    assert keys_of(targets[2], spread.cursors[2]) == [(b"21", b"a")]
    by_key = [(b"21", None)]
    found = [keys_of(targets[number], spread.cursors.get(number)) for number in (0, 1)]
    assert found == [by_key * (partition_of(b"21", 3) == 0), [(None, b"b")] + by_key * (partition_of(b"21", 3) == 1)]


@pytest.mark.parametrize("named", ["3", "-1", "1.0", "1e0", '"1"', "[1]", "true", "9223372036854775808", "9" * 30])
def test_a_partition_that_the_topic_does_not_have_is_refused(module: ModuleType, named: str) -> None:
    good, bad = line(b"a"), f'{{"key":"b","partition":{named}}}\n'.encode()
    spread = module.spread_json(good + bad, 0, len(good + bad), cursors(3), 0, JsonRules(NOW, honors_partition=True))
    assert (spread.start, spread.fault) == (len(good), json_line.LineFault(23, json_line.no_partition(3)))
    spread = module.spread_json(good + bad, 0, len(good + bad), cursors(3), 0, JsonRules(NOW))
    assert (spread.start, spread.fault) == (len(good + bad), None)


def test_a_partition_that_is_named_twice_is_refused(module: ModuleType) -> None:
    data = b'{"partition":1,"partition":1}\n'
    spread = module.spread_json(data, 0, len(data), cursors(3), 0, JsonRules(NOW, honors_partition=True))
    assert spread.fault == json_line.LineFault(15, json_line.TWICE)
    assert module.spread_json(data, 0, len(data), cursors(3), 0, JsonRules(NOW)).fault is None


@pytest.mark.parametrize(("keyless", "count"), [(-1, 2), (2, 2), (0, 0)])
def test_a_partition_that_is_not_there_is_refused(module: ModuleType, keyless: int, count: int) -> None:
    with pytest.raises(ValueError):
        module.spread_json(b"", 0, 0, cursors(count), keyless, JsonRules(NOW))


def test_builders_of_several_partitions_take_lines_together() -> None:
    data = b"".join(line(b"%d" % number, str(number)) for number in range(100))
    builders = [BatchBuilder(1 << 12) if number != 1 else None for number in range(3)]
    spread = spread_json_lines(builders, data, 0, len(data), NOW, keyless=0)
    assert spread.partition == 1
    builders[1] = BatchBuilder(1 << 12)
    spread = spread_json_lines(builders, data, spread.start, len(data), NOW, keyless=0)
    assert spread.start == len(data)
    assert [builder.count for builder in builders if builder] == [
        sum(partition_of(b"%d" % number, 3) == partition for number in range(100)) for partition in range(3)
    ]
    for builder in builders:
        assert builder is not None
        sealed = builder.seal()
        assert sealed.max_timestamp == NOW and sealed.size == len(sealed.data) > HEADER_SIZE
