"""What the commands of jobs show and say, in the session of the run: their bar, their sentences, their exit codes."""

from __future__ import annotations

import functools
import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console

import offsetfs
from offsetfs.cli import run
from offsetfs.cli.spark.session import shown

pytestmark = pytest.mark.spark

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-4.1"
SECONDS_MAX = 30
SVG = "{http://www.w3.org/2000/svg}"


# --- the bar ---------------------------------------------------------------------------------------------------------


class _Screen(io.StringIO):
    """A terminal that makes a file when tasks are reported."""

    def __init__(self, seen: Path) -> None:
        super().__init__()
        self._seen = seen

    def write(self, text: str) -> int:
        if "/3" in text:
            self._seen.touch()
        return super().write(text)


def _wait_for(path: str, batches: Iterator[Any]) -> Iterator[Any]:
    import os
    import time

    deadline = time.monotonic() + SECONDS_MAX
    while not os.path.exists(path) and time.monotonic() < deadline:
        time.sleep(0.05)
    yield from batches


def test_a_bar_shows_how_many_tasks_are_done_and_goes_away(spark: Any, tmp_path: Path) -> None:
    screen = _Screen(tmp_path / "seen")
    console = Console(file=screen, force_terminal=True, width=80)
    with shown(spark, console, quiet_seconds=0):
        waiting = functools.partial(_wait_for, str(tmp_path / "seen"))
        spark.range(0, 3, 1, 3).mapInArrow(waiting, "id long").collect()
    assert (tmp_path / "seen").exists() and "tasks" in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[2K")


# --- stats -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("spark")
def test_stats_are_a_table_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "keyed.svg"
    assert run(["spark", "stats", str(GOLDEN), "--topic", "keyed", "--plot", str(picture)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["partition", "records", "bytes", "from", "to", "keys", "hottest", "codecs"]
    assert lines[-1].startswith("400 records, ") and " in 4 partitions; keyed-" in lines[-1]
    counted = {line.split()[0]: int(line.split()[1]) for line in lines[1:-1]}
    bars = [each for each in ElementTree.parse(picture).iter(f"{SVG}rect") if each.get("class") == "records"]
    widths = [float(each.get("width") or "") for each in bars]
    assert widths == [pytest.approx(240 * count / max(counted.values()), abs=0.1) for count in counted.values()]


@pytest.mark.usefixtures("spark")
def test_writing_jobs_report_the_records_of_each_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()
    with offsetfs.open("logs", "a", settings={"segment.bytes": "200"}) as data:
        users = data.create("users", 1, {"cleanup.policy": "compact"})[0]
        for number in range(9):
            users.append(b"%d" % number, key=b"k%d" % (number % 2), timestamp=1000)
    assert run(["spark", "repartition", "logs", "users", "logs", "wide", "--partitions", "2"]) == 0
    head, *rows, last = capsys.readouterr().out.splitlines()
    assert head.split() == ["partition", "offsets", "from", "to", "before"]
    assert sum(int(row.split()[1]) for row in rows) == 9 and last.startswith("9 records written; the offset map is ")
    assert run(["spark", "compact", "logs", "users-0"]) == 0
    head, row, last = capsys.readouterr().out.splitlines()
    assert (row.split()[0], last) == ("users-0", "1 partition compacted") and "that stay" in head
    assert run(["spark", "compact", "logs", "users-0"]) == 0
    assert capsys.readouterr().out == "nothing is dirty\n"


# --- tail ------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("spark")
def test_ctrl_c_ends_tail_in_order_and_without_stacks(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    logs, lake = tmp_path / "logs", tmp_path / "lake"
    logs.mkdir()
    with offsetfs.open(logs, "a") as data:
        data.create("orders")[0].append(b"v")
    is_done = threading.Event()

    def interrupt() -> None:
        while not (lake / "_checkpoint" / "commits" / "0").exists():
            if is_done.wait(0.05):
                return
        os.kill(os.getpid(), signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    try:
        assert run(["spark", "tail", str(logs), str(lake), "--trigger", "1s"]) == 0
    finally:
        is_done.set()
        interrupter.join()
    captured = capfd.readouterr()
    assert captured.out == "1 record in 1 batch\n" and "Traceback" not in captured.err
    assert run(["spark", "tail", str(logs), str(lake), "--once"]) == 0
    assert capfd.readouterr().out == "0 records in 0 batches\n"


# --- bad input -------------------------------------------------------------------------------------------------------

BAD = {
    "no such directory": ("stats nowhere", 1, "nowhere: there is no such directory"),
    "no such directory to verify": ("verify nowhere", 1, "nowhere: there is no such directory"),
    "no such directory to follow": ("tail nowhere", 1, "nowhere: there is no such directory"),
    "no such directory to compact": ("compact nowhere", 1, "nowhere: there is no such directory"),
    "no such directory to index": ("reindex nowhere", 1, "nowhere: there is no such directory"),
    "no log directory": ("export other out", 1, "other: holds neither partitions (orders-0) nor"),
    "a file": ("stats lines.txt", 1, "lines.txt: is not a directory"),
    "no such topic": ("stats logs --topic nothing", 1, "nothing: logs has no such topic"),
    "no such topic to follow": ("tail logs --topic nothing --once", 1, "nothing: logs has no such topic"),
    "no such topic to import to": (
        "import lines.txt logs nothing",
        1,
        "logs has no such topic; --partitions N creates",
    ),
    "no such partition": ("verify logs orders-7", 1, "orders-7: logs has no such topic or partition"),
    "another number of partitions": ("repartition logs orders logs orders --partitions 3", 32, "has 2 partitions, not"),
    "no files": ("import other/*.txt logs orders", 32, "other/*.txt: there is no file to import"),
    "no UTF-8": (
        "import bytes.ndjson logs orders --format ndjson",
        32,
        "bytes.ndjson, line 2: these bytes are not UTF-8",
    ),
    "a value that is no string": (
        "import objects.ndjson logs orders --format ndjson",
        32,
        "use -o json-values=text (mount, append), --json-values=text (spark import)",
    ),
    "text of what is not JSON": (
        "import long.csv logs orders --format csv --json-values text",
        1,
        "--json-values text is for --format ndjson, not for --format csv",
    ),
    "no JSON": ("import words.ndjson logs orders --format ndjson", 32, "words.ndjson, line 1: "),
    "rejects that cannot be written": ("import lines.txt logs orders --rejects no/file", 2, "no/file"),
    "a line of CSV with too much in it": (
        "import long.csv logs orders --format csv",
        32,
        "long.csv, line 3: 3 fields, but the header names 2 fields (1 such lines, 0 allowed)",
    ),
    "a column of CSV twice": ("import twice.csv logs orders --format csv", 32, "names column 'a' twice"),
    "CSV by lines": (
        "import long.csv logs orders --format csv --value-is-line",
        1,
        "not for --format csv",
    ),
    "no Parquet": ("import lines.txt logs orders --format parquet", 32, "lines.txt"),
    "a destination that is a file": ("export logs lines.txt", 2, "lines.txt: File exists"),
    "a time that is none": ("export logs out --from someday", 1, "--from someday: is not a time such as"),
    "a time that is none to follow": ("tail logs --from someday", 1, "--from someday: is not a time such as"),
    "a duration that is none": ("tail logs --trigger often", 1, "--trigger often: is not a time such as 30s or 15m"),
    "a stream that ends and goes on": ("tail logs --once --trigger 1s", 1, "--trigger is for a stream that goes on"),
    "dates of a table": ("export logs jdbc:x --table t --by-date", 1, "--by-date divides files"),
    "a setting that is none": ("stats logs --conf nonsense", 1, "--conf nonsense: give KEY=VALUE"),
}


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: `logs` with a topic of two partitions, and what is no good."""
    monkeypatch.chdir(tmp_path)
    for name in ("logs", "other"):
        (tmp_path / name).mkdir()
    with offsetfs.open(tmp_path / "logs", "a") as data:
        data.create("orders", 2)
    (tmp_path / "other" / "notes").write_text("")
    (tmp_path / "lines.txt").write_text("a\nb\n")
    (tmp_path / "bytes.ndjson").write_bytes(b'{"value":"x"}\n{"value":"\xff"}\n')
    (tmp_path / "words.ndjson").write_text("no JSON\n")
    (tmp_path / "objects.ndjson").write_text('{"value":{"id":1}}\n')
    (tmp_path / "long.csv").write_text("a,b\n1,2\n1,2,3\n")
    (tmp_path / "twice.csv").write_text("a,a\n1,2\n")
    return tmp_path


@pytest.mark.usefixtures("spark")
def test_bad_input_is_one_sentence_and_an_exit_code(places: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name, (words, wanted, sentence) in BAD.items():
        code = run(["spark", *words.split()])
        printed, reported = capfd.readouterr()
        assert (code, printed) == (wanted, ""), (name, reported)
        assert sentence in reported and reported.count("\n") == 1 and reported.startswith("offsetfs spark"), (
            name,
            reported,
        )
    with offsetfs.open(places / "logs") as data:
        assert [len(list(each.read())) for each in data.partitions()] == [0, 0]


@pytest.mark.usefixtures("spark")
def test_an_imported_line_of_json_is_the_value_where_that_is_wanted(places: Path) -> None:
    (places / "events.ndjson").write_text('{"id":1}\n{"id":2}\n')
    assert run(["spark", "import", "events.ndjson", "logs", "orders", "--format", "ndjson", "--value-is-line"]) == 0
    with offsetfs.open("logs") as data:
        found = [record.value for partition in data.partitions() for record in partition.read()]
    assert sorted(value or b"" for value in found) == [b'{"id":1}', b'{"id":2}']


@pytest.mark.usefixtures("spark")
def test_json_values_are_imported_as_their_text_where_that_is_wanted(places: Path) -> None:
    command = ["spark", "import", "objects.ndjson", "logs", "orders", "--format", "ndjson", "--json-values", "text"]
    assert run(command) == 0
    with offsetfs.open("logs") as data:
        assert [record.value for partition in data.partitions() for record in partition.read()] == [b'{"id":1}']


HOLDS = "import sys, offsetfs; held = offsetfs.open('logs', 'a'); print(flush=True); sys.stdin.read()"


@pytest.mark.usefixtures("spark")
def test_the_error_of_a_second_writer_has_the_pid_of_the_holder(
    places: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline()
        for words in "import lines.txt logs orders", "compact logs", "reindex logs", "repartition logs orders logs x":
            more = ["--partitions", "3"] if words.startswith("repartition") else []
            assert run(["spark", *words.split(), *more]) == 32
            assert f"in use by process {holder.pid}" in capsys.readouterr().err
        assert run(["spark", "verify", "logs"]) == 0  # reading jobs go on
        holder.communicate()


def test_executors_that_see_other_files_are_named(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from offsetfs.pipeline.jobs import workers

    def far(_spark: Any, work: Callable[[str], Any], paths: list[str]) -> list[Any]:
        return [work(path) for path in paths] + [{"host": "far", "sees": False}, {"host": "other", "sees": ["x-0"]}]

    monkeypatch.setattr(workers, "spark_is_local", lambda spark: False)
    monkeypatch.setattr(workers, "spread", far)
    for is_to_write in (False, True):
        with pytest.raises(workers.JobFailed, match="logs has other files on far, other: all executors need the same"):
            workers.check_visible(None, str(places / "logs"), is_to_write=is_to_write)
    assert [each for each in (places / "logs").iterdir() if "nonce" in each.name] == []
