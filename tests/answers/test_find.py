"""What a search finds, in which order, and what it says of the rest. The golden logs are of Kafka's releases."""

from __future__ import annotations

import base64
import contextlib
import json
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from fixtures.logs.old_messages import message
from fixtures.logs.planted_logs import marker, sealed_records

from offsetfs.answers import find, find_conditions, find_patterns
from offsetfs.answers.find import FindBounds, Limit, Search
from offsetfs.answers.find_conditions import FIELDS, Condition, HasHeader, HasKey, HasText
from offsetfs.answers.find_lines import LinesOf, path_lines, record_lines, value_lines
from offsetfs.answers.find_partitions import partitions_of_key
from offsetfs.answers.find_patterns import HasPattern
from offsetfs.answers.ordered_work import OrderedWork
from offsetfs.answers.partitioners import Partitioner
from offsetfs.common.name_patterns import PatternError
from offsetfs.storage import LogDirectory, TopicPartition
from offsetfs.storage.errors import StorageError
from offsetfs.storage.names import segment_name
from offsetfs.storage.records.format.batch import build
from offsetfs.storage.records.format.batch_builder import SealedBatch
from offsetfs.storage.units import Timestamp

pytestmark = pytest.mark.unit

GOLDEN = Path(__file__).parents[1] / "golden"
RELEASES = sorted(path.name for path in GOLDEN.iterdir() if path.is_dir() and path.name.startswith("kafka-"))
ANY = FIELDS["any"]
TIME = 1_795_000_000_000
ORDERS = [TopicPartition("orders", number) for number in range(3)]

Fields = tuple[bytes | None, bytes | None, Sequence[tuple[str, bytes | None]], int]


def sealed(records: Sequence[Fields], **fields: Any) -> SealedBatch:
    built = build(records, **fields)
    return SealedBatch(memoryview(built), len(records), 1, Timestamp(max(each[3] for each in records)), len(built))


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """Record n of 300 is n seconds after `TIME`, in partition n % 3, in batches of up to seven, small segments."""
    with contextlib.closing(LogDirectory.open(str(tmp_path))) as directory:
        for name in ORDERS:
            log = directory.create_partition(name, {"segment.bytes": "2000"})
            records: list[Fields] = [
                (b"key %d" % (n % 10), b"value %d!" % n, [("n", b"%d" % n)] if n % 2 else (), TIME + 1000 * n)
                for n in range(name.partition, 300, 3)
            ]
            for begin in range(0, len(records), 7):
                log.append(sealed(records[begin : begin + 7], codec=("none", "zstd", "gzip")[begin % 3]))
    return tmp_path


@contextlib.contextmanager
def searching(path: Path, *conditions: Condition, **options: Any) -> Iterator[Search]:
    with contextlib.closing(LogDirectory.open(str(path), read_only=True)) as directory:
        options.setdefault("partitions", sorted(directory.partitions()))
        yield Search(directory, conditions=conditions, **options)


def found(
    path: Path, *conditions: Condition, lines_of: LinesOf = value_lines, limit: Limit | None = None, **options: Any
) -> list[bytes]:
    """Return the lines of a search that meets no damage."""
    with searching(path, *conditions, **options) as search:
        lines = [line for each in search.lines(lines_of, limit) for line in each]
        assert search.found == len(lines) and not search.damage and not search.notes
        if limit is None:
            with searching(path, *conditions, **options) as again:
                assert again.count() == len(lines)
        return lines


def values(numbers: Sequence[int]) -> list[bytes]:
    return [b"value %d!\n" % number for number in numbers]


def by_partition(numbers: Sequence[int]) -> list[bytes]:
    return values([number for partition in range(3) for number in numbers if number % 3 == partition])


# --- conditions ------------------------------------------------------------------------------------------------------


