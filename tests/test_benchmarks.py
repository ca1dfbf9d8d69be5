"""The bench itself: its arithmetic, its page and charts, its made-up logs, and that a row of each module still runs."""

import functools
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition

ROOT = Path(__file__).parent.parent
BENCHMARKS = ROOT / "scripts" / "benchmarks"
sys.path.append(str(BENCHMARKS))

import brokers  # noqa: E402
import chart  # noqa: E402
import files_or_tables_page  # noqa: E402
import keyed  # noqa: E402
import logs  # noqa: E402
import machine  # noqa: E402
import report  # noqa: E402
from machine import Machine  # noqa: E402
from measuring import Contender, Peer, Row, interleaved, result, times_as_fast, times_as_long  # noqa: E402
from rows import MODULES, ROWS  # noqa: E402

MACHINE = Machine("2026-11-21", "abc", "a processor", 2, 24, "6.18", "3.11", "3.5", 0.5)


def contender(name: str) -> Contender:
    return Contender(name, lambda bench: nullcontext(lambda number: 1.0))


ROW = Row(
    "example",
    "An example: `true`",
    unit="s",
    of="lines",
    count=1000,
    count_quick=10,
    ours=contender("ours <&>"),
    peers=(Peer(contender("slow"), times_as_fast(2)), Peer(contender("quick"), times_as_long(1.5))),
    limit=3.0,
)
FIGURES = {"ours <&>": [1.0, 2.0, 4.0], "slow": [3.0, 4.0, 16.0], "quick": [1.0, 1.0, 1.0]}


@pytest.mark.unit
def test_figures_count_only_against_those_of_their_own_round() -> None:
    slow, quick = result(ROW, 1000, FIGURES).peers
    assert slow.ratios == [3.0, 2.0, 4.0]
    assert quick.ratios == [1.0, 2.0, 4.0]


@pytest.mark.unit
def test_a_goal_is_met_by_the_median() -> None:
    measured = result(ROW, 1000, FIGURES)
    assert [peer.is_met for peer in measured.peers] == [True, False]
    assert measured.is_met
    assert [peer.goal for peer in measured.peers] == ["≥ 2×", "≤ 1.5×"]


@pytest.mark.unit
def test_contenders_take_turns_and_the_first_round_does_not_count() -> None:
    taken: list[tuple[str, int]] = []

    def measure(name: str, number: int) -> float:
        taken.append((name, number))
        return float(number)

    figures = interleaved({name: functools.partial(measure, name) for name in "ab"}, 2)
    assert taken == [("a", -1), ("b", -1), ("a", 0), ("b", 0), ("a", 1), ("b", 1)]
    assert figures == {"a": [0.0, 1.0], "b": [0.0, 1.0]}


@pytest.mark.unit
def test_memory_is_made_ready_right_before_each_figure_of_both_sides() -> None:
    taken: list[tuple[str, int]] = []

    def measure(name: str, number: int) -> float:
        taken.append((name, number))
        return 1.0

    measures = {name: lambda number, name=name: measure(name, number) for name in "ab"}
    interleaved(measures, 1, lambda number: taken.append(("ready", number)))
    names = ["ready", "a", "ready", "b"]
    assert taken == [(name, number) for number in (-1, 0) for name in names]


