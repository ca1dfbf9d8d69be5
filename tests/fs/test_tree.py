"""The grammar of names: offsets, times, calendar directories."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetfs.common.quantities import parse_time
from offsetfs.fs.naming.grammar import (
    EVERYTHING,
    TIMESTAMP_MAX,
    Level,
    Point,
    RangeName,
    Span,
    listed_children,
    parse_last,
    parse_offset,
    parse_range,
    parse_record_part,
    parse_segment_file,
)

pytestmark = pytest.mark.unit

NOW = 1_795_266_000_000  # 2026-11-21T13:00:00Z


def ms(*fields: int) -> int:
    year, month, day, hour, minute, second, *_ = (*fields, 0, 0, 0, 0)
    return int(datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("name", "offset"),
    [
        (b"0", 0),
        (b"42", 42),
        (b"00000000000000000042", 42),
        (b"00000000000000000000", 0),
        (b"9223372036854775807", 2**63 - 1),
        (b"9223372036854775808", None),
        (b"99999999999999999999", None),
        (b"000000000000000000042", None),
        (b"042", None),
        (b"00", None),
        (b"", None),
        (b"-1", None),
        (b"+1", None),
        (b" 1", None),
        (b"1\n", None),
        (b"1_0", None),
        ("١".encode(), None),
        (b"42.json", None),
    ],
)
def test_an_offset_is_written_plainly_or_with_twenty_digits(name: bytes, offset: int | None) -> None:
    assert parse_offset(name) == offset


@pytest.mark.parametrize(
    ("name", "part"),
    [
        (b"42.json", (42, b".json")),
        (b"00000000000000000042.key", (42, b".key")),
        (b"0.headers", (0, b".headers")),
        *[
            (name, None)
            for name in (b"42", b"42.", b".json", b"042.json", b"42.JSON", b"42.json.key", b"42.ndjson", b"-1.key")
        ],
    ],
)
def test_a_part_of_a_record_is_an_offset_with_a_suffix(name: bytes, part: tuple[int, bytes] | None) -> None:
    assert parse_record_part(name) == part


NOON = Point(ms(2026, 11, 21, 12), is_time=True)


@pytest.mark.parametrize(
    ("name", "start", "end"),
    [
        (b"0..10", Point(0), Point(10)),
        (b"00000000000000000005..7", Point(5), Point(7)),
        (b"10..0", Point(10), Point(0)),
        (b"..10", None, Point(10)),
        (b"10..", Point(10), None),
        (b"..", None, None),
        (b"2026-11-21T12:00..5", NOON, Point(5)),
        (b"@1795262400.000..@1795262400.5", NOON, Point(NOON.number + 500, is_time=True)),
        (b"-60m..now", NOON, Point(NOW, is_time=True)),
        (b"2026-11-21T12:00:00.000Z..", NOON, None),
    ],
)
def test_a_range_lies_between_two_offsets_or_times(name: bytes, start: Point | None, end: Point | None) -> None:
    assert parse_range(name, NOW) == RangeName(start, end, is_json=False)
    assert parse_range(name + b".ndjson", NOW) == RangeName(start, end, is_json=True)


@pytest.mark.parametrize(
    "name",
    [
        b"",
        b".",
        b"5",
        b"5.6",
        b"5...6",
        b"5..6..7",
        b"a..b",
        b"5..b",
        b"-5..",
        b"05..6",
        b"5..6.json",
        b".ndjson",
        b"5..\xff",
    ],
)
def test_what_is_no_range_means_nothing(name: bytes) -> None:
    assert parse_range(name, NOW) is None


@pytest.mark.parametrize(
    ("name", "last"),
    [
        (b"0", (0, False)),
        (b"10", (10, False)),
        (b"10.ndjson", (10, True)),
        *[(name, None) for name in (b"", b"-1", b"010", b"x", b"1.json", b".ndjson", b"1.ndjson.ndjson", b"9" * 20)],
    ],
)
def test_the_last_so_many_are_a_number(name: bytes, last: tuple[int, bool] | None) -> None:
    assert parse_last(name) == last


@given(st.binary(max_size=40))
def test_no_name_makes_the_grammar_fail(name: bytes) -> None:
    timestamp = parse_time(name, NOW)
    assert timestamp is None or timestamp >= 0
    assert parse_offset(name) is None or name.isdigit()
    assert parse_segment_file(name) is None


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        (b"00000000000000000042.log", (42, 0)),
        (b"00000000000000000042.snapshot", (42, 4)),
        (b"00000000000000000042.log.deleted", None),
        (b"00000000000000000042.values-map", None),
        (b"00000000000000000042.records-map", None),
        (b"42.log", None),
        (b"leader-epoch-checkpoint", None),
    ],
)
def test_only_files_of_segments_are_segment_files(name: bytes, parsed: tuple[int, int] | None) -> None:
    assert parse_segment_file(name) == parsed


def walk(*names: bytes) -> Span | None:
    span: Span | None = EVERYTHING
    for name in names:
        assert span is not None
        span = span.child(name)
    return span


@pytest.mark.parametrize(
    ("path", "start", "end"),
    [
        (b"2026", ms(2026, 1, 1), ms(2027, 1, 1)),
        (b"2026/11", ms(2026, 11, 1), ms(2026, 12, 1)),
        (b"2026/12", ms(2026, 12, 1), ms(2027, 1, 1)),
        (b"2024/02", ms(2024, 2, 1), ms(2024, 3, 1)),
        (b"2026/11/21", ms(2026, 11, 21), ms(2026, 11, 22)),
        (b"2026/11/21/13", ms(2026, 11, 21, 13), ms(2026, 11, 21, 14)),
        (b"2026/11/21/13/05", ms(2026, 11, 21, 13, 5), ms(2026, 11, 21, 13, 6)),
        (b"9999", ms(9999, 1, 1), TIMESTAMP_MAX + 1),
        (b"9999/12", ms(9999, 12, 1), TIMESTAMP_MAX + 1),
    ],
)
def test_a_calendar_path_is_a_span_of_time(path: bytes, start: int, end: int) -> None:
    span = walk(*path.split(b"/"))
    assert span is not None
    assert (span.start, span.end) == (start, end)
    assert span.name == path.split(b"/")[-1]


@pytest.mark.parametrize(
    "path", [b"1969", b"26", b"20260", b"2026/13", b"2026/00", b"2026/1", b"2025/02/29", b"2026/11/21/24", b"2026/+1"]
)
def test_what_is_no_calendar_path_means_nothing(path: bytes) -> None:
    assert walk(*path.split(b"/")) is None


def find_in(records: list[tuple[int, int]], calls: list[int]) -> Callable[[int], tuple[int, int] | None]:
    def find(timestamp: int) -> tuple[int, int] | None:
        calls.append(timestamp)
        return next(((offset, time) for offset, time in records if time >= timestamp), None)

    return find


@given(st.lists(st.integers(0, 5 * 86_400_000), max_size=30), st.integers(0, 3))
def test_a_listing_is_what_the_definition_states_for_few_look_ups(times: list[int], level: int) -> None:
    span = EVERYTHING
    for _ in range(level):
        span = span.child_at(span.start)  # 1970, January, the 1st
    records = list(enumerate(times))
    calls: list[int] = []
    find = find_in(records, calls)
    listed = list(listed_children(span, find))
    assert len(calls) <= len(listed) + 1

    expected, timestamp = [], span.start
    limit = min(span.end, 7 * 86_400_000)
    while timestamp < limit:
        child = span.child_at(timestamp)
        first = next(((offset, time) for offset, time in records if time >= child.start), None)
        if first is not None and first[1] < child.end:
            expected.append((child, first[0]))
        timestamp = child.end
    assert listed == expected


def test_the_calendar_ends_with_the_year_9999() -> None:
    assert list(listed_children(EVERYTHING, lambda _: (0, TIMESTAMP_MAX + 1))) == []
    span = Span(Level.YEAR, ms(9999, 1, 1))
    assert list(listed_children(EVERYTHING, lambda t: (5, TIMESTAMP_MAX) if t <= TIMESTAMP_MAX else None)) == [
        (span, 5)
    ]