def test_records_are_found_by_each_kind_of_condition(orders: Path) -> None:
    assert found(orders, HasKey(b"key 7")) == by_partition(range(7, 300, 10))
    assert found(orders, HasKey(b"key")) == []
    assert found(orders, HasText(b" 17", FIELDS["value"])) == by_partition([17, *range(170, 180)])
    assert found(orders, HasText(b"y 7", FIELDS["value"])) == []
    assert found(orders, HasText(b"y 7", FIELDS["key"])) == found(orders, HasText(b"y 7", ANY))
    assert found(orders, HasHeader(b"n", b"17")) == values([17])
    assert found(orders, HasHeader(b"n", None)) == by_partition(range(1, 300, 2))
    assert found(orders, HasPattern(r"^value 1?7!$", FIELDS["value"])) == by_partition([7, 17])
    assert found(orders, HasPattern(r"1.7", FIELDS["headers"])) == by_partition(range(107, 200, 10))
    assert found(orders, HasPattern.of_text("VALUE 17!", ANY)) == values([17])
    assert found(orders, HasKey(b"key 7"), HasPattern("1.!", ANY), HasHeader(b"n", b"17")) == values([17])
    assert len(found(orders)) == 300


def test_a_pattern_is_matched_field_by_field(orders: Path) -> None:
    assert found(orders, HasPattern(r"(?s)value 0!.*value 3!", ANY)) == []
    assert found(orders, HasPattern(r"7!.+", ANY)) == []


def test_patterns_match_the_same_without_arrow(orders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*given: object) -> None:
        raise ModuleNotFoundError

    monkeypatch.setattr(find_patterns, "ONE_BY_ONE_MAX", 0)
    monkeypatch.setattr(HasPattern, "_matching_in_arrow", missing)
    assert found(orders, HasPattern("[13]7!$", ANY)) == by_partition([n for n in range(300) if n % 100 in (17, 37)])
    assert found(orders, HasPattern("^n$", FIELDS["headers"])) == by_partition(range(1, 300, 2))


def test_bytes_that_are_no_text_are_searched(tmp_path: Path) -> None:
    with contextlib.closing(LogDirectory.open(str(tmp_path))) as directory:
        log = directory.create_partition(ORDERS[0])
        log.append(
            sealed([(b"\0\xff", b"\x80\x81 \xc3\xa9t\xc3\xa9", (), TIME), (None, None, (), TIME), (b"", b"", (), TIME)])
        )
    assert found(tmp_path, HasKey(b"\0\xff"), lines_of=path_lines) == [b"orders-0/0\n"]
    assert found(tmp_path, HasKey(b""), lines_of=path_lines) == [b"orders-0/2\n"]
    assert found(tmp_path, HasPattern(r"^\C\C .t.$", ANY), lines_of=path_lines) == [b"orders-0/0\n"]
    assert found(tmp_path, HasPattern.of_text("ÉTÉ", ANY), lines_of=path_lines) == [b"orders-0/0\n"]
    assert found(tmp_path, HasText(b"", FIELDS["value"]), lines_of=path_lines) == [b"orders-0/0\n", b"orders-0/2\n"]


def test_a_wrong_pattern_is_refused() -> None:
    with pytest.raises(PatternError):
        HasPattern("(", ANY)
    with pytest.raises(PatternError, match="look-around"):
        HasPattern("(?=a)", ANY)


# --- bounds, order and limits ----------------------------------------------------------------------------------------


def test_offsets_and_times_bound_a_search(orders: Path) -> None:
    assert found(orders, partitions=ORDERS[1:2], bounds=FindBounds(10, 12)) == values([31, 34])
    times = FindBounds(start_ms=TIME + 10_000, stop_ms=TIME + 15_000)
    assert found(orders, bounds=times) == by_partition(range(10, 15))
    assert found(orders, bounds=FindBounds(start_ms=TIME + 300_000)) == []
    assert found(orders, bounds=FindBounds(50, 10)) == []


