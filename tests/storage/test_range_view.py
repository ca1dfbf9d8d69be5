"""A range is the lines of its records and nothing else, in either form, and costs what was asked for."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from fixtures.logs.log_states import begin_log_at, replace_segments_of
from fixtures.spies import no_damage, spy
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import StorageError, WouldBlock
from offsetfs.storage.names import MAP_SUFFIXES, TopicPartition
from offsetfs.storage.partition.log import Log
from offsetfs.storage.partition.log_reader import LogView
from offsetfs.storage.records.format.batch import build
from offsetfs.storage.records.format.batch_builder import SealedBatch
from offsetfs.storage.records.format.record import Record
from offsetfs.storage.segments import segment_names
from offsetfs.storage.segments.open_files import FilePool
from offsetfs.storage.segments.segment import Segment
from offsetfs.storage.units import Timestamp
from offsetfs.storage.views.line_index import LineIndex
from offsetfs.storage.views.partition_view import PartitionView
from offsetfs.storage.views.range_view import RangeView
from offsetfs.storage.views.view_format import VALUES, JsonFormat, ViewFormat

pytestmark = pytest.mark.unit

PARTITION = TopicPartition("orders", 3)
JSON = JsonFormat(PARTITION)
FORMS: dict[str, ViewFormat] = {"values": VALUES, "json": JSON}

Lines = Callable[[Sequence[Record]], bytes]


def value_lines(records: Sequence[Record]) -> bytes:
    return b"".join((record.value or b"") + b"\n" for record in records)


def json_lines(records: Sequence[Record]) -> bytes:
    """The lines as Python's own JSON makes them, for records of text."""
    lines = []
    for record in records:
        fields = {
            "topic": "orders",
            "partition": 3,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "timestamp_type": record.timestamp_type,
            "key": None if record.key is None else record.key.decode(),
            "value": None if record.value is None else record.value.decode(),
            "headers": [{"key": name, "value": value and value.decode()} for name, value in record.headers],
        }
        lines.append(json.dumps(fields, separators=(",", ":"), ensure_ascii=False) + "\n")
    return "".join(lines).encode()


LINES: dict[str, Lines] = {"values": value_lines, "json": json_lines}
every_form = pytest.mark.parametrize("form", FORMS)


def batch(count: int, first: int = 0, size: int = 7, codec: str = "none", **fields: object) -> SealedBatch:
    values = [b"%d " % (first + n) * (n * size % 97) if n % 5 else None for n in range(count)]
    records = [(b"k%d" % n if n % 3 else None, value, (), 1000 + n) for n, value in enumerate(values)]
    data = build(records, codec=codec, **fields)  # type: ignore[arg-type]
    return SealedBatch(memoryview(data), count, 0, Timestamp(999 + count), len(data))


def control() -> SealedBatch:
    record = (b"\0\0\0\1", b"\0" * 6, (), 1000)
    data = build([record], control=True, transactional=True, producer_id=1, producer_epoch=0)
    return SealedBatch(memoryview(data), 1, 0, Timestamp(1000), len(data))


def shown(log: Log, begin: int, end: int) -> list[Record]:
    batches = (each for segment in log.snapshot() for each in segment.batches())
    records = (record for each in batches if not each.header.is_control for record in each.records())
    return [record for record in records if begin <= record.offset < end]


def cut_out(log: Log, begin: int, end: int, form: ViewFormat, **fields: object) -> RangeView:
    known = fields.pop("known", lambda segment: None)
    on_damage = fields.pop("on_damage", no_damage)
    view = LogView(log, **fields)  # type: ignore[arg-type]
    return RangeView(view, begin, end, FilePool(8), on_damage, view_format=form, known=known)  # type: ignore[arg-type]


def content(view: RangeView) -> bytes:
    """Read the range block by block, as its handle does."""
    read = b""
    while (located := view.locate(len(read))) is not None:
        assert located.start <= len(read) < located.end <= view.size
        read += view.read(located)[len(read) - located.start : located.end - located.start]
    return read


@pytest.fixture
def log(directory: LogDirectory) -> Log:
    """Some segments of batches of one to forty records, one of them compressed, control batches in between."""
    log = directory.create_partition(PARTITION, {"segment.bytes": "20000", "index.interval.bytes": "1000"})
    for number in range(60):
        log.append(batch(number % 40 + 1, log.next_offset, codec="gzip" if number % 7 == 3 else "none"))
        if number % 9 == 0:
            log.append(control())
    assert len(log.snapshot()) > 3
    return log


