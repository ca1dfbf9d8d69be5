"""The jobs: what they answer, and what they leave behind."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import offsetfs
from offsetfs.storage.compaction.compaction import clean, find_dirty_range
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.records.format.partitioner import partition_of
from offsetfs.storage.verify.verify import Verification

pytestmark = pytest.mark.spark


def records(path: Path, topic: str) -> dict[str, list[offsetfs.Record]]:
    with offsetfs.open(path) as data:
        return {each.name: list(each.read()) for each in data.partitions(topic)}


# --- stats and verify ------------------------------------------------------------------------------------------------


def test_stats_counts_what_the_library_reads(spark: Any, golden: Path) -> None:
    from offsetfs.pipeline.jobs.stats import stats

    found = {f"{each.topic}-{each.partition}": each for each in stats(spark, str(golden)).partitions}
    with offsetfs.open(golden) as data:
        for partition in data.partitions():
            if partition.topic.startswith("__") or not (wanted := list(partition.read())):
                continue
            counted, keys = found[partition.name], Counter(record.key for record in wanted if record.key is not None)
            assert counted.records == len(wanted), partition.name
            assert counted.keyed == keys.total()
            assert abs(counted.distinct_keys - len(keys)) <= max(1, len(keys) // 50)
            assert counted.hottest_key_records >= max(keys.values(), default=0)
            assert counted.latest_ms == max(record.timestamp for record in wanted)
            assert counted.bytes == sum(batch.header.size for batch in partition.batches())


def test_the_job_and_the_command_count_the_same(spark: Any, golden: Path) -> None:
    from offsetfs.answers.stats.partition_scan import scan_partitions
    from offsetfs.pipeline.jobs.stats import stats
    from offsetfs.storage import LogDirectories

    found = {(each.topic, each.partition): each for each in stats(spark, str(golden)).partitions}
    with contextlib.closing(
        LogDirectories.open([str(golden)], lambda path: LogDirectory.open(path, read_only=True))
    ) as directory:
        partitions = [each for each in directory.partitions() if (each.topic, each.partition) in found]
        scan = scan_partitions(directory, partitions, reads_values=True)
    assert len(scan.partitions) == len(found)
    for each in scan.partitions:
        counted, headers, values = found[each.partition.topic, each.partition.partition], each.headers, each.values
        assert values is not None
        assert (each.start_offset, each.end_offset) == (counted.start_offset, counted.end_offset)
        assert (headers.records, headers.batches, headers.bytes) == (counted.records, counted.batches, counted.bytes)
        assert (headers.earliest_ms, headers.latest_ms) == (counted.earliest_ms, counted.latest_ms)
        assert (values.keyed, values.distinct_keys) == (counted.keyed, counted.distinct_keys)
        heaviest = values.heavy_keys[0].records + values.heavy_error if values.heavy_keys else 0
        assert heaviest == counted.hottest_key_records
        assert {codec: count.batches for codec, count in headers.codecs.items()} == counted.codecs


def test_stats_is_the_same_however_the_work_is_cut(spark: Any, golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from offsetfs.pipeline import read_options
    from offsetfs.pipeline.jobs.stats import stats

    whole = stats(spark, str(golden), ["segments", "wide"])
    monkeypatch.setattr(read_options, "SPLIT_BYTES", 9000)
    assert stats(spark, str(golden), ["segments", "wide"]) == whole


@pytest.mark.damages
@pytest.mark.parametrize("task_bytes", [3_000, 64 << 20])
def test_verify_finds_what_the_command_finds_however_the_work_is_cut(
    spark: Any, golden_copy: Path, monkeypatch: pytest.MonkeyPatch, task_bytes: int
) -> None:
    from offsetfs.pipeline.jobs import verify as job

    monkeypatch.setattr(job, "TASK_BYTES", task_bytes)
    for log in [next(golden_copy.glob("keyed-1/*.log")), *sorted(golden_copy.glob("segments-0/*.log"))[3:5]]:
        data = bytearray(log.read_bytes())
        data[200] ^= 1
        log.write_bytes(data)
    (golden_copy / "recovery-point-offset-checkpoint").write_text("0\nno number\n")
    wanted: list[Any] = []
    tally = Verification(str(golden_copy), report=wanted.append).run()
    found = job.verify(spark, str(golden_copy))
    assert sorted(map(str, found.findings)) == sorted(map(str, wanted))
    assert (found.tally, found.damage > 0) == (tally, True)


# --- compact ---------------------------------------------------------------------------------------------------------


def test_compact_leaves_what_the_cleaner_leaves_byte_for_byte(spark: Any, tmp_path: Path) -> None:
    from offsetfs.pipeline.jobs.compact import compact
    from offsetfs.pipeline.jobs.workers import JobFailed

    ours, cleaners = tmp_path / "ours", tmp_path / "cleaners"
    ours.mkdir()
    with offsetfs.open(ours, "a", settings={"segment.bytes": "4000"}) as data:
        data.create("users", 3, {"cleanup.policy": "compact"})
        data.create("orders")
        for number, partition in enumerate(data.partitions("users")):
            for batch in range(40 * (number > 0)):
                rows = [
                    offsetfs.NewRecord(b"v%d" % n, b"k%d" % (n % 13 * number), (), n) for n in range(batch, batch + 9)
                ]
                partition.extend(rows)
    shutil.copytree(ours, cleaners)
    directory = LogDirectory.open(str(cleaners), defaults={"segment.bytes": "4000"})
    for name in [each for each in directory.partitions() if each.topic == "users"]:
        log = directory.log(name)
        if (found := find_dirty_range(log, None, 5000)).cleanable_bytes:
            directory.set_cleaner_offset(name, clean(log, found, now_ms=5000).end_offset)
    directory.close()
    done = compact(spark, str(ours))
    assert [each.partition for each in done.partitions] == ["users-1", "users-2"]
    assert all(each.records_kept < each.records_read for each in done.partitions)
    assert content(ours) == content(cleaners)
    assert compact(spark, str(ours)).partitions == ()
    assert sorted(os.listdir(tmp_path)) == ["cleaners", "ours"]
    with pytest.raises(JobFailed, match=r"orders-0: cleanup\.policy of orders is not compact"):
        compact(spark, str(ours), ["orders-0"])


def content(path: Path) -> dict[str, bytes]:
    return {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}


# --- reindex ---------------------------------------------------------------------------------------------------------


def test_reindex_makes_what_is_missing_or_wrong(spark: Any, golden_copy: Path) -> None:
    from offsetfs.pipeline.jobs.reindex import reindex

    reindex(spark, str(golden_copy))
    wanted = {path: path.read_bytes() for path in golden_copy.glob("*/*index") if path.suffix != ".txnindex"}
    lost, torn = [path for path in sorted(wanted) if path.parent.name == "segments-0" and any(wanted[path])][:2]
    lost.unlink()
    torn.write_bytes(b"\1" * 16)
    found = reindex(spark, str(golden_copy), ["segments-0", "keyed-0"])
    assert found.changed in (1, 2) and found.segments > 2
    assert {path: path.read_bytes() for path in wanted} == wanted
    findings: list[Any] = []
    Verification(str(golden_copy), report=findings.append).run()
    assert not [each for each in findings if "index" in each.kind]


# --- export ----------------------------------------------------------------------------------------------------------


def test_export_writes_each_record_once_and_goes_on_where_it_was_stopped(spark: Any, tmp_path: Path) -> None:
    from offsetfs.pipeline.jobs.export import export

    source, target = tmp_path / "source", tmp_path / "parquet"
    source.mkdir()
    with offsetfs.open(source, "a") as data:
        orders = data.create("orders")[0]
        for number in range(30):
            orders.append_lines(b"%050d\n" % number * 50)
    done = export(spark, str(source), str(target), bytes_per_file=9000)
    assert done.files == done.files_made >= 3 and done.records_made == 1500
    lost = sorted(target.rglob("*.parquet"))[1]
    lost.unlink()
    assert export(spark, str(source), str(target), bytes_per_file=9000).files_made == 1
    assert lost.exists()
    with offsetfs.open(source, "a") as data:
        data.partition("orders-0").append(b"later", key=b"k", headers=[("h", b"x")])
    assert export(spark, str(source), str(target)).records_made == 1
    rows = spark.read.parquet(str(target)).orderBy("offset").collect()
    assert [row.offset for row in rows] == list(range(1501))
    assert (bytes(rows[-1].value), bytes(rows[-1].key), rows[-1].headers[0].key) == (b"later", b"k", "h")
    assert (rows[0].topic, rows[0].partition) == ("orders", 0)
    assert [name for name in os.listdir(target / "topic=orders" / "partition=0") if name.endswith(".tmp")] == []


# --- import ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    from offsetfs.pipeline.jobs import import_files

    monkeypatch.setattr(import_files, "SPLIT_BYTES", 4000)


@pytest.mark.usefixtures("small_splits")
def test_lines_are_imported_once_with_their_bytes(spark: Any, tmp_path: Path) -> None:
    from offsetfs.pipeline.jobs.import_files import import_files

    lines = [b"%d \xff\xfe" % number + b"x" * (number % 70) for number in range(2000)]
    lines[1000] = b"y" * 9000  # longer than a split
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_bytes(b"\n".join(lines[:1500]))
    (tmp_path / "in" / "b.txt").write_bytes(b"\n".join(lines[1500:]) + b"\n")
    for is_repeated in (False, True):
        found = import_files(spark, str(tmp_path / "in"), str(tmp_path / "logs"), "lines", partitions=3)
        assert (found.published.records, found.published.is_repeated) == (2000, is_repeated)
    read = [record.value or b"" for rows in records(tmp_path / "logs", "lines").values() for record in rows]
    assert Counter(read) == Counter(lines)


@pytest.mark.promise("Spark writes, imports and repartitions keep the order of records with the same key.")
@pytest.mark.usefixtures("small_splits")
def test_records_of_a_key_keep_their_order_and_invalid_lines_are_reported(spark: Any, tmp_path: Path) -> None:
    from offsetfs.pipeline.jobs.import_files import import_files
    from offsetfs.pipeline.jobs.workers import JobFailed

    lines = [json.dumps({"key": f"k{n % 20}", "value": str(n), "timestamp": n}) for n in range(1500)]
    lines[700] = '{"key": "k0"'
    source = tmp_path / "in.ndjson"
    source.write_text("\n".join(lines) + "\n")
    arguments = (spark, str(source), str(tmp_path / "logs"), "events")
    with pytest.raises(JobFailed, match=r"in.ndjson, line 701: .* \(1 such lines, 0 allowed\)"):
        import_files(*arguments, format="ndjson", partitions=4)
    assert sum(map(len, records(tmp_path / "logs", "events").values())) == 0
    found = import_files(*arguments, format="ndjson", rejects_max=1)
    assert (found.published.records, [(each.line, Path(each.file)) for each in found.rejects]) == (
        1499,
        [(701, source)],
    )
    rows = records(tmp_path / "logs", "events")
    for name, partition in rows.items():
        for key in {record.key or b"" for record in partition}:
            assert partition_of(key, 4) == int(name[-1])
            numbers = [int(record.value or b"") for record in partition if record.key == key]
            assert numbers == sorted(numbers)
    assert not [name for name in os.listdir(tmp_path / "logs") if name.startswith(".offsetfs-staged")]


def test_what_export_wrote_is_imported_as_it_was(spark: Any, golden: Path, tmp_path: Path) -> None:
    from offsetfs.pipeline.jobs.export import export
    from offsetfs.pipeline.jobs.import_files import import_files

    export(spark, str(golden), str(tmp_path / "parquet"), ["keyed"])
    source = str(tmp_path / "parquet" / "topic=keyed")
    import_files(spark, source, str(tmp_path / "logs"), "keyed", format="parquet", partitions=4)

    def plain(rows: list[offsetfs.Record]) -> list[tuple[object, ...]]:
        return [(row.key, row.value, row.timestamp, row.headers) for row in rows]

    wanted = {name: plain(rows) for name, rows in records(golden, "keyed").items()}
    assert {name: plain(rows) for name, rows in records(tmp_path / "logs", "keyed").items()} == wanted


def test_rows_of_csv_become_objects(spark: Any, tmp_path: Path) -> None:
    from offsetfs.pipeline.jobs.import_files import import_files

    (tmp_path / "in.csv").write_text("name,color\nada,red\nbob,\n")
    arguments = (spark, str(tmp_path / "in.csv"), str(tmp_path / "logs"), "people")
    found = [import_files(*arguments, format="csv", partitions=1).published.is_repeated for _ in range(2)]
    assert found == [False, True]
    rows = [json.loads(row.value or b"") for row in records(tmp_path / "logs", "people")["people-0"]]
    assert rows == [{"name": "ada", "color": "red"}, {"name": "bob", "color": None}]


def test_invalid_rows_of_csv_with_newlines_are_reported_with_their_line(spark: Any, tmp_path: Path) -> None:
    from offsetfs.pipeline.jobs.import_files import TooManyRejects, import_files

    good, bad = tmp_path / "a.csv", tmp_path / "b.csv"
    good.write_bytes(b'\xef\xbb\xbfname,says\r\nada,"one\ntwo, ""three"""\r\n\nbob,\n')
    bad.write_bytes(b'name,says\neve,"a\nb",too much\nmallory,\xff\nzoe,ok\ncarl,"open')
    arguments = (spark, [str(good), str(bad)], str(tmp_path / "logs"), "people")
    with pytest.raises(TooManyRejects, match=r"b\.csv, line 2: 3 fields, but the header names 2 fields \(3 such lines"):
        import_files(*arguments, format="csv", partitions=1)
    result = import_files(*arguments, format="csv", partitions=1, rejects_max=3)
    reported = [(each.file, each.line, each.reason.partition(" (")[0]) for each in result.rejects]
    assert reported == [
        (str(bad), 2, "3 fields, but the header names 2 fields"),
        (str(bad), 4, "these bytes are not UTF-8"),
        (str(bad), 6, "no row of CSV"),
    ]
    rows = [json.loads(row.value or b"") for row in records(tmp_path / "logs", "people")["people-0"]]
    assert rows == [
        {"name": "ada", "says": 'one\ntwo, "three"'},
        {"name": "bob", "says": None},
        {"name": "zoe", "says": "ok"},
    ]