def test_a_record_between_two_times_is_found_wherever_it_is(tmp_path: Path) -> None:
    with contextlib.closing(LogDirectory.open(str(tmp_path))) as directory:
        log = directory.create_partition(ORDERS[0])
        for number, time in enumerate((5, 9_000_000, 6, 7, 2)):
            log.append(sealed([(None, b"value %d!" % number, (), TIME + time)]))
    assert found(tmp_path, bounds=FindBounds(start_ms=TIME + 5, stop_ms=TIME + 7)) == values([0, 2])


def test_records_without_a_time_are_within_no_times(tmp_path: Path) -> None:
    partition = tmp_path / "orders-0"
    partition.mkdir()
    data = b"".join(message(magic, magic, value=b"v%d" % magic, timestamp=TIME) for magic in (0, 1))
    (partition / segment_name(0, ".log")).write_bytes(data)
    assert found(tmp_path, bounds=FindBounds(stop_ms=TIME + 1)) == [b"v1\n"]
    assert found(tmp_path, bounds=FindBounds(start_ms=0)) == [b"v1\n"]
    assert found(tmp_path, bounds=FindBounds(0, 2)) == [b"v0\n", b"v1\n"]


def test_times_that_do_not_rise_are_compared_across_partitions(tmp_path: Path) -> None:
    with contextlib.closing(LogDirectory.open(str(tmp_path))) as directory:
        for name, times in zip(ORDERS, ([10, 5], [7], [5]), strict=False):
            log = directory.create_partition(name)
            log.append(sealed([(None, b"%d of %d" % (time, name.partition), (), TIME + time) for time in times]))
    assert found(tmp_path, limit=Limit(2, is_newest=True)) == [b"10 of 0\n", b"7 of 1\n"]
    assert found(tmp_path, limit=Limit(3)) == [b"5 of 0\n", b"5 of 2\n", b"7 of 1\n"]
    assert found(tmp_path, limit=Limit(1, is_newest=True)) == [b"7 of 1\n"]  # the last of each partition