# --- what is in it -------------------------------------------------------------------------------------------------


@pytest.mark.long
@every_form
def test_a_range_is_the_lines_of_its_records(log: Log, form: str) -> None:
    end = log.next_offset
    edges = [0, 1, 57, *(segment.base_offset for segment in list(log.snapshot())[1:4]), end - 1, end]
    for begin in edges:
        for stop in edges:
            view = cut_out(log, begin, stop, FORMS[form])
            assert view.refresh()
            expected = LINES[form](shown(log, begin, stop))
            assert (view.size, content(view)) == (len(expected), expected), (begin, stop)


@pytest.mark.long
@every_form
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_range_of_any_log_is_the_same_with_and_without_maps(
    tmp_path_factory: pytest.TempPathFactory, form: str, data: st.DataObject
) -> None:
    directory = LogDirectory.open(str(tmp_path_factory.mktemp("log")))
    log = directory.create_partition(PARTITION, {"segment.bytes": str(data.draw(st.integers(1000, 5000)))})
    for count in data.draw(st.lists(st.integers(0, 9), max_size=30)):
        codec = data.draw(st.sampled_from(["none", "none", "gzip", "zstd"]))
        log.append(batch(count, log.next_offset, codec=codec) if count else control())
    begin = data.draw(st.integers(0, log.next_offset))
    stop = data.draw(st.integers(0, log.next_offset))
    growing = PartitionView(log, FilePool(4), no_damage, view_format=FORMS[form])
    growing.refresh(bytes_max=data.draw(st.integers(1, 9999)))
    for known in (growing.known_index, lambda segment: None):
        view = cut_out(log, begin, stop, FORMS[form], known=known)
        while not view.refresh(bytes_max=data.draw(st.integers(1, 9999))):
            pass
        assert content(view) == LINES[form](shown(log, begin, stop))
    directory.close()


@every_form
def test_a_range_stays_as_it_was_whatever_is_appended(log: Log, form: str) -> None:
    growing = PartitionView(log, FilePool(4), no_damage, view_format=FORMS[form])
    assert growing.refresh()
    view = cut_out(log, 100, log.next_offset, FORMS[form], known=growing.known_index)
    assert view.refresh()
    before = content(view)
    for number in range(30):
        log.append(batch(20, number))
    assert growing.refresh() and view.refresh()
    assert (view.size, content(view)) == (len(before), before)


@pytest.mark.damages
@every_form
def test_a_range_of_committed_records_holds_no_others(directory: LogDirectory, form: str) -> None:
    log = directory.create_partition(PARTITION, {"segment.bytes": "1000"})
    kept: list[Record] = []
    for number in range(30):
        producer: dict[str, Any] = {
            "transactional": True,
            "producer_id": number % 2,
            "producer_epoch": 0,
            "base_sequence": number,
        }
        begun = log.next_offset
        log.append(batch(3, begun, **producer))
        records = shown(log, begun, log.next_offset)
        kind = 1 if number % 3 else 0  # every third transaction is aborted
        marker = build(
            [(b"\0\0\0" + bytes([kind]), b"\0\0\0\0\0\7", (), 1000)],
            control=True,
            transactional=True,
            producer_id=number % 2,
            producer_epoch=0,
        )
        log.append(SealedBatch(memoryview(marker), 1, 0, Timestamp(1000), len(marker)))
        kept += records if kind else []
    for begin, stop in ((0, log.next_offset), (5, 33), (60, log.next_offset)):
        view = cut_out(log, begin, stop, FORMS[form], is_committed_only=True)
        assert view.refresh()
        assert content(view) == LINES[form]([each for each in kept if begin <= each.offset < stop])


# --- what it costs -------------------------------------------------------------------------------------------------


@every_form
def test_no_more_is_measured_than_was_asked_for(log: Log, form: str) -> None:
    headers = [header for segment in log.snapshot() for _, header in segment.headers()]
    for begin in range(0, log.next_offset - 10, 111):
        view = cut_out(log, begin, begin + 10, FORMS[form])
        assert view.refresh()
        holders = [each for each in headers if begin <= each.last_offset and each.base_offset < begin + 10]
        assert view.scanned_bytes == sum(header.size for header in holders)
    assert cut_out(log, 7, 7, FORMS[form]).refresh()


def test_no_task_waits_for_a_range_on_the_loop(log: Log) -> None:
    view = cut_out(log, 3, 9, VALUES)
    with pytest.raises(WouldBlock):
        view.refresh(nowait=True)
    assert view.refresh() and view.refresh(nowait=True)


