"""Message formats v0 and v1 become v2: the same records in the same order, whatever happens in between."""

import contextlib
import shutil
from pathlib import Path

import pytest

from offsetfs import cli
from offsetfs.storage import files
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.errors import CorruptBatch
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.partition.convert import convert_log, has_old_format
from offsetfs.storage.partition.log import Log
from offsetfs.storage.records.format.record import Record

pytestmark = pytest.mark.unit

GOLDEN = Path(__file__).parents[1] / "golden"
PARTITIONS = sorted(
    f"{path.parent.name}/{path.name.removesuffix('.expected.ndjson')}"
    for version in ("0.8.2.2", "0.9.0.1", "0.10.0.1", "0.10.2.2", "3.6.2")
    for path in (GOLDEN / f"kafka-{version}").glob("*.expected.ndjson")
    if path.stat().st_size
)


def records_of(log: Log) -> list[Record]:
    records = [r for s in log.snapshot() for batch in s.batches() for r in batch.records()]
    return [
        Record(
            r.offset, r.timestamp, r.timestamp_type.replace("NoTimestampType", "CreateTime"), r.key, r.value, r.headers
        )
        for r in records
    ]


def opened(path: Path, partition: str) -> tuple[LogDirectory, Log]:
    directory = LogDirectory.open(str(path))
    return directory, directory.log(TopicPartition.parse(partition))


@pytest.fixture
def log_directory(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """A copy of one old partition, in a directory of its own."""
    version, partition = request.param.split("/")
    shutil.copytree(GOLDEN / version / partition, tmp_path / partition)
    (tmp_path / ".kafka_cleanshutdown").touch()
    return tmp_path, partition


@pytest.mark.long
@pytest.mark.promise("`offsetfs convert` keeps offsets, timestamps, keys, values and their order.")
@pytest.mark.parametrize("log_directory", PARTITIONS, indirect=True)
def test_every_old_golden_partition_has_the_same_records_as_v2(log_directory: tuple[Path, str]) -> None:
    path, partition = log_directory
    directory, log = opened(path, partition)
    before, bounds = records_of(log), (log.log_start_offset, log.next_offset)
    had_old = any(has_old_format(segment) for segment in log.snapshot())
    done = convert_log(log)
    assert (done.segments > 0) == had_old
    directory.close()

    directory, log = opened(path, partition)
    log.check()
    assert not any(has_old_format(segment) for segment in log.snapshot()) and log.damage == ()
    assert records_of(log) == before
    assert (log.log_start_offset, log.next_offset) == bounds
    for record in before[:: max(1, len(before) // 20)]:
        batch = log.batch_at(record.offset)
        found = batch.record(record.offset) if batch else None
        assert found is not None and found.value == record.value
    assert convert_log(log).segments == 0
    directory.close()
    assert not [p.name for p in (path / partition).iterdir() if p.suffix in (".cleaned", ".swap", ".deleted")]


ONE = ["kafka-0.10.2.2/v1-compact-gzip-0"]


@pytest.mark.long
@pytest.mark.promise(
    "After a crash during the replacement of segments, the log has either the old or the new segments."
)
@pytest.mark.parametrize("log_directory", ONE, indirect=True)
@pytest.mark.parametrize("steps", range(40))
def test_a_crash_at_any_step_of_the_swap_loses_nothing(
    log_directory: tuple[Path, str], steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, partition = log_directory
    directory, log = opened(path, partition)
    before = records_of(log)
    left = steps

    def counted(name: str) -> None:
        real = getattr(files, name)

        def step(*arguments: object, **more: object) -> object:
            nonlocal left
            if left == 0:
                raise KeyboardInterrupt  # nothing catches it on the way: the process is gone
            left -= 1
            return real(*arguments, **more)

        monkeypatch.setattr(files, name, step)

    for name in ("rename", "remove_file", "sync_directory", "open_file"):
        counted(name)
    with contextlib.suppress(KeyboardInterrupt):
        convert_log(log)
    monkeypatch.undo()
    directory._lock.release()
    (path / ".kafka_cleanshutdown").unlink(missing_ok=True)

    directory, log = opened(path, partition)
    log.check()
    assert records_of(log) == before and log.damage == ()
    directory.close()
    assert not [p.name for p in (path / partition).iterdir() if p.suffix in (".cleaned", ".swap", ".deleted")]


@pytest.mark.damages
@pytest.mark.parametrize("log_directory", ONE, indirect=True)
def test_a_damaged_segment_is_refused_and_left_as_it_is(log_directory: tuple[Path, str]) -> None:
    path, partition = log_directory
    log_file = min((path / partition).glob("*.log"))
    data = bytearray(log_file.read_bytes())
    data[60] ^= 1
    log_file.write_bytes(data)
    directory, log = opened(path, partition)
    with pytest.raises(CorruptBatch):
        convert_log(log)
    directory.close()
    assert log_file.read_bytes() == data


@pytest.mark.parametrize("log_directory", ONE, indirect=True)
def test_the_command_states_what_became_of_each_partition(
    log_directory: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    path, partition = log_directory
    assert cli.run(["convert", str(path)]) == 0
    assert "segments" in capsys.readouterr().out
    assert cli.run(["convert", str(path), partition]) == 0
    assert capsys.readouterr().out == f"{partition}: nothing to convert\n"
    assert cli.run(["convert", str(path), "missing-0"]) == 1
