"""The bench itself: its arithmetic, its page and charts, its made-up logs, and that all of it still runs."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from offsetfs.storage.directory.directory import LogDirectory

ROOT = Path(__file__).parent.parent
BENCHMARKS = ROOT / "scripts" / "benchmarks"
sys.path.append(str(BENCHMARKS))

import chart  # noqa: E402
import logs  # noqa: E402
import report  # noqa: E402
from machine import Machine  # noqa: E402
from measuring import Contender, Peer, Row, interleaved, result, times_as_fast, times_as_long  # noqa: E402
from rows import ROWS  # noqa: E402

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

    figures = interleaved({name: lambda number, name=name: measure(name, number) for name in "ab"}, 2)
    assert taken == [("a", -1), ("b", -1), ("a", 0), ("b", 0), ("a", 1), ("b", 1)]
    assert figures == {"a": [0.0, 1.0], "b": [0.0, 1.0]}


@pytest.mark.unit
def test_a_run_of_one_row_leaves_the_others_on_the_page(tmp_path: Path) -> None:
    (tmp_path / "performance.md").write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    other = result(ROW, 7, FIGURES)
    report.save(tmp_path, {"other": (other, MACHINE), "gone": (other, MACHINE)}, ["other", "gone", "example"])
    report.save(tmp_path, {"example": (result(ROW, 1000, FIGURES), MACHINE)}, ["other", "example"])
    page = (tmp_path / "performance.md").read_text()
    assert page.startswith("before\n") and page.endswith("after\n") and "old" not in page
    assert "7 lines" in page and "1 000 lines" in page
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


@pytest.mark.interop
def test_every_row_runs_in_its_quick_size(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHMARKS / "run.py"), "--quick"]
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "OFFSETFS_BENCH_DIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"\n{row.name:<22}" in done.stdout for row in ROWS)
    assert not list(tmp_path.glob("data-*"))
