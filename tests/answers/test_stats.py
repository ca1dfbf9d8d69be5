"""`offsetfs stats`: what headers of batches say, compared with the records themselves."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from fixtures.logs.keyed_logs import Keyed, keyed
from fixtures.logs.planted_logs import batch, plant
from fixtures.logs.small_logs import DAY_MS, HOUR_MS, record

from offsetfs.answers.stats.partition_scan import scan_partitions
from offsetfs.answers.stats.time_counts import BINS_MAX, TIME_MS_MAX, TimeCounts
from offsetfs.cli import exit_codes, run
from offsetfs.storage import LogDirectories, LogDirectory, LogReader, TopicPartition
from offsetfs.storage.names import segment_name

pytestmark = pytest.mark.unit

Stats = Callable[..., tuple[int, dict[str, Any], str]]
SCHEMA = Path(__file__).parents[2] / "docs" / "use" / "report.schema.json"


@pytest.fixture
def stats(capsys: pytest.CaptureFixture[str]) -> Stats:
    """Runs `offsetfs stats --json`; returns its exit code, the report, and stderr."""

    def stats(*words: object) -> tuple[int, dict[str, Any], str]:
        capsys.readouterr()
        code = run(["stats", *map(str, words), "--json"])
        out, err = capsys.readouterr()
        report = json.loads(out) if out else {}
        if report:
            jsonschema.validate(report, json.loads(SCHEMA.read_text()))
        return code, report, err

    return stats


def test_a_directory_without_partitions_has_no_records_and_no_averages(tmp_path: Path, stats: Stats) -> None:
    (tmp_path / "meta.properties").write_text("version=1\nbroker.id=1\n")
    code, report, err = stats(tmp_path)
    assert (code, err) == (exit_codes.DONE, "")
    facts = report["facts"]
    assert (facts["partitions"], facts["records"], facts["records_per_batch"], facts["oldest"]) == (0, 0, None, None)


def test_an_empty_partition_is_in_the_table(tmp_path: Path, stats: Stats) -> None:
    plant(tmp_path, {0: []})
    code, report, _ = stats(tmp_path)
    assert code == exit_codes.DONE
    assert report["tables"]["partitions"][0]["records"] == 0
    assert report["tables"]["partitions"][0]["oldest"] is None
    assert report["tables"]["topics"][0]["skew"] is None


def test_records_bytes_codecs_and_times_come_from_headers(tmp_path: Path, stats: Stats) -> None:
    zipped = batch(3, *[b"v" * 1000] * 5, timestamp=HOUR_MS, codec="zstd")
    plant(tmp_path, {0: [batch(0, b"a", b"b", b"c"), zipped]})
    code, report, _ = stats(tmp_path, "orders")
    assert code == exit_codes.DONE
    facts, tables = report["facts"], report["tables"]
    assert (facts["records"], facts["batches"], facts["oldest"], facts["newest"]) == (8, 2, 1000, HOUR_MS)
    assert tables["partitions"][0]["bytes"] == facts["log_bytes"]
    ratios = {row["codec"]: row for row in tables["codecs"]}
    assert (ratios["none"]["ratio"], ratios["none"]["batches"], ratios["zstd"]["sampled_batches"]) == (1.0, 1, 1)
    assert ratios["zstd"]["ratio"] == pytest.approx((5 * 1008 + 61) / len(zipped), rel=0.01)
    assert sum(bar["count"] for bar in report["histograms"]["times"]) == 8
    assert tables["time_gaps"] == [
        {"partition": "orders-0", "seconds": 3599.0, "begin": 1000, "end": HOUR_MS, "offset": 3}
    ]


def test_records_below_the_start_of_the_log_do_not_count(tmp_path: Path, stats: Stats) -> None:
    plant(tmp_path, {0: [batch(0, *[b"x"] * 10), batch(10, b"y")]}, log_start=4)
    _, report, _ = stats(tmp_path)
    assert (report["facts"]["records"], report["facts"]["missing_offsets"]) == (7, 0)
    assert report["tables"]["partitions"][0]["start_offset"] == 4


def test_gaps_of_compaction_are_counted_and_the_largest_are_listed(tmp_path: Path, stats: Stats) -> None:
    within = keyed(100, Keyed(0, b"a", b"1"), Keyed(5, b"b", b"2"))
    plant(tmp_path, {0: [batch(0, b"x"), within, batch(110, b"y")]})
    code, report, _ = stats(tmp_path)
    assert code == exit_codes.DONE
    assert report["facts"]["missing_offsets"] == 99 + 4 + 4
    gaps = [(row["offsets"], row["first"], row["next_offset"]) for row in report["tables"]["offset_gaps"]]
    assert gaps == [(99, 1, 100), (4, 106, 110)]


def test_producers_transactions_and_control_batches_are_counted(tmp_path: Path, stats: Stats) -> None:
    record = Keyed(0, b"k", b"v")
    plant(
        tmp_path,
        {
            0: [
                keyed(0, record, producer=(7, 1, 0), transactional=True),
                keyed(1, Keyed(0, b"\0\0\0\1", b"\0" * 6), producer=(7, 1, -1), transactional=True, control=True),
                keyed(2, record, Keyed(1, b"k", b"v"), producer=(9, 0, 0)),
                keyed(4, record),
            ]
        },
    )
    _, report, _ = stats(tmp_path)
    facts = report["facts"]
    assert (facts["records"], facts["control_batches"], facts["producers"]) == (4, 1, 2)
    assert facts["transactional_share"] == 0.25
    producers = [(row["producer_id"], row["epoch"], row["records"]) for row in report["tables"]["producers"]]
    assert producers == [(9, 0, 2), (7, 1, 1)]


@pytest.mark.damages
def test_a_damaged_header_is_a_finding_and_the_rest_is_counted(tmp_path: Path, stats: Stats) -> None:
    damaged = bytearray(batch(1, b"b"))
    damaged[16] = 9
    plant(tmp_path, {0: [batch(0, b"a"), bytes(damaged), batch(2, b"c")], 3: [batch(3, b"d")]})
    code, report, _ = stats(tmp_path)
    assert code == 1
    assert report["facts"]["records"] == 3
    assert [finding["kind"] for finding in report["findings"]] == ["unreadable-batches"]
    assert "magic 9" in report["findings"][0]["evidence"]


@pytest.mark.damages
def test_offsets_that_do_not_rise_are_a_finding(tmp_path: Path, stats: Stats) -> None:
    plant(tmp_path, {0: [batch(0, b"a"), batch(500, b"b"), batch(2, b"c")], 3: [batch(3, b"d")]})
    code, report, _ = stats(tmp_path)
    assert (code, "offset-order" in [each["kind"] for each in report["findings"]]) == (1, True)


@pytest.mark.damages
def test_a_partition_that_does_not_open_is_named_and_the_others_are_counted(tmp_path: Path, stats: Stats) -> None:
    plant(tmp_path, {0: [batch(0, b"a")]})
    broken = tmp_path / "broken-0"
    broken.mkdir()
    (broken / segment_name(0, ".log")).mkdir()
    code, report, _ = stats(tmp_path)
    assert (code, report["facts"]["records"]) == (exit_codes.FAILED, 1)
    assert any("broken-0" in sentence for sentence in report["unseen"])


def test_skew_is_the_largest_partition_by_the_mean(tmp_path: Path, stats: Stats) -> None:
    plant(tmp_path, {0: [batch(number, b"x") for number in range(30)]})
    other = tmp_path / "orders-1"
    other.mkdir()
    (other / segment_name(0, ".log")).write_bytes(b"".join(batch(number, b"x") for number in range(10)))
    _, report, _ = stats(tmp_path)
    assert report["tables"]["topics"][0]["skew"] == 1.5


def test_an_unknown_topic_is_a_wrong_call_in_one_line(tmp_path: Path, stats: Stats) -> None:
    plant(tmp_path, {0: [batch(0, b"a")]})
    code, report, err = stats(tmp_path, "order")
    assert (code, report) == (exit_codes.WRONG_CALL, {})
    assert "did you mean orders" in err and err.count("\n") == 1


def test_retention_that_is_due_is_in_the_report(tmp_path: Path, stats: Stats) -> None:
    with contextlib.closing(LogDirectory.open(str(tmp_path))) as directory:
        log = directory.create_partition(TopicPartition("orders", 0), {"retention.ms": "1000"})
        for offset in range(3):
            log.append(record(1000 + offset))
            log.roll()
    _, report, _ = stats(tmp_path)
    assert report["facts"]["retention_bytes"] > 0
    assert report["tables"]["due"][0]["task"] == "retention"


def test_headers_of_a_range_are_those_that_reach_into_it(tmp_path: Path) -> None:
    plant(tmp_path, {0: [batch(0, *[b"x"] * 5), batch(5, *[b"x"] * 5)], 10: [batch(10, *[b"x"] * 5)]})
    with contextlib.closing(LogDirectory.open(str(tmp_path), read_only=True)) as directory:
        log = directory.log(TopicPartition("orders", 0))
        for start, stop, bases in ((0, 15, [0, 5, 10]), (5, 10, [5]), (6, 11, [5, 10]), (0, 1, [0]), (7, 7, [])):
            rows = LogReader(log, start=start, stop=stop, isolation="raw").headers()
            assert [base for each in rows for base in each.column(1)] == bases


# --- records ---------------------------------------------------------------------------------------------------------


def test_values_have_sizes_keys_nulls_and_headers(tmp_path: Path, stats: Stats) -> None:
    records = [
        Keyed(number, b"k%d" % (number % 4), b"v" * 20, headers=[("h", b"")] * (number % 2)) for number in range(8)
    ]
    plant(
        tmp_path, {0: [keyed(0, *records, codec="zstd"), keyed(8, Keyed(0, b"k1", None), Keyed(1, None, b"x" * 100))]}
    )
    code, report, _ = stats(tmp_path, "--values")
    facts, tables = report["facts"], report["tables"]
    assert (code, facts["depth"], facts["records"], facts["tombstones"]) == (exit_codes.DONE, "all records", 10, 1)
    assert (facts["null_share"], facts["keyed_share"], facts["distinct_keys"], facts["header_share"]) == (
        0.1,
        0.9,
        4,
        0.4,
    )
    assert tables["values"][0]["median"] == 20
    assert tables["values"][0]["largest"] == 100
    assert tables["largest"][0] == {"partition": "orders-0", "offset": 9, "bytes": 100}
    assert tables["heavy_keys"][0] == {
        "topic": "orders",
        "key": "k1",
        "key_bytes": 2,
        "records_min": 3,
        "records_max": 3,
        "share": 0.3,
    }
    assert tables["keys"][0]["replaced_share"] == pytest.approx(5 / 9)
    assert sum(bar["count"] for bar in report["histograms"]["value_sizes"]) == 9
    ratios = {row["codec"]: row["ratio"] for row in tables["codecs"]}
    assert ratios["none"] == 1.0 and ratios["zstd"] > 1


@pytest.mark.parametrize("kafka", ["kafka-0.8.2.2", "kafka-0.10.0.1", "kafka-3.6.2", "kafka-4.1"])
def test_values_of_golden_logs_are_those_that_readers_see(kafka: str, stats: Stats) -> None:
    golden = Path(__file__).parents[1] / "golden" / kafka
    code, report, _ = stats(golden, "--values")
    by_headers = {row["partition"]: row for row in stats(golden)[1]["tables"]["partitions"]}
    assert code == exit_codes.DONE
    rows = {row["partition"]: row for row in report["tables"]["partitions"]}
    with contextlib.closing(LogDirectory.open(str(golden), read_only=True)) as directory:
        for partition in directory.partitions():
            wanted = list(LogReader(directory.log(partition)).records())
            row = rows[str(partition)]
            assert row["records"] == len(wanted)
            times = [each.timestamp for each in wanted if each.timestamp >= 0]
            assert (row["oldest"], row["newest"]) == (min(times, default=None), max(times, default=None))
            header = by_headers[str(partition)]
            assert header["records"] in (None, len(wanted))
            assert header["bytes"] == row["bytes"]


@pytest.mark.damages
def test_a_damaged_record_is_left_out_and_the_header_still_counts_without_values(tmp_path: Path, stats: Stats) -> None:
    damaged = bytearray(batch(1, b"b"))
    damaged[-1] ^= 1
    plant(tmp_path, {0: [batch(0, b"a"), bytes(damaged)], 2: [batch(2, b"c")]})
    code, report, _ = stats(tmp_path, "--values")
    assert (code, report["facts"]["records"], report["findings"][0]["kind"]) == (1, 2, "unreadable-batches")
    assert report["tables"]["offset_gaps"] == [{"partition": "orders-0", "offsets": 1, "first": 1, "next_offset": 2}]


@pytest.mark.damages
def test_segments_that_threads_share_give_the_facts_of_one_reader(tmp_path: Path) -> None:
    """Also if the log begins inside of a segment, with gaps, and where a batch or its offset is damaged."""

    def segment(base: int) -> list[bytes]:
        batches = [
            keyed(
                base + 20 * each,
                *(
                    Keyed(n, b"k%d" % ((base + n * each) % 7), b"v" * (n + base % 50) or None, 1000 + n)
                    for n in range(9)
                ),
                codec=codec,
            )
            for each, codec in enumerate(("zstd", "none", "none", "lz4"))
        ]
        return [*map(bytes, batches)]

    def broken(batches: list[bytes], at: int) -> list[bytes]:
        damaged = bytearray(batches[1])
        damaged[at] ^= 1
        return [batches[0], bytes(damaged), *batches[2:]]

    segments = {base: segment(base) for base in (0, 100, 200, 300)}
    cases = {
        "sound": (segments, None),
        "from inside": (segments, 125),
        "a damaged record": ({**segments, 200: broken(segments[200], -1)}, None),
        "a damaged offset": ({**segments, 100: broken(segments[100], 6)}, None),
    }
    for name, (content, log_start) in cases.items():
        path = tmp_path / name
        plant(path, content, log_start=log_start)
        found, no_times = [], TimeCounts()
        with contextlib.closing(LogDirectories.open([str(path)], _read_only)) as directory:
            for threads in (1, 2, 3):
                scan = scan_partitions(directory, list(directory.partitions()), reads_values=True, threads=threads)
                [facts] = scan.partitions
                times = facts.headers.times
                facts.headers.times = no_times
                found.append((facts, scan.total, times.bins, times.untimed, times.beyond))
        assert found[0] == found[1] == found[2], name
        assert found[0][1] is not None and found[0][1].records > 80, name


def _read_only(path: str) -> LogDirectory:
    return LogDirectory.open(path, read_only=True)


def test_values_below_the_start_of_the_log_do_not_count(tmp_path: Path, stats: Stats) -> None:
    plant(tmp_path, {0: [batch(0, *[b"x"] * 10), batch(10, b"y")]}, log_start=4)
    _, report, _ = stats(tmp_path, "--values")
    assert (report["facts"]["records"], report["facts"]["missing_offsets"]) == (7, 0)


def test_keys_that_are_no_text_and_that_control_terminals_are_escaped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(tmp_path, {0: [keyed(0, Keyed(0, b"\xff\x1b[2J<b>", b"1"), Keyed(1, b"\xff\x1b[2J<b>", b"2"))]})
    capsys.readouterr()
    assert run(["stats", str(tmp_path), "--values", "--html", "-"]) == exit_codes.DONE
    page = capsys.readouterr().out
    assert "\x1b" not in page and "<b>" not in page and "&lt;b&gt;" in page
    assert run(["stats", str(tmp_path), "--values"]) == exit_codes.DONE
    assert "\x1b" not in capsys.readouterr().out


# --- times -----------------------------------------------------------------------------------------------------------


def counts_of(*times: int) -> TimeCounts:
    counts = TimeCounts()
    counts.add(np.array(times, np.int64), np.ones(len(times), np.int64))
    return counts


def test_bins_of_times_stay_bounded_and_lose_no_record() -> None:
    counts = counts_of(*(number * DAY_MS for number in range(3 * BINS_MAX)))
    assert len(counts.bins) <= BINS_MAX
    assert sum(counts.bins.values()) == 3 * BINS_MAX
    assert sum(bar.count for bar in counts.bars()) == 3 * BINS_MAX


def test_times_that_cannot_be_are_counted_apart() -> None:
    counts = counts_of(-1, 5, TIME_MS_MAX + 1, 2**63 - 1)
    assert (counts.untimed, counts.beyond, sum(counts.bins.values())) == (1, 2, 1)


def test_one_wrong_clock_does_not_hide_the_histogram() -> None:
    counts = counts_of(0, *[20_000 * DAY_MS + number * 60_000 for number in range(5000)])
    bars = counts.bars()
    assert bars[0].label.startswith("before") and bars[0].count >= 1
    assert len(bars) > 10


def test_merged_times_are_those_of_both() -> None:
    near, far = counts_of(0, 60_000), counts_of(*(number * DAY_MS for number in range(2 * BINS_MAX)))
    near.merge(far)
    assert sum(near.bins.values()) == 2 + 2 * BINS_MAX


# --- the page --------------------------------------------------------------------------------------------------------

PAGE = Path(__file__).parents[2] / "docs" / "use" / "answers.md"


def test_what_the_page_says_of_old_sets_and_unknown_settings_is_so(tmp_path: Path, stats: Stats) -> None:
    page = " ".join(PAGE.read_text().split())
    assert "If the settings of a topic are elsewhere, the report says that it is not known." in page
    assert "`SKEW` is the largest partition divided by the mean." in page
    assert "Records of aborted transactions count; control batches are counted apart." in page
    assert "A number that headers do not have is `?`, such as the records in a compressed set of v0 or v1." in page
    golden = Path(__file__).parents[1] / "golden" / "kafka-0.10.0.1"
    code, report, _ = stats(golden)
    assert (code, report["facts"]["records"]) == (exit_codes.DONE, None)
    assert "Quantiles of sizes are within 1.6 %; distinct keys have a standard error of 0.8 %." in page
    assert any("the settings are elsewhere" in sentence for sentence in report["unseen"])
    counted = {row["partition"]: row["records"] for row in report["tables"]["partitions"]}
    assert (counted["v1-none-0"], counted["v1-gzip-0" if "v1-gzip-0" in counted else "v1-lz4-0"]) == (50, None)


def test_the_largest_size_is_never_below_that_of_a_record(tmp_path: Path, stats: Stats) -> None:
    records = [Keyed(at, b"k" * (at % 3 + 1), b"v" * size) for at, size in enumerate((19_716, 17_151, 4_097))]
    plant(tmp_path, {0: [keyed(0, *records)]})
    _, report, _ = stats(tmp_path, "--values")
    assert 19_716 <= report["tables"]["values"][0]["largest"] <= 19_717
    assert report["tables"]["keys"][0]["largest"] == 3