@pytest.mark.unit
def test_a_round_whose_memory_did_not_stay_is_not_comparable(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = iter([1e9, 10e9, 1e9, 4e9, 9e9, 9e9])
    monkeypatch.setattr(machine, "touch_memory", lambda size: next(rates))
    memory = machine.ReadyMemory(1 << 20, 10e9)
    for number in range(3):
        memory.make_ready(number)
    assert memory.disturbed == {1}


@pytest.mark.unit
def test_a_row_with_less_than_three_comparable_rounds_reports_it() -> None:
    measured = replace(result(ROW, 1000, FIGURES), comparable=2)
    assert "Only 2 of 3 rounds are comparable" in report.spoken(measured)
    assert "**Only 2 of 3 rounds are comparable**" in report.section({"a subject": [(measured, MACHINE)]})
    for enough in (3, None):
        assert "comparable" not in report.spoken(replace(measured, comparable=enough))


@pytest.mark.unit
def test_the_report_has_the_rates_of_the_first_and_the_second_touch_of_memory() -> None:
    touched = replace(MACHINE, first_touch=0.33e9, second_touch=5.2e9)
    assert str(touched).endswith("load at the start 0.5; first touch of memory 0.3 GB/s, second 5.2 GB/s")
    assert "touch" not in str(MACHINE)
    assert machine.touch_memory(1 << 20) > 0


@pytest.mark.unit
def test_with_no_round_but_the_first_it_counts() -> None:
    assert interleaved({"a": float}, 0) == {"a": [-1.0]}


@pytest.mark.unit
def test_a_run_of_one_row_leaves_the_others_on_the_page(tmp_path: Path) -> None:
    (tmp_path / "performance.md").write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    other = result(ROW, 7, FIGURES)
    report.save(tmp_path, {"other": (other, MACHINE), "gone": (other, MACHINE)}, {"one": ["other", "gone", "example"]})
    report.save(tmp_path, {"example": (result(ROW, 1000, FIGURES), MACHINE)}, {"one": ["other"], "two": ["example"]})
    page = (tmp_path / "performance.md").read_text()
    assert page.startswith("before\n") and page.endswith("after\n") and "old" not in page
    assert page.index("### one") < page.index("### two") < page.index(f"\n1. {MACHINE.hardware}\n")
    first = "|[example](performance/example.svg)|An example: `true`|2 s (1–4), 0.0005 M/s|||"
    assert f"{first}≤ 3 s|2026-11-21<sup>1</sup>|\n" in page
    assert "||||slow|**3×** as fast (2–4)|≥ 2×||" in page
    assert list(json.loads((tmp_path / "performance" / "figures.json").read_text())) == ["other", "example"]


@pytest.mark.unit
def test_a_page_without_its_marks_is_refused() -> None:
    with pytest.raises(ValueError):
        report.replaced("a page", "a table")


@pytest.mark.unit
def test_a_chart_is_xml_with_a_bar_for_each_contender() -> None:
    tree = ElementTree.fromstring(chart.svg(result(ROW, 1000, FIGURES)))
    bars = [element for element in tree.iter() if element.tag.endswith("rect")]
    assert [float(bar.attrib["width"]) for bar in bars] == [50.0, 100.0, 25.0]


@pytest.mark.unit
def test_rows_have_names_of_their_own_and_a_quick_size() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert all(row.count_quick <= row.count for row in ROWS)
    assert all(row.peers or row.limit is not None for row in ROWS)


@pytest.mark.unit
def test_the_readable_batches_of_a_log_of_holes_are_found_by_its_indexes(tmp_path: Path) -> None:
    sparse = logs.sparse(tmp_path / "log", 3, 10)
    directory = LogDirectory.open(str(sparse.directory))
    log = directory.log(logs.PARTITION)
    indexes = {path: path.read_bytes() for path in sparse.directory.rglob("*index")}
    for offset in sparse.offsets[:50]:
        batch = log.batch_at(offset)
        record = batch.record(offset) if batch else None
        assert record and record.value is not None
        assert record.value + b"\n" == logs.line(offset - batch.header.base_offset if batch else -1)
    directory.close()
    assert {path: path.read_bytes() for path in sparse.directory.rglob("*index")} == indexes
    assert (len(log.snapshot()), len(set(sparse.offsets))) == (4, 10 * 150)


@pytest.mark.unit
@pytest.mark.parametrize("make", [logs.sealed_segments, logs.partitions])
def test_made_logs_are_whole_and_closed_cleanly(make: Callable[[Path, int], Path], tmp_path: Path) -> None:
    directory = LogDirectory.open(str(make(tmp_path / "log", 3)))
    for partition in directory.partitions():
        log = directory.log(partition)
        log.check()
        assert log.next_offset == len(log.snapshot()) and not log.damage
    directory.close()


@dataclass
class FakeBroker:
    """A broker with a given log."""

    text: str
    is_running: bool = True

    def log_text(self) -> str:
        return self.text


@pytest.mark.unit
def test_what_a_broker_states_of_its_work_is_read_to_three_digits() -> None:
    cleaned = """12:00:01.123 INFO LogCleaner [kafka-log-cleaner-thread-0]:
\tLog cleaner thread 0 cleaned log copy-lz4-1-0 (dirty section = [0, 5000000])
\t1,250.4 MB of log processed in 12.3 seconds (101.7 MB/sec).
\tIndexed 1,250.4 MB in 4.0 seconds (312.6 Mb/sec, 32.5% of total time)
"""
    loaded = (
        "12:00:02.001 INFO LogManager Completed load of Log(dir=/data/recovered-0, topicId=x, topic=recovered, "
        "partition=0, highWatermark=0) with 6 segments, local-log-start-offset 0 in 4321ms (1/1 completed in /data)"
    )
    broker = FakeBroker(cleaned + loaded)
    assert brokers.cleaned_seconds(broker, TopicPartition("copy-lz4-1", 0)) == pytest.approx(1250.4 / 101.7)
    assert brokers.loaded_seconds(broker, TopicPartition("recovered", 0)) == 4.321
    with pytest.raises(RuntimeError):
        brokers.loaded_seconds(FakeBroker(loaded, is_running=False), TopicPartition("covered", 0))


@pytest.mark.unit
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_keyed_log_has_a_fifth_as_many_keys_and_is_sealed(codec: str, tmp_path: Path) -> None:
    keys = keyed.keyed(tmp_path / "log", 3000, codec)
    assert keyed.records_left(tmp_path / "log", logs.PARTITION) == 3000
    with closing(LogDirectory.open(str(tmp_path / "log"), read_only=True)) as directory:
        batches = [batch for segment in directory.log(logs.PARTITION).snapshot() for batch in segment.batches()]
        assert len({record.key for batch in batches for record in batch.records()}) == keys <= 600
    sealed, active = sorted((tmp_path / "log").rglob("*.log"))
    assert active.stat().st_size == 0
    assert codec == "lz4" or abs(sealed.stat().st_size / 3000 - keyed.RECORD_BYTES) < 2


@pytest.mark.unit
def test_lines_of_words_are_as_long_as_the_others(tmp_path: Path) -> None:
    lines = logs.prose(tmp_path / "prose", 1000).read_bytes().splitlines(keepends=True)
    assert len(set(lines)) == 1000 and {len(line) for line in lines} == {logs.LINE_BYTES}


IN_SPARK = [row for row in ROWS if row.name.startswith(("spark-", "sql-"))]
TRIED = ROWS if "OFFSETFS_ALL_ROWS" in os.environ else tuple(rows[0] for rows in MODULES)
"""One row of each module, since all of them take five minutes; `scripts/soak benchmarks` tries every one."""


@pytest.mark.interop
@pytest.mark.long
def test_a_row_of_each_module_runs_in_its_quick_size(tmp_path: Path) -> None:
    run_quickly([row for row in TRIED if row not in IN_SPARK], tmp_path)


@pytest.mark.spark
@pytest.mark.long
def test_a_row_of_each_module_in_spark_runs_in_its_quick_size(tmp_path: Path) -> None:
    run_quickly([row for row in TRIED if row in IN_SPARK], tmp_path)


def run_quickly(rows: Sequence[Row], place: Path) -> None:
    command = [sys.executable, str(BENCHMARKS / "run.py"), "--quick", "--exactly", *(row.name for row in rows)]
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "OFFSETFS_BENCH_DIR": str(place)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"\n{row.name:<22}" in done.stdout for row in rows)
    assert not list(place.glob("data-*"))


