"""`offsetfs clean`: does what is due, shows it before on request, and says who has the directory."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from fixtures.logs import metadata_records as records
from fixtures.logs.metadata_records import TOPIC, MetadataDirectory

from offsetfs.cli import exit_codes, run
from offsetfs.storage.directory.directory import LogDirectory
from offsetfs.storage.names import TopicPartition
from offsetfs.storage.records.format.batch_builder import BatchBuilder

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("fast_disk")]

ORDERS, USERS = TopicPartition("orders", 0), TopicPartition("users", 0)
HOUR_MS = 3_600_000


@pytest.fixture
def log(tmp_path: Path) -> str:
    """Orders of which one of two segments is too old, and users of whom one of three records is the latest."""
    now_ms = time.time_ns() // 1_000_000
    directory = LogDirectory.open(str(tmp_path))
    directory.create_partition(ORDERS, {"retention.ms": str(HOUR_MS)})
    directory.create_partition(USERS, {"cleanup.policy": "compact"})
    fill(directory, ORDERS, b"old", b"older", timestamp=now_ms - 2 * HOUR_MS)
    directory.log(ORDERS).roll()
    fill(directory, ORDERS, b"new", timestamp=now_ms)
    fill(directory, USERS, b"a", b"a", timestamp=now_ms)
    directory.log(USERS).roll()
    fill(directory, USERS, b"a", timestamp=now_ms)
    directory.close()
    return str(tmp_path)


def fill(directory: LogDirectory, partition: TopicPartition, *keys: bytes, timestamp: int) -> None:
    builder = BatchBuilder(1 << 16)
    for key in keys:
        assert builder.append(key, b"value", (), timestamp)
    directory.log(partition).append(builder.seal())


def offsets(path: str, partition: TopicPartition) -> list[int]:
    log = LogDirectory.open(path, read_only=True).log(partition)
    batches = (batch for segment in log.snapshot() for batch in segment.batches())
    return [each.offset for batch in batches for each in batch.records() if each.offset >= log.log_start_offset]


def state(path: str) -> list[tuple[str, bytes]]:
    return sorted((str(file), file.read_bytes()) for file in Path(path).rglob("*") if file.is_file())


def test_what_is_due_is_removed_and_compacted_with_a_line_each(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["clean", log]) == exit_codes.DONE
    reported = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in reported] == ["users-0", "orders-0"]
    assert "kept 1 of 2 records (compaction: ratio)" in reported[0]
    assert reported[1].startswith("orders-0: removed 1 segment, freed ") and reported[1].endswith(
        " bytes (retention: time)"
    )
    assert (offsets(log, ORDERS), offsets(log, USERS)) == ([2], [1, 2])
    assert not [name for _, _, names in os.walk(log) for name in names if name.endswith(".deleted")]


def test_when_nothing_is_due_it_reports_that(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(["clean", log])
    capsys.readouterr()
    before = state(log)
    assert run(["clean", log]) == exit_codes.DONE
    assert capsys.readouterr().out == "nothing is due\n"
    assert state(log) == before


def test_now_rolls_what_is_compacted_so_that_all_of_it_is(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["clean", log, "--now", "users-0"]) == exit_codes.DONE
    assert "kept 1 of 3 records" in capsys.readouterr().out
    assert (offsets(log, ORDERS), offsets(log, USERS)) == ([0, 1, 2], [2])


def test_status_shows_what_the_next_compaction_would_process(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    def shown() -> dict[str, dict[str, Any] | None]:
        assert run(["status", log, "--json"]) == exit_codes.DONE
        return {each["topic"]: each["compaction"] for each in json.loads(capsys.readouterr().out)["partitions"]}

    dirty = {"first_dirty_offset": 0, "first_uncleanable_offset": 2, "dirty_ratio": 1.0}
    assert shown() == {"orders": None, "users": dirty}
    assert run(["status", log, "--all"]) == exit_codes.DONE
    assert "100% dirty, offsets 0 to 1" in capsys.readouterr().out
    run(["clean", log])
    capsys.readouterr()
    assert shown()["users"] == {"first_dirty_offset": 2, "first_uncleanable_offset": 2, "dirty_ratio": 0.0}
    assert run(["status", log, "--all"]) == exit_codes.DONE
    assert "clean below offset 2" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["--now"]])
def test_a_dry_run_shows_it_and_changes_nothing(
    log: str, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    before = state(log)
    assert run(["clean", log, "--dry-run", *arguments]) == exit_codes.DONE
    reported = capsys.readouterr().out.splitlines()
    assert reported[0].startswith("orders-0: would remove 1 segment, ") and "(retention: time)" in reported[0]
    segments = "2 segments" if arguments else "1 segment"
    assert reported[1].startswith(f"users-0: would rewrite {segments}, ") and "100% dirty" in reported[1]
    assert state(log) == before


def test_a_dry_run_works_while_another_process_writes(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    holder = LogDirectory.open(log)
    try:
        assert run(["clean", log, "--dry-run"]) == exit_codes.DONE
        assert run(["clean", log]) == exit_codes.FAILED
    finally:
        holder.close()
    said = capsys.readouterr().err
    assert f"in use by process {os.getpid()}" in said and "stop it first" in said


def test_a_partition_that_is_not_there_is_refused_before_anything_is_done(
    log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = state(log)
    assert run(["clean", log, "users-0", "users-7"]) == exit_codes.WRONG_CALL
    assert "has no such topic or partition" in capsys.readouterr().err
    assert state(log) == before


@pytest.mark.damages
def test_a_partition_that_fails_to_clean_is_reported_and_others_cleaned(
    log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(log) / "users-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    assert run(["clean", log]) == exit_codes.FAILED
    said = capsys.readouterr()
    assert "users-0: compaction failed: " in said.err and str(path) in said.err
    assert offsets(log, ORDERS) == [2]


def brokers(log: str) -> MetadataDirectory:
    """Make the directory that of a stopped broker, whose cluster has both topics."""
    (Path(log) / ".offsetfs-topics.json").unlink()
    (Path(log) / "meta.properties").write_text("version=1\ncluster.id=x\nnode.id=1\n")
    metadata = MetadataDirectory(Path(log))
    metadata.append(records.topics(orders=[1], users=[1]))
    return metadata


def test_a_stopped_brokers_directory_is_cleaned_by_the_settings_of_its_cluster(log: str) -> None:
    metadata = brokers(log)
    assert run(["clean", log, "--now"]) == exit_codes.DONE
    assert (offsets(log, ORDERS), offsets(log, USERS)) == ([0, 1, 2], [0, 1, 2]), "no settings are known yet"
    metadata.append([records.setting(TOPIC, "orders", "retention.ms", str(HOUR_MS))])
    metadata.append([records.setting(TOPIC, "users", "cleanup.policy", "compact")])
    assert run(["clean", log, "--now"]) == exit_codes.DONE
    assert (offsets(log, ORDERS), offsets(log, USERS)) == ([2], [2])


def test_a_brokers_defaults_are_taken_from_its_server_properties(log: str, tmp_path_factory: Any) -> None:
    brokers(log)
    path = tmp_path_factory.mktemp("etc") / "server.properties"
    path.write_text(f"log.retention.hours=1\nlog.dirs={log}\nnum.io.threads=8\n")
    assert run(["clean", log, "--config", str(path), "--dry-run"]) == exit_codes.DONE
    assert offsets(log, ORDERS) == [0, 1, 2]
    assert run(["clean", log, "--config", str(path)]) == exit_codes.DONE
    assert (offsets(log, ORDERS), offsets(log, USERS)) == ([2], [0, 1, 2])


def test_settings_given_one_by_one_have_precedence_over_the_file(log: str, tmp_path_factory: Any) -> None:
    brokers(log)
    path = tmp_path_factory.mktemp("etc") / "server.properties"
    path.write_text("log.retention.ms=1\n")
    assert run(["clean", log, "--config", str(path), "-o", "log.retention.ms=-1"]) == exit_codes.DONE
    assert offsets(log, ORDERS) == [0, 1, 2]
    assert run(["clean", log, "-o", "log.retention.hours=1"]) == exit_codes.DONE
    assert offsets(log, ORDERS) == [2]