@pytest.mark.parametrize("count", [1, 5, 1000])
def test_the_oldest_and_the_newest_are_those_of_all_partitions(
    orders: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(find, "PIECE_BYTES", 1000)
    matching = [n for n in range(300) if "7" in str(n)]
    text = HasText(b"7", FIELDS["value"])
    assert found(orders, text, limit=Limit(count)) == values(matching[:count])
    assert found(orders, text, limit=Limit(count, is_newest=True)) == values(matching[::-1][:count])
    ones = [n for n in matching if n % 3 == 1]
    newest = Limit(count, is_newest=True)
    assert found(orders, text, partitions=ORDERS[1:2], limit=newest) == values(ones[::-1][:count])
    assert found(orders, text, partitions=ORDERS[1:2], limit=Limit(count)) == values(ones[:count])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("piece_bytes", [1, 500, 1 << 20])
def test_the_order_does_not_depend_on_pieces_and_threads(
    orders: Path, monkeypatch: pytest.MonkeyPatch, threads: int, piece_bytes: int
) -> None:
    monkeypatch.setattr(find, "PIECE_BYTES", piece_bytes)
    monkeypatch.setattr(find, "BATCHES_MAX", 2)
    assert found(orders, threads=threads) == by_partition(range(300))


def test_records_are_lines_of_the_tree(orders: Path) -> None:
    lines = [json.loads(line) for line in found(orders, HasHeader(b"n", None), lines_of=record_lines)]
    assert [(each["topic"], each["value"], each["headers"]) for each in lines[:1]] == [
        ("orders", "value 3!", [{"key": "n", "value": "3"}])
    ]
    assert len(lines) == 150
    assert found(orders, HasText(b" 31!", ANY), lines_of=path_lines) == [b"orders-1/10\n"]


# --- logs of Kafka ---------------------------------------------------------------------------------------------------


def expected_of(path: Path, needle: bytes) -> list[int]:
    """Return the offsets of the records whose key or value contains some bytes, as Kafka's consumer reported them."""
    offsets = []
    for line in path.read_text().splitlines():
        record = json.loads(line)
        fields = [base64.b64decode(record.get(name) or "") for name in ("key_b64", "value_b64")]
        if any(needle in field for field in fields):
            offsets.append(record["offset"])
    return offsets


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("needle", [b"willow", b"7", b"\xd0"])
def test_records_of_kafkas_releases_are_found(release: str, needle: bytes) -> None:
    checked = 0
    for path in sorted((GOLDEN / release).glob("*.expected.ndjson")):
        if "value_sha256" in path.read_text():
            continue
        name = TopicPartition.parse(path.name.removesuffix(".expected.ndjson"))
        with searching(GOLDEN / release, HasText(needle, ANY & ~FIELDS["headers"]), partitions=[name]) as search:
            lines = [line for each in search.lines(path_lines) for line in each]
            assert not search.damage
        assert lines == [f"{name}/{offset}\n".encode() for offset in expected_of(path, needle)], name
        checked += 1
    assert checked


def test_records_of_aborted_transactions_are_hidden_on_request(tmp_path: Path) -> None:
    with contextlib.closing(LogDirectory.open(str(tmp_path))) as directory:
        log = directory.create_partition(ORDERS[0])
        fields = {"transactional": True, "producer_epoch": 0, "base_sequence": 0}
        for producer, kind in (1, 0), (2, 1):
            log.append(sealed_records([(None, b"a%d" % producer, (), TIME)], producer_id=producer, **fields))
            log.append(marker(producer, kind))
    assert found(tmp_path, HasText(b"a", ANY)) == [b"a1\n", b"a2\n"]
    assert found(tmp_path, HasText(b"a", ANY), is_committed_only=True) == [b"a2\n"]
    assert found(tmp_path) == [b"a1\n", b"a2\n"]  # no control batches


@pytest.mark.damages
@pytest.mark.parametrize(("text", "count"), [(b"!", 293), (b"value 298!", 1), (b"absent", 0)])
@pytest.mark.parametrize("piece_bytes", [1, 1 << 20])
def test_damage_is_left_out_and_reported_once(
    orders: Path, monkeypatch: pytest.MonkeyPatch, text: bytes, count: int, piece_bytes: int
) -> None:
    monkeypatch.setattr(find, "PIECE_BYTES", piece_bytes)
    segment = orders / "orders-1" / "00000000000000000000.log"
    data = bytearray(segment.read_bytes())
    data[100] ^= 1
    segment.write_bytes(data)
    with searching(orders, HasText(text, ANY)) as search:
        lines = [line for each in search.lines(value_lines) for line in each]
        assert search.found == len(lines) == count
        assert search.damaged == 1 and "orders-1" in str(search.damage[0])


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_batches_without_a_match_are_passed_over_a_block_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str
) -> None:
    with contextlib.closing(LogDirectory.open(str(tmp_path))) as directory:
        log = directory.create_partition(ORDERS[0])
        for number in range(0, 3000, 10):
            records = [(None, b"value %d! %s" % (each, b"x" * 1000), (), TIME) for each in range(number, number + 10)]
            log.append(sealed(records, codec="none" if number % 500 else codec))
    looked_at = list[int]()
    matching_rows = find_conditions.matching_rows

    def counted(batch: Any, conditions: Any) -> Any:
        looked_at.append(batch.base_offset)
        return matching_rows(batch, conditions)

    monkeypatch.setattr(find, "matching_rows", counted)
    text = HasText(b"value 1234!", FIELDS["value"])
    assert found(tmp_path, text, lines_of=path_lines, limit=Limit(9)) == [b"orders-0/1234\n"]
    assert len(looked_at) < 10


def test_a_batch_that_cannot_be_inflated_is_reported(orders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object) -> tuple[array[int], array[int]]:
        raise StorageError("cannot be", path="x", position=1)

    monkeypatch.setattr(find, "matching_rows", refuse)
    with searching(orders) as search:
        assert search.count() == 0
        assert search.damaged == 1