@pytest.mark.mount
def test_a_checkout_is_compared_with_itself_in_turn(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARKS / "run.py"), "--before", str(ROOT), "--rounds", "1", "--count", "500"]
    done = subprocess.run(
        [*command, "--exactly", "record"],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "OFFSETFS_BENCH_DIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^record +[0-9.]+ +[0-9.]+  [0-9.]+× \([0-9.]+ to [0-9.]+\) µs", done.stdout, re.MULTILINE)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.mount
def test_a_checkout_that_cannot_be_measured_is_named(tmp_path: Path) -> None:
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    command = [sys.executable, str(BENCHMARKS / "run.py"), "--before", str(tmp_path), "--exactly", "start"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert f"not measured: {tmp_path} ended with 1" in done.stdout and "No module named 'bench'" in done.stderr


@pytest.mark.interop
def test_files_and_tables_are_compared_in_their_quick_size(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARKS / "run.py"), "--quick", "files-or-tables"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    names = {line.split()[0] for line in done.stdout.splitlines()[1:]}
    assert names == set(files_or_tables_page._KINDS)


@pytest.mark.unit
def test_the_page_of_files_and_tables_is_made_of_its_figures() -> None:
    folder = ROOT / "docs" / "evidence"
    questions, count, here = files_or_tables_page.load(folder)
    assert (folder / "files-or-tables.md").read_text() == files_or_tables_page.text(questions, count, here)
    for name, drawn in files_or_tables_page.charts(questions).items():
        assert (folder / "files-or-tables" / f"{name}.svg").read_text() == drawn


@pytest.mark.unit
def test_a_claim_holds_for_both_tables_or_in_part() -> None:
    assert files_or_tables_page._verdict([1.5, 2.0]) == "**holds**"
    assert files_or_tables_page._verdict([0.5, 2.0]) == "**holds in part**"
    assert files_or_tables_page._verdict([0.5, 1.0]) == "**does not hold**"
    assert files_or_tables_page._verdict([0.9, 1.2]) == "is **undecided**"
