"""Times and sizes as users write them."""

from datetime import UTC, datetime

import pytest

from offsetfs.common.quantities import (
    EXAMPLE_TIMES,
    is_before_1970,
    parse_size,
    parse_time,
    plain_number,
    unreadable_time,
)

pytestmark = pytest.mark.unit

NOW = 1_795_266_000_000  # 2026-11-21T13:00:00Z


def ms(*fields: int) -> int:
    year, month, day, hour, minute, second, *_ = (*fields, 0, 0, 0, 0)
    return int(datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("name", "timestamp"),
    [
        (b"2026-11-21", ms(2026, 11, 21)),
        (b"2026-11-21T13:05", ms(2026, 11, 21, 13, 5)),
        (b"2026-11-21T13:05Z", ms(2026, 11, 21, 13, 5)),
        (b"2026-11-21T13:05:07", ms(2026, 11, 21, 13, 5, 7)),
        (b"2026-11-21T13:05:07.123", ms(2026, 11, 21, 13, 5, 7) + 123),
        (b"2026-11-21T13:05:07.5Z", ms(2026, 11, 21, 13, 5, 7) + 500),
        (b"2026-11-21T13:05+01:30", ms(2026, 11, 21, 11, 35)),
        (b"2026-11-21T13:05:07.123-05:00", ms(2026, 11, 21, 18, 5, 7) + 123),
        (b"2024-02-29", ms(2024, 2, 29)),
        (b"@1795253676", 1795253676000),
        (b"@1795253676.123", 1795253676123),
        (b"@0", 0),
        (b"-15m", NOW - 15 * 60_000),
        (b"-2h", NOW - 2 * 3_600_000),
        (b"-30s", NOW - 30_000),
        (b"-7d", NOW - 7 * 86_400_000),
        (b"1970-01-01", 0),
        (b"1970-01-01T01:00+01:00", 0),
        (b"now", NOW),
    ],
)
def test_a_time_is_read(name: bytes, timestamp: int) -> None:
    assert parse_time(name, NOW) == timestamp


@pytest.mark.parametrize(
    "name",
    [
        b"",
        b"2026",
        b"2026-11",
        b"2026-13-01",
        b"2025-02-29",
        b"2026-11-21T",
        b"2026-11-21T13",
        b"2026-11-21T24:00",
        b"2026-11-21T13:60",
        b"2026-11-21T13:05:60",
        b"2026-11-21T13:05:07.",
        b"2026-11-21T13:05:07.1234",
        b"2026-11-21T13:05+25:00",
        b"2026-11-21T13:05+01:60",
        b"2026-11-21T13:05+0100",
        b"2026-11-21Z",
        b"2026-11-21t13:05",
        b"2026-11-21  13:05",
        b"2026-11-21t13:05",
        b"2026-11-21\n",
        b"0000-01-01",
        b"@",
        b"@-5",
        b"@1.2345",
        b"@1e9",
        b"-15",
        b"-m",
        b"15m",
        b"-1y",
        b"-1h30",
        b"-h30m",
        b"-1s1s1s1s1s1s",
        b"NOW",
        "٢٠٢٦-١١-٢١".encode(),
        b"\xff",
    ],
)
def test_what_is_no_time_means_nothing(name: bytes) -> None:
    assert parse_time(name, NOW) is None


@pytest.mark.parametrize(
    ("name", "ago_s"),
    [(b"-1w", 7 * 86400), (b"-2w3d", 17 * 86400), (b"-1h30m", 5400), (b"-1d2h3m4s", 93784), (b"-90m", 5400)],
)
def test_units_of_a_time_ago_add_up(name: bytes, ago_s: int) -> None:
    assert parse_time(name, NOW) == NOW - ago_s * 1000


@pytest.mark.parametrize("name", ["1969-07-20", "1969-12-31T23:59:59.999", "1970-01-01T00:00+00:01", "-999999999d"])
def test_a_time_before_1970_is_refused_for_that_reason(name: str) -> None:
    """Once it was read as 1970, so that a search from there left out records with other times, and said nothing."""
    assert parse_time(name.encode(), NOW) is None and is_before_1970(name.encode())
    assert str(unreadable_time(name.encode())) == f"[Errno 22] {name!r} is before 1970, where Kafka's times begin; " + (
        f"write {EXAMPLE_TIMES}"
    )
    assert not is_before_1970(b"1970-01-01") and not is_before_1970(b"soon")


def test_a_blank_may_stand_between_date_and_time() -> None:
    assert parse_time(b"2026-11-20 18:40:01", NOW) == parse_time(b"2026-11-20T18:40:01Z", NOW) is not None
    assert parse_time(b"2026-11-20 18:40", NOW) == parse_time(b"2026-11-20T18:40", NOW)


SIZES = {"0": 0, "500": 500, "0010": 10, "1k": 1024, "20M": 20 << 20, "10g": 10 << 30, "64MB": 64 << 20, "1KiB": 1024}


@pytest.mark.parametrize("text", SIZES)
def test_a_size_is_read(text: str) -> None:
    assert parse_size(text) == SIZES[text]


@pytest.mark.parametrize(
    "text", ["", "k", "-1", "1.5g", "1 k", "1kbit", "1b", "1ib", "1tb", "1t", "9" * 20, "٢", "1\n"]
)
def test_what_is_no_size_means_nothing(text: str) -> None:
    assert parse_size(text) is None


def test_a_caller_permits_the_units() -> None:
    assert parse_size("1t", "kmgt") == 1 << 40
    assert parse_size("1k", "") is None


@pytest.mark.parametrize(
    ("name", "text", "number"),
    [
        ("retention.ms", "7d", "604800000"),
        ("segment.ms", "1h30m", "5400000"),
        ("retention.ms", "2weeks", "1209600000"),
        ("retention.ms", "1day12hours", "129600000"),
        ("segment.ms", "1hour", "3600000"),
        ("segment.ms", "90min", "5400000"),
        ("segment.ms", "30seconds", "30000"),
        ("segment.bytes", "64MB", "67108864"),
        ("segment.bytes", "1GiB", "1073741824"),
        ("linger-ms", "20ms", "20"),
        ("log.retention.hours", "2d", "48"),
        ("offsets.retention.minutes", "1w", "10080"),
        ("segment.bytes", "64m", "67108864"),
        ("log.cleaner.dedupe.buffer.size", "1G", "1073741824"),
        ("log.cleaner.io.max.bytes.per.second", "10m", "10485760"),
    ],
)
def test_the_name_of_a_setting_has_the_unit_of_its_number(name: str, text: str, number: str) -> None:
    assert plain_number(name, text) == number
    assert plain_number(name, number) == number


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log.retention.hours", "90m"),
        ("retention.ms", "7"),
        ("retention.ms", "-1"),
        ("retention.ms", "soon"),
        ("retention.ms", "2months"),
        ("retention.ms", "2wks"),
        ("segment.bytes", "7d"),
        ("flush.messages", "1k"),
        ("cleanup.policy", "1d"),
    ],
)
def test_a_value_without_a_unit_of_its_setting_stays(name: str, text: str) -> None:
    assert plain_number(name, text) == text