@every_form
def test_measuring_goes_on_where_it_stopped(log: Log, form: str) -> None:
    view, steps = cut_out(log, 3, log.next_offset, FORMS[form]), 1
    while not view.refresh(bytes_max=10_000):
        steps += 1
        assert view.scanned_bytes < view.total_bytes
    assert 3 < steps < 30
    assert content(view) == LINES[form](shown(log, 3, log.next_offset))


def kept(log: Log) -> set[str]:
    return {name for name in os.listdir(log.path) if name.endswith(MAP_SUFFIXES)}


@every_form
def test_whole_segments_leave_their_maps_and_are_not_measured_again(
    log: Log, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cut_out(log, 1, log.next_offset, FORMS[form]).refresh()
    sealed = list(log.snapshot())[1:-1]
    assert kept(log) == {f"{segment.base_offset:020d}{FORMS[form].suffix}" for segment in sealed}
    measured: list[Segment] = []
    extend = LineIndex.extend
    monkeypatch.setattr(LineIndex, "extend", spy(measured, lambda self, s, *a, **k: s, extend))
    monkeypatch.setattr("offsetfs.storage.views.range_view._DIRECT_BYTES_MAX", 1000)
    again = cut_out(log, 1, log.next_offset, FORMS[form])
    assert again.refresh() and measured == [log.snapshot().first, log.snapshot().active]
    assert content(again) == LINES[form](shown(log, 1, log.next_offset))


def test_maps_that_a_growing_view_has_are_used(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    growing = PartitionView(log, FilePool(4), no_damage, view_format=JSON)
    assert growing.refresh()
    monkeypatch.setattr(LineIndex, "extend", lambda *a, **k: pytest.fail("measured"))
    view = cut_out(log, 50, log.next_offset - 3, JSON, known=growing.known_index)
    assert view.refresh() and content(view) == json_lines(shown(log, 50, log.next_offset - 3))


def test_a_range_of_a_log_that_is_only_read_writes_nothing(log: Log, directory: LogDirectory) -> None:
    directory.close()
    before = sorted(os.listdir(log.path))
    readers = LogDirectory.open(directory.path, read_only=True)
    view = cut_out(readers.log(PARTITION), 1, log.next_offset, JSON)
    assert view.refresh() and content(view)
    assert sorted(os.listdir(log.path)) == before
    readers.close()


# --- damage and removal --------------------------------------------------------------------------------------------


@pytest.mark.damages
@every_form
@pytest.mark.parametrize("where", [100, 17, 8, 16], ids=["a record", "the checksum", "the size", "the magic"])
def test_damage_shows_nothing_and_its_neighbors_stay(log: Log, form: str, where: int) -> None:
    segment = list(log.snapshot())[1]
    places = [(place, header) for place, header in segment.headers() if not header.is_control]
    place, hit = places[2]
    records = shown(log, 0, log.next_offset)
    with open(segment.log_path, "r+b") as file:
        file.seek(place + where)
        byte = file.read(1)
        file.seek(place + where)
        file.write(bytes([byte[0] ^ 0xFF]))
    for begin, stop in ((0, log.next_offset), (hit.base_offset - 1, hit.last_offset + 3)):
        reported: list[StorageError] = []
        view = cut_out(log, begin, stop, FORMS[form], on_damage=reported.append)
        assert view.refresh()
        sound = [r for r in records if begin <= r.offset < stop and not hit.base_offset <= r.offset <= hit.last_offset]
        assert content(view) == LINES[form](sound)
        assert {(error.path, error.position) for error in reported} == {(segment.log_path, place)}


def test_what_retention_took_is_stale_and_the_rest_is_read(log: Log) -> None:
    view = cut_out(log, 5, log.next_offset, JSON)
    assert view.refresh()
    whole = content(view)
    first, second = list(log.snapshot())[:2]
    rest = json_lines(shown(log, second.base_offset, log.next_offset))
    log.flush()
    replace_segments_of(log, log.snapshot().without([first]))
    begin_log_at(log, second.base_offset)
    segment_names.remove_from_log(first)
    assert content(view) == whole, "as long as its files are there"
    segment_names.unlink(first)
    with pytest.raises(OSError, match="removed"):
        content(view)
    located = view.locate(len(whole) - len(rest))
    assert located is not None and located.start == len(whole) - len(rest)
    assert view.read(located)[:50] == rest[:50]
