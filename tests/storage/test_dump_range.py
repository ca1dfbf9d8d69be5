"""A dump from here to there: which files, from which byte on, and which records."""

import io
import json
from pathlib import Path

import pytest

from offsetfs.storage.dump.dump import DumpOptions, dump_file
from offsetfs.storage.dump.log import LogOptions
from offsetfs.storage.dump.printer import LineBuffer
from offsetfs.storage.dump.range import DumpRange, RangeBound, logs_within
from offsetfs.storage.dump.report import DumpReport
from offsetfs.storage.errors import InvalidName

pytestmark = pytest.mark.unit

GOLDEN = Path(__file__).parents[1] / "golden"
PARTITIONS = ["kafka-4.1/segments-0", "kafka-4.1/codec-zstd-0", "kafka-4.1/compacted-0", "kafka-4.1/transactions-0"]
PARTITIONS += ["kafka-0.10.2.2/v0-segs-mix-0", "kafka-0.10.2.2/v1-compact-gzip-0", "kafka-3.6.2/mixed-v0v1v2-0"]


def offsets(partition: Path, wanted: DumpRange) -> list[int]:
    """The offsets of the records that a dump of the range shows."""
    paths = sorted(str(path) for path in partition.glob("*.log"))
    written = io.BytesIO()
    lines = LineBuffer(written.write)
    for path, options in logs_within(paths, wanted, LogOptions(data=True)):
        dump_file(path, DumpOptions(options, as_json=True), lines, DumpReport(pytest.fail, pytest.fail))
    lines.flush()
    return [json.loads(line)["offset"] for line in written.getvalue().splitlines()]


def times(partition: Path) -> list[tuple[int, int]]:
    rows = [
        json.loads(line) for line in partition.with_name(f"{partition.name}.expected.ndjson").read_text().splitlines()
    ]
    return [(row["timestamp"], row["offset"]) for row in rows]


@pytest.mark.parametrize("partition", PARTITIONS)
def test_records_between_two_offsets_are_shown_and_no_others(partition: str) -> None:
    everything = offsets(GOLDEN / partition, DumpRange())
    for start in range(0, everything[-1] + 3, 13):
        end = start + 29
        wanted = DumpRange(RangeBound(offset=start), RangeBound(offset=end))
        assert offsets(GOLDEN / partition, wanted) == [o for o in everything if start <= o < end]
    assert offsets(GOLDEN / partition, DumpRange(RangeBound(offset=17))) == [o for o in everything if o >= 17]
    assert offsets(GOLDEN / partition, DumpRange(end=RangeBound(offset=17))) == [o for o in everything if o < 17]


@pytest.mark.long
@pytest.mark.parametrize("partition", [name for name in PARTITIONS if "v0" not in name])
def test_a_time_means_the_first_record_that_reaches_it(partition: str) -> None:
    everything, known = offsets(GOLDEN / partition, DumpRange()), times(GOLDEN / partition)
    for timestamp, _ in known[::17]:
        first = next(offset for time, offset in known if time >= timestamp)
        wanted = DumpRange(RangeBound(timestamp=timestamp))
        assert offsets(GOLDEN / partition, wanted) == [o for o in everything if o >= first]
        assert offsets(GOLDEN / partition, DumpRange(end=wanted.start)) == [o for o in everything if o < first]
    assert offsets(GOLDEN / partition, DumpRange(RangeBound(timestamp=max(known)[0] + 1))) == []
    assert offsets(GOLDEN / partition, DumpRange(end=RangeBound(timestamp=max(known)[0] + 1))) == everything


def test_files_outside_of_the_range_are_not_opened() -> None:
    paths = sorted(str(path) for path in (GOLDEN / "kafka-4.1" / "segments-0").glob("*.log"))
    parts = list(logs_within(paths, DumpRange(RangeBound(offset=130), RangeBound(offset=140)), LogOptions()))
    assert [Path(path).name for path, _ in parts] == ["00000000000000000123.log"]


def test_the_index_states_where_to_begin() -> None:
    paths = [str(GOLDEN / "kafka-4.1" / "codec-none-0" / "00000000000000000000.log")]
    ((_, options),) = logs_within(paths, DumpRange(RangeBound(offset=360)), LogOptions())
    assert options.position > 100_000


def test_an_active_segment_has_a_tail_of_zeros_in_its_indexes(unclean_copy: Path) -> None:
    everything = offsets(unclean_copy / "epochs-0", DumpRange())
    last = everything[-1]
    assert offsets(unclean_copy / "epochs-0", DumpRange(RangeBound(offset=last - 3))) == [
        o for o in everything if o >= last - 3
    ]


def test_without_indexes_it_takes_longer_and_nothing_is_left_behind(golden_copy: Path) -> None:
    partition = golden_copy / "segments-0"
    for index in [*partition.glob("*.index"), *partition.glob("*.timeindex")]:
        index.unlink()
    before = sorted(partition.iterdir())
    assert offsets(partition, DumpRange(RangeBound(offset=300), RangeBound(offset=305))) == [300, 301, 302, 303, 304]
    assert sorted(partition.iterdir()) == before


def test_a_log_of_another_name_has_no_index_to_go_by(tmp_path: Path) -> None:
    path = tmp_path / "rescued.log"
    path.write_bytes(b"")
    with pytest.raises(InvalidName, match="not the name of a segment"):
        list(logs_within([str(path)], DumpRange(RangeBound(offset=1)), LogOptions()))