def test_an_empty_directory_and_empty_partitions_have_nothing(tmp_path: Path) -> None:
    with contextlib.closing(LogDirectory.open(str(tmp_path))) as directory:
        assert list(Search(directory, []).lines(value_lines)) == []
        directory.create_partition(ORDERS[0])
        assert Search(directory, ORDERS[:1]).count() == 0
        assert list(Search(directory, ORDERS[:1]).lines(value_lines, Limit(3, is_newest=True))) == []
        gone = Search(directory, ORDERS[1:2])
        assert gone.count() == 0 and gone.damaged == 1


# --- the partition of a key ------------------------------------------------------------------------------------------


def test_partitioners_are_those_of_the_clients() -> None:
    # murmur2: Kafka's UtilsTest. crc32: zlib's check value. fnv1a: the test vectors of Sarama's hash/fnv.
    assert Partitioner.MURMUR2.partition_of(b"21", 1 << 31) == (-973932308) & 0x7FFFFFFF
    assert Partitioner.CRC32.partition_of(b"123456789", 1 << 32) == 0xCBF43926
    assert Partitioner.CRC32.partition_of(b"", 12) is None
    assert Partitioner.FNV1A.partition_of(b"", 1 << 32) == (1 << 32) - 0x811C9DC5
    assert Partitioner.FNV1A.partition_of(b"foobar", 1 << 32) == (1 << 32) - 0xBF9CF968
    assert Partitioner.ANY.partition_of(b"k", 12) is None


def test_a_key_is_looked_for_in_its_partition_only() -> None:
    names = [TopicPartition("t", number) for number in range(12)]
    chosen = partitions_of_key(names, ["t"], b"21", Partitioner.MURMUR2, None)
    number = ((-973932308) & 0x7FFFFFFF) % 12
    assert chosen.partitions == [TopicPartition("t", number)] and chosen.is_narrowed
    assert chosen.notes == [f"the key is in t-{number}, by murmur2 of 12 partitions"]
    every = partitions_of_key(names, ["t"], b"21", Partitioner.ANY, None)
    assert every.partitions == names and not every.is_narrowed and not every.notes


def test_partitions_elsewhere_leave_the_partition_of_a_key_open() -> None:
    names = [TopicPartition("t", number) for number in (0, 3, 6)]
    chosen = partitions_of_key(names, ["t"], b"21", Partitioner.MURMUR2, None)
    assert chosen.partitions == names and not chosen.is_narrowed and "--partitions" in chosen.notes[0]
    number = ((-973932308) & 0x7FFFFFFF) % 9
    elsewhere = partitions_of_key(names, ["t"], b"21", Partitioner.MURMUR2, 9)
    assert elsewhere.partitions == ([TopicPartition("t", number)] if number in (0, 3, 6) else [])
    assert elsewhere.is_narrowed


# --- work in order ---------------------------------------------------------------------------------------------------


def test_results_come_in_the_order_of_the_tasks() -> None:
    def work(task: int) -> Iterator[int]:
        yield from range(task * 100, task * 100 + 50)

    expected = [number for task in range(40) for number in work(task)]
    for threads in (1, 4):
        assert list(OrderedWork(range(40), work).results(threads)) == expected


def test_the_error_of_a_task_comes_in_its_place_and_ends_the_work() -> None:
    def work(task: int) -> Iterator[int]:
        if task == 3:
            raise ValueError("three")
        yield task

    results = OrderedWork(range(1000), work).results(2)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="three"):
        next(results)


def test_closing_the_results_ends_the_work() -> None:
    def endless(task: int) -> Iterator[int]:
        while True:
            yield task

    results = OrderedWork(range(10), endless).results(2)
    assert next(results) == 0
    results.close()


def test_the_caller_works_if_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("offsetfs.answers.ordered_work._started", lambda run, count: [])
    assert list(OrderedWork(range(5), lambda task: iter([task, task])).results()) == sorted([*range(5)] * 2)