# --- tail ------------------------------------------------------------------------------------------------------------


def test_tail_goes_on_where_it_was(spark: Any, tmp_path: Path) -> None:
    from offsetfs.pipeline.jobs.tail import tail

    source, target = tmp_path / "source", tmp_path / "parquet"
    source.mkdir()
    with offsetfs.open(source, "a") as data:
        data.create("orders")[0].append_lines(b"a\nb\n")
    assert tail(spark, str(source), str(target), is_once=True).records == 2
    with offsetfs.open(source, "a") as data:
        data.partition("orders-0").append(b"c")
    assert tail(spark, str(source), str(target), is_once=True).records == 1
    rows = spark.read.parquet(str(target)).orderBy("offset").collect()
    assert [bytes(row.value) for row in rows] == [b"a", b"b", b"c"]


# --- repartition -----------------------------------------------------------------------------------------------------


@pytest.mark.promise("Spark writes, imports and repartitions keep the order of records with the same key.")
def test_groups_go_on_after_a_topic_gets_more_or_fewer_partitions(spark: Any, tmp_path: Path) -> None:
    from offsetfs.pipeline.jobs.repartition import read_moves, repartition, translate
    from offsetfs.pipeline.jobs.workers import JobFailed

    with offsetfs.open(tmp_path, "a") as data:
        for number, partition in enumerate(data.create("orders", 3)):
            rows = [offsetfs.NewRecord(b"%d:%d" % (number, n), b"k%d" % (n % 11 * 3 + number)) for n in range(400)]
            partition.extend(rows)
    arguments = (spark, str(tmp_path), "orders", str(tmp_path), "wide", 5)
    offset_map = tmp_path.parent / "map.ndjson"
    assert repartition(*arguments, offset_map=str(offset_map)).published.records == 1200
    assert repartition(*arguments).published.is_repeated
    old, new = records(tmp_path, "orders"), records(tmp_path, "wide")
    for name, moved in new.items():
        for key in {record.key or b"" for record in moved}:
            assert partition_of(key, 5) == int(name[-1])
            wanted = [record.value for held in old.values() for record in held if record.key == key]
            assert [record.value for record in moved if record.key == key] == wanted
    for committed in ({"orders-0": 0}, {"orders-0": 400, "orders-1": 130}, {f"orders-{n}": 400 for n in range(3)}):
        begins = translate(read_moves(str(offset_map)), committed)
        unread = {record.value for name, held in old.items() for record in held[committed.get(name, 0) :]}
        assert unread <= {record.value for name, rows in new.items() for record in rows[begins[name] :]}
    assert begins == {name: len(rows) for name, rows in new.items()}
    with pytest.raises(JobFailed, match="holds records already"):
        repartition(spark, str(tmp_path), "wide", str(tmp_path), "orders", 3)
